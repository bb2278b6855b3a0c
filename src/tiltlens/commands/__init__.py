"""The commands: arguments in, text and files out. One module each, whose `command` click runs."""
