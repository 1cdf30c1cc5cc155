"""How sure are we? Cluster weights, intervals, paired tests and corrections for many comparisons."""
