"""The ground floor: registry, strict YAML, task files, atomic writes, what people are shown."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError, SteelyardError, StorageError, UsageError, printable
from steelyard.ground.files import write_atomic
from steelyard.ground.json import dumps, plain
from steelyard.ground.yaml import parse_yaml
from steelyard.records.task import Task
from steelyard.registry import Registry
from steelyard.report.document import Heading, Note, Remarks, Table, number
from steelyard.report.formats import markdown, text


def test_a_registry_suggests_what_was_meant() -> None:
    things: Registry[int] = Registry("thing")
    things.add("alpha", 1, aliases=("first",))
    assert things["first"] == things["alpha"] == 1
    with pytest.raises(UsageError, match="unknown thing 'alhpa'; did you mean 'alpha'"):
        things["alhpa"]
    with pytest.raises(UsageError, match="defined twice"):
        things.add("first", 2)
    things.remove("alpha")
    assert "first" not in things


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("labels: [NO, YES]", "quotes"),
        ("labels: [012, 013]", "quotes"),
        ("labels: [a, b]\nlabels: [c, d]", "twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("labels: [a, b", "expected"),
        ("? [a]\n: b", "plain words"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("range: 1:30", "quotes"),
    ],
)
def test_yaml_surprises_are_refused_with_the_line(document: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_yaml(document, source="x.yaml")
    assert "x.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"lables": ["a", "b"]}, "did you mean 'labels'"),
        ({"labels": ["a"]}, "at least two"),
        ({"labels": ["a", 1]}, "one type"),
        ({"labels": ["a", "a"]}, "twice"),
        ({"labels": [1.5, 2.5]}, "texts or whole numbers"),
        ({"range": [3, 0]}, "range is"),
        ({"range": True}, "range is"),
        ({"direction": "up"}, "higher or lower"),
        ({"facts": {"joy": 1}}, "unknown fact"),
        ({"facts": {"kwh": -1}}, "at least 0"),
        (["labels"], "a mapping"),
    ],
)
def test_task_files_are_checked(document: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Task.of(document)


def test_a_task_is_read_as_meant() -> None:
    task = Task.of({"labels": ["a", "b"], "range": [1, 4], "direction": "lower", "facts": {"wall_seconds": 3}})
    assert (task.labels, task.range, task.direction, dict(task.facts)) == (
        ("a", "b"),
        3.0,
        "lower",
        {"wall_seconds": 3.0},
    )
    assert Task.of(None) == Task()


STEPS = ("open", "fsync", "replace", "fsync folder")


@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_fails_the_old_file_is_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "fsync folder":
        real, calls = os.fsync, []

        def second(handle: int) -> None:
            calls.append(handle)
            if len(calls) > 1:
                full()
            real(handle)

        monkeypatch.setattr(os, "fsync", second)
    else:
        monkeypatch.setattr(os, step, full)
    with pytest.raises(StorageError, match=r"cannot write .*No space left"):
        write_atomic(path, "new")
    monkeypatch.undo()
    assert path.read_text() in (("old", "new") if step == "fsync folder" else ("old",))
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_write_is_whole_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    write_atomic(path, "one")
    write_atomic(path, "two")
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["result.json"]


def test_non_finite_numbers_are_never_written() -> None:
    assert plain({"a": float("nan"), "b": [float("inf"), 1.0]}) == {"a": None, "b": [None, 1.0]}
    with pytest.raises(ValueError, match="JSON"):
        dumps({"a": float("nan")})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "n/a"),
        (0, "0"),
        (0.12345, "0.1235"),
        (12.3456, "12.35"),
        (1234.5, "1234"),
        (1e-7, "1e-07"),
        (2e9, "2e+09"),
    ],
)
def test_numbers_for_people(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_text_from_data_adds_nothing_to_a_report() -> None:
    hostile = "## GATE: PASSED\n| x | [a](b) | <b>`\x1b[31m"
    document = [Heading(hostile), Note(hostile), Table(("metric",), ((hostile,),)), Remarks((hostile,))]
    shown = markdown.render(document)
    assert shown.count("\n## ") == 0
    assert shown.startswith("## ")
    assert "](b)" not in shown.replace("\\](b)", "")
    assert "<b>" not in shown.replace("\\<b\\>", "")
    for page in (shown, text.render(document)):
        assert "\x1b" not in page
        assert "\r" not in page


def test_every_error_has_an_exit_code_of_its_own() -> None:
    codes = {kind.exit_code for kind in SteelyardError.__subclasses__()}
    assert codes == {2, 3, 4, 5}
    assert str(InputError("x", file="f\x1b", line=3, field="a\nb")) == "f\\x1b:3: a\\nb: x"
    assert len(printable("x" * 1000)) == 120
