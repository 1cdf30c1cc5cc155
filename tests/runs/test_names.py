"""Names of runs, workflows and tenants: hostile ones are refused, plain ones are found again."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import SteelyardError, StorageError, UsageError
from steelyard.ground.files import write_folder
from steelyard.runs.layout import Scope, checked
from steelyard.runs.saved import Clock, save
from tests.support.answers import lines
from tests.support.stores import (
    RUNS,
    call,
    found,
    kept,
    listed,
    problems,
    raised,
    small,
    tree,
)

HOSTILE = (
    "", ".", "..", "../up", "a/b", "/etc", "a\\b", "a\0b", "\0", "a\nb", "a b", " a", "a ", "a..b", "a.", "...",
    ".hidden", "-option", "+plus", "_under", "a" * 101, "a" * 5000, "Τriage", "tri\u0430ge", "Trïage", "\u212a", "１",
    "a\u202eb", "a\u200bb", "\ud800", "\udcff", "~", "$HOME", "a:b", "a*", "a?", "a|b", "a;b", "a%2f", "CON\t",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    root = tmp_path / "store"
    for make in (
        lambda: kept(root, "run", name),
        lambda: kept(root, "run", tenant=name),
        lambda: Scope(root, domain=name),
        lambda: Scope(root).run("Triage", name),
    ):
        with pytest.raises(UsageError, match="is not a plain name") as refused:
            make()
        assert refused.value.exit_code == 2
        assert str(refused.value).isprintable()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_a_hostile_run_id_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="the run id"):
        kept(tmp_path / "store", name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("option", ["--tenant", "--domain", "--workflow", "--run-id"])
def test_the_command_refuses_a_hostile_name(tmp_path: Path, option: str) -> None:
    rows = [{"item": f"q{i}", "target": "yes", "prediction": "yes"} for i in range(8)]
    (tmp_path / "answers.jsonl").write_text(lines(rows))
    arguments = (
        "evaluate",
        tmp_path / "answers.jsonl",
        "-m",
        "accuracy",
        "--resamples",
        0,
        "--save",
        "--root",
        tmp_path,
    )
    with pytest.raises(UsageError, match="is not a plain name"):
        call(*arguments, option, "../../up")
    assert os.listdir(tmp_path) == ["answers.jsonl"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "show", "{}"),
        ("runs", "list", "--tenant", "{}"),
        ("runs", "list", "--workflow", "{}"),
        ("runs", "compare", "--metric", "{}"),
        ("runs", "metrics", "--metric", "{}"),
        ("gate", "--run", "{}", "--rule", "accuracy >= 0"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_name_that_is_no_text_at_all_finds_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    kept(tmp_path, "good")
    for name in ("\udcff", "a\udc80b"):
        problem = raised(lambda name=name: call(*(a.format(name) for a in arguments), "--root", tmp_path))
        assert problem is None or isinstance(problem, SteelyardError)


@given(st.one_of(st.text(max_size=120), st.from_regex(r"[A-Za-z0-9._+/\\-]{1,12}", fullmatch=True)))
def test_a_name_that_passes_is_one_folder_below_its_place(name: str) -> None:
    root = Path("/nowhere/at/all")
    try:
        folder = Scope(root, tenant=name).run(name, name)
    except UsageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._+-]{1,100}", name)
    assert os.path.normpath(folder) == str(folder)
    assert folder.relative_to(root).parts == ("results", "evaluation", "tenants", name, "runs", name, name)
    assert checked("anything", name) == name


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", fullmatch=True))
def test_a_plain_name_is_kept_and_found_again_and_its_other_cases_are_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if ".." in name or name.endswith("."):
        return
    root = tmp_path_factory.mktemp("names")
    path = kept(root, name, name, tenant=name)
    assert listed(root) == [name]
    assert found(root, name) == path
    other = name.swapcase()
    if other != name:
        for places in ((other, name, name), (name, other, name), (name, name, other)):
            with pytest.raises(StorageError, match="in case only"):
                kept(root, places[0], places[1], tenant=places[2])
        assert listed(root) == [name]


@pytest.mark.parametrize(("first", "second"), [("Triage", "triage"), ("triage", "TRIAGE")])
def test_names_that_differ_in_case_only_are_refused(tmp_path: Path, first: str, second: str) -> None:
    kept(tmp_path, "run", first)
    before = tree(tmp_path)
    with pytest.raises(StorageError, match=f"'{second}' differs from '{first}' in case only"):
        kept(tmp_path, "other", second)
    with pytest.raises(StorageError, match="in case only"):
        save(Scope(tmp_path, "Evaluation"), small(), workflow=first, clock=Clock())
    assert tree(tmp_path) == before


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    kept(tmp_path, "run")
    before = tree(tmp_path)
    with pytest.raises(StorageError, match="there already"):
        kept(tmp_path, "run", no_every=5)
    with pytest.raises(StorageError, match="there already"):
        write_folder(tmp_path / RUNS / "Triage" / "run", {})
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["v1..v2", "old.", ".hidden", "-x", "with space", "Größe", "a" * 101])
@pytest.mark.parametrize(
    "place", ["results", "results/evaluation/tenants", "results/evaluation/runs", "results/evaluation/runs/Triage"]
)
def test_other_folders_in_the_store_do_not_stop_the_list(tmp_path: Path, place: str, name: str) -> None:
    kept(tmp_path, "good")
    (tmp_path / place / name / "runs" / "w" / "r").mkdir(parents=True)
    (tmp_path / place / "a-file").write_text("")
    assert "good" in listed(tmp_path)


def test_unfinished_folders_are_no_runs(tmp_path: Path) -> None:
    folder = kept(tmp_path, "good")
    shutil.copytree(folder, folder.with_name(".good.0123456789ab"))
    shutil.copytree(folder.parent, folder.parent.with_name(".Triage"))
    assert listed(tmp_path) == ["good"]
    assert problems(tmp_path) == {}


def test_ids_are_found_whole_or_by_their_beginning(tmp_path: Path) -> None:
    for name in ("abcd1", "abcd2", "efgh"):
        kept(tmp_path, name)
    assert found(tmp_path, "abcd1").name == "abcd1"
    assert found(tmp_path, "efgh").name == "efgh"
    assert found(tmp_path, "abcd2").name == "abcd2"
    for name, problem in {
        "abcd": "2 runs",
        "efg": "no run here",
        "zzzz": "no run",
        "%": "no run",
        "": "no run",
    }.items():
        with pytest.raises(UsageError, match=problem):
            found(tmp_path, name)


def test_a_whole_id_is_found_however_many_others_begin_with_it(tmp_path: Path) -> None:
    for i in range(25):
        kept(tmp_path, f"run-{i}", "Alpha")
    kept(tmp_path, "run", "Beta")
    assert found(tmp_path, "run").name == "run"
    with pytest.raises(UsageError, match="25 runs"):
        found(tmp_path, "run-")


def test_a_damaged_run_is_not_mistaken_for_another_whose_id_begins_with_its_own(tmp_path: Path) -> None:
    folder = kept(tmp_path, "base")
    kept(tmp_path, "base-2")
    (folder / "run.json").write_text("{}}")
    with pytest.raises(StorageError, match=r"run base: run\.json"):
        found(tmp_path, "base")
