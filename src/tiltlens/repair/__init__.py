"""Acting on an audit: the least change of the scores that closes a gap, and what it costs."""
