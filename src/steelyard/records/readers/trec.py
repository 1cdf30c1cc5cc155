"""Rankings and judgements as trec_eval reads them: a table with one row per query.

    qrels   topic  iteration  document  grade         or, under the header of BEIR: query-id  corpus-id  score
    run     topic  Q0  document  rank  score  tag     what follows the tag is ignored

Columns are separated by any white space; lines that start with # and empty lines are skipped. The order of a ranking is
that of its scores as 32-bit floats, downwards, equal ones by document id downwards; the rank column is ignored.
Both may be JSON instead: `{"topic": {"document": grade or score}}`, or `{"topic": ["document", …]}` for the
relevant documents, and for a ranking in the order that it already has. A topic of a run that holds nothing scores 0.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.records.admitting import admitted
from steelyard.records.rankings import gains_of
from steelyard.records.readers.trec_lines import LARGEST_GRADE, WHOLE, Columns, Ids, as_floats, read_columns
from steelyard.records.schema import text_array
from steelyard.records.table import Records, Source
from steelyard.records.task import Task

Codes = npt.NDArray[np.int64]
TIES = "score as a 32-bit float, downwards; equal scores by document id, downwards"


def read_rankings(
    qrels: str | os.PathLike[str],
    runs: Sequence[str | os.PathLike[str]],
    *,
    complete: bool = False,
    relevance_level: int = 1,
) -> list[Records]:
    """A table for every run: one row per query, with the grades of its ranking and all judged grades.

    Topics that are judged but not in a run are left out and counted in a warning; with `complete` they score 0. The
    column `model` names the run: its tag, or its file where tags repeat.
    """
    if not runs:
        raise UsageError("a run is needed together with the judgements")
    judged = read_columns(qrels, ("topic", "iteration", "document", "grade"))
    _check_grades(judged)
    ranked_runs = [read_columns(run, ("topic", "Q0", "document", "rank", "score", "tag")) for run in runs]
    names = _names(runs, ranked_runs)
    topics = _shared_codes([judged.topic, *(run.topic for run in ranked_runs), *(run.empty for run in ranked_runs)])
    documents = _shared_codes([judged.document, *(run.document for run in ranked_runs)])
    tables = []
    for i, (run, name) in enumerate(zip(ranked_runs, names, strict=True), start=1):
        asked = _distinct(np.concatenate((topics[i], topics[i + len(ranked_runs)])))
        columns, lines, said = _ranked(
            run,
            judged,
            topic=topics[i],
            document=documents[i],
            asked=asked,
            judged_topic=topics[0],
            judged_document=documents[0],
            complete=complete,
            level=relevance_level,
        )
        rows = len(lines)
        sources = [Source(run.source.name, run.source.sha256, rows, lines=lines)]
        sources += [Source(judged.source.name, judged.source.sha256, 0)]
        columns["model"] = text_array([name] * rows)
        warnings = [f"{printable(run.source.name)}: {text}" for text in said]
        tables.append(admitted(columns, cluster=None, task=Task(), sources=sources, warnings=warnings))
    return tables


def _names(runs: Sequence[str | os.PathLike[str]], ranked_runs: Sequence[Columns]) -> list[str]:
    """What tells runs apart: their tags, else their files' names, else the paths."""
    candidates = (
        [run.tag or "" for run in ranked_runs],
        [Path(run).name for run in runs],
        [os.fspath(run) for run in runs],
    )
    if any(_is_same_file(one, two) for one, two in combinations(runs, 2)):
        raise UsageError("two runs are the same file; name two different ones")
    for names in candidates:
        if len(set(names)) == len(names) and all(names):
            return names
    raise UsageError("two runs have the same name; name two different files")


def _is_same_file(one: str | os.PathLike[str], two: str | os.PathLike[str]) -> bool:
    return os.path.exists(one) and os.path.exists(two) and os.path.samefile(one, two)


def _check_grades(judged: Columns) -> None:
    if not len(judged.topic.codes):
        raise InputError("no document is judged", file=judged.source.name)
    if judged.number is None:
        return
    number = judged.number
    bad = (number != np.round(number)) | (number > LARGEST_GRADE) | (number < -LARGEST_GRADE)
    if bad.any():
        raise InputError(WHOLE, **judged.place(int(np.argmax(bad)), "grade"))


def _shared_codes(columns: Sequence[Ids]) -> list[Codes]:
    """Ids as numbers that are the same in all columns and sort like the ids, byte by byte."""
    together = pa.concat_arrays([column.values.cast(pa.large_binary()) for column in columns]).dictionary_encode()
    order = pc.sort_indices(together.dictionary).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    shared = place[together.indices.to_numpy(zero_copy_only=False)]
    bounds = np.cumsum([len(column.values) for column in columns])[:-1]
    return [codes[column.codes] for column, codes in zip(columns, np.split(shared, bounds), strict=True)]


def _ranked(
    run: Columns,
    judged: Columns,
    *,
    topic: Codes,
    document: Codes,
    asked: Codes,
    judged_topic: Codes,
    judged_document: Codes,
    complete: bool,
    level: int,
) -> tuple[dict[str, Any], Codes, list[str]]:
    """The columns of one run, the line of each query, and what to say of topics that are not on both sides."""
    grades = np.ones(len(judged_topic), np.int32) if judged.number is None else judged.number.astype(np.int32)
    size = int(max(document.max(initial=0), judged_document.max(initial=0))) + 1
    order = _order(run, topic, document)
    topic, document = topic[order], document[order]
    gains = gains_of(topic * size + document, judged_topic * size + judged_document, grades)
    known = _distinct(judged_topic)
    rows = known if complete else np.intersect1d(known, asked, assume_unique=True)
    if not len(rows):
        raise InputError("no topic of this run was judged; do both files use the same ids?", file=run.source.name)
    said = _said(known, asked, judged_topic[grades >= level], rows, complete=complete)
    by_topic = np.argsort(judged_topic, kind="stable")
    columns = {
        "item": _names_of(judged.topic, judged_topic, rows),
        "gains": _lists(topic, gains, rows),
        "judged": _lists(judged_topic[by_topic], pa.array(grades[by_topic]), rows),
    }
    return columns, _first_lines(run, order, topic, rows), said


def _distinct(codes: Codes) -> Codes:
    """The codes that occur, upwards. They count from 0, so no sorting is needed, which millions would feel."""
    return np.flatnonzero(np.bincount(codes))


def _count_beyond(codes: Codes, others: Codes) -> int:
    """How many of some distinct codes are not among others."""
    return len(codes) - len(np.intersect1d(codes, others, assume_unique=True))


def _names_of(ids: Ids, shared: Codes, rows: Codes) -> pa.Array:
    """The ids whose shared codes these are."""
    place = np.zeros(int(shared.max()) + 1, np.int64)
    place[shared] = ids.codes
    return ids.values.take(pa.array(place[rows]))


def _first_lines(run: Columns, order: Codes | slice, topic: Codes, rows: Codes) -> Codes:
    """The line of the best document of every topic; 1 where there is none, or no lines."""
    at = np.searchsorted(topic, rows)
    lines = np.ones(len(rows), np.int64)
    ranked = np.flatnonzero(np.searchsorted(topic, rows, side="right") > at)
    if run.places is not None:
        place = at[ranked] if isinstance(order, slice) else order[at[ranked]]
        lines[ranked] = run.places.line(place)
    return lines


def _order(run: Columns, topic: Codes, document: Codes) -> Codes | slice:
    """Topics upwards; within them scores downwards as 32-bit floats, equal ones by document downwards."""
    if run.number is None:
        return np.argsort(topic, kind="stable")
    key = topic.astype(np.uint64)  # and below it the score, as a whole number that grows as the score falls
    key <<= np.uint64(32)
    bits = as_floats(run.number).view(np.uint32)
    key |= np.where(bits >> 31, bits, ~(bits | np.uint32(1 << 31)))
    if (key[1:] > key[:-1]).all():
        return slice(None)
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        order[tied] = order[tied][np.lexsort((-document[order[tied]], key[tied]))]
    return order


def _lists(owner: Codes, values: pa.Array, rows: Codes) -> pa.Array:
    """The values of each row's topic as one list; values stand in the order of their topics."""
    starts, ends = np.searchsorted(owner, rows), np.searchsorted(owner, rows, side="right")
    lengths = ends - starts
    if int(lengths.sum()) != len(owner):
        inside = np.isin(owner, rows)
        values = values.filter(pa.array(inside))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    kind = pa.int32() if len(values) < 2**31 else pa.int64()
    make = pa.ListArray if kind == pa.int32() else pa.LargeListArray
    return make.from_arrays(pa.array(offsets, kind), values)


def _said(known: Codes, asked: Codes, relevant: Codes, rows: Codes, *, complete: bool) -> list[str]:
    """What is left out of the averages, or counted as 0 in them."""
    said = []
    missing, extra = _count_beyond(known, asked), _count_beyond(asked, known)
    absent = f"{counted(missing, 'judged topic')} {'is' if missing == 1 else 'are'} not in the run"
    if missing and complete:
        said.append(f"{absent} and {'scores' if missing == 1 else 'score'} 0")
    elif missing:
        said.append(f"{absent} and left out; with complete {'it counts' if missing == 1 else 'they count'} as 0")
    if extra:
        said.append(f"left out: {counted(extra, 'topic')} of the run without judgements")
    barren = _count_beyond(rows, _distinct(relevant))
    if barren:
        said.append(f"{counted(barren, 'topic')} without a relevant document, scored 0 as in trec_eval")
    return said
