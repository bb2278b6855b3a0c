"""Evidence about two groups, and pure functions that turn it into parts of a result."""
