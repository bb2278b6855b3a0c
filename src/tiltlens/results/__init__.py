"""Evidence → comparisons, audits, and what is said of them."""
