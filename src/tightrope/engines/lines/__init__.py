"""The curve of one pass by an integral along a line: its plan, its path, both ends in balls or floats."""
