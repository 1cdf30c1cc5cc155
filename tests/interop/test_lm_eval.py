"""Logs that the real lm-eval wrote (make_lm_eval.py), read back: its numbers again, and its choices.

The folder is named by STEELYARD_INTEROP_LM_EVAL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.records.table import Records
from tests.support.commands import command

BOOTSTRAPPED = {"perplexity_stderr", "f1_stderr", "mcc_stderr"}


def samples(folder: Path, task: str) -> Path:
    (path,) = folder.glob(f"*/samples_{task}_2*.jsonl")
    return path


def column(records: Records, name: str) -> list[Any]:
    return list(records.column(name).to_pylist())


def test_every_number_of_every_task_is_made_again(lm_eval: Path) -> None:
    declared = sy.read(lm_eval / "all").sources[0].declared
    assert len(declared) >= 30
    assert [each.name for each in declared if not each.agrees] == []
    unknown = {each.name.partition(": ")[2].partition(",")[0] for each in declared if each.recomputed is None}
    assert unknown == BOOTSTRAPPED


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        *(("lamps", metric) for metric in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")),
        *(("lamps_by_name", metric) for metric in ("acc", "acc_norm")),
        ("lamps_lit", "acc"),
    ],
)
def test_the_choice_is_the_one_that_was_marked(lm_eval: Path, task: str, metric: str) -> None:
    records = sy.read(samples(lm_eval / "all", task), scorer=metric)
    equal = [t == p for t, p in zip(column(records, "target"), column(records, "prediction"), strict=True)]
    assert equal == [bool(mark) for mark in column(records, "mark")]


def test_filters_are_strategies_and_repeats_are_one_row(lm_eval: Path) -> None:
    records = sy.read(samples(lm_eval / "written", "lamps_written"))
    assert column(records, "strategy") == ["strict-match"] * 9 + ["flexible-extract"] * 9
    assert set(column(records, "outcome")) == {"answered", "abstained", "unparsed", "failed"}


def test_a_limit_is_a_remark_and_no_excerpt(lm_eval: Path) -> None:
    records = sy.read(samples(lm_eval / "limited", "lamps"))
    assert (len(records), records.sources[0].excerpt) == (4, "")
    assert any("only 4 of the 9 documents" in said for said in records.warnings)


def test_two_models_compare_from_the_command_line(lm_eval: Path) -> None:
    base, new = samples(lm_eval / "all", "lamps"), samples(lm_eval / "other", "lamps")
    done = command("compare", base, new, "-m", "accuracy", "--cluster", "doc.patient", "--format", "json")
    assert done.code == 0, done.err
    (delta,) = done.json["deltas"]
    assert delta["n"] == 9
