"""Recorded answers, found by what they belong to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError, UsageError
from steelyard.ground.journal import Journal
from steelyard.runner.backends import Backend, Message, Options, Reply, Request, Token, backends
from steelyard.runner.backends.replay import NOT_RECORDED


def request(item: str | int, model: str = "a", **more: Any) -> Request:
    return Request(model=model, messages=(Message(role="user", content="q"),), item_id=item, **more)


def opened(path: Path) -> Backend:
    return backends["replay"].open(Options(options={"file": path.name}, folder=path.parent))


def asked(backend: Backend, *requests: Request) -> list[Reply]:
    async def all_of_them() -> list[Reply]:
        async with backend as entered:
            return [await entered.ask(each) for each in requests]

    return asyncio.run(all_of_them())


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_answers_are_found_by_all_that_tells_them_apart(tmp_path: Path) -> None:
    rows = [
        {"item": item, "model": model, "strategy": way, "repeat": repeat, "reply": f"{model}{way}{item}{repeat}"}
        for item in (1, 2)
        for model in "ab"
        for way in "xy"
        for repeat in (1, 2)
    ]
    backend = opened(lines(tmp_path / "r.jsonl", *rows))
    replies = asked(
        backend,
        request(2, "b", strategy="y", repeat=2),
        request("2", "b", strategy="y"),
        request(3, "b", strategy="y"),
        request(2, "c", strategy="y"),
        request(2, "b", strategy="z"),
        request(2, "b", strategy="y", repeat=3),
        request(2, "b", strategy="y", perturbation="typos"),
    )
    missing = Reply(failure=NOT_RECORDED)
    assert [reply.text for reply in replies] == ["by22", "by21", None, None, None, None, "by21"]
    assert replies[2:6] == [missing] * 4


def test_a_column_that_is_not_there_stands_for_any_but_not_for_a_further_repeat(tmp_path: Path) -> None:
    backend = opened(lines(tmp_path / "r.jsonl", {"item": "q", "text": " Answer: yes \n"}))
    first, other, again = asked(backend, request("q"), request("q", "z", strategy="s"), request("q", repeat=2))
    assert first.text == other.text == " Answer: yes \n"
    assert again.failure == NOT_RECORDED


def test_numbers_are_taken_along_and_a_null_is_no_answer(tmp_path: Path) -> None:
    rows = (
        {"item": 1, "reply": "x", "latency_ms": 3.5, "input_tokens": 2, "output_tokens": 1},
        {"item": 2, "reply": None},
        {"item": 3, "reply": ""},
    )
    one, two, three = asked(opened(lines(tmp_path / "r.jsonl", *rows)), *map(request, (1, 2, 3)))
    assert (one.latency_ms, one.input_tokens, one.output_tokens) == (3.5, 2, 1)
    assert two.failure == NOT_RECORDED
    assert (three.text, three.failure) == ("", "")


def test_other_formats_will_do(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('item,reply\n01,"a ""b"""\n')
    assert asked(opened(tmp_path / "r.csv"), request("01"))[0].text == 'a "b"'


def test_the_journal_of_an_earlier_run_will_do(tmp_path: Path) -> None:
    reply = Reply(text="x", tokens=(Token(text="x", logprob=-1.0),), latency_ms=3.0, retries=2)
    with Journal(tmp_path / "j") as journal:
        journal.append({"kind": "begins"})
        journal.append({"item": 7, "model": "a", "strategy": "s", "repeat": 1, "reply": reply.document()})
        journal.append({"item": 8, "model": "a", "strategy": "s", "repeat": 2, "reply": {"failure": "late"}})
    backend = opened(tmp_path / "j")
    replies = asked(
        backend, request(7, strategy="s"), request(8, strategy="s", repeat=2), request(7), request(7, strategy="t")
    )
    assert replies == [reply, Reply(failure="late"), Reply(failure=NOT_RECORDED), Reply(failure=NOT_RECORDED)]


def test_what_is_found_before_the_first_question(tmp_path: Path) -> None:
    backend = opened(lines(tmp_path / "r.jsonl", {"item": 1, "model": "a", "reply": "x"}))
    levels = [asyncio.run(backend.check(model))[0].level for model in ("a", "b")]
    assert levels == ["ok", "problem"]


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs the option"):
        backends["replay"].open(Options())
    with pytest.raises(UsageError, match="did you mean 'file'"):
        backends["replay"].open(Options(options={"fil": "x"}))
    with pytest.raises(InputError, match="cannot be read"):
        opened(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="`reply` or `text`; there are: item, answer"):
        opened(lines(tmp_path / "a.jsonl", {"item": 1, "answer": "x"}))
    with pytest.raises(InputError, match=r"b\.jsonl:1: reply: a reply is text") as caught:
        opened(lines(tmp_path / "b.jsonl", {"item": 1, "reply": 77}))
    assert "77" not in str(caught.value)
    with pytest.raises(InputError, match=r"c\.jsonl:2"):
        opened(lines(tmp_path / "c.jsonl", {"item": 1, "reply": "x"}, {"item": 1, "reply": "y"}))
    with Journal(tmp_path / "j") as journal:
        journal.append({"item": 7, "reply": {"nonsense": 1}})
    with pytest.raises(InputError, match="hold no replies"):
        opened(tmp_path / "j")
