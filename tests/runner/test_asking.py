"""The engine: bounds per server, servers at the same time, what is cached when, what stops it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from steelyard.errors import BackendError
from steelyard.ground.journal import Journal, Rows
from steelyard.ground.loops import Loop
from steelyard.runner import asking as asking_
from steelyard.runner.asking import Asking, opened_backends
from steelyard.runner.backends import Finding, Options, Reply, Request, backends
from steelyard.runner.cache import ReplyCache
from steelyard.runner.plan import Plan, planned
from steelyard.runner.recorded import Standing
from steelyard.runner.spec import load_spec


class Watched:
    """A backend that counts who is asked what, and how many at once; `refuses` models raise."""

    in_flight: Counter[str | None]
    most: Counter[str | None]
    together: int
    asked: list[Request]
    refuses: set[str]
    opened: int

    def __init__(self, options: Options) -> None:
        self.options = options
        type(self).opened += 1

    @classmethod
    def reset(cls) -> None:
        cls.in_flight, cls.most, cls.asked, cls.refuses = Counter(), Counter(), [], set()
        cls.together = cls.opened = 0

    @classmethod
    def open(cls, options: Options) -> Self:
        return cls(options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def identity(self) -> Mapping[str, Any]:
        return {"base_url": self.options.base_url}

    def counts(self) -> Mapping[str, int]:
        return {}

    async def ask(self, request: Request) -> Reply:
        where, kind = self.options.base_url, type(self)
        kind.asked.append(request)
        kind.in_flight[where] += 1
        kind.most[where] = max(kind.most[where], kind.in_flight[where])
        kind.together = max(kind.together, sum(n > 0 for n in kind.in_flight.values()))
        try:
            await asyncio.sleep(0.001)
            if request.model in kind.refuses:
                raise BackendError("the key is wrong")
            return Reply(text="Answer: yes", latency_ms=1.0, input_tokens=1, output_tokens=1)
        finally:
            kind.in_flight[where] -= 1

    async def check(self, model: str) -> tuple[Finding, ...]:
        return ()


@pytest.fixture(autouse=True)
def _watched() -> Iterator[None]:
    Watched.reset()
    backends.add("watched", Watched)
    yield
    backends.remove("watched")


def plan(folder: Path, *models: tuple[str, str], **more: Any) -> Plan:
    rows = [{"n": n, "text": f"text {n}", "label": ("yes", "no")[n % 2]} for n in range(20)]
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "t", "data": "d.jsonl", "id": "n", "question": "text", "target": "label", "labels": ["yes", "no"]}
    (folder / "t.task.yaml").write_text(json.dumps(task))
    named = [{"name": name, "backend": "watched", "base_url": url, "price": {"input": 1e6}} for name, url in models]
    spec = {"id": "s", "task": "t.task.yaml", "models": named, "limits": {"concurrency": 4}, **more}
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return planned(load_spec(folder / "spec.yaml"))


def asked(plan: Plan, folder: Path, *, cache: Path | None = None, **more: Any) -> Asking:
    """A run until its end."""
    standing = Standing.of(plan, folder / "journal")
    kept = ReplyCache(cache) if cache else None
    with Journal(folder / "journal") as journal, Loop() as loop:
        asking = Asking(
            plan=plan,
            backends=opened_backends(plan, {}),
            journal=journal,
            cache=kept,
            is_done=standing.is_done,
            tallies=standing.tallies,
            session=standing.sessions + 1,
            **more,
        )
        loop.run(asking.run())
    if kept is not None:
        kept.close()
    return asking


def test_models_on_one_server_share_its_bound_and_servers_are_asked_at_the_same_time(tmp_path: Path) -> None:
    asked(plan(tmp_path, ("a", "one"), ("b", "one"), ("c", "two")), tmp_path)
    assert Watched.most == {"one": 4, "two": 4}
    assert Watched.together == 2
    assert Watched.opened == 2
    assert Counter(request.model for request in Watched.asked) == {"a": 20, "b": 20, "c": 20}


def test_models_that_differ_in_options_still_share_the_bound(tmp_path: Path) -> None:
    both = plan(tmp_path, ("a", "one"), ("b", "one"))
    spec = json.loads((tmp_path / "spec.yaml").read_text())
    spec["models"][1]["options"] = {"effort": "low"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    asked(planned(load_spec(tmp_path / "spec.yaml")), tmp_path)
    assert both.count == 40
    assert Watched.opened == 2
    assert Watched.most == {"one": 4}


def test_a_broken_circuit_leaves_no_rows_and_others_alone(tmp_path: Path) -> None:
    Watched.refuses = {"a"}
    found = asked(plan(tmp_path, ("a", "one"), ("b", "two")), tmp_path)
    assert found.broken == {"a": "the key is wrong"}
    assert Counter(row["model"] for row in Rows(tmp_path / "journal")) == {"b": 20}
    assert sum(request.model == "a" for request in Watched.asked) <= 4
    Watched.refuses = set()
    again = asked(plan(tmp_path, ("a", "one"), ("b", "two")), tmp_path)
    assert again.broken == {}
    assert Counter(row["model"] for row in Rows(tmp_path / "journal")) == {"a": 20, "b": 20}


def test_one_address_is_one_server_however_it_is_written(tmp_path: Path) -> None:
    Watched.refuses = {"a", "b", "c"}
    three = plan(tmp_path, ("a", "one"), ("b", "one/"), ("c", "one"))
    spec = json.loads((tmp_path / "spec.yaml").read_text())
    spec["models"][2]["options"] = {"effort": "low"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    found = asked(planned(load_spec(tmp_path / "spec.yaml")), tmp_path)
    assert three.count == 60
    assert set(found.broken) == {"a", "b", "c"}
    assert len(Watched.asked) <= 4


def test_a_reply_that_was_cut_off_is_asked_again_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Reply(text="", finish="length")

    async def ask(self: Watched, request: Request) -> Reply:
        Watched.asked.append(request)
        return cut

    monkeypatch.setattr(Watched, "ask", ask)
    for _ in range(2):
        asked(plan(tmp_path, ("a", "one")), tmp_path, cache=tmp_path / "cache")
        (tmp_path / "journal").unlink()
    assert len(Watched.asked) == 40


def test_without_texts_a_row_has_nothing_that_a_server_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Reply(text="MARK", reasoning="MARK", finish="a MARK", model="MARK", input_tokens=1)

    async def ask(self: Watched, request: Request) -> Reply:
        return told

    monkeypatch.setattr(Watched, "ask", ask)
    asked(plan(tmp_path, ("a", "one")), tmp_path, keeps_texts=False)
    assert b"MARK" not in (tmp_path / "journal").read_bytes()


def test_equal_questions_of_one_run_are_asked_each(tmp_path: Path) -> None:
    twins = plan(tmp_path, ("a", "one"))
    rows = [{"n": n, "text": "the same", "label": "yes"} for n in range(20)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    twins = planned(load_spec(tmp_path / "spec.yaml"))
    found = asked(twins, tmp_path, cache=tmp_path / "cache")
    assert len(Watched.asked) == 20
    assert found.tallies["a"].cached == 0


def test_a_limit_of_cost_needs_counts_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(self: Watched, request: Request) -> Reply:
        Watched.asked.append(request)
        return Reply(text="Answer: yes")

    monkeypatch.setattr(Watched, "ask", ask)
    found = asked(plan(tmp_path, ("a", "one"), limits={"concurrency": 2, "max_cost": 7}), tmp_path)
    assert "without counts of tokens" in found.broken["a"]
    assert len(Watched.asked) <= 4


def test_a_model_that_is_computed_here_is_given_up_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "computes_here", True, raising=False)
    Watched.refuses = {"a"}
    plan(tmp_path, ("a", "one"), ("b", "one"))
    spec = json.loads((tmp_path / "spec.yaml").read_text())
    spec["models"][1]["options"] = {"gguf": "other"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    found = asked(planned(load_spec(tmp_path / "spec.yaml")), tmp_path)
    assert set(found.broken) == {"a"}


def test_the_limit_of_cost_ends_it(tmp_path: Path) -> None:
    found = asked(plan(tmp_path, ("a", "one"), limits={"concurrency": 2, "max_cost": 7}), tmp_path)
    assert found.spent
    assert 7 <= len(Watched.asked) <= 8  # one more was on its way


def test_only_the_first_repeat_of_a_deterministic_request_is_served(tmp_path: Path) -> None:
    both = plan(tmp_path, ("a", "one"), repeat=2)
    asked(both, tmp_path, cache=tmp_path / "cache")
    (tmp_path / "journal").unlink()
    Watched.reset()
    asked(both, tmp_path, cache=tmp_path / "cache")
    assert Counter(request.repeat for request in Watched.asked) == {2: 20}
    warm = plan(tmp_path, ("a", "one"), inference={"temperature": 0.5})
    for _ in range(2):
        (tmp_path / "journal").unlink()
        Watched.reset()
        asked(warm, tmp_path, cache=tmp_path / "cache")
        assert len(Watched.asked) == 20


def test_texts_that_are_not_kept_are_in_no_cache_either(tmp_path: Path) -> None:
    asked(plan(tmp_path, ("a", "one")), tmp_path, cache=tmp_path / "cache", keeps_texts=False)
    assert all(b"Answer" not in path.read_bytes() for path in tmp_path.glob("cache*"))
    assert all("text" not in row["reply"] for row in Rows(tmp_path / "journal"))
    assert all(row["parsed"]["prediction"] == "yes" for row in Rows(tmp_path / "journal"))


def test_what_the_journal_has_not_got_the_cache_has_not_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "synced", property(lambda self: 0))
    asked(plan(tmp_path, ("a", "one")), tmp_path, cache=tmp_path / "cache")
    with ReplyCache(tmp_path / "cache") as cache:
        backend = Watched(Options(base_url="one"))
        assert all(cache.get(backend, request) is None for request in Watched.asked)


def test_functions_that_never_wait_leave_others_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Watched, request: Request) -> Reply:
        return Reply(text="Answer: yes")

    monkeypatch.setattr(Watched, "ask", at_once)
    monkeypatch.setattr(asking_, "BREATH", 0.0)
    monkeypatch.setattr(asking_, "WATCHED", 0.0)
    seen: list[int] = []
    asked(plan(tmp_path, ("a", "one")), tmp_path, watch=lambda tallies: seen.append(tallies["a"].done))
    assert any(0 < done < 20 for done in seen)


def test_a_fault_ends_everything_and_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def faulty(self: Watched, request: Request) -> Reply:
        raise ZeroDivisionError

    monkeypatch.setattr(Watched, "ask", faulty)
    with pytest.raises(ZeroDivisionError):
        asked(plan(tmp_path, ("a", "one")), tmp_path)
    assert list(Rows(tmp_path / "journal")) == []
