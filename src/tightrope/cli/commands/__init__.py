"""The commands: each asks the library one question and hands the answer to `printed`."""
