"""Texts: how they become vectors."""
