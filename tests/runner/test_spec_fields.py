"""Every field of a run-spec: one spec that uses them all, and each misspelt, one at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.runner.spec import RunSpec, load_spec
from steelyard.uncertainty.settings import Settings

EVERYTHING: dict[str, Any] = {
    "id": "everything",
    "description": "all there is to say",
    "task": "triage_jira",
    "data": {"path": "issues.csv", "map": {"issue_key": "key"}, "where": ["keep=yes"]},
    "sample_size": 12,
    "models": [
        {
            "name": "rules",
            "backend": "callable",
            "options": {"function": "models.py:rules"},
            "price": {"input": 1.0, "output": 2.0},
        },
        {"name": "server", "backend": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "SOME_KEY"},
    ],
    "adaptation": {"strategy": ["zero-shot", "few-shot-similar", "self-consistency-2"], "examples": 2,
                   "embedder": "hash:64"},
    "inference": {"temperature": 0.5, "seed": 7, "max_tokens": 64, "logprobs": True, "top_logprobs": 5, "top_p": 0.9,
                  "min_p": 0.01, "top_k": 40, "format": "text"},
    "spellings": {"Major": ["Severe"]},
    "keep_replies": True,
    "abstain": ["to be triaged", "/needs? a human/"],
    "perturbations": ["typos", "reordered_options"],
    "repeat": 2,
    "metrics": ["accuracy", "failure_rate"],
    "primary": ["accuracy"],
    "sustainability": {"codecarbon": True, "country_iso": "DEU"},
    "cluster": "group.project",
    "gate": ["accuracy >= 0 for each cell"],
    "seed": 5,
    "confidence": "consistency",
    "limits": {"concurrency": 2, "timeout_s": 5, "deadline_s": 5, "retries": 0, "max_cost": 5},
    "save": {"workflow": "All", "domain": "d", "tenant": "t", "labels": {"a": "b"}},
}  # fmt: skip


def structs(kind: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every field of the struct and of the structs within, with the place of the object that it is in."""
    for field in msgspec.structs.fields(kind):
        yield place, field.name
        for inner in _inner(field.type):
            where = (*place, field.name, 0) if field.name == "models" else (*place, field.name)
            yield from structs(inner, where)


def _inner(kind: Any) -> list[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [each for part in getattr(kind, "__args__", ()) for each in _inner(part)]


FIELDS = list(structs(RunSpec))


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


@pytest.mark.parametrize(("place", "name"), FIELDS, ids=lambda each: str(each))
def test_the_spec_uses_every_field_and_a_misspelt_one_is_refused(
    tmp_path: Path, place: tuple[Any, ...], name: str
) -> None:
    document = copy.deepcopy(EVERYTHING)
    if place[:1] == ("models",) and name in ("base_url", "api_key_env"):
        place = ("models", 1)
    holder = at(document, place)
    assert name in holder
    wrong = f"{name[:-1]}{name[-1]}{name[-1]}"
    holder[wrong] = holder.pop(name)
    (tmp_path / "spec.yaml").write_text(json.dumps(document, indent=1))
    with pytest.raises(UsageError) as raised:
        load_spec(tmp_path / "spec.yaml")
    said = str(raised.value)
    assert "spec.yaml:" in said
    missing = (not place and name in ("id", "task", "models")) or (place == ("data",) and name == "path")
    assert f"unknown key '{wrong}'; did you mean '{name}'?" in said or (missing and name in said)


def test_everything_at_once_is_run(tmp_path: Path) -> None:
    lines = ["key,title,description,priority,keep"]
    lines += [
        f"P{n % 20}-{n},Saving {n} fails,It does not work for {n} people,{'Major' if n % 2 else 'Minor'},yes"
        for n in range(60)
    ]
    lines += ["X-1,not this one,no,Blocker,no"]
    (tmp_path / "issues.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "models.py").write_text(
        "def rules(item, prompt):\n    return {'text': 'Answer: Major', 'input_tokens': 9, 'output_tokens': 1}\n"
    )
    spec = {**EVERYTHING, "models": EVERYTHING["models"][:1]}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    run = sy.run(tmp_path / "spec.yaml", root=tmp_path / "store", settings=Settings(resamples=100))
    assert run.is_complete
    assert run.folder is not None
    assert run.folder.parts[-6:-1] == ("d", "tenants", "t", "runs", "All")
    strategies = ["zero-shot", "few-shot-similar-2", "self-consistency-2"]
    frame = run.records.to_pandas()
    assert list(dict.fromkeys(frame.strategy)) == strategies
    assert len(frame) == 3 * 3 * 12 * 2
    assert set(frame.perturbation.dropna()) == {"typos", "reordered_options"}
    assert run.tallies["rules"].cost == pytest.approx(4 * 3 * 12 * 2 * (9 + 2) / 1e6)
    sampled = frame[frame.strategy == "self-consistency-2"]
    assert (sampled.confidence == 1).all()
    assert frame.cluster.str.startswith("P").all()
    assert run.decision is not None


@pytest.mark.parametrize("name", ["typos", "few-shot-similar-3"])
def test_the_hash_knows_the_new_fields(name: str) -> None:
    plain = {"id": "s", "task": "triage_jira", "models": [{"name": "a"}]}
    other: dict[str, Any] = {"perturbations": [name]} if name == "typos" else {"adaptation": {"strategy": [name]}}
    assert load_spec({**plain, **other}).spec.hash != load_spec(plain).spec.hash
