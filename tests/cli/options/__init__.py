"""Tests of options that several commands share."""
