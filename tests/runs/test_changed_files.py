"""Files of a run that were changed: named, and used for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError
from steelyard.runs.run_json import read_run
from tests.support.commands import steelyard
from tests.support.stores import (
    FOREIGN,
    call,
    edit,
    foreign,
    kept,
    listed,
    problems,
    raised,
    with_records,
)


def refused_everywhere(root: Path, run_id: str) -> str:
    """Let every command that uses a run refuse it; what they say."""
    commands = (
        ("runs", "show", run_id),
        ("runs", "promote", run_id, "--metric", "accuracy"),
        ("runs", "promote", run_id),
        ("runs", "pin", run_id, "--as", "anchor"),
        ("gate", "--run", run_id, "--rule", "accuracy >= 0"),
        ("gate", "--run", "good", "--baseline", run_id, "--rule", "accuracy >= 0"),
    )
    said = []
    for command in commands:
        with pytest.raises(StorageError) as refused:
            call(*command, "--root", root)
        assert refused.value.exit_code == 5
        said.append(str(refused.value))
    assert not list((root / "results/evaluation").glob("active/*/*.json"))
    assert len(set(said)) == 1, said
    return said[0]


@pytest.mark.parametrize("file", ["evaluation.json", "evidence.npz", "records.parquet"])
@pytest.mark.parametrize("change", ["flipped", "cut", "emptied", "removed", "longer"])
def test_a_file_that_was_changed_is_named_and_its_run_is_used_for_nothing(
    tmp_path: Path, file: str, change: str
) -> None:
    kept(tmp_path, "good")
    path = with_records(tmp_path) / file
    data = path.read_bytes()
    middle = len(data) // 2
    changed = {
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "cut": data[:-1],
        "emptied": b"",
        "longer": data + b"\n",
    }
    path.write_bytes(changed.get(change, b""))
    if change == "removed":
        path.unlink()
    said = refused_everywhere(tmp_path, "run")
    assert "run run: " in said
    assert file in said
    call("runs", "show", "good", "--root", tmp_path)
    assert "good" in listed(tmp_path)


def test_every_flipped_bit_of_a_run_json_is_noticed(tmp_path: Path) -> None:
    folder = kept(tmp_path, "run")
    path = folder / "run.json"
    data, run = path.read_bytes(), read_run(folder)
    unnoticed: list[int] = []
    for position in range(len(data)):
        for bit in (1, 32):
            path.write_bytes(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :])
            read: list[Any] = []
            problem = raised(lambda read=read: read.append(read_run(folder)))
            assert problem is None or "run run: " in str(problem)
            if read and read != [run]:
                unnoticed.append(position)
    assert [data[max(position - 20, 0) : position + 1] for position in unnoticed] == []


def hand_edits() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Edits of a run.json: what they do, by the field that the message names."""
    return {
        "Digest: a metric": lambda d: d["Metrics"].update(accuracy=0.99),
        "Digest: a metric more": lambda d: d["Metrics"].update(f1_macro=0.99),
        "Digest: a metric less": lambda d: d["Metrics"].clear(),
        "Digest: no number": lambda d: d["Metrics"].update(accuracy=float("nan")),
        "Digest: infinite": lambda d: d["Metrics"].update(accuracy=float("inf")),
        "Digest: null": lambda d: d["Metrics"].update(accuracy=None),
        "Digest: an interval": lambda d: d["Intervals"].update(accuracy=[0.9, 1.0]),
        "Digest: a label": lambda d: d["Labels"].update(model="better"),
        "Digest: a time": lambda d: d.update(CompletedAtUtc="2030-01-01T00:00:00Z"),
        "Digest: another id": lambda d: d.update(RunId="another"),
        "Digest: a file's digest": lambda d: d["Files"].update({"evidence.npz": "0" * 64}),
        "Digest: a file less": lambda d: d["Files"].pop("evidence.npz"),
        "Digest: a field more": lambda d: d.update(Approved=True),
        "Digest: emptied": lambda d: d.update(Digest=""),
        "Digest: null digest": lambda d: d.update(Digest=None),
        "Digest: removed": lambda d: (d.pop("Digest"), d["Metrics"].update(accuracy=0.99)),
        "SchemaVersion: future": lambda d: d.update(SchemaVersion="2"),
        "SchemaVersion: far": lambda d: d.update(SchemaVersion="1.1"),
    }


@pytest.mark.parametrize("what", hand_edits())
def test_an_edited_run_json_is_named_with_its_field_and_used_for_nothing(tmp_path: Path, what: str) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "run")
    edit(folder, hand_edits()[what])
    assert listed(tmp_path) == ["good"]
    said = refused_everywhere(tmp_path, "run")
    assert said == problems(tmp_path)["run"]
    assert said.startswith(f"run run: {what.partition(':')[0]}: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b'"text"', b"{}}", b"\xff\xfe{\x00}\x00", b"\x00" * 100, b"[" * 100_000, b"cut"],
    ids=["empty", "torn", "null", "list", "text", "more", "utf-16", "zeros", "deep", "cut"],
)
def test_a_run_json_that_is_none_is_named_and_its_run_is_used_for_nothing(tmp_path: Path, content: bytes) -> None:
    kept(tmp_path, "good")
    path = kept(tmp_path, "run") / "run.json"
    path.write_bytes(path.read_bytes()[:-40] if content == b"cut" else content)
    assert listed(tmp_path) == ["good"]
    said = refused_everywhere(tmp_path, "run")
    assert said.startswith("run run: run.json: ")


@pytest.mark.parametrize("instead", ["nothing", "a folder"])
def test_a_folder_without_a_run_json_is_named(tmp_path: Path, instead: str) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "run")
    (folder / "run.json").unlink()
    if instead == "a folder":
        (folder / "run.json").mkdir()
    assert listed(tmp_path) == ["good"]
    assert refused_everywhere(tmp_path, "run").startswith("run run: run.json cannot be read")


def test_the_command_line_ends_with_5_and_one_line_that_names_the_run(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    edit(kept(tmp_path, "run"), lambda d: d["Metrics"].update(accuracy=0.99))
    done = steelyard("runs", "show", "run", "--root", tmp_path)
    assert done.returncode == 5
    assert done.stderr == "steelyard: error: run run: Digest: the file was changed after it was written\n"
    done = steelyard("runs", "list", "--root", tmp_path, "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert [run["run_id"] for run in document["runs"]] == ["good"]
    assert [problem["run"] for problem in document["problems"]] == ["run"]
    assert "0.99" not in done.stdout


WRONG = [
    ("SchemaVersion", "2"),
    ("SchemaVersion", 2),
    ("SchemaVersion", [1]),
    ("SchemaVersion", {"a": 1}),
    ("RunId", 5),
    ("RunId", ["a"]),
    ("Workflow", {}),
    ("Tenant", 3),
    ("StartedAtUtc", 20260103),
    ("StartedAtUtc", "yesterday"),
    ("StartedAtUtc", "2026-13-01T00:00:00Z"),
    ("StartedAtUtc", "0001-01-01T00:00:00+23:00"),
    ("CompletedAtUtc", "9999-12-31T23:59:59-23:00"),
    ("CompletedAtUtc", True),
    ("Complete", "false"),
    ("Complete", 0),
    ("Labels", ["a"]),
    ("Labels", "a=b"),
    ("Metrics", [0.5]),
    ("Metrics", 0.5),
    ("Metrics", {"ndcg@3": "0.5"}),
    ("Metrics", {"ndcg@3": True}),
    ("Metrics", {"ndcg@3": {"value": 0.5}}),
    ("Metrics", {"ndcg@3": [0.5]}),
    ("Intervals", {"ndcg@3": 0.5}),
    ("Intervals", {"ndcg@3": [0.5]}),
    ("Intervals", {"ndcg@3": ["0", "1"]}),
    ("Intervals", [0.1, 0.9]),
    ("Counts", {"ndcg@3": "many"}),
    ("Counts", 7),
    ("Better", "higher"),
    ("Files", ["evidence.npz"]),
    ("Inputs", 5),
    ("Inputs", True),
    ("Inputs", "answers.jsonl"),
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda v: json.dumps(v))
@pytest.mark.parametrize("sealed", [False, True], ids=["theirs", "ours"])
def test_a_field_of_the_wrong_type_is_named_with_its_run_and_hides_no_other(
    tmp_path: Path, field: str, value: Any, sealed: bool
) -> None:
    kept(tmp_path, "good")
    if sealed:
        edit(kept(tmp_path, "bad"), lambda d: d.update({field: value}), sealed=True)
    else:
        foreign(tmp_path, {**FOREIGN, field: value}, "bad")
    assert listed(tmp_path) == ["good"]
    named = {field.lower()} if sealed else {field.lower(), "digest"}  # a field of ours without our digest
    assert re.split(r"[:.] ?", problems(tmp_path)["bad"])[1].lower() in named
    assert call("gate", "--run", "good", "--rule", "accuracy >= 0", "--root", tmp_path) == 0


@pytest.mark.parametrize("version", ["2", 2, "1.1", "99", 0])
def test_a_version_from_the_future_is_refused_with_the_ones_that_are_read(tmp_path: Path, version: Any) -> None:
    folder = foreign(tmp_path, {**FOREIGN, "SchemaVersion": version})
    with pytest.raises(StorageError, match=f"SchemaVersion: version {version}; this program reads 1$"):
        read_run(folder)
