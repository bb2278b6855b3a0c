"""The commands of the command line; click calls the functions whose names end in `_command`."""
