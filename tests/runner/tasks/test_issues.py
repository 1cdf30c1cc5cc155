"""Issues: labels that follow from texts by the stated rules, drawn by number; tables as trackers export them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import InputError
from steelyard.runner.perturbations import perturbed
from steelyard.runner.plan import planned
from steelyard.runner.spec import load_spec
from steelyard.runner.tasks import DataSpec, Item, tasks
from steelyard.runner.tasks.issues import PRIORITIES, SCALE
from steelyard.uncertainty.settings import Settings
from tests.support.places import SHARED

JIRA = ("triage_jira", "prioritization_jira", "estimation_tawos")
USERGRID = SHARED / "jira" / "usergrid.csv"


def generated(name: str, size: int = 300, seed: int = 0) -> tuple[Item, ...]:
    return tasks[name].items(None, size=size, seed=seed).items


@pytest.mark.parametrize("name", JIRA)
def test_an_item_depends_on_the_seed_and_its_number(name: str) -> None:
    assert generated(name, 300)[:100] == generated(name, 100)
    assert generated(name, 100) != generated(name, 100, seed=1)
    assert len({item.id for item in generated(name)}) == 300
    assert len({tasks[name].question(item) for item in generated(name)}) > 280


@pytest.mark.parametrize("name", JIRA)
def test_a_question_says_nothing_of_the_answer(name: str) -> None:
    for item in generated(name, 50):
        message = tasks[name].question(item)
        assert item.reason is not None
        assert item.reason not in message
        assert not any(priority in message for priority in PRIORITIES)
        assert item.groups["project"] in ("ATLAS", "LEDGER", "PULSE", "QUILL")
        assert item.cluster == item.id


def rule(text: str) -> str:
    """The priority of a bug, from the phrases of the rule alone."""
    grave = (
        "are gone",
        "overwrites",
        "without signing in",
        "charges the customer twice",
        "nobody can work",
        "no page opens",
    )
    looks = ("spelling mistake", "pixels too low", "different blue", "full stop", "white space")
    spared = (
        "second time helps",
        "old dialog still works",
        "another browser",
        "through the menu",
        "Only ",
        "people; the other",
    )
    if any(phrase in text for phrase in grave):
        return "Critical"
    if any(phrase in text for phrase in looks):
        return "Trivial"
    return "Minor" if any(phrase in text for phrase in spared) else "Major"


def test_priorities_follow_from_the_texts() -> None:
    items = generated("triage_jira", 1000)
    assert all(rule(item.fields["description"]) == item.target for item in items)
    counts = Counter(item.target for item in items)
    assert min(counts.values()) > 120
    assert set(counts) == set(PRIORITIES)


WEIGHTS = {
    "reworded": 1, "default setting": 1, "is checked": 2, "the log": 2, "new page": 3, "new report": 3, "partner's": 5,
    "by mail": 5, "converted": 8, "synchronised": 8, "way to sign in": 13, "rights of every user": 13,
}  # fmt: skip


def test_story_points_follow_from_the_texts() -> None:
    items = generated("estimation_tawos", 600)
    for item in items:
        total = sum(weight for phrase, weight in WEIGHTS.items() if phrase in item.fields["description"])
        assert item.target == min(points for points in (*SCALE, 10**9) if points >= min(total, 55))
    bins = Counter(
        "1-3" if item.target <= 3 else "5-8" if item.target <= 8 else "13-21" if item.target <= 21 else "34+"
        for item in items
    )  # type: ignore[operator]
    assert min(bins.values()) > 40
    assert len(bins) == 4


def test_pairs_are_balanced_and_never_tied() -> None:
    for size in (300, 40, 2):
        items = generated("prioritization_jira", size)
        assert Counter(item.target for item in items) == {"A": size // 2, "B": size // 2}
    for item in generated("prioritization_jira"):
        ranks = {label: PRIORITIES.index(rule(item.fields[f"description_{label}"])) for label in "AB"}
        assert ranks["A"] != ranks["B"]
        assert item.target == min(ranks, key=ranks.__getitem__)
        assert item.groups["gap"] == abs(ranks["A"] - ranks["B"])


def test_another_order_of_a_pair_keeps_the_names() -> None:
    task = tasks["prioritization_jira"]
    (item,) = generated("prioritization_jira", 1)
    other = perturbed("reordered_options", task, item, 0)
    assert other is not None
    assert other.options == ("B", "A")
    question, asked = task.question(item), task.question(other)
    assert question.index("Issue A") < question.index("Issue B")
    assert asked.index("Issue B") < asked.index("Issue A")
    for label in "AB":
        part = (
            f"Issue {label}\nTitle: {item.fields[f'title_{label}']}\nDescription: {item.fields[f'description_{label}']}"
        )
        assert part in question
        assert part in asked


# -- tables ------------------------------------------------------------------------------------------------------------


def table(folder: Path, rows: list[dict[str, Any]]) -> DataSpec:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with open(folder / "issues.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return DataSpec(path=str(folder / "issues.csv"))


def row(number: int, priority: str | None = "Major", **more: Any) -> dict[str, Any]:
    return {
        "issue_key": f"P{number % 2}-{number}",
        "title": f"title {number}",
        "description": "",
        "priority": priority,
        **more,
    }


def test_priorities_of_a_table_are_folded_and_rows_without_are_counted(tmp_path: Path) -> None:
    data = table(tmp_path, [row(1, " critical "), row(2, "MINOR"), row(3, ""), row(4, title=""), row(5, "Trivial")])
    found = tasks["triage_jira"].items(data, size=None, seed=0)
    assert [(item.id, item.target, item.groups) for item in found.items] == [
        ("P1-1", "Critical", {"project": "P1"}),
        ("P0-2", "Minor", {"project": "P0"}),
        ("P1-5", "Trivial", {"project": "P1"}),
    ]
    assert found.left_out == {"no priority": 1, "no title": 1}
    assert tasks["triage_jira"].question(found.items[0]) == "How urgent is this issue?\n\nTitle: title 1"


@pytest.mark.parametrize("name", ["triage_jira", "prioritization_jira"])
def test_another_priority_is_an_error_with_its_line(tmp_path: Path, name: str) -> None:
    data = table(tmp_path, [row(1), row(2, "Blocker")])
    with pytest.raises(InputError, match=r"issues.csv:3: priority: Critical, Major, Minor or Trivial is expected"):
        tasks[name].items(data, size=None, seed=0)
    kept = DataSpec(path=data.path, where=["priority!=Blocker"])
    assert tasks["triage_jira"].items(kept, size=None, seed=0).items


def test_a_table_is_paired_within_its_projects(tmp_path: Path) -> None:
    counts = {"Critical": 4, "Major": 11, "Minor": 6, "Trivial": 2}
    rows = [row(n, priority) for n, priority in enumerate(each for each, k in counts.items() for _ in range(k))]
    found = tasks["prioritization_jira"].items(table(tmp_path, rows), size=None, seed=0)
    keys = [key for item in found.items for key in str(item.id).split("+")]
    assert len(keys) == len(set(keys))
    for item in found.items:
        assert len({key.split("-")[0] for key in str(item.id).split("+")}) == 1
    assert [item.target for item in found.items] == ["A", "B"] * (len(found.items) // 2) + ["A"] * (
        len(found.items) % 2
    )
    assert sum(found.left_out.values()) == len(rows) - 2 * len(found.items)
    assert len(found.items) == 11
    again = tasks["prioritization_jira"].items(table(tmp_path, rows[::-1]), size=None, seed=0)
    assert again.items == found.items
    with pytest.raises(InputError, match="there is no pair"):
        tasks["prioritization_jira"].items(table(tmp_path, [row(n, "Major") for n in range(6)]), size=None, seed=0)


@pytest.mark.parametrize("value", ["-1", "many", "true"])
def test_points_are_numbers(tmp_path: Path, value: str) -> None:
    data = table(tmp_path, [{"title": "t", "description": "d", "story_points": value}])
    with pytest.raises(InputError, match="a number from 0 up is expected"):
        tasks["estimation_tawos"].items(data, size=None, seed=0)


def test_estimates_need_no_key(tmp_path: Path) -> None:
    rows = [{"project": "P", "title": f"t{n}", "description": "d", "story_points": n / 2} for n in range(1, 5)]
    found = tasks["estimation_tawos"].items(table(tmp_path, [*rows, {"title": "x"}]), size=None, seed=0)
    assert [(item.id, item.target) for item in found.items] == [(1, 0.5), (2, 1), (3, 1.5), (4, 2)]
    assert found.items[0].groups == {"project": "P"}
    assert found.left_out == {"no story points": 1}


@pytest.mark.parametrize(("name", "column"), [("triage_jira", "issue_key"), ("estimation_tawos", "story_points")])
def test_a_column_that_is_not_there_is_named(tmp_path: Path, name: str, column: str) -> None:
    with pytest.raises(InputError, match=column):
        tasks[name].items(table(tmp_path, [{"title": "t", "priority": "Major"}]), size=None, seed=0)


@pytest.mark.skipif(not USERGRID.exists(), reason="the shared data are not here")
def test_story_points_of_a_real_project(tmp_path: Path) -> None:
    with open(USERGRID, newline="") as file:
        points = [float(each["storypoint"]) for each in csv.DictReader(file)]
    (tmp_path / "m.py").write_text("def five(item, prompt):\n    return 'Answer: 5'\n")
    spec = {
        "id": "real",
        "task": "estimation_tawos",
        "data": {"path": str(USERGRID), "map": {"issue_key": "issuekey", "story_points": "storypoint"}},
        "models": [{"name": "five", "backend": "callable", "options": {"function": "m.py:five"}}],
        "metrics": ["mae", "mae_by_bin"],
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    assert len(planned(load_spec(tmp_path / "spec.yaml")).items) == len(points)
    run = sy.run(tmp_path / "spec.yaml", root=tmp_path / "store", settings=Settings(resamples=100))
    assert run.evaluation["mae"].value == pytest.approx(sum(abs(5 - each) for each in points) / len(points))
    small = [each for each in points if 1 <= each <= 3]
    assert run.evaluation['mae_by_bin."1-3"'].value == pytest.approx(sum(5 - each for each in small) / len(small))
    assert set(run.records.to_pandas()["group.project"]) == {"USERGRID"}


def test_steps_of_the_scale_grow() -> None:
    assert all(low < high for low, high in pairwise(SCALE))
