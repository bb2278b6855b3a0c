"""Design matrices, the propensity model P(audited | x), regressions and balance checks."""
