"""One table, two, many: evaluations, comparisons, curves and what they leave behind."""
