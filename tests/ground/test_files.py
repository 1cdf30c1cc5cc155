"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError
from steelyard.ground.files import write_atomic

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
