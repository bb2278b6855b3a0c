"""Rows → evidence: a survey with a sample of rows, and sums over all rows."""
