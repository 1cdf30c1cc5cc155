"""look(): what is in a file, what each column would be, what can be computed, and what is odd. Nothing is scored."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from steelyard.errors import InputError, SteelyardError, printable
from steelyard.ground.files import STANDARD_INPUT
from steelyard.records.labels import value_name
from steelyard.records.readers import read, read_as_is
from steelyard.records.reading import Reading, ReadingAsIs, options_of
from steelyard.records.schema import FIELDS, ITEM_NAMES, SHOWN, field_of, kind_of
from steelyard.records.table import Records, Source
from steelyard.records.unit import likely_unit
from steelyard.study.defaults import Choice, choose
from steelyard.study.warnings import may_show, warnings_of

_FEW_VALUES = 20  # up to which a column is one to slice by
# what people call the columns of the vocabulary, in the order of how likely they mean it
_CALLED: Mapping[str, str] = {
    "item": " ".join(ITEM_NAMES),
    "target": "label gold gold_label ground_truth groundtruth truth reference expected y_true correct_answer actual "
    "answer_key classification class category diagnosis y storypoint",
    "prediction": "predicted pred predicted_label model_answer model_output y_pred output response completion answer "
    "generated generation model_response result",
    "confidence": "conf probability prob certainty max_prob",
    "model": "model_name model_id system engine llm",
    "repeat": "epoch trial attempt replicate",
    "latency_ms": "latency duration_ms elapsed_ms",
}


@dataclass(frozen=True, kw_only=True)
class ColumnLook:
    """One column: what it holds, and what it would be."""

    name: str
    kind: str
    missing: int
    distinct: int | None
    use: str
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is in a table."""

    sources: tuple[Source, ...]
    rows: int
    columns: tuple[ColumnLook, ...]
    outcomes: Mapping[str, int]  # empty where the rows cannot be read as records yet
    labels: Mapping[str, tuple[int, int]]  # of targets and predictions, where there are few
    metrics: tuple[Choice, ...]
    odd: tuple[str, ...]
    hints: tuple[str, ...]


def look(source: Any, **reading: Unpack[Reading]) -> Look:
    """What is in a file or a frame; takes the options of `read`. Problems are listed, not raised."""
    kept = {*options_of(ReadingAsIs)} & {*reading} - {"where"}  # of what is odd, the rows that are left out have some
    source = source.read_all() if hasattr(source, "read_all") else source  # batches come once
    named = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    again = _rewound() if STANDARD_INPUT in [each for each in named if isinstance(each, str)] else nullcontext
    with again():
        whole = read_as_is(source, **{name: reading[name] for name in kept})  # type: ignore[literal-required]
    problems: list[str] = []
    records = None
    try:
        with again():
            records = read(source, **reading)
    except InputError as problem:
        problems = [_alone(problem)]
        problems += [str(other) for other in problem.others]
    except SteelyardError as problem:
        problems = [str(problem)]
    metrics: list[Choice] = []
    odd = [*problems]
    if records is not None:
        odd += [*records.warnings, *warnings_of(records)]
        try:
            metrics = choose(records)
        except SteelyardError as problem:
            odd.append(str(problem))
    return Look(
        sources=tuple(whole.sources),
        rows=len(whole) if records is None else len(records),
        columns=tuple(
            _column(whole if records is None or name not in records.stated else records, name)
            for name in (*whole.stated, *whole.extras)
        ),
        outcomes={} if records is None else records.counts(),
        labels={} if records is None else _labels(records),
        metrics=tuple(metrics),
        odd=tuple(dict.fromkeys(odd)),
        hints=tuple(_hints(whole, records, reading)),
    )


def _rewound() -> Callable[[], AbstractContextManager[None]]:
    """Standard input, which can be read once, for every `with` from its beginning."""
    data = sys.stdin.buffer.read()

    @contextmanager
    def again() -> Iterator[None]:
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
        try:
            yield
        finally:
            sys.stdin = before

    return again


def _alone(problem: InputError) -> str:
    return str(
        InputError(problem.problem, file=problem.file, line=problem.line, field=problem.field, rows=problem.rows)
    )


def _column(records: Records, name: str) -> ColumnLook:
    if name in records.extras:
        extra = records.extra(name)
        kind = "nested or mixed (kept as JSON)" if extra.is_json else "nested or mixed"
        return ColumnLook(
            name=name, kind=kind, missing=extra.column.null_count, distinct=None, use="", problem=extra.problem.problem
        )
    column = records.column(name)
    kind = kind_of(column)
    distinct = None if kind == "list" else len(column.drop_null().unique())
    return ColumnLook(
        name=name,
        kind="empty" if kind == "null" else SHOWN[kind],
        missing=column.null_count,
        distinct=distinct,
        use=_use(name, kind, distinct, len(records)),
    )


def _use(name: str, kind: str, distinct: int | None, rows: int) -> str:
    """What a column is for, or could be."""
    field = field_of(name)
    if field is not None:
        return field.meaning
    if distinct is not None and kind in ("text", "int", "bool") and 1 < distinct <= min(_FEW_VALUES, rows // 2):
        return "could divide the rows"
    return f"a score of another tool, perhaps: mean({printable(name)})" if kind in ("float", "bool") else ""


def _labels(records: Records) -> dict[str, tuple[int, int]]:
    """How often each label is a target and a prediction, where labels are few; names of people would be many."""
    names = [name for name in ("target", "prediction") if name in records.stated]
    if not names or any(kind_of(records.column(name)) in ("list", "float") for name in names):
        return {}
    counts = []
    for name in ("target", "prediction"):
        labels = records.labels(name) if name in names else None
        codes = labels.codes[labels.codes >= 0] if labels is not None else np.zeros(0, np.int64)
        values = labels.values if labels is not None else ()
        counts.append(
            dict(zip(map(value_name, values), np.bincount(codes, minlength=len(values)).tolist(), strict=True))
        )
    every = sorted({*counts[0], *counts[1]})
    return {each: (counts[0].get(each, 0), counts[1].get(each, 0)) for each in every} if may_show(every) else {}


def _hints(whole: Records, records: Records | None, reading: Reading) -> list[str]:
    """What to say when it is read: names to map, the unit."""
    names = [*whole.stated, *whole.extras]
    missing = [known for known in _CALLED if known not in names]
    lower = {name.lower(): name for name in reversed(names) if name not in FIELDS}
    given = dict(reading.get("map") or {})
    pairs: dict[str, str] = {}
    for known in missing:
        free = (lower[each] for each in _CALLED[known].split() if each in lower and lower[each] not in pairs.values())
        called = next(free, None)
        if called is not None:
            pairs[known] = called
    hints = []
    if pairs and (("item" in missing) or {"target", "prediction"} & {*missing}):
        named = {known: printable(name) for known, name in {**given, **pairs}.items()}
        both = json.dumps(named, ensure_ascii=False)
        hints.append(f"these columns look like ones that are known by other names: `map={both.replace('`', '')}`")
    unit = None if records is None else likely_unit(records)
    if unit is not None:
        hints.append(f"{unit}: `cluster={printable(unit.column)}`")
    return hints
