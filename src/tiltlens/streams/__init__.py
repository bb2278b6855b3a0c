"""An audit of more rows than fit in memory: three passes, each a fold of batches into sums."""
