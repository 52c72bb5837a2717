"""The command as a process: streams, signals, exit codes, and work that takes long."""
