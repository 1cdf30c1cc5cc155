"""Links in a store: nothing is read, listed or written through them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.errors import StorageError
from steelyard.runs.saved import SavedRun
from tests.support.stores import (
    FOREIGN,
    PARTS,
    RUNS,
    foreign,
    kept,
    leftovers,
    linked,
    listed,
    problems,
    tree,
)


@pytest.mark.parametrize("part", PARTS)
def test_what_is_behind_a_link_is_not_listed(tmp_path: Path, part: str) -> None:
    root = tmp_path / "store"
    kept(root, "run", tenant="acme")
    linked(root, part)
    assert listed(root) == []


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_written_through_a_link(tmp_path: Path, part: str) -> None:
    root = tmp_path / "store"
    kept(root, "run", tenant="acme")
    away = linked(root, part)
    before = tree(away)
    with pytest.raises(StorageError, match=r"link|there already"):
        kept(root, "run", tenant="acme")
    if not part.endswith("/run"):
        with pytest.raises(StorageError, match="is a link"):
            kept(root, "new", tenant="acme")
    assert tree(away) == before
    assert leftovers(away) == []


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    root = tmp_path / "store"
    kept(root, "run")
    (root / RUNS / "Triage" / "new").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="is a link"):
        kept(root, "new")
    assert not (tmp_path / "nowhere").exists()


def test_a_run_json_that_is_a_link_is_named_and_not_read(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    folder = kept(tmp_path, "linked")
    os.rename(folder / "run.json", tmp_path / "elsewhere.json")
    (folder / "run.json").symlink_to(tmp_path / "elsewhere.json")
    assert listed(tmp_path) == ["good"]
    assert "linked" in problems(tmp_path)["linked"]


def test_a_pipe_in_the_place_of_a_run_json_does_not_stop_the_list(tmp_path: Path) -> None:
    kept(tmp_path, "good")
    folder = tmp_path / RUNS / "Triage" / "pipe"
    folder.mkdir()
    os.mkfifo(folder / "run.json")
    command = [str(Path(sys.executable).with_name("steelyard")), "runs", "list", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "good" in done.stdout
    assert "pipe" in done.stdout


def test_files_beside_a_run_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    for number, name in enumerate(("../../../../../secret", str(tmp_path / "secret"))):
        folder = foreign(tmp_path, {**FOREIGN, "RunId": f"theirs{number}", "Files": {name: digest}}, f"theirs{number}")
        with pytest.raises(StorageError):
            SavedRun.at(folder).verify()
