"""Ranked lists and what was judged: at which ranks the judged documents of every query are.

A table has rankings in one of three forms, one row per query:

    gains, judged        grades in ranked order (null: not judged), and all judged grades
    gold_rank            the rank of the one relevant document, from 1; 0 if it was not retrieved
    target, prediction   lists of the relevant documents, and of the retrieved ones in ranked order

Every ranking metric is a function of the ranks and grades of the judged documents: what was not judged only moves
them down. So that is all that is kept of a ranking, however deep it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.ground.arrays import Codes, Floats
from steelyard.records.schema import kind_of
from steelyard.records.table import Records


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """The judged documents of all queries: those retrieved, by query and rank, and all of them.

    `missing` are the queries without judgements, `reason` says what they lack. `retrieved` is how many documents each
    ranking has, judged or not.
    """

    queries: int
    retrieved: Codes
    query: Codes
    rank: Codes
    grade: Floats
    judged_query: Codes
    judged_grade: Floats
    missing: npt.NDArray[np.bool_]
    reason: str


def rankings(records: Records, *, needed_by: str) -> Rankings:
    """The rankings of a table, in whichever form it has them."""
    if "gains" in records or "judged" in records:
        return _from_gains(records, needed_by)
    if "gold_rank" in records:
        return _from_gold_rank(records)
    if _holds_lists(records, "target") and _holds_lists(records, "prediction"):
        return _from_lists(records)
    raise InputError(
        f"{needed_by} needs ranked lists: gains and judged, or gold_rank, or lists in target and prediction; "
        f"columns: {', '.join(records.stated)}",
        file=records.name,
    )


def gains_of(ranked: Codes, judged: Codes, grades: npt.NDArray[Any]) -> pa.Array:
    """The grade of every ranked key, null where it was not judged. A key is a query and a document."""
    place = pc.index_in(pa.array(ranked), pa.array(judged))
    return pa.array(grades).take(place)


def first_twice(keys: Codes) -> int | None:
    """The place of the first key that occurred before, None if all differ."""
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order][1:] == keys[order][:-1]]
    return int(again.min())


def _from_gains(records: Records, needed_by: str) -> Rankings:
    gains, judged = (_lists(records, name, needed_by) for name in ("gains", "judged"))
    query, rank, grade = _stated(gains)
    judged_query, _, judged_grade = _stated(judged)
    missing = np.asarray(judged.is_null())
    asked = ~missing[query]
    stray = _first_stray(query[asked], grade[asked], judged_query, judged_grade)
    if stray is not None:
        file, line = records.where(stray)
        raise InputError(
            "a grade stands in gains more often than in judged, which holds all of them",
            file=file,
            line=line,
            field="gains",
        )
    return Rankings(
        queries=len(records),
        retrieved=_lengths(gains),
        query=query,
        rank=rank,
        grade=grade,
        judged_query=judged_query,
        judged_grade=judged_grade,
        missing=missing,
        reason="no judged",
    )


def _first_stray(query: Codes, grade: Floats, judged_query: Codes, judged_grade: Floats) -> int | None:
    """The first query with a grade more often among the ranked documents than among all judged ones."""
    levels = np.unique(judged_grade)
    unknown = ~np.isin(grade, levels)
    strays = [int(query[unknown].min())] if unknown.any() else []
    query, grade = query[~unknown], grade[~unknown]
    keys = [q * len(levels) + np.searchsorted(levels, g) for q, g in ((query, grade), (judged_query, judged_grade))]
    ranked_keys, ranked = np.unique(keys[0], return_counts=True)
    known, all_ = np.unique(keys[1], return_counts=True)
    if len(ranked_keys):
        at = np.minimum(np.searchsorted(known, ranked_keys), len(known) - 1)
        stray = (known[at] != ranked_keys) | (ranked > all_[at])
        strays += [int(ranked_keys[np.argmax(stray)] // len(levels))] if stray.any() else []
    return min(strays, default=None)


def _from_gold_rank(records: Records) -> Rankings:
    stated = records.numbers("gold_rank")
    known = np.flatnonzero(~np.isnan(stated))
    retrieved = np.flatnonzero(stated > 0)
    return Rankings(
        queries=len(records),
        retrieved=np.where(stated > 0, stated, 0).astype(np.int64),
        query=retrieved,
        rank=stated[retrieved].astype(np.int64),
        grade=np.ones(len(retrieved)),
        judged_query=known,
        judged_grade=np.ones(len(known)),
        missing=np.isnan(stated),
        reason="no gold_rank",
    )


def _from_lists(records: Records) -> Rankings:
    """Documents are matched as they are: text with text, whole numbers with whole numbers."""
    lists = {name: _documents(records, name) for name in ("target", "prediction")}
    kinds = {kind_of(flat) for _, flat in lists.values()} - {"null"}
    if len(kinds) > 1:
        raise InputError("target and prediction hold documents of different kinds: text and numbers", file=records.name)
    kind = pa.int64() if kinds == {"int"} else pa.large_string()
    values = pa.concat_arrays([flat.cast(kind) for _, flat in lists.values()]).dictionary_encode()
    codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    (target, flat), (prediction, _) = lists["target"], lists["prediction"]
    wanted, ranked = codes[: len(flat)], codes[len(flat) :]
    size = len(values.dictionary) + 1
    owner, _ = _places(target)
    query, rank = _places(prediction)
    for name, keys, rows in (("target", owner * size + wanted, owner), ("prediction", query * size + ranked, query)):
        duplicate = first_twice(keys)
        if duplicate is not None:
            file, line = records.where(int(rows[duplicate]))
            raise InputError("a document appears twice in this list", file=file, line=line, field=name)
    hit = gains_of(query * size + ranked, owner * size + wanted, np.ones(len(wanted)))
    relevant = np.flatnonzero(np.asarray(hit.is_valid()))
    return Rankings(
        queries=len(records),
        retrieved=_lengths(prediction),
        query=query[relevant],
        rank=rank[relevant],
        grade=np.ones(len(relevant)),
        judged_query=owner,
        judged_grade=np.ones(len(wanted)),
        missing=np.asarray(target.is_null()),
        reason="no target",
    )


def _holds_lists(records: Records, name: str) -> bool:
    return name in records and kind_of(records.column(name)) in ("list", "null")


def _documents(records: Records, name: str) -> tuple[pa.Array, pa.Array]:
    """A column of lists of documents, and all documents one after the other."""
    lists = records.column(name)
    if kind_of(lists) == "null":
        lists = pa.nulls(len(lists), pa.list_(pa.null()))
    flat = lists.flatten()
    if len(flat) and flat.null_count:
        row = int(_places(lists)[0][np.argmax(np.asarray(flat.is_null()))])
        file, line = records.where(row)
        raise InputError("a list of documents holds a null", file=file, line=line, field=name)
    if kind_of(flat) not in ("text", "int", "null"):
        raise InputError("documents are named by text or whole numbers", file=records.name, field=name)
    return lists, flat


def _lists(records: Records, name: str, needed_by: str) -> pa.Array:
    column = records.column(name, needed_by=needed_by)
    if kind_of(column) == "null":
        return pa.nulls(len(column), pa.list_(pa.float64()))
    if kind_of(column) != "list" or kind_of(column.flatten()) not in ("int", "float", "null"):
        raise InputError(f"{needed_by} needs lists of numbers here", file=records.name, field=name)
    return column


def _places(lists: pa.Array) -> tuple[Codes, Codes]:
    """For every element of the lists, one after the other: its row, and its place in the list from 1."""
    lengths = _lengths(lists)
    rows = np.repeat(np.arange(len(lists)), lengths)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1


def _lengths(lists: pa.Array) -> Codes:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _stated(lists: pa.Array) -> tuple[Codes, Codes, Floats]:
    """Row, place and value of the elements that are not null."""
    flat = lists.flatten()
    if kind_of(flat) == "null":
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    at = np.flatnonzero(np.asarray(flat.is_valid()))
    lengths = _lengths(lists)
    ends = np.cumsum(lengths)
    rows = np.searchsorted(ends, at, side="right")  # judged documents are few: no array as long as the lists
    values = flat.take(pa.array(at)).to_numpy(zero_copy_only=False).astype(np.float64)
    return rows, at - (ends - lengths)[rows] + 1, values
