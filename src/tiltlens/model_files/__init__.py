"""Models read from files: fixed, without running code that a file brings."""
