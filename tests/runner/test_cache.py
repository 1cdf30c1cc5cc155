"""The cache of replies: what is served and what never, and that it is in nobody's way, whatever happens to its file."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.runner import cache as module
from steelyard.runner.backends import Backend, Inference, Message, Options, Reply, Request, Token, backends
from steelyard.runner.cache import ReplyCache
from tests.support.places import ROOT

SECRET = "SECRET-PATIENT"


def backend(address: str = "http://127.0.0.1:9/v1", **options: Any) -> Backend:
    return backends["openai"].open(Options(base_url=address, options=options))


SERVER = backend()
ASKED = Request(
    model="m", messages=(Message(role="user", content=SECRET),), inference=Inference(temperature=0, logprobs=True)
)
GOOD = Reply(
    text="Answer: yes\ud800",
    tokens=(Token(text="yes", logprob=-0.1, top=(("yes", -0.1), ("no", -2.5))),),
    reasoning="so",
    input_tokens=3,
    output_tokens=1,
    latency_ms=12.5,
    finish="stop",
    model="m-1",
    retries=2,
)
SERVED = replace(GOOD, latency_ms=None, retries=0, cached=True)


def kept(path: Path, request: Request = ASKED, reply: Reply = GOOD, server: Backend = SERVER) -> Reply | None:
    """What the next process finds after a reply was kept."""
    with ReplyCache(path) as cache:
        cache.put(server, request, reply)
    with ReplyCache(path) as cache:
        assert cache.warnings == []
        return cache.get(server, request)


def test_a_reply_is_served_without_its_latency(tmp_path: Path) -> None:
    assert kept(tmp_path / "c.sqlite") == SERVED


def test_a_reply_is_served_before_it_is_written(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "c.sqlite") as cache:
        assert cache.get(SERVER, ASKED) is None
        cache.put(SERVER, ASKED, GOOD)
        assert cache.get(SERVER, ASKED) == SERVED
        assert cache.hits == 1


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (ASKED, Reply(failure="no text")),
        (ASKED, replace(GOOD, failure="x")),
        (ASKED, replace(GOOD, cached=True)),
        (ASKED, replace(GOOD, text=None)),
        (replace(ASKED, repeat=2), GOOD),
        (replace(ASKED, inference=Inference(temperature=0.7)), GOOD),
        (replace(ASKED, inference=Inference(seed=1)), GOOD),
        (replace(ASKED, inference=Inference()), GOOD),
    ],
)
def test_what_is_never_kept(tmp_path: Path, request_: Request, reply: Reply) -> None:
    assert kept(tmp_path / "c.sqlite", request_, reply) is None


def test_a_further_repeat_is_not_served_what_the_first_got(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    kept(path)
    with ReplyCache(path) as cache:
        assert cache.get(SERVER, replace(ASKED, repeat=2)) is None


def test_other_servers_options_models_and_settings_are_other_questions(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    kept(path)
    hot = replace(ASKED.inference, max_tokens=5)
    with ReplyCache(path) as cache:
        assert cache.get(backend("http://127.0.0.1:10/v1"), ASKED) is None
        assert cache.get(backend(reasoning_effort="low"), ASKED) is None
        assert cache.get(SERVER, replace(ASKED, model="n")) is None
        assert cache.get(SERVER, replace(ASKED, inference=hot)) is None
        assert cache.get(SERVER, replace(ASKED, schema={})) is None
        assert cache.get(backend("http://127.0.0.1:9/v1/"), replace(ASKED, item_id="other")) == SERVED


class Function:
    """A backend whose answers must not be kept."""

    def identity(self) -> Mapping[str, Any] | None:
        return None


def test_backends_may_forbid_it(tmp_path: Path) -> None:
    assert kept(tmp_path / "c.sqlite", server=Function()) is None  # type: ignore[arg-type]


def test_only_the_owner_can_read_it_and_no_question_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.sqlite"
    with ReplyCache(path) as cache:
        cache.put(SERVER, ASKED, GOOD)
        modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert all(SECRET.encode() not in file.read_bytes() for file in path.parent.iterdir())
    path.chmod(0o644)
    kept(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"nonsense" * 1_000, b"SQLite format 3\x00" + b"\xff" * 5_000])
def test_a_file_that_is_no_cache_is_set_aside_with_a_warning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    with ReplyCache(path) as cache:
        assert len(cache.warnings) == 1
        assert "set aside as c.sqlite.damaged-" in cache.warnings[0]
        cache.put(SERVER, ASKED, GOOD)
    (aside,) = tmp_path.glob("*.damaged-*")
    assert aside.read_bytes() == content
    with ReplyCache(path) as cache:
        assert cache.get(SERVER, ASKED) == SERVED


def test_a_cache_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    kept(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with ReplyCache(path) as cache:
        assert "another version" in cache.warnings[0]
        assert cache.get(SERVER, ASKED) is None


def test_damage_that_shows_while_it_is_used_is_set_aside_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with ReplyCache(path) as cache:
        for number in range(400):
            cache.put(SERVER, replace(ASKED, model=str(number)), replace(GOOD, text="x" * 500))
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(random.Random(0).randbytes(len(content) - 4096))
    path.write_bytes(content)
    with ReplyCache(path) as cache:
        assert [cache.get(SERVER, replace(ASKED, model=str(number))) for number in range(400)] == [None] * 400
        cache.put(SERVER, ASKED, GOOD)
    assert any("set aside" in warning for warning in cache.warnings)
    assert kept(path) == SERVED


@pytest.mark.parametrize("damage", ["reply = X'7B7D'", "reply = 'text'", "reply = NULL", "checksum = 0"])
def test_a_damaged_row_is_a_miss_and_counted(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.sqlite"
    kept(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE replies SET {damage}")
    with ReplyCache(path) as cache:
        assert cache.get(SERVER, ASKED) is None
        assert (cache.damaged, cache.hits) == (1, 0)
        cache.put(SERVER, ASKED, GOOD)
    with ReplyCache(path) as cache:
        assert cache.get(SERVER, ASKED) == SERVED


def test_a_place_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "c.sqlite"):
        with ReplyCache(path) as cache:
            assert "is not used" in cache.warnings[0]
            cache.put(SERVER, ASKED, GOOD)
            assert cache.get(SERVER, ASKED) in (None, SERVED)


def test_a_disk_that_refuses_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplyCache(tmp_path / "c.sqlite") as cache:

        def full(*_: Any) -> Any:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(module, "_connected", full)
        cache.put(SERVER, ASKED, GOOD)
    assert cache.warnings == [f"the cache {tmp_path}/c.sqlite is not written any more (database or disk is full)"]


def test_a_writer_elsewhere_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    kept(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ReplyCache(path) as cache:
        other.execute("BEGIN IMMEDIATE")
        assert cache.get(SERVER, ASKED) == SERVED
        cache.put(SERVER, replace(ASKED, model="n"), GOOD)
        assert cache.get(SERVER, replace(ASKED, model="n")) == SERVED
        other.execute("ROLLBACK")
    with ReplyCache(path) as cache:
        assert cache.get(SERVER, replace(ASKED, model="n")) == SERVED


CHILD = """
import sys
from steelyard.runner.backends import *
from steelyard.runner.cache import ReplyCache

server = backends["openai"].open(Options(base_url="http://127.0.0.1:9/v1"))
with ReplyCache(sys.argv[1]) as cache:
    print("open", *cache.warnings, flush=True)
    number = 0
    while True:
        asked = Request(model=str(number), messages=(), inference=Inference(temperature=0))
        found = cache.get(server, asked)
        assert found is None or found.text == f"reply {number}", "another's reply"
        cache.put(server, asked, Reply(text=f"reply {number}"))
        number = (number + 1) % 3_000
        if number % 500 == 0:
            print(number, flush=True)
"""


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])


@pytest.mark.slow
def test_killed_at_any_moment_it_is_whole(tmp_path: Path) -> None:
    path, rng = tmp_path / "c.sqlite", random.Random(0)
    for cycle in range(8):
        worker = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
        time.sleep(rng.uniform(0, 0.5))
        while cycle == 7 and not rows(path):  # at least once something was written
            time.sleep(0.01)
        worker.send_signal(signal.SIGKILL)
        _, problem = worker.communicate()
        assert problem == ""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert rows(path)
