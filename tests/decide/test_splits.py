"""Splits of a data set are cells: what a log states of its test split is what is shown, kept and gated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.helm import instance, run, scores, stat, state

RULE = "accuracy >= 0.5"
SHOWN = ("-m", "accuracy", "--resamples", "200", "--format", "json")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with twelve questions of the test split, nine of them answered rightly, and four of another, all wrong."""
    marks = {f"id{n}": ("test", float(n < 9)) for n in range(12)} | {f"id{n}": ("valid", 0.0) for n in range(12, 16)}
    states = [state(instance(item, split=split), ("A" if mark else "B", -0.5)) for item, (split, mark) in marks.items()]
    stats = [scores(each, exact_match=mark) for each, (_, mark) in zip(states, marks.values(), strict=True)]
    means = [stat("exact_match", 0.75, split="test"), stat("exact_match", 0.0, split="valid")]
    return run(tmp_path_factory.mktemp("helm") / "r", states, stats, means)


def values(*arguments: object) -> dict[str, float]:
    done = command("evaluate", *arguments, *SHOWN)
    assert done.code == 0, done.err
    return {each["slice"].get("group.split", "whole"): each["value"] for each in done.json["estimates"]}


def test_splits_are_shown_as_the_log_states_them(log: Path) -> None:
    assert values(log) == values(log, "--by", "group.split") == {"test": 0.75, "valid": 0.0}
    assert values(log, "--pool", "group.split") == {"whole": 0.5625}
    assert values(log, "--where", "group.split=test") == {"whole": 0.75}


def test_a_rule_says_which_split_it_is_about(log: Path) -> None:
    whole = command("gate", log, "--rule", RULE)
    assert whole.code == 2
    assert "{group.split=test}, {group.split=valid}" in whole.err
    assert "--pool group.split" in whole.err
    assert command("gate", log, "--rule", "accuracy{group.split=test} >= 0.7").code == 0
    assert command("gate", log, "--rule", "accuracy{group.split=valid} >= 0.1").code == 1
    assert command("gate", log, "--rule", "accuracy >= 0.1 for each cell").code == 1
    assert command("gate", log, "--rule", "accuracy >= 0.57", "--pool", "group.split").code == 1
    assert command("gate", log, "--rule", RULE, "--pool", "group.split").code == 0


def test_a_kept_run_has_its_splits(log: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        kept = command("evaluate", log, *SHOWN, "--save", "--run-id", name, root=tmp_path)
        assert kept.code == 0, kept.err
    assert command("gate", "one", "--rule", RULE, root=tmp_path).code == 2
    assert command("gate", "one", "--rule", "accuracy{group.split=test} >= 0.7", root=tmp_path).code == 0
    same = command("gate", "two", "one", "--rule", "low(delta(accuracy{group.split=test})) >= -0.5", root=tmp_path)
    assert same.code == 0, (same.out, same.err)
    pivot = command("runs", "metrics", "--pivot", "--format", "json", root=tmp_path)
    assert pivot.code == 0, pivot.err
    ranked = command("runs", "compare", "-m", "accuracy{group.split=test}", "--format", "json", root=tmp_path)
    assert [row["value"] for row in ranked.json["runs"]] == [0.75, 0.75]
    shown = command("runs", "compare", "-m", "accuracy", root=tmp_path)
    assert shown.code == 0, shown.err
    assert "valid" in shown.out
