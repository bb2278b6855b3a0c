"""Rows become a few sums per group."""
