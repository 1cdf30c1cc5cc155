"""Tests of how commands are made, checked and shown."""
