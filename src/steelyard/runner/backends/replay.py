"""Answers that were recorded before, given again: no model is asked, nothing is paid.

    models:
      - {name: gpt-4o-mini, backend: replay, options: {file: answers.jsonl}}

The file is of any format that can be read, with a column `item`, a column `reply` (or `text`), and where they are told
apart `model`, `strategy`, `perturbation`, `repeat` and `sample`; `latency_ms input_tokens output_tokens` are taken
along. A column that is not there stands for any model, strategy or perturbation, but only for the first repeat and the
first sample: a reply that is given again for the second would be a stability that nobody measured. The journal of an
earlier run will do as well. What is not in the file fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.journal import Rows, is_journal
from steelyard.runner.backends.contract import Finding, Options, Reply, Request, backends

if TYPE_CHECKING:
    from steelyard.records.table import Records

NOT_RECORDED = "no answer was recorded"
_NAMES = ("model", "strategy", "perturbation")
_TIMES = ("repeat", "sample")
_TEXTS = ("reply", "text")
_TAKEN = ("latency_ms", "input_tokens", "output_tokens")
Key = tuple[str | None, ...]


class Replay:
    """Recorded replies by model, strategy, perturbation, item, repeat and sample."""

    def __init__(self, path: Path, replies: Mapping[Key, Reply], told_apart: frozenset[str]) -> None:
        self._path, self._replies, self._told_apart = path, replies, told_apart

    def __repr__(self) -> str:
        return f"<{counted(len(self._replies), 'answer')} of {printable(self._path)}>"

    @classmethod
    def open(cls, options: Options) -> Self:
        options.refuse("replay", "base_url", "api_key_env")
        name = options.known("replay", "file").get("file")
        if not isinstance(name, str) or not name:
            raise UsageError("the backend 'replay' needs the option file, with answers or the journal of a run")
        path = options.folder / name
        return cls(path, *(_from_journal(path) if is_journal(path) else _from_table(path)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def identity(self) -> None:
        return None  # it is as good as a cache

    def counts(self) -> Mapping[str, int]:
        return {}

    async def ask(self, request: Request) -> Reply:
        stated = {"model": request.model, "strategy": request.strategy, "perturbation": request.perturbation}
        key = _key(stated, request.item_id, (request.repeat, request.sample), self._told_apart)
        return self._replies.get(key, Reply(failure=NOT_RECORDED))

    async def check(self, model: str) -> tuple[Finding, ...]:
        named = "model" in self._told_apart
        count = sum(1 for key in self._replies if not named or key[0] == model)
        where = (
            f"{printable(self._path)} has {counted(count, 'answer')} of {printable(model) if named else 'any model'}"
        )
        return (Finding(about="answers", level="ok" if count else "problem", text=where),)


def _key(stated: Mapping[str, Any], item: Any, times: tuple[Any, Any], told_apart: frozenset[str]) -> Key:
    """Under what a reply is found; a name that is not told apart is None."""
    names = (str(stated[name]) if name in told_apart and stated[name] is not None else None for name in _NAMES)
    return (*names, str(item), *map(str, times))


def _from_table(path: Path) -> tuple[dict[Key, Reply], frozenset[str]]:
    from steelyard.records.readers import read, read_as_is

    records = read_as_is(path)
    if "sample" not in records:  # which no rule for records knows; without it they say where a table is no table
        records = read(path, labels="exact")
    column = next((name for name in _TEXTS if name in records), None)
    if column is None:
        raise InputError(
            f"a column of replies is needed, `reply` or `text`; there are: {', '.join(map(printable, records.stated))}",
            file=str(path),
        )
    names = [name for name in (*_NAMES, *_TIMES, "item", column, *_TAKEN) if name in records]
    rows = (
        dict(zip(names, values, strict=True)) for values in zip(*(_cells(records, name) for name in names), strict=True)
    )
    replies = ((row, _recorded(row, column, path, line)) for line, row in enumerate(rows, 1))
    return _by_key(replies, frozenset(names) & {*_NAMES})


def _cells(records: Records, name: str) -> list[Any]:
    """A column's values, in which an empty name is none."""
    values: list[Any] = records.column(name).to_pylist()
    return [None if value == "" else value for value in values] if name in (*_NAMES, *_TIMES) else values


def _recorded(row: Mapping[str, Any], column: str, path: Path, line: int) -> Reply | None:
    text = row[column]
    if text is None:
        return None
    if not isinstance(text, str):
        raise InputError("a reply is text", file=str(path), line=line, field=column)
    return Reply(text=text, **{name: row[name] for name in _TAKEN if row.get(name) is not None})


def _from_journal(path: Path) -> tuple[dict[Key, Reply], frozenset[str]]:
    replies = ((row, _kept(row, path)) for row in Rows(path) if "item" in row and "reply" in row)
    return _by_key(replies, frozenset(_NAMES))


def _kept(row: Mapping[str, Any], path: Path) -> Reply:
    try:
        reply = replace(Reply.of(row["reply"]), cached=False)
    except ValueError:
        raise InputError("the journal's rows hold no replies", file=str(path)) from None
    if reply.text is None and not reply.failure:
        raise InputError(
            "the journal was kept without the texts of replies; they cannot be given again", file=str(path)
        )
    return reply


def _by_key(
    replies: Iterable[tuple[Mapping[str, Any], Reply | None]], told_apart: frozenset[str]
) -> tuple[dict[Key, Reply], frozenset[str]]:
    """Replies by their keys, the first of each."""
    found: dict[Key, Reply] = {}
    for row, reply in replies:
        if reply is not None:
            stated = {name: row.get(name) for name in _NAMES}
            repeat, sample = (1 if row.get(name) is None else row[name] for name in _TIMES)
            found.setdefault(_key(stated, row["item"], (repeat, sample), told_apart), reply)
    return found, told_apart


backends.add("replay", Replay)
