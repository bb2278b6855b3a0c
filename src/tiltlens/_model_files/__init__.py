"""Models read from files without running code from the file."""
