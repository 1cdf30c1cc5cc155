"""From cells of text to columns: the kind that all cells of a column have.

A column whose cells are all whole numbers holds whole numbers, all numbers: numbers, all true or false: booleans, else
text. `007` has a meaning that a number would lose, so it is text. Known columns hold what the vocabulary says; ids are
text unless all are whole numbers. `target` and `prediction` are decided together, so that the label 1 of one is the
label 1 of the other. Only the empty cell is null: `NA` and `None` are data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.ground.json import TOO_LARGE
from steelyard.records.answers import BLANK, removed, stripped
from steelyard.records.extras import Extra
from steelyard.records.readers.contract import Column, Table, give_back
from steelyard.records.readers.inputs import Input
from steelyard.records.schema import Field, expected, field_of

_INT = r"0|-?[1-9][0-9]{0,17}"
_EXACT = r"0|-?[1-9][0-9]{0,14}"  # a whole number that a float holds exactly
_FRACTION = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|-?\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_PATTERNS = {"int": _INT, "float": f"-0|{_EXACT}|{_FRACTION}", "bool": "(?i:true|false)"}
_NOT_FINITE = r"[+-]?(?i:nan|inf|infinity)"
_LABELS = ("target", "prediction")
_FINITE = "a finite number is expected (leave the cell empty where a value is missing)"


def table_of_cells(
    source: Input, cells: dict[str, Column], lines: npt.NDArray[np.int64], warnings: Sequence[str] = ()
) -> Table:
    """The table of columns that are text so far, each in the kind that all its cells have; `cells` is used up."""
    first, count = int(lines[0]), len(lines)
    typed = _typed(source, cells, lines)
    return replace(
        typed,
        lines=None if int(lines[-1]) == first + count - 1 else lines,
        first_line=first,
        warnings=(*warnings, *typed.warnings),
    )


def _typed(source: Input, cells: dict[str, Column], lines: npt.NDArray[np.int64]) -> Table:
    """The columns in their kinds; those of which something is wrong are no columns of the table."""
    texts, warnings = {}, []
    rules = source.labels
    while cells:
        give_back()
        name, column = cells.popitem()
        if rules.labels != "exact" and (field_of(name) is not None or name in source.demand.asked):
            column, count = stripped(column)
            warnings += [removed(name, count)] if count else []
        texts[name] = _without_empty(column)
    texts = dict(reversed(texts.items()))
    no_answers = rules.no_answers(texts["prediction"]) if "prediction" in texts else {}
    for mask in no_answers.values():
        texts["prediction"] = pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), texts["prediction"])
    labels = [texts[name] for name in ("target", "prediction") if name in texts]
    columns: dict[str, Column] = {}
    problems: list[InputError] = []
    extras: dict[str, Extra] = {}
    for name in list(texts):
        column = texts.pop(name)
        try:
            judged = labels if name in ("target", "prediction") else [column]
            columns[name] = _column(column, field_of(name), judged, exact=rules.labels == "exact")
        except _CellError as wrong:
            line = int(lines[wrong.row])
            problem = source.error(wrong.problem, line=line, field=name, rows=wrong.rows)
            if source.demand.of(name, scored=source.scored) == "read":
                problems.append(problem)
            else:
                extras[name] = Extra(column, problem)
    return Table(
        columns,
        len(lines),
        warnings=tuple(reversed(warnings)),
        problems=tuple(problems),
        extras=extras,
        no_answers=no_answers,
    )


class _CellError(Exception):
    """What is wrong with the cells that `bad` is true for."""

    def __init__(self, problem: str, bad: Column) -> None:
        self.problem, self.row = problem, int(pc.index(bad, pa.scalar(True)).as_py())
        self.rows = int(pc.sum(bad).as_py())


def _column(column: Column, field: Field | None, judged: Sequence[Column], *, exact: bool) -> Column:
    """A column of text in the kind of all the `judged` ones."""
    kinds = _kinds_of(field)
    if all(len(each) == each.null_count for each in judged):
        return pa.nulls(len(column))
    patterns = _patterns(field)
    kind = next((k for k in patterns if k in kinds and all(_all_match(c, patterns[k]) for c in judged)), "text")
    if kind == "text":
        if field is not None and "text" not in kinds:
            raise _unlike(column, kinds[0], field)
        if field is None and not exact:
            _check_edges(column)
        if "float" in kinds:
            _check_not_finite(column)
        return column
    numbers = _cast(column, kind)
    if kind == "float" and pc.any(pc.is_inf(numbers)).as_py():
        raise _CellError("a finite number is expected, this one is too large", pc.is_inf(numbers))
    return numbers


def _kinds_of(field: Field | None) -> tuple[str, ...]:
    """The kinds that a column may have."""
    kinds = field.kinds if field else ("int", "float", "bool", "text")
    return ("float",) if kinds == ("int", "float") else kinds


def _patterns(field: Field | None) -> dict[str, str]:
    return _PATTERNS if field is None or "float" not in _kinds_of(field) else {**_PATTERNS, "int": _EXACT}


def _cast(column: Column, kind: str) -> Column:
    if kind == "bool":
        return pc.equal(pc.utf8_lower(column), pa.scalar("true", column.type))
    return column.cast(pa.int64() if kind == "int" else pa.float64())


class CellKinds:
    """The kinds that the cells of every column may have, as far as they were read; kept as they are, none is wrong."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = {}
        self._stated: set[str] = set()  # columns with a cell that is not empty
        self._too_large: set[str] = set()  # columns with a number that is too large to be one

    def learn(self, cells: Mapping[str, Column]) -> None:
        """Learn from some cells; `target` and `prediction` have one kind."""
        for name, column in cells.items():
            before = self._kinds.get(name, [*_PATTERNS])
            given = _without_empty(column)
            patterns = _patterns(field_of(name))
            self._kinds[name] = [kind for kind in before if _all_match(given, patterns[kind])]
            if "float" in self._kinds[name] and pc.any(pc.is_inf(given.cast(pa.float64())), min_count=0).as_py():
                self._too_large.add(name)
            if given.null_count < len(given):
                self._stated.add(name)

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        return tuple((name, self._kind(name)) for name in self._kinds)

    def column(self, name: str, cells: Column) -> Column:
        """Cells of a column in its kind."""
        kind, given = self._kind(name), _without_empty(cells)
        return given if kind == "text" else pa.nulls(len(cells)) if kind == "null" else _cast(given, kind)

    def _kind(self, name: str) -> str:
        judged = [each for each in _LABELS if each in self._kinds] if name in _LABELS else [name]
        if not any(each in self._stated for each in judged):
            return "null"
        field = field_of(name)
        possible = _kinds_of(field)
        kind = next((k for k in _PATTERNS if k in possible and all(k in self._kinds[j] for j in judged)), "text")
        return "text" if kind == "float" and name in self._too_large else kind


def _without_empty(column: Column) -> Column:
    empty = pc.equal(column, pa.scalar("", column.type))
    return pc.if_else(empty, pa.scalar(None, column.type), column) if pc.any(empty).as_py() else column


def _unlike(column: Column, kind: str, field: Field) -> _CellError:
    """Say what a cell holds instead of its known kind."""
    bad: Column = pc.invert(_match(column, _PATTERNS[kind]))
    cell = column.filter(bad)[0].as_py()
    problem = f"{expected(field)} is expected"
    if kind != "bool" and re.fullmatch(r"-?[0-9]+,[0-9]+", cell):
        problem += "; write a decimal point, not a decimal comma"
    elif kind != "bool" and re.fullmatch(_NOT_FINITE, cell):
        problem = _FINITE
    elif kind != "bool" and re.fullmatch(r"-?[1-9][0-9]*", cell):
        problem = TOO_LARGE
    return _CellError(problem, bad)


def _check_edges(column: Column) -> None:
    """Refuse a column in which a value occurs with white space around it and without."""
    edged: Column = pc.match_substring_regex(column, f"^{BLANK}|{BLANK}$")
    if not pc.any(edged).as_py():
        return
    trimmed = partial(pc.replace_substring_regex, pattern=f"^{BLANK}+|{BLANK}+$", replacement="")
    counts: Column = pc.value_counts(trimmed(pc.unique(column)))
    merged = counts.filter(pc.greater(counts.field("counts"), pa.scalar(1))).field("values")
    merged = merged.filter(pc.not_equal(merged, pa.scalar("", merged.type)))  # blanks of two kinds surround nothing
    edged = pc.and_(edged, pc.is_in(trimmed(column), merged))
    if pc.any(edged).as_py():
        raise _CellError("white space (a blank, tab or line end) surrounds the value; remove it", edged)


def _check_not_finite(column: Column) -> None:
    """A column of numbers and NaN is not a column of text."""
    numbers = _match(column, _PATTERNS["float"])
    others = _match(column, _NOT_FINITE)
    if pc.any(others).as_py() and pc.any(numbers).as_py() and pc.all(pc.or_(numbers, others)).as_py():
        raise _CellError(_FINITE, others)


def _match(column: Column, pattern: str) -> Column:
    return pc.match_substring_regex(column, f"^(?:{pattern})$")


def _all_match(column: Column, pattern: str) -> bool:
    """True if all cells that are not empty match; most columns that do not are known by their first cells."""
    return all(pc.all(_match(part, pattern), min_count=0).as_py() for part in (column[:1000], column))
