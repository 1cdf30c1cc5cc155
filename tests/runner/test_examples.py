"""Examples by similarity: the likest of those that are held out, as a naive count of cosines finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.runner.plan import Plan, planned
from steelyard.runner.spec import load_spec
from steelyard.texts.embedders import embedder
from steelyard.uncertainty.settings import Settings

ABOUT = ("the printer jams", "a password is refused", "the page loads slowly", "an invoice is missing")


def spec(folder: Path, *, rows: int = 60, **more: Any) -> Path:
    data = [
        {"n": n, "text": f"{ABOUT[n % 4]} in office {n} of building {n // 7}", "label": "yn"[n % 2], "team": n // 2}
        for n in range(rows)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in data))
    task = {"name": "t", "data": "data.jsonl", "id": "n", "question": "text", "target": "label", "labels": ["y", "n"],
            "cluster": "team"}  # fmt: skip
    (folder / "t.task.yaml").write_text(json.dumps(task))
    (folder / "m.py").write_text("def f(item, prompt):\n    return 'Answer: y'\n")
    model = {"name": "m", "backend": "callable", "options": {"function": "m.py:f"}}
    document = {"id": "s", "task": "t.task.yaml", "models": [model], **more}
    (folder / "spec.yaml").write_text(json.dumps(document))
    return folder / "spec.yaml"


def plan(folder: Path, *names: str, **more: Any) -> Plan:
    adaptation = {"strategy": list(names or ("few-shot-similar-3",)), **more.pop("adaptation", {})}
    return planned(load_spec(spec(folder, adaptation=adaptation, **more)))


@pytest.mark.parametrize("name", ["hash", "hash:64"])
@pytest.mark.parametrize("perturbation", [None, "typos"])
def test_they_are_the_likest_and_the_likest_is_last(tmp_path: Path, name: str, perturbation: str | None) -> None:
    found = plan(tmp_path, adaptation={"embedder": name}, perturbations=["typos"])
    pool = found.held_out.items
    strategy = found.strategies[0]
    for place in range(len(found.items)):
        item = found.item(place, perturbation)
        vectors = embedder(name).embed(
            ["x"] * (len(pool) + 1), [found.task.question(each) for each in (*pool, item)], what="texts"
        ).astype(float)  # fmt: skip
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        alike = vectors[:-1] @ vectors[-1]
        wanted = sorted(range(len(pool)), key=lambda at: (-round(float(alike[at]), 12), at))[:3]
        chosen = found.held_out.for_question(strategy, item)
        assert [each.id for each in chosen] == [pool[at].id for at in reversed(wanted)]
        signals = found.held_out.signals(strategy, item)
        assert signals["retrieval_reference_count"] == 3
        assert signals["retrieval_similarity_max"] == pytest.approx(alike[wanted[0]])
        assert signals["retrieval_similarity_mean"] == pytest.approx(alike[wanted].mean())


@pytest.mark.parametrize("size", [None, 10, 40, 55])
def test_they_never_come_from_clusters_that_are_scored(tmp_path: Path, size: int | None) -> None:
    found = plan(tmp_path, "few-shot-similar-3", "few-shot-2", sample_size=size)
    shown = {item.cluster for item in found.held_out.items}
    assert not shown & {item.cluster for item in found.items}
    assert len(found.held_out.items) >= 3
    for item in found.items:
        for strategy in found.strategies:
            assert {each.cluster for each in found.held_out.for_question(strategy, item)} <= shown
    plain = found.held_out.for_question(found.strategies[1], found.items[0])
    assert tuple(plain) == found.held_out.items[:2]


def test_there_are_more_to_choose_from_where_they_can_be_spared(tmp_path: Path) -> None:
    # of 90 rows, which are in 82 clusters, 40 are wanted
    assert len(plan(tmp_path, rows=400, sample_size=40).held_out.items) == 42
    assert len(plan(tmp_path, rows=400).held_out.items) == 40  # a fifth of 200 clusters
    assert len(plan(tmp_path, rows=20, sample_size=4).held_out.items) == 6


def test_signals_are_in_the_records(tmp_path: Path) -> None:
    path = spec(tmp_path, adaptation={"strategy": ["few-shot-similar-2", "zero-shot"]}, metrics=["accuracy"])
    run = sy.run(path, root=tmp_path / "store", settings=Settings(resamples=100))
    frame = run.records.to_pandas()
    similar = frame[frame.strategy == "few-shot-similar-2"]
    assert (similar["signal.retrieval_reference_count"] == 2).all()
    assert (similar["signal.retrieval_similarity_mean"] <= similar["signal.retrieval_similarity_max"]).all()
    assert frame[frame.strategy == "zero-shot"]["signal.retrieval_similarity_max"].isna().all()
    answered = run.records.filter({"strategy": "few-shot-similar-2"})
    assert sy.selective(answered, confidence="retrieval_similarity_max", resamples=100) is not None


def test_a_large_pool_leaves_rare_labels_to_be_scored(tmp_path: Path) -> None:
    path = spec(tmp_path, rows=400, adaptation={"strategy": ["few-shot-similar-3"]})
    rare = [{"n": n, "text": f"question {n}", "label": "y" if n % 20 == 0 else "n"} for n in range(400)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rare))
    task = json.loads((tmp_path / "t.task.yaml").read_text())
    del task["cluster"]
    (tmp_path / "t.task.yaml").write_text(json.dumps(task))
    found = planned(load_spec(path))
    assert len(found.held_out.items) == 50
    assert sum(item.target == "y" for item in found.items) >= 12  # 20 of 400; turns alone would leave none
    assert {item.target for item in found.held_out.items[:3]} == {"y", "n"}


def test_what_an_example_asks_is_not_asked_again(tmp_path: Path) -> None:
    path = spec(tmp_path, rows=60, adaptation={"strategy": ["few-shot-3"]})
    rows = [{"n": n, "text": f"question {n // 2}", "label": "yn"[n % 2], "team": n} for n in range(60)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = planned(load_spec(path))
    solved = {found.task.question(item) for item in found.held_out.items}
    assert not solved & {found.task.question(item) for item in found.items}
    assert found.left_out["the same question as a solved example"] == 3
    assert any("because examples were held out of 60" in warning for warning in found.warnings)
