"""The command line: one file for each command that is more than one call."""
