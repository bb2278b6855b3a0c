"""Models: rows become columns. The membership model P(audited | x), and what it is fitted on."""
