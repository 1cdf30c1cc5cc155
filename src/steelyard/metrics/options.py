"""Options of a metric: what its function's signature offers, and how text becomes their values.

Keyword-only parameters are options. Their annotation, else their default, says how text is read: a whole number, a
number, true or false, a word, a list, a column, a label, or a metric.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NewType

import numpy as np

from steelyard.errors import UsageError
from steelyard.naming import Expr, Quoted, column_text, value_text, word_text
from steelyard.records.labels import value_name

Column = NewType("Column", str)
Label = NewType("Label", str)  # an option that names a label: text, a whole number or true/false
Columns = NewType("Columns", tuple[str, ...])  # an option that names several columns
CONFIDENCE = Column("confidence")
Constant = Annotated[Any, "constant"]  # a keyword that `merge` fills: not an option
Constants = Mapping[str, Any]

_ANY = object()


@dataclass(frozen=True)
class Param:
    """One option of a metric: its kind decides how text is read."""

    name: str
    kind: str  # int, float, bool, text, list, column, columns, label, metric
    default: Any = _ANY
    named: bool = False  # written with its name even where it comes first

    @property
    def required(self) -> bool:
        return self.default is _ANY


_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "text"),
    (tuple, "list"),
    (list, "list"),
)


@cache
def signature(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[Param, ...]]:
    positional, params = [], []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.POSITIONAL_OR_KEYWORD:
            positional.append(p.name)
        elif p.kind is p.KEYWORD_ONLY and p.name not in ("weight", "label", "constants"):
            kind = _kind(p.annotation, p.default)
            if kind != "constant":
                params.append(Param(p.name, kind, _ANY if p.default is p.empty else p.default))
    return tuple(positional), tuple(params)


def _kind(annotation: Any, default: Any) -> str:
    if annotation is Constant:
        return "constant"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.replace(" ", "").removesuffix("|None").split("[")[0]
    named = {
        "Column": "column",
        "Columns": "columns",
        "Label": "label",
        "Metric": "metric",
        "Constant": "constant",
        "str": "text",
        "tuple": "list",
    }
    if text in named:
        return named[text]
    if text in ("int", "float", "bool", "list"):
        return text
    return next((kind for type_, kind in _KINDS if isinstance(default, type_)), "text")


def coerced(owner: str, param: Param, value: Any) -> Any:
    """An option's value in the type its kind asks for."""
    if value is None and not param.required:
        return None
    try:
        return _CASTS[param.kind](value)
    except (TypeError, ValueError):
        wanted = {
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "text": "a word or a quoted text",
            "list": "a list such as [A, B]",
            "column": "a column name",
            "columns": "a list of columns such as [a, b]",
            "label": "a label",
            "metric": "a metric",
        }[param.kind]
        raise UsageError(f"{owner}: the option {param.name} is {wanted}") from None


def _as_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError
    return int(value)


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise TypeError
    return float(value)


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, Quoted):
        return value.text
    if isinstance(value, Expr) and value.is_path:
        return value.path
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_label(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else _as_text(value)


def _as_list(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(_as_label, value))


def _as_columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(_as_text, value))


_CASTS: dict[str, Callable[[Any], Any]] = {
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "text": _as_text,
    "list": _as_list,
    "column": _as_text,
    "columns": _as_columns,
    "label": lambda value: value_name(_as_label(value)),
}


def option_text(param: Param, value: Any) -> str:
    if param.kind == "list":
        return "[" + ", ".join(word_text(v) if isinstance(v, str) else value_text(v) for v in value) + "]"
    if param.kind == "columns":
        return "[" + ", ".join(map(column_text, value)) + "]"
    if param.kind == "text" or (param.kind == "label" and not value.isdecimal() and value not in ("true", "false")):
        return word_text(value)
    if param.kind == "label":
        return str(value) if value == str(int(value) if value.isdecimal() else value) else word_text(value)
    if param.kind == "column":
        return column_text(str(value))
    return value_text(value)


def same_option(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def accepted(function: Callable[..., Any], values: Mapping[str, Any], *, keyword_only: bool = False) -> dict[str, Any]:
    return {name: values[name] for name in _keywords(function, keyword_only) if name in values}


@cache
def _keywords(function: Callable[..., Any], keyword_only: bool) -> tuple[str, ...]:
    kinds = [inspect.Parameter.KEYWORD_ONLY, *([] if keyword_only else [inspect.Parameter.POSITIONAL_OR_KEYWORD])]
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds)


def hashable(value: Any) -> Any:
    """The value in a form that equal values share and that can be a key."""
    if isinstance(value, Mapping):
        return tuple((k, hashable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return value.tobytes() if isinstance(value, np.ndarray) else value
