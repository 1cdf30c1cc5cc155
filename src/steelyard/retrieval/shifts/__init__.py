"""Shifts of embeddings: applied, trained, named, kept, and for which queries."""
