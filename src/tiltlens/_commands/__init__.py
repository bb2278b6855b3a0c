"""The work of each command of the command line, in functions whose names end in `_command`."""
