"""Performance as ratios measured in one run; each benchmark asserts its answer before it reports a time."""
