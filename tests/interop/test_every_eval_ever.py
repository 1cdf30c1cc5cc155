"""The runs of Every Eval Ever that the tests make up are as its own schemas say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.support.every_eval import aggregate, result, sample

FIND = "import importlib.util as u, sys; s = u.find_spec('every_eval_ever'); print(s.origin if s else '')"


@pytest.fixture(scope="module")
def schemas() -> Path:
    python = os.environ.get("STEELYARD_INTEROP_PYTHON")
    found = subprocess.run([python, "-c", FIND], capture_output=True, text=True).stdout.strip() if python else ""
    if not found:
        pytest.skip("`make interop` runs this with Python 3.12 or later, for which there is every-eval-ever")
    return Path(found).parent / "schemas"


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("eval", aggregate(result(0.75, count=4), total_rows=4)),
        ("instance_level_eval", sample()),
        ("instance_level_eval", sample("q2", "", error="timeout", metadata={"should_abstain": "true"})),
    ],
)
def test_the_examples_are_as_the_schema_says(schemas: Path, name: str, document: dict[str, Any]) -> None:
    schema = json.loads((schemas / f"{name}.schema.json").read_text())
    assert list(Draft7Validator(schema).iter_errors(document)) == []
