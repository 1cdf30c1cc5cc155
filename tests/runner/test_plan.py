"""A plan asks every model the same, in an order that never differs, and notices whatever changes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.runner.plan import Plan, estimated_tokens, planned
from steelyard.runner.spec import load_spec

TASK = {
    "name": "t", "data": "d.jsonl", "id": "id", "question": "text", "target": "label", "labels": ["yes", "no"],
    "cluster": "patient", "prompt": "{{ age }}: {{ question }}", "groups": ["site"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"id": f"q{n}", "text": f"text {n}", "age": 20 + n, "label": "yes" if n % 3 else "no", "patient": n // 2,
         "site": "ab"[n % 2], "note": "unseen"}
        for n in range(30)
    ]  # fmt: skip
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.task.yaml").write_text(json.dumps(TASK))
    return tmp_path


def plan(folder: Path, **more: Any) -> Plan:
    models = [{"name": name, "base_url": "http://127.0.0.1:9/v1"} for name in ("a", "b")]
    spec = {"id": "s", "task": "t.task.yaml", "models": models, **more}
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return planned(load_spec(folder / "spec.yaml"))


def test_every_request_has_a_number_of_its_own(folder: Path) -> None:
    found = plan(folder, repeat=3, adaptation={"strategy": ["zero-shot", "zero-shot-cot"]}, sample_size=7)
    assert found.count == 2 * 2 * 7 * 3
    places = [found.place(number) for number in range(found.count)]
    assert [place.number for place in places] == list(range(found.count))
    keys = Counter((p.model.name, p.strategy.name, p.item.id, p.repeat) for p in places)
    assert len(keys) == found.count
    for model in found.spec.models:
        assert {found.place(number).model.name for number in found.numbers(model)} == {model.name}


def test_models_are_asked_the_same(folder: Path) -> None:
    found = plan(folder, sample_size=9, seed=4)
    first, second = ([found.request(found.place(n)) for n in found.numbers(model)] for model in found.spec.models)
    assert [r.messages for r in first] == [r.messages for r in second]
    assert [r.item_id for r in first] == [r.item_id for r in second]
    assert all("unseen" not in r.prompt for r in first)
    assert all(set(r.item) == {"age", "question"} for r in first)


def test_a_sample_is_stratified_and_depends_on_the_seed_alone(folder: Path) -> None:
    one, two, other = (plan(folder, sample_size=9, seed=seed) for seed in (1, 1, 2))
    assert Counter(item.target for item in one.items) == {"yes": 6, "no": 3}
    assert one.items == two.items
    assert one.items != other.items


def test_repeats_have_seeds_of_their_own_where_one_is_stated(folder: Path) -> None:
    found = plan(folder, repeat=3, inference={"seed": 7, "temperature": 0.5})
    assert [found.request(found.place(n)).inference.seed for n in range(3)] == [7, 8, 9]
    unstated = plan(folder, repeat=3)
    assert [unstated.request(unstated.place(n)).inference.seed for n in range(3)] == [None] * 3


@pytest.mark.parametrize("size", [None, 5, 20, 28, 200])
def test_examples_come_from_other_clusters_and_every_strategy_scores_the_same(folder: Path, size: int | None) -> None:
    found = plan(folder, sample_size=size, adaptation={"strategy": ["zero-shot", "few-shot-1", "few-shot-3"]})
    assert len(found.held_out.items) == 3
    shown = {item.cluster for item in found.held_out.items}
    assert not shown & {item.cluster for item in found.items}
    assert len(found.items) == min(size or 24, 24)
    solved = [found.messages(strategy, found.items[0])[-1].content.count("text ") for strategy in found.strategies]
    assert solved == [1, 2, 4]


def test_the_number_of_examples_may_be_said_apart(folder: Path) -> None:
    found = plan(folder, adaptation={"strategy": ["zero-shot", "few-shot"], "examples": 2})
    assert [strategy.name for strategy in found.strategies] == ["zero-shot", "few-shot-2"]
    with pytest.raises(UsageError, match="two of these strategies are the same"):
        plan(folder, adaptation={"strategy": ["few-shot-2", "few-shot"], "examples": 2})


@pytest.mark.parametrize(("name", "cluster"), [("item", "q0"), ("group.site", "a"), ("age", 20), ("cluster", 0)])
def test_a_spec_may_say_what_a_cluster_is(folder: Path, name: str, cluster: Any) -> None:
    assert plan(folder, cluster=name).items[0].cluster == cluster


CHANGES: dict[str, Any] = {
    "a question": lambda rows: rows[3].update(text="another"),
    "a shown value": lambda rows: rows[3].update(age=99),
    "a target": lambda rows: rows[4].update(label="no"),
    "a cluster": lambda rows: rows[3].update(patient=77),
    "a group": lambda rows: rows[3].update(site="c"),
    "an id": lambda rows: rows[3].update(id="other"),
    "a row less": lambda rows: rows.pop(),
    "the order": lambda rows: rows.reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_notices_a_change_of_the_data(folder: Path, change: str) -> None:
    before = plan(folder).digest
    rows = [json.loads(line) for line in (folder / "d.jsonl").read_text().splitlines()]
    CHANGES[change](rows)
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert plan(folder).digest != before


def test_the_digest_is_that_of_what_is_asked(folder: Path) -> None:
    before = plan(folder).digest
    rows = (folder / "d.jsonl").read_text()
    (folder / "d.jsonl").write_text(rows.replace("unseen", "still unseen"))
    assert plan(folder).digest == before
    (folder / "t.task.yaml").write_text(json.dumps({**TASK, "prompt": "{{ age }} - {{ question }}"}))
    assert plan(folder).digest != before


def test_the_digest_covers_files_that_models_are_made_of(folder: Path) -> None:
    (folder / "m.py").write_text("def f(item, prompt): return 'Answer: yes'")
    models = [{"name": "f", "backend": "callable", "options": {"function": "m.py:f"}}]
    before = plan(folder, models=models).digest
    (folder / "m.py").write_text("def f(item, prompt): return 'Answer: no'")
    assert plan(folder, models=models).digest != before


def test_tokens_are_estimated(folder: Path) -> None:
    found = plan(folder, repeat=2)
    characters = sum(len(found.request(found.place(n)).messages[0].content) for n in range(found.count))
    assert estimated_tokens(found) == characters // 4


def test_the_form_of_replies_is_sent_where_it_is_json(folder: Path) -> None:
    found = plan(folder)
    assert found.request(found.place(0)).schema is not None
    text = plan(folder, inference={"format": "text"})
    assert text.request(text.place(0)).schema is None
    assert "Answer:" in text.request(text.place(0)).prompt
