"""The numbers of kept runs as frames: what the index has, at full precision."""

from __future__ import annotations

from pathlib import Path

import pytest

import steelyard as sy
from tests.support.commands import command


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rows = ["item,target,prediction", *(f"{i},a,{'a' if i % 3 else 'b'}" for i in range(10))]
    (tmp_path / "answers.csv").write_text("\n".join(rows) + "\n")
    for name in ("one", "two"):
        asked = ("evaluate", tmp_path / "answers.csv", "-m", "accuracy", "--resamples", 0, "--save")
        assert command(*asked, "--run-id", name, "--root", tmp_path).code == 0
    return tmp_path


def test_one_row_per_number_and_one_per_run(root: Path) -> None:
    rows = sy.runs.metrics(root, as_="dicts")
    assert all(list(row)[:3] == ["run_id", "metric_name", "value"] for row in rows)
    assert {("one", "accuracy", 6 / 10), ("two", "accuracy", 6 / 10)} <= {tuple(row.values())[:3] for row in rows}
    assert sy.runs.metrics(root).to_dict("records") == rows == sy.runs.metrics(root, as_="polars").to_dicts()
    wide = sy.runs.metrics_pivot(str(root), as_="dicts")
    assert {row["run_id"]: row["accuracy"] for row in wide} == {"one": 0.6, "two": 0.6}


def test_a_run_of_one_domain_never_stands_for_another(tmp_path: Path) -> None:
    for domain, right, metric in (
        ("clinic", 1, "accuracy"),
        ("legal", 3, "accuracy"),
        ("sales", 2, "selective_accuracy"),
    ):
        rows = ["item,target,prediction", *(f"{i},a,{'a' if i < right else 'b'}" for i in range(4))]
        (tmp_path / "answers.csv").write_text("\n".join(rows) + "\n")
        asked = ("evaluate", tmp_path / "answers.csv", "-m", metric, "--resamples", 0, "--save", "--workflow", "same")
        assert command(*asked, "--run-id", "one", "--domain", domain, "--root", tmp_path).code == 0
    wide = sy.runs.metrics_pivot(tmp_path, as_="dicts")
    assert {(row["run_id"], row["workflow"], row["domain"]) for row in wide} == {
        ("one", "same", domain) for domain in ("clinic", "legal", "sales")
    }
    long = {
        row["domain"]: row["value"]
        for row in sy.runs.metrics(tmp_path, as_="dicts")
        if row["metric_name"] == "accuracy"
    }
    assert long == {"clinic": 0.25, "legal": 0.75}
    numbers = {(row["accuracy"], row["selective_accuracy"]) for row in wide}
    assert numbers == {(0.25, None), (0.75, None), (None, 0.5)}
    (legal,) = sy.runs.metrics_pivot(tmp_path, domain="legal", as_="dicts")
    assert legal["accuracy"] == 0.75


def test_another_library_is_refused(root: Path) -> None:
    with pytest.raises(sy.UsageError, match="auto, pandas, polars, dicts"):
        sy.runs.metrics(root, as_="spark")  # type: ignore[arg-type]
