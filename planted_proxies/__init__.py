"""Planted proxies: a benchmark of tools that say which features carry a gap between groups. See README.md."""
