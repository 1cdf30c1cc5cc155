"""Specs: strict, with the line of what is wrong; what options change wins, and only what matters is hashed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.report.schemas import schemas
from steelyard.runner.spec import load_spec, spec_schema

PLAIN = """\
id: s
task: ckd_detection
models:
  - {name: a, base_url: "http://127.0.0.1:9/v1"}
"""


def spec(folder: Path, text: str = "", plain: str = PLAIN) -> Path:
    (folder / "spec.yaml").write_text(plain + text)
    return folder / "spec.yaml"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metricks: [accuracy]\n", "spec.yaml:5: unknown key 'metricks'; did you mean 'metrics'?"),
        (
            "inference: {temprature: 0}\n",
            "spec.yaml:5: inference: unknown key 'temprature'; did you mean 'temperature'?",
        ),
        ("repeat: 0\n", "spec.yaml:5: repeat: "),
        ("repeat: three\n", "spec.yaml:5: repeat: a whole number is expected, this is text"),
        ("sustainability: {codecarbon: true}\n", "spec.yaml:5: sustainability.codecarbon: codecarbon: true and"),
        ("sustainability: {country_iso: DEU}\n", "spec.yaml:5: sustainability.country_iso: codecarbon: true and"),
        ("perturbations: [typos, typos]\n", "spec.yaml:5: perturbations: a perturbation appears twice"),
        ("confidence: logprobs\n", "spec.yaml:5: confidence: logprobs are needed"),
        ("inference: {top_logprobs: 5}\n", "does nothing without logprobs"),
        ("limits: {max_cost: 3}\n", "no model has a price"),
        ("description: ${HOME}\n", "variables of the environment are read for api_key_env only"),
        ("adaptation: {strategy: []}\n", "one strategy or several"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_spec(spec(tmp_path, text))
    assert problem in str(raised.value)


@pytest.mark.parametrize("name", ["../x", "", "-a", "a b", "a" * 65])
def test_an_id_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="id"):
        load_spec({"id": name, "task": "ckd_detection", "models": [{"name": "a"}]})


def test_a_key_itself_is_never_taken_nor_shown(tmp_path: Path) -> None:
    key = "sk-proj-0123456789abcdef"
    with pytest.raises(UsageError) as raised:
        load_spec({"id": "s", "task": "t", "models": [{"name": "a", "api_key_env": key}]})
    assert key not in str(raised.value)


HASHED: dict[str, Any] = {
    "task": "ckd_staging", "sample_size": 3, "seed": 1, "repeat": 2, "metrics": ["accuracy"], "gate": "accuracy >= 1",
    "confidence": "verbalized", "cluster": "item", "adaptation": {"strategy": ["verbalized"]},
    "inference": {"temperature": 0.5}, "data": {"path": "x.csv"}, "models": [{"name": "b"}],
    "save": {"labels": {"a": "b"}},
}  # fmt: skip


@pytest.mark.parametrize("field", HASHED)
def test_every_change_changes_the_hash(field: str) -> None:
    plain = {"id": "s", "task": "ckd_detection", "models": [{"name": "a"}]}
    assert load_spec({**plain, field: HASHED[field]}).spec.hash != load_spec(plain).spec.hash


def test_layout_description_and_limits_do_not(tmp_path: Path) -> None:
    before = load_spec(spec(tmp_path)).spec.hash
    limits = "limits: {concurrency: 3}\n"
    assert load_spec(spec(tmp_path, f"# a comment\n\ndescription: other\n{limits}")).spec.hash == before
    assert load_spec(spec(tmp_path), concurrency=5).spec.hash == before
    assert load_spec(spec(tmp_path), limit=5).spec.hash != before


def test_options_win(tmp_path: Path) -> None:
    changed = load_spec(
        spec(tmp_path, "sample_size: 9\nlimits: {concurrency: 3, retries: 1}\n"), concurrency=5, limit=2
    )
    assert (changed.spec.sample_size, changed.spec.limits.concurrency, changed.spec.limits.retries) == (2, 5, 1)


@pytest.mark.parametrize(("name", "value"), [("limit", 0), ("limit", -3), ("concurrency", 0), ("concurrency", 5_000)])
def test_options_have_bounds(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"`{name}=` is at least 1"):
        load_spec(spec(tmp_path), **{name: value})


def test_the_schema_is_published() -> None:
    assert schemas["run-spec"]() == spec_schema()
    assert "models" in json.dumps(spec_schema())
