"""The report: one summary in, one self-contained page out."""
