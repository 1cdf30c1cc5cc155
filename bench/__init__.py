"""Measurements of the package: how fast it is, and how often its intervals hold the truth."""
