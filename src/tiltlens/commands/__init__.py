"""The commands: arguments in, text and files out. Click runs the functions whose names end in `_command`."""
