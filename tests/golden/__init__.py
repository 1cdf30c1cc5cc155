"""A results store written by the first edition, and what was needed to write it."""
