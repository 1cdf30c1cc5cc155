"""Rows of a journal are there whole or not at all, whatever happens to the process, the disk or the file."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import StorageError
from steelyard.ground import journal as module
from steelyard.ground.journal import Journal, Rows, is_journal
from tests.support.places import ROOT


def written(path: Path, *rows: dict[str, Any]) -> bytes:
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    return path.read_bytes()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
payloads = st.dictionaries(st.text(), values, max_size=4)


@given(st.lists(payloads, max_size=8))
def test_rows_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    written(path, *rows)
    reading = Rows(path)
    assert list(reading) == rows
    assert reading.torn == 0


def test_line_separators_stay_in_their_row(tmp_path: Path) -> None:
    rows = [{"text": "\u2028 \n \x00 \x1b"}, {"text": "ä"}]
    written(tmp_path / "j", *rows)
    assert list(Rows(tmp_path / "j")) == rows


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "running" / "run" / "journal"
    written(path, {"a": 1})
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    written(path, {"a": 2})
    assert path.stat().st_mode & 0o777 == 0o600


def test_wherever_the_last_row_is_cut_the_others_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "j"
    content = written(path, {"n": 1}, {"n": 2}, {"n": 3, "text": "ä" * 5})
    start = content.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(content)):
        path.write_bytes(content[:end])
        reading = Rows(path)
        assert [row["n"] for row in reading] == [1, 2]
        assert reading.torn == end - start
        with Journal(path) as journal:
            assert journal.torn == end - start
            journal.append({"n": 4})
        assert [row["n"] for row in Rows(path)] == [1, 2, 4]


@pytest.mark.parametrize("tail", [b"\x00" * 5_000, b"\n\n\n", b"00000000 {}\n", b"\xff\n" * 40])
def test_a_tail_of_anything_is_no_row(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "j"
    whole = written(path, {"n": 1})
    path.write_bytes(whole + tail)
    reading = Rows(path)
    assert list(reading) == [{"n": 1}]
    assert (reading.torn, reading.whole) == (len(tail), len(whole))


def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    content = written(path, {"n": 1}, {"n": 2, "text": "SECRET"}, {"n": 3})
    changed = content.replace(b"SECRET", b"SECReT")
    path.write_bytes(changed)
    with pytest.raises(StorageError, match=r"j:2: the row was damaged") as caught:
        list(Rows(path))
    assert "SEC" not in str(caught.value)
    with pytest.raises(StorageError, match=r"j:2: the row was damaged"):
        Journal(path)
    assert path.read_bytes() == changed


def test_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with Journal(tmp_path / "j") as journal:
        with pytest.raises(StorageError, match="locked"):
            Journal(tmp_path / "j")
        journal.append({"n": 1})
        journal.flush()
        assert list(Rows(tmp_path / "j")) == [{"n": 1}]
    written(tmp_path / "j", {"n": 2})
    with pytest.raises(StorageError, match="closed"):
        journal.append({"n": 3})
    assert list(Rows(tmp_path / "j")) == [{"n": 1}, {"n": 2}]


def test_many_threads_append(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for place in range(300):
            journal.append({"thread": number, "place": place})
            if place % 100 == 99:
                journal.flush()
                assert journal.synced >= 100

    with Journal(tmp_path / "j") as journal:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [(row["thread"], row["place"]) for row in Rows(tmp_path / "j")]
    assert sorted(rows) == [(number, place) for number in range(8) for place in range(300)]
    assert all([place for thread, place in rows if thread == number] == list(range(300)) for number in range(8))


def test_rows_reach_the_disk_without_being_flushed(tmp_path: Path) -> None:
    synced = threading.Event()
    real = os.fsync

    with Journal(tmp_path / "j") as journal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.os, "fsync", lambda handle: (real(handle), synced.set()))
        journal.append({"n": 1})
        assert synced.wait(300)
        assert list(Rows(tmp_path / "j")) == [{"n": 1}]


def test_a_row_is_in_the_file_when_it_was_appended(tmp_path: Path) -> None:
    may_sync = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.os, "fsync", lambda _: may_sync.wait(300))
        may_sync.set()
        with Journal(tmp_path / "j") as journal:
            may_sync.clear()
            for n in range(3):
                journal.append({"n": n})
                assert list(Rows(tmp_path / "j")) == [{"n": each} for each in range(n + 1)]
            assert journal.synced == 0
            may_sync.set()


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half(handle: int, data: bytes) -> int:
    """A disk that takes a part, then no more."""
    os.pwrite(handle, data[: len(data) // 2], os.fstat(handle).st_size)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _added(journal: Journal, row: dict[str, Any]) -> None:
    """A write is refused when a row is appended, a sync when it is flushed."""
    journal.append(row)
    journal.flush()


@pytest.mark.parametrize(("use", "fails"), [("write", full), ("write", half), ("fsync", full)])
def test_a_full_disk_is_said_and_costs_nothing_that_was_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, fails: Callable[..., int]
) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append({"n": 1})
    journal.flush()
    with monkeypatch.context() as patch:
        patch.setattr(module.os, use, fails)
        with pytest.raises(StorageError, match=r"no space left on device.*the last row is not") as caught:
            _added(journal, {"n": 2, "text": "SECRET"})
        assert "SECRET" not in str(caught.value)
    with pytest.raises(StorageError, match="no space"):
        journal.append({"n": 3})
    with pytest.raises(StorageError, match="no space"):
        journal.close()
    assert list(Rows(path)) == [{"n": 1}]
    written(path, {"n": 4})
    assert list(Rows(path)) == [{"n": 1}, {"n": 4}]


def test_a_full_disk_takes_no_row_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    real = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", lambda handle: (time.sleep(0.3), real(handle))[1])
        journal = Journal(path)
        for n in range(600):
            journal.append({"n": n})
        patch.setattr(module.os, "write", full)
        with pytest.raises(StorageError, match=r"the last (row is|\d+ rows are) not"):
            journal.append({"n": 600})
    with pytest.raises(StorageError, match="the last row is not"):
        journal.close()
    assert journal.synced == 600
    assert [row["n"] for row in Rows(path)] == list(range(600))


def test_writes_in_pieces_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(module.os, "write", lambda handle, data: real(handle, data[:7]))
    written(tmp_path / "j", {"n": 1}, {"n": 2})
    assert list(Rows(tmp_path / "j")) == [{"n": 1}, {"n": 2}]


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        list(Rows(tmp_path / "none"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        Journal(tmp_path / "folder")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        Journal(tmp_path / "file" / "j")


def test_a_journal_is_known_by_its_first_row(tmp_path: Path) -> None:
    written(tmp_path / "j", {"n": 1})
    (tmp_path / "lines").write_text('{"n": 1}\n')
    assert is_journal(tmp_path / "j")
    assert not is_journal(tmp_path / "lines")
    assert not is_journal(tmp_path / "none")


WRITER = """
import sys
from steelyard.ground.journal import Journal, Rows

path, size = sys.argv[1:]
with Journal(path) as journal:
    number = sum(1 for _ in Rows(path))
    print(number, flush=True)
    while True:
        for _ in range(int(size)):
            journal.append({"n": number, "text": "x" * (number % 3000)})
            number += 1
        journal.flush()
        print(number, flush=True)
"""


def test_killed_at_any_moment_every_flushed_row_is_there_once(tmp_path: Path) -> None:
    path, rng, flushed = tmp_path / "j", random.Random(0), 0
    for cycle in range(12):
        command = [sys.executable, "-c", WRITER, str(path), str(rng.choice((1, 3, 50)))]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert worker.stdout is not None
        for _ in range(rng.randrange(1, 20)):
            flushed = int(worker.stdout.readline())
        threading.Event().wait(rng.uniform(0, 0.02))
        worker.send_signal(signal.SIGKILL)
        rest, _ = worker.communicate()
        flushed = int([str(flushed), *rest.split()][-1])
        numbers = [row["n"] for row in Rows(path)]
        assert numbers == list(range(len(numbers))), cycle
        assert len(numbers) >= flushed


def test_what_a_row_looks_like(tmp_path: Path) -> None:
    line = written(tmp_path / "j", {"item": "q1", "x": float("nan")})
    assert line[8:] == b' {"item":"q1","x":null}\n'
    assert json.loads(line[9:]) == {"item": "q1", "x": None}


def test_half_a_character_in_an_earlier_journal_is_its_escape(tmp_path: Path) -> None:
    data = json.dumps({"text": "a\ud800b"}).encode()
    (tmp_path / "j").write_bytes(b"%08x %s\n" % (zlib.crc32(data), data))
    assert list(Rows(tmp_path / "j")) == [{"text": "a\\ud800b"}]
