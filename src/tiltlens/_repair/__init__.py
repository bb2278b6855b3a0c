"""Score adjustments: the smallest change of the scores that closes a gap, and its effect."""
