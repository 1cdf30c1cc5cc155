"""The column vocabulary: which columns exist, what each may hold, and the checks at the door.

Columns are Arrow arrays of six kinds: text, int, float, bool, list and null (nothing known yet). One column has one
kind: "1", 1 and true never meet. Every check names the row and the field and never shows the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError, printable
from steelyard.halves import whole
from steelyard.registry import closest

KEY = ("model", "strategy", "task", "item", "repeat", "perturbation")
PAIRED = ("task", "item", "repeat", "perturbation")  # what rows of two runs pair on
SPLIT = "group.split"  # train, valid, test: a mean over them is nobody's
CELL = ("model", "strategy", "task", "perturbation", SPLIT)
IDS = ("item", "repeat")  # names of questions, not labels
OUTCOMES = ("answered", "abstained", "unparsed", "failed")
# what people call the item, in the order of how likely they mean it
ITEM_NAMES = (
    *("item_id", "question_id", "qid", "example_id", "sample_id", "doc_id", "prompt_id", "record_id", "instance_id"),
    *("query_id", "case_id", "id", "uid", "uuid", "key", "idx", "index", "issuekey", "number"),
)
UNPERTURBED = ("none", "original")
PREFIXES = ("group", "signal")
SCORES = "score"  # what the columns `score` and `score.*` begin with: the numbers that a log's own scorers gave
_GROUPS = ("group.", "metadata.")
LARGEST_INT = 2**53  # beyond it neighbouring whole numbers share one double

Where = Callable[[int], "tuple[str | None, int]"]


@dataclass(frozen=True)
class Field:
    """What one known column may hold. `kinds` are the allowed kinds, `low`/`high` the allowed range."""

    name: str
    kinds: tuple[str, ...]
    meaning: str
    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    hint: str = ""


_ID = ("text", "int")
_LABEL = ("text", "int", "float", "bool", "list")
_NUMBER = ("int", "float")

FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("model", _ID, "the model that answered"),
        Field("strategy", _ID, "how it was asked"),
        Field("task", _ID, "the task the item belongs to"),
        Field("item", _ID, "the item that was asked; the one required column"),
        Field("repeat", _ID, "which repetition of the same question"),
        Field("perturbation", _ID, "how the question was altered; empty for the original"),
        Field("cluster", _ID, "the unit of resampling, such as a patient"),
        Field("target", _LABEL, "the right answer"),
        Field("prediction", _LABEL, "what the model answered; null if it declined"),
        Field("outcome", ("text",), "one of " + ", ".join(OUTCOMES)),
        Field(
            "mark",
            ("bool", "int", "float"),
            "1 if whoever scored the answer found it right, else 0; wins over comparing prediction and target",
            low=0,
            high=1,
        ),
        Field(
            "confidence",
            _NUMBER,
            "probability that the answer is right",
            low=0,
            high=1,
            hint="a confidence is a probability: divide percentages by 100, or rank by another column with `rank=`",
        ),
        Field("should_abstain", ("bool",), "whether declining was the right thing to do"),
        Field("latency_ms", _NUMBER, "milliseconds to the answer", low=0),
        Field("input_tokens", ("int",), "tokens read", low=0),
        Field("output_tokens", ("int",), "tokens written", low=0),
        Field("cost", _NUMBER, "what the answer cost, in any one currency", low=0),
        Field("gains", ("list",), "grades of the ranked documents in order; null where a document was not judged"),
        Field("judged", ("list",), "the grades of all judged documents of the query"),
        Field("gold_rank", ("int",), "rank of the one relevant document, from 1; 0 if it was not retrieved", low=0),
    )
}


def kind_of(array: pa.Array) -> str:
    """The kind of an Arrow array: text, int, float, bool, list or null."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "list"
    if pa.types.is_null(kind):
        return "null"
    raise TypeError(str(kind))


def field_of(name: str) -> Field | None:
    """The rule for a column, or None for extra data that is kept as it is."""
    prefix, _, rest = name.partition(".")
    if rest and prefix == "group":
        return Field(name, ("text", "int", "bool"), "a group to slice by")
    if rest and prefix == "signal":
        return Field(name, ("text", "int", "float", "bool"), "a signal the model or pipeline gave")
    return FIELDS.get(name)


def is_group(name: str) -> bool:
    """True for columns that describe the question, to slice by: `group.*`, and the `metadata.*` of logs."""
    return name.startswith(_GROUPS)


def is_score(name: str) -> bool:
    """True for the columns that hold what scorers gave: `score` and `score.*`."""
    return name.partition(".")[0] == SCORES


def expected(field: Field) -> str:
    """What a column holds, in words: "text or a whole number"."""
    kinds = [k for k in field.kinds if not (k == "int" and "float" in field.kinds)]
    kinds = [k for k in kinds if k != "list"] or kinds  # a list may stand for a label, but is not the usual case
    return " or ".join(SHOWN[k] for k in kinds)


def to_arrow(name: str, values: Any, where: Where) -> pa.Array:
    """Lists with None, NumPy or Arrow arrays as one Arrow array of one kind; mixed kinds are an error with the row."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return _plain(name, values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(f"a column is one-dimensional, this array has {values.ndim} dimensions", field=name)
        if values.dtype == object or values.dtype.kind in "US":
            values = values.tolist()
        else:
            return _plain(name, pa.array(values))
    return _from_list(name, list(values), where)


def _from_list(name: str, values: list[Any], where: Where) -> pa.Array:
    types = set(map(type, values)) - {type(None)}
    kinds = {_python_kind(t) for t in types}
    if kinds <= {"int", "float"} or len(kinds) == 1:
        try:
            return text_array(values) if kinds == {"text"} else _plain(name, arrow_array(values))
        except (pa.ArrowInvalid, OverflowError):
            raise _first_offender(name, values, kinds, where) from None
        except pa.ArrowTypeError:
            raise InputError("the lists in this column hold mixed kinds", field=name) from None
    raise _first_offender(name, values, kinds, where)


def _first_offender(name: str, values: list[Any], kinds: set[str], where: Where) -> InputError:
    first = next(i for i, v in enumerate(values) if v is not None)
    expected = _python_kind(type(values[first]))
    for row, value in enumerate(values):
        kind = _python_kind(type(value))
        if value is None or kind == expected or {kind, expected} == {"int", "float"}:
            if kind == "int" and abs(value) > (LARGEST_INT if "float" in kinds else 2**63 - 1):
                return _at_row(where, row, name, "a whole number this large cannot be kept exactly")
            continue
        return _at_row(
            where,
            row,
            name,
            f"{SHOWN.get(expected, expected)} is expected as in the rows before, this is {SHOWN.get(kind, kind)}",
        )
    return InputError(f"cannot make one column of {', '.join(sorted(kinds))}", field=name)


SHOWN = {
    "text": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "object": "an object",
}


def _python_kind(kind: type) -> str:
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, bool | np.bool_):
        return "bool"
    if issubclass(kind, int | np.integer):
        return "int"
    if issubclass(kind, float | np.floating):
        return "float"
    if issubclass(kind, list | tuple | np.ndarray):
        return "list"
    return kind.__name__


def text_array(values: Sequence[str | None]) -> pa.Array:
    """Strings as Arrow text."""
    return arrow_array(values, pa.string())


def arrow_array(values: Sequence[Any], kind: Any = None) -> pa.Array:
    """Python values as an Arrow array, half a character in a text as its escape."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([whole(v.tolist() if isinstance(v, np.ndarray) else v) for v in values], kind)


def _plain(name: str, array: pa.Array) -> pa.Array:
    """The array in one of the house's types: string, int64, double, bool, list or null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(name, array.dictionary_decode())
    if pa.types.is_integer(kind):
        return array if pa.types.is_int64(kind) else _cast(name, array, pa.int64())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array if pa.types.is_float64(kind) else _cast(name, array, pa.float64())
    if pa.types.is_string_view(kind):
        return array.cast(pa.string())
    try:
        kind_of(array)
    except TypeError:
        raise InputError(
            f"columns hold text, numbers, true/false or lists; this one holds {kind}", field=name
        ) from None
    return array


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        raise InputError("a number in this column is too large to keep exactly", field=name) from None


@dataclass(frozen=True)
class Findings:
    """What the rules say of a table: problems that refuse it, those of columns that need not be read, and warnings."""

    problems: list[InputError]
    deferred: dict[str, InputError]
    warnings: list[str]


def check(columns: Mapping[str, pa.Array], where: Where, *, also: Sequence[str] = ()) -> Findings:
    """Apply every rule of the vocabulary; `also` are names that the table has and this is not given.

    A column of the vocabulary must be as it should be. What is wrong with another one matters once it is read.
    """
    problems: list[InputError] = []
    deferred: dict[str, InputError] = {}
    for name, array in columns.items():
        wrong = list(_wrong(name, array, where))
        if name in FIELDS:
            problems += wrong
        elif wrong:
            deferred[name] = wrong[0]
    for name in ("item", "cluster"):
        if name in columns and columns[name].null_count:
            problems.append(_at(where, pc.is_null(columns[name]), name, "a value is required in every row"))
    if not problems:
        problems += _wrong_outcomes(columns, where)
    warnings = [warning for name in (*columns, *also) if (warning := _misspelt(name, columns))]
    return Findings(problems, deferred, warnings)


def no_item(names: Sequence[str]) -> str:
    """What to say of a table without items: which columns it has, and which of them may be meant."""
    have = ", ".join(printable(c) for c in names) or "none"
    lower = {name.lower(): name for name in reversed(names) if name not in FIELDS}
    usual = next((lower[name] for name in ITEM_NAMES if name in lower), None)
    near = usual or closest("item", list(lower.values()))
    hint = f"; map one to it: `map=item={printable(near)}`" if near else ""
    return f"the column 'item' is required; columns: {have}{hint}"


def _wrong(name: str, array: pa.Array, where: Where) -> Iterator[InputError]:
    """What breaks the rules of one column."""
    field = field_of(name)
    kind = kind_of(array)
    if field is not None and kind != "null" and kind not in field.kinds:
        said = f"{expected(field)} is expected, this is {SHOWN[kind]}"
        yield _at(where, pc.is_valid(array), name, said)
        return
    if field is not None:
        yield from _out_of_range(field, array, where)
    if kind in ("float", "list"):
        yield from _not_finite(name, array, where)


def _not_finite(name: str, array: pa.Array, where: Where) -> Iterator[InputError]:
    if kind_of(array) == "list":
        inside = array.flatten()
        if kind_of(inside) == "float":
            bad = pc.invert(pc.is_finite(inside))
            if pc.any(bad).as_py():
                row = int(pc.list_parent_indices(array)[_first(bad)].as_py())
                file, line = where(row)
                yield InputError("the list holds a number that is not finite", file=file, line=line, field=name)
        return
    bad = pc.invert(pc.is_finite(array))
    if pc.any(bad).as_py():
        yield _at(where, bad, name, "a finite number is expected (a missing value is null, or None in a list)")


def _out_of_range(field: Field, array: pa.Array, where: Where) -> Iterator[InputError]:
    kind = kind_of(array)
    if kind == "int" and "float" in field.kinds:
        large = pc.or_(pc.greater(array, LARGEST_INT), pc.less(array, -LARGEST_INT))
        if pc.any(large).as_py():
            yield _at(where, large, field.name, "a whole number this large cannot be kept exactly")
    if kind not in _NUMBER or field.low is None:
        return
    bad = pc.less(array, field.low)
    bounds = f"at least {field.low:g}"
    if field.high is not None:
        bad = pc.or_(bad, pc.greater(array, field.high))
        bounds = f"in [{field.low:g}, {field.high:g}]"
    if pc.any(bad).as_py():
        hint = f"; {field.hint}" if field.hint else ""
        yield _at(where, bad, field.name, f"a number {bounds} is expected{hint}")


def _wrong_outcomes(columns: Mapping[str, pa.Array], where: Where) -> Iterator[InputError]:
    """Outcomes that are none, or that say answered without an answer; marked tables may be made without any answers."""
    outcome = columns.get("outcome")
    if outcome is None or kind_of(outcome) == "null":
        return
    unknown = pc.and_(pc.is_valid(outcome), pc.invert(pc.is_in(outcome, pa.array(OUTCOMES, outcome.type))))
    if pc.any(unknown).as_py():
        yield _at(where, unknown, "outcome", f"one of {', '.join(OUTCOMES)} is expected")
    prediction = columns.get("prediction")
    if prediction is not None and not ("mark" in columns and prediction.null_count == len(prediction)):
        answered = pc.equal(outcome, pa.scalar("answered", outcome.type))
        empty = pc.and_(pc.fill_null(answered, False), pc.is_null(prediction))
        for name in columns if "mark" in columns else ():  # what was said may be unknown where its score is not
            if name == "mark" or (is_score(name) and kind_of(columns[name]) in _NUMBER):
                empty = pc.and_(empty, pc.is_null(columns[name]))
        if pc.any(empty).as_py():
            yield _at(where, empty, "outcome", "says answered, but the prediction is null")


def _misspelt(name: str, columns: Mapping[str, pa.Array]) -> str | None:
    head = name.partition(".")[0]
    if name in FIELDS or head in PREFIXES:
        return None
    for known in (*FIELDS, *PREFIXES):
        if known not in columns and one_edit(head, known):
            return f"column '{printable(name)}' is kept as extra data; did you mean '{known}'?"
    return None


def one_edit(a: str, b: str) -> bool:
    """True if one insertion, deletion, substitution or swap of neighbours turns `a` into `b`."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest_a, rest_b = a[start:], b[start:]
    return (
        rest_a[1:] == rest_b[1:]
        or rest_a[1:] == rest_b
        or rest_a == rest_b[1:]
        or (rest_a[:2] == rest_b[1::-1] and rest_a[2:] == rest_b[2:])
    )


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _at(where: Where, bad: pa.Array, name: str, problem: str) -> InputError:
    """A problem with the rows where `bad` is true, at the first of them."""
    file, line = where(_first(bad))
    return InputError(problem, file=file, line=line, field=name, rows=int(pc.sum(bad).as_py()))


def _at_row(where: Where, row: int, name: str, problem: str) -> InputError:
    file, line = where(row)
    return InputError(problem, file=file, line=line, field=name)
