"""Tests of the room of texts."""
