"""Tests of perturbations."""
