"""Tests of what runs other programs."""
