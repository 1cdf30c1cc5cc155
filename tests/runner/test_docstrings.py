"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "module", ["parsing", "perturbations.numbers", "tasks.contract", "tasks.issues", "tasks.kidneys", "tasks.prompts"]
)
def test_examples_in_docstrings(module: str) -> None:
    outcome = doctest.testmod(import_module(f"steelyard.runner.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
