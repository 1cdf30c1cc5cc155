"""Kinds of evidence: what a metric adds up, and how it is read under weights."""
