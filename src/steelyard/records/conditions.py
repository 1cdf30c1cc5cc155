"""Which rows to keep: conditions on columns, from a command line, a file or a call.

    conditions = condition {"," condition} ;      condition = column operator value {"," value} ;
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" ;

A row is kept that meets all of them: `age>=65, race=A,B` keeps rows of age 65 or more and of race A or B. After a
comma, a name with an operator begins a new condition, anything else is one more value. Names and values that hold
commas, operators or brackets of other kinds are quoted (`ground.commas`).

=, !=    compare the text of a value as it is shown, and numbers also by value (1 is 1.0). `none` stands for rows
         without a value (`no value`, where some row says "none"). != keeps every row that = would not keep, rows
         without a value included. A value that no row has is an error for =, a warning for !=.
<, …     compare numbers, in columns of numbers; a row without a value meets none of them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from steelyard.errors import UsageError, counted, printable
from steelyard.ground.commas import outside, quoted, split_commas, unquoted
from steelyard.records.labels import Labels, null_name, value_name
from steelyard.records.schema import CELL, SHOWN, UNPERTURBED, is_group, kind_of

if TYPE_CHECKING:
    from steelyard.records.table import Records

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Value = str | bool | int | float | None
Mask = npt.NDArray[np.bool_]

_OPERATOR = re.compile(r"!=|<=|>=|=|<|>")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")  # these are compared exactly
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """What a column must hold. None among the values stands for rows without one."""

    column: str
    operator: Operator
    values: tuple[str | None, ...]

    def __str__(self) -> str:
        """The condition as it is written, with quotes only where it would not be read back without them."""
        texts = ["none" if value is None else value for value in self.values]
        plain = f"{self.column}{self.operator}{','.join(texts)}"
        meant = Condition(self.column, self.operator, tuple(texts))
        if _reads_as(plain, meant):
            return plain
        return f"{quoted(self.column)}{self.operator}{','.join(map(quoted, texts))}"


Conditions = str | Iterable[str | Condition] | Mapping[str, Value | Iterable[Value]]


def conditions(where: Conditions) -> tuple[Condition, ...]:
    """The conditions of a text, of several, or of a mapping from columns to a value or to several.

    >>> [str(c) for c in conditions(["age>=65", "race=A,B,model=birch-2"])]
    ['age>=65', 'race=A,B', 'model=birch-2']
    >>> conditions({"race": ["A", "B"]}) == conditions("race=A,B")
    True
    """
    if isinstance(where, Mapping):
        return tuple(Condition(str(column), "=", _texts(column, given)) for column, given in where.items())
    texts = [where] if isinstance(where, str) else list(where)
    wanted = [condition for text in texts for condition in ([text] if isinstance(text, Condition) else _parsed(text))]
    for condition in wanted:
        if condition.operator in _COMPARISONS:
            _number(condition)
    names = [condition.column for condition in wanted if condition.operator == "="]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"`where=` names '{printable(name)}' twice; several values are written as in model=a,b")
    return tuple(wanted)


def meeting(records: Records, where: Conditions) -> tuple[Mask, list[str]]:
    """Which rows meet all conditions, and what must be said of conditions that change nothing."""
    keep, warnings = np.ones(len(records), bool), list[str]()
    for condition in conditions(where):
        if condition.column not in records and condition.column != "outcome":
            raise UsageError(records.lacks(condition.column, "this"))
        if condition.operator in _COMPARISONS:
            keep &= _compared(records, condition)
        else:
            equal, absent = _equal(records, condition)
            keep &= equal if condition.operator == "=" else ~equal
            warnings += [f"{printable(condition)}: {text}" for text in absent]
    return keep, warnings


# -- grammar -----------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> list[Condition]:
    """The conditions of one text."""
    wanted: list[Condition] = []
    for part in split_commas(text):
        shown = outside(part)
        mark = next((m for m in _OPERATOR.finditer(part) if shown[m.start()]), None)
        if mark is None and wanted and part:
            last = wanted.pop()
            wanted.append(Condition(last.column, last.operator, (*last.values, unquoted(part))))
            continue
        name, value = (part[: mark.start()].strip(), part[mark.end() :].strip()) if mark else ("", "")
        if not name or not value:
            raise UsageError(f"`where=` takes conditions such as model=a,b or age>=65, not '{printable(part)}'")
        if value[0] in "=<>":
            raise UsageError(
                f"cannot read '{printable(part)}': the operators are = != < <= > >=, and a value that begins with "
                "one is quoted"
            )
        assert mark is not None
        wanted.append(Condition(unquoted(name), cast(Operator, mark.group()), (unquoted(value),)))
    return wanted


def _texts(column: str, given: Value | Iterable[Value]) -> tuple[str | None, ...]:
    """The values of a mapping's entry as they would be written."""
    single = given is None or isinstance(given, str | bool | int | float | np.generic)
    several: list[Any] = [given] if single else list(given)  # type: ignore[arg-type]
    if not several:
        raise UsageError(f"`where=` names no value for '{printable(column)}'")
    plain = (value.item() if isinstance(value, np.generic) else value for value in several)
    return tuple(None if value is None else value_name(value) for value in plain)


def _reads_as(text: str, condition: Condition) -> bool:
    try:
        return _parsed(text) == [condition]
    except UsageError:
        return False


def _number(condition: Condition) -> int | float:
    """The number that a comparison is about."""
    (text, *more) = condition.values
    if more or text is None or _NUMBER.fullmatch(text) is None:
        raise UsageError(f"{condition.operator} compares with one number, as in age>=65, not '{printable(condition)}'")
    return int(text) if _WHOLE.fullmatch(text) else float(text)


# -- columns -----------------------------------------------------------------------------------------------------------


def _equal(records: Records, condition: Condition) -> tuple[Mask, list[str]]:
    """Which rows have one of the values, and which values no row has; for = that is an error."""
    labels, name = records.labels(condition.column), condition.column
    wanted = np.zeros(len(labels.values) + 1, bool)  # the last one stands for no value
    absent = []
    for given in condition.values:
        value = "none" if name == "perturbation" and given in UNPERTURBED else given
        places = _places(labels, value)
        wanted[places] = True
        if not places:
            shown = "none" if value is None else printable(value)
            absent.append(f"no row has {printable(name)}={shown}; the column has {_examples(name, labels.values)}")
    if absent and condition.operator == "=":
        raise UsageError(absent[0])
    return wanted[labels.codes], absent


def _places(labels: Labels, value: str | None) -> list[int]:
    """Where a value stands among the labels, −1 for rows without one; several where a text means several."""
    if value is not None:
        places = [place for place, label in enumerate(labels.values) if value_name(label) == value]
        if not places and _NUMBER.fullmatch(value):
            number = float(value)
            places = [p for p, v in enumerate(labels.values) if type(v) in (int, float) and v == number]
        if places:
            return places
    missing = value is None or value == null_name(labels)
    return [-1] if missing and bool(labels.missing.any()) else []


def _compared(records: Records, condition: Condition) -> Mask:
    """Which rows hold a number on this side of the condition's."""
    number = _number(condition)
    kind = "text" if condition.column == "outcome" else kind_of(records.column(condition.column))
    if kind not in ("int", "float", "null"):
        raise UsageError(
            f"{printable(condition)} compares numbers, and the column '{printable(condition.column)}' holds "
            f"{SHOWN[kind]}; = and != compare any values"
        )
    column = records.column(condition.column)
    if kind == "null":
        return np.zeros(len(records), bool)
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    stated = column.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(_COMPARISONS[condition.operator](numbers, number) & stated)


def _examples(name: str, values: tuple[Any, ...]) -> str:
    """A few of the values, of columns that describe the run; others may hold patient data and are only counted."""
    if name not in (*CELL, "outcome", "repeat") and not is_group(name):
        return f"{counted(len(values), 'other value')}"
    shown = ", ".join(printable(value_name(v), limit=30) for v in values[:8])
    return f"{shown}, … ({len(values)} values)" if len(values) > 8 else shown
