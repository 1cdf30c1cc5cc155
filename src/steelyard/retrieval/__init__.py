"""Embedding retrieval: vectors, exact search, shifts of queries, and what they do to the ranks."""
