"""The index follows the folders, and is made again from them."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.records.table import Records
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, SavedRun, save
from steelyard.study.evaluation import evaluate
from tests.support.stores import (
    FOREIGN,
    INDEX,
    RUNS,
    by_run,
    call,
    foreign,
    found,
    kept,
    listed,
    printed,
    problems,
    raised,
    small,
)


def view(root: Path) -> tuple[list[Any], ...]:
    """All that an index says."""
    with Index(root, all_tenants=True) as index:
        runs = [(r.run_id, str(r.folder.relative_to(root)), dict(r.metrics), dict(r.labels)) for r in index.runs()]
        pivot = sorted((c.run_id, sorted(c.cell.items()), sorted(c.values.items())) for c in index.cells()[1])
        return (
            sorted(runs, key=lambda r: r[1]),
            [(str(p.folder.relative_to(root)), p.problem) for p in index.problems()],
            pivot,
            sorted(index.rows(), key=str),
        )


def anew(root: Path) -> tuple[list[Any], ...]:
    """What an index that was never there before says of the same folders."""
    copy = root.with_name(f"{root.name}-{uuid.uuid4().hex[:6]}")
    shutil.copytree(root / "results", copy / "results", ignore=shutil.ignore_patterns(".index"))
    try:
        return view(copy)
    finally:
        shutil.rmtree(copy)


def step(root: Path, what: str, which: int) -> None:
    """Change the folders in one way."""
    folders = sorted((root / RUNS).glob("*/*"))
    folder = folders[which % len(folders)] if folders else None
    if what == "save" or folder is None:
        kept(root, uuid.uuid4().hex, f"w{which % 3}")
    elif what == "remove":
        shutil.rmtree(folder)
    elif what == "damage":
        (folder / "run.json").write_text("{")
    elif what == "repair":
        shutil.rmtree(folder)
        kept(root, folder.name, folder.parent.name)
    elif what == "empty":
        (folder / "run.json").unlink(missing_ok=True)
    elif what == "move":
        os.rename(folder, folder.with_name(uuid.uuid4().hex))
    elif what == "theirs":
        foreign(root, {**FOREIGN, "RunId": uuid.uuid4().hex, "Metrics": {"ndcg@3": which / 10}}, uuid.uuid4().hex)
    elif what == "copy":
        shutil.copytree(folder, folder.parent.with_name(f"w{which % 4}") / f"copy{uuid.uuid4().hex[:4]}")


STEPS = ("save", "remove", "damage", "repair", "empty", "move", "theirs")


@pytest.mark.parametrize("steps", [STEPS, (*STEPS, "copy", "copy")], ids=["without copies", "with copies"])
@given(data=st.data())
def test_an_index_that_followed_the_folders_says_what_a_new_one_says(
    tmp_path_factory: pytest.TempPathFactory, steps: tuple[str, ...], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("steps") / "store"
    for _ in range(3):
        step(root, "save", 0)
    walk = st.lists(st.tuples(st.sampled_from(steps), st.integers(0, 8)), min_size=1, max_size=6)
    for what, which in data.draw(walk):
        step(root, what, which)
        assert view(root) == anew(root)


def damages() -> dict[str, Callable[[Path], Any]]:
    def statements(path: Path, *texts: str) -> None:
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            for text in texts:
                connection.execute(text)
            connection.commit()

    def lies(path: Path, *texts: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for text in texts:
                connection.execute(text)
            connection.commit()

    return {
        "removed": lambda p: p.unlink(),
        "its folder removed": lambda p: shutil.rmtree(p.parent),
        "emptied": lambda p: p.write_bytes(b""),
        "random bytes": lambda p: p.write_bytes(random.Random(1).randbytes(50_000)),
        "a text": lambda p: p.write_text("not a database " * 100),
        "cut": lambda p: p.write_bytes(p.read_bytes()[:5000]),
        "an odd end": lambda p: p.write_bytes(p.read_bytes()[:-100]),
        "a folder": lambda p: (p.unlink(), p.mkdir()),
        "its folder a file": lambda p: (shutil.rmtree(p.parent), p.parent.write_text("")),
        "a random journal": lambda p: p.with_name(p.name + "-wal").write_bytes(random.Random(2).randbytes(5000)),
        "another version": lambda p: lies(p, "PRAGMA user_version = 99"),
        "an old version": lambda p: statements(p, "CREATE TABLE runs (a)", "PRAGMA user_version = 0"),
        "a version with other tables": lambda p: statements(p, "CREATE TABLE x (y)", "PRAGMA user_version = 99"),
        "this version without tables": lambda p: statements(p, "PRAGMA user_version = 1"),
        "this version with another table": lambda p: statements(p, "CREATE TABLE runs (a)", "PRAGMA user_version = 1"),
        "views for tables": lambda p: statements(p, "CREATE VIEW runs AS SELECT 1", "PRAGMA user_version = 7"),
        "a table dropped": lambda p: lies(p, "DROP TABLE metrics"),
    }


def indexed(root: Path, runs: int = 12) -> tuple[list[Any], ...]:
    """Some runs and an index of them."""
    for i in range(runs):
        kept(root, f"run{i}")
    foreign(root, FOREIGN)
    (kept(root, "damaged") / "run.json").write_text("{")
    return view(root)


@pytest.mark.parametrize("what", damages())
def test_an_index_that_was_damaged_is_made_anew(tmp_path: Path, what: str) -> None:
    said = indexed(tmp_path)
    damages()[what](tmp_path / INDEX)
    assert view(tmp_path) == said
    call("runs", "list", "--root", tmp_path)
    assert view(tmp_path) == said


def test_an_index_with_any_page_overwritten_is_made_anew(tmp_path: Path) -> None:
    said = indexed(tmp_path)
    whole = (tmp_path / INDEX).read_bytes()
    wrong = {}
    for page in range(len(whole) // 4096):
        noise = random.Random(page).randbytes(4096)
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"{INDEX}{suffix}").unlink(missing_ok=True)
        (tmp_path / INDEX).write_bytes(whole[: page * 4096] + noise + whole[(page + 1) * 4096 :])
        try:
            if view(tmp_path) != said:
                wrong[page] = "other runs"
        except Exception as problem:
            wrong[page] = f"{type(problem).__name__}: {problem}"
    assert wrong == {}


@pytest.mark.parametrize("what", ["", *damages()])
def test_an_index_is_rebuilt_on_request(tmp_path: Path, what: str) -> None:
    said = indexed(tmp_path)
    with closing(sqlite3.connect(tmp_path / INDEX)) as connection:
        connection.execute("UPDATE runs SET metrics = '{}', problem = NULL")
        connection.execute("DELETE FROM metrics")
        connection.commit()
    if what:
        damages()[what](tmp_path / INDEX)
    assert printed("runs", "index", "--rebuild", "--root", tmp_path) == {
        "runs": 13,
        "problems": [{"run": "damaged", "problem": "run damaged: run.json: the text ends early"}],
    }
    assert view(tmp_path) == said


def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    path = foreign(tmp_path, FOREIGN) / "run.json"
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"ndcg@3": 0.5}
    times = os.stat(path)
    path.write_text(path.read_text().replace("0.5", "0.7"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert os.stat(path).st_size == times.st_size
    with Index(tmp_path) as index:
        assert index.find("b7c1").metrics == {"ndcg@3": 0.7}
        assert by_run(index.cells()[1]) == {"b7c1": {"ndcg@3": 0.7}}


@pytest.mark.parametrize("removed", [0, 1])
@pytest.mark.parametrize("between", [False, True], ids=["saved together", "indexed between"])
def test_an_id_in_two_folders_means_none_of_them_until_one_is_gone(tmp_path: Path, removed: int, between: bool) -> None:
    kept(tmp_path, "good")
    folders = [kept(tmp_path, "same", "B")]
    other = tmp_path / RUNS / "A" / "same"
    if between:
        assert listed(tmp_path) == ["good", "same"]
    shutil.copytree(folders[0], other)
    folders.append(other)
    assert "good" in listed(tmp_path)
    with pytest.raises(UsageError, match="same"):  # neither is taken for the other
        found(tmp_path, "same")
    for command in (("show", "same"), ("promote", "same", "--metric", "accuracy")):
        with pytest.raises(UsageError, match="same"):
            call("runs", *command, "--root", tmp_path)
    shutil.rmtree(folders[removed])
    assert listed(tmp_path) == ["good", "same"]
    assert problems(tmp_path) == {}
    assert found(tmp_path, "same") == folders[1 - removed]


def test_reading_makes_no_folders_where_no_runs_are(tmp_path: Path) -> None:
    call("runs", "list", "--root", tmp_path / "typo")
    assert os.listdir(tmp_path) == []


def test_slices_are_columns_of_the_index_whatever_their_values(tmp_path: Path) -> None:
    sites = ["{x}", "a=b,c", 'q"', "plain"]
    columns = {
        "item": [f"q{i}" for i in range(16)],
        "target": ["yes" if i % 2 else "no" for i in range(16)],
        "prediction": ["yes"] * 16,
        "model": ["m{1}" if i < 8 else "m2" for i in range(16)],
        "group.site": [sites[i % 4] for i in range(16)],
    }
    result = evaluate(Records.from_columns(columns), ["accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), run_id="run")
    with Index(tmp_path) as index:
        rows = list(index.rows("accuracy"))
        assert len(list(index.rows("n_predictions"))) == len(rows)
    assert len(rows) == len(result) == 10
    assert {row[1] for row in rows} == {"accuracy"}
    assert {row[6] for row in rows} == {"m{1}", "m2"}


@pytest.mark.parametrize("column", ["item", "group.site", "model", "target"])
def test_half_characters_in_the_data_stop_no_list(tmp_path: Path, column: str) -> None:
    columns = {
        "item": [f"q{i}" for i in range(8)],
        "target": ["a", "b"] * 4,
        "prediction": ["a"] * 8,
        "model": ["m1"] * 4 + ["m2"] * 4,
        "group.site": ["x"] * 8,
    }
    columns[column] = [f"\ud800{value}" if i % 2 else value for i, value in enumerate(columns[column])]
    records = Records.from_columns(columns)
    result = evaluate(records, ["accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), run_id="run", records=records)
    kept(tmp_path, "good")
    assert listed(tmp_path) == ["good", "run"]
    for command in (
        ["list"],
        ["show", "run"],
        ["metrics"],
        ["metrics", "--pivot"],
        ["compare", "--metric", "accuracy"],
    ):
        for format_ in ("table", "json", "markdown", "csv"):
            call("runs", *command, "--root", tmp_path, "--format", format_)
    again = SavedRun.at(folder).records
    assert again is not None
    assert again.column(column).equals(records.column(column))


def test_a_label_that_is_half_a_character_is_refused_or_listed(tmp_path: Path) -> None:
    problem = raised(
        lambda: save(Scope(tmp_path), small(), workflow="Triage", clock=Clock(), run_id="run", labels={"a": "\udcff"})
    )
    kept(tmp_path, "good")
    assert listed(tmp_path) == (["good", "run"] if problem is None else ["good"])
    assert problems(tmp_path) == {}
