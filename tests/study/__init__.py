"""Tests of one table, two, many."""
