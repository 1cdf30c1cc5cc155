"""A run with perturbations: what is asked, what is not, and what the metrics make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.ground.journal import Rows
from steelyard.runner.perturbations import perturbed
from steelyard.runner.plan import Plan, planned
from steelyard.runner.spec import load_spec
from steelyard.runner.wire import plan_document
from steelyard.uncertainty.settings import Settings

MODELS = """
def reader(item, prompt):                    # knows small letters only
    return f"Answer: {'bad' if 'broken' in item['question'] else 'good'}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty reports, every fourth in capitals already."""
    rows = []
    for n in range(20):
        text = f"report {n}: the door is {'broken' if n % 2 else 'whole'}"
        rows.append({"n": n, "text": text.upper() if n % 4 == 0 else text, "label": "bad" if n % 2 else "good"})
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "doors", "data": "data.jsonl", "id": "n", "question": "text", "target": "label",
            "labels": ["good", "bad"]}  # fmt: skip
    (tmp_path / "doors.task.yaml").write_text(json.dumps(task))
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def spec(folder: Path, *perturbations: str, **more: Any) -> Path:
    models = [
        {"name": name, "backend": "callable", "options": {"function": "models.py:reader"}} for name in ("one", "two")
    ]
    document = {
        "id": "doors",
        "task": "doors.task.yaml",
        "models": models,
        "perturbations": list(perturbations),
        **more,
    }
    (folder / "spec.yaml").write_text(json.dumps(document))
    return folder / "spec.yaml"


def plan(folder: Path, *perturbations: str, **more: Any) -> Plan:
    return planned(load_spec(spec(folder, *perturbations, **more)))


def test_a_drop_is_found_in_its_cell(folder: Path) -> None:
    metrics = ["accuracy", "robustness_score(accuracy)", "consistency_rate", "flip_rate", "flip_to_incorrect"]
    run = sy.run(
        spec(folder, "upper", "lower", metrics=metrics), root=folder / "store", settings=Settings(resamples=100)
    )
    frame = run.records.to_pandas()
    assert set(frame.perturbation.dropna()) == {"upper", "lower"}
    assert len(frame) == 2 * (20 + 15 + 5)  # what is in capitals is not asked again in capitals, nor the others without
    for model in ("one", "two"):
        upper, lower = (f"{{model={model},perturbation={name}}}" for name in ("upper", "lower"))
        assert run.evaluation[f"accuracy{upper}"].value == pytest.approx(5 / 15)
        assert run.evaluation[f"robustness_score(accuracy){upper}"].value == pytest.approx(1 - 10 / 15)
        assert run.evaluation[f"consistency_rate{upper}"].value == pytest.approx(5 / 15)
        assert run.evaluation[f"flip_to_incorrect{upper}"].value == 1
        assert run.evaluation[f"flip_rate{lower}"].value == 0
    assert "upper changes nothing in 5 of 20 items, which are not asked about again" in run.records.warnings
    assert {row["perturbation"] for row in Rows(run.journal)} == {None, "upper", "lower"}


def test_every_request_has_its_number_and_models_are_asked_the_same(folder: Path) -> None:
    found = plan(folder, "upper", "typos", repeat=2, adaptation={"strategy": ["zero-shot", "zero-shot-cot"]})
    assert found.unchanged == {"upper": 5, "typos": 0}
    assert found.count == 2 * 2 * 2 * (20 + 15 + 20)
    places = [found.place(number) for number in range(found.count)]
    keys = {(p.model.name, p.strategy.name, p.perturbation, p.item.id, p.repeat, p.sample) for p in places}
    assert len(keys) == found.count
    first, second = ([found.request(found.place(n)) for n in found.numbers(model)] for model in found.spec.models)
    assert [r.messages for r in first] == [r.messages for r in second]
    assert [(r.item_id, r.perturbation) for r in first] == [(r.item_id, r.perturbation) for r in second]
    for place in places:
        if place.perturbation is not None:
            original = next(item for item in found.items if item.id == place.item.id)
            assert place.item == perturbed(place.perturbation, found.task, original, 0)
            assert found.messages(place.strategy, place.item) != found.messages(place.strategy, original)


def test_the_digest_notices_another_perturbation_and_another_seed(folder: Path) -> None:
    digests = {plan(folder, *names, seed=seed).digest for names in ((), ("typos",), ("upper",)) for seed in (0, 1)}
    assert len(digests) == 4  # without chance the seed makes no difference to what is asked


def test_without_perturbations_numbers_are_what_they_were(folder: Path) -> None:
    found = plan(folder, repeat=3)
    place = found.place(2 * 3 + 1)
    assert (place.model.name, place.item.id, place.repeat, place.sample, place.perturbation) == ("one", 2, 2, 1, None)


def test_prompts_show_every_perturbation_and_say_what_is_left(folder: Path) -> None:
    document = plan_document(plan(folder, "upper"), 2)
    assert [(each["perturbation"], each["item"]) for each in document["prompts"]] == [
        (None, 0), (None, 1), ("upper", 1), ("upper", 2)
    ]  # fmt: skip
    assert "REPORT 1: THE DOOR IS BROKEN" in document["prompts"][2]["messages"][0]["content"]
    assert document["unchanged"] == {"upper": 5}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["typo"], r"spec.yaml:\d+: perturbations\[0\]: unknown perturbation 'typo'; did you mean 'typos'"),
        (["upper", "upper"], "a perturbation appears twice"),
        (["upper", "informal"], r"perturbations\[1\]: informal changes no question of doors"),
    ],
)
def test_what_does_nothing_is_refused(folder: Path, names: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        plan(folder, *names)


def test_who_writes_can_be_a_group(folder: Path) -> None:
    run = sy.run(spec(folder, "gender_prefix"), root=folder / "store", settings=Settings(resamples=100))
    altered = run.records.filter({"perturbation": "gender_prefix", "model": "one"})
    found = sy.evaluate(altered, ["fairness_gap(accuracy, by=perturbed_with)"], resamples=100)
    assert found["fairness_gap(accuracy, by=perturbed_with)"].value is not None
