"""The details of numbers, for people: confusion matrices, cells of deferral, bins of confidence, worst groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.metrics.questions.correctness import SHOWN_LABELS
from steelyard.report.document import Cell, Count, Document, Heading, Note, Table, Value
from steelyard.runs.documented import detail_name, details
from steelyard.study.results import Evaluation

WIDEST = 30  # labels up to which a confusion matrix is shown whole
_MOST_CONFUSED = 20
_NO_LABEL = {"no_answer": "no answer", "outside_labels": "another label"}


def asked_details(evaluation: Evaluation, typed: Sequence[str]) -> Document:
    """The details that were asked for by their name: `confusion_matrix`, or `worst_group(accuracy, by=group.site)`."""
    names = {text.partition("(")[0].strip() for text in typed} - {"worst_group"}  # the table names it
    known = {key: value for key, value in details(evaluation).items() if detail_name(key) in names}
    missing = "confusion_matrix" in names and not any(detail_name(key) == "confusion_matrix" for key in known)
    why = f"there are no rows, more than {SHOWN_LABELS} labels, or texts that the task does not declare as labels"
    return [*details_report(known), *([Note(f"no confusion_matrix: {why}")] if missing else [])]


def details_report(known: Mapping[str, Any]) -> Document:
    """The details of a run, each under its key."""
    document: Document = []
    for key, value in known.items():
        shown = _SHOWN.get(detail_name(key), _nothing)(value)
        if shown:
            document += [Heading(key), *shown]
    return document


def _nothing(_: Any) -> Document:
    return []


def _matrix(value: Any) -> Document:
    """Rows are true labels, columns what was said."""
    if not _is_matrix(value):
        return []
    columns = list(dict.fromkeys(said for counts in value.values() for said in counts))
    names = {said: said if said in value else _NO_LABEL.get(said.rstrip("_"), said) for said in columns}
    if len(value) > WIDEST:
        return _most_confused(value, names)
    rows = tuple((true, *(Count(counts.get(said, 0)) for said in columns)) for true, counts in value.items())
    return [Table(("true ↓ predicted →", *names.values()), rows)]


def _is_matrix(value: Any) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(counts, Mapping) for counts in value.values()):
        return False
    cells = [n for counts in value.values() for n in counts.values()]
    return bool(cells) and all(isinstance(n, int) for n in cells)


def _most_confused(value: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> Document:
    """Of many labels, those that are taken for another most often: that is what such a matrix is read for."""
    wrong = [(n, true, said) for true, counts in value.items() for said, n in counts.items() if n and said != true]
    wrong.sort(key=lambda cell: -cell[0])
    rows = tuple((true, names[said], Count(n)) for n, true, said in wrong[:_MOST_CONFUSED])
    more = f"the {len(rows)} largest of {len(wrong)} confusions among {len(value)} labels; the JSON form has all"
    return [Table(("true", "predicted", "rows"), rows), Note(more)]


def _cells(value: Any) -> Document:
    if not isinstance(value, Mapping):
        return []
    rows = tuple((case.replace("_", " "), _plain(n)) for case, n in value.items())
    return [Table(("case", "rows"), rows, frozenset({"rows"}))]


def _plain(value: Any) -> Cell:
    return Count(value, grouped=False) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _bins(value: Any) -> Document:
    if not isinstance(value, list) or not all(isinstance(bin_, Mapping) for bin_ in value):
        return []
    columns = ("low", "high", "n", "confidence", "accuracy")
    rows = tuple(tuple(_number(bin_.get(name)) for name in columns) for bin_ in value)
    shown = ("from", "to", "n", "mean confidence", "accuracy")
    return [Table(shown, rows, frozenset(shown[2:]))]


def _number(value: Any) -> Cell:
    if isinstance(value, int) and not isinstance(value, bool):
        return Count(value)
    return Value(value if isinstance(value, float) else None)


def _name(value: Any) -> Document:
    return [Note(str(value))]


_SHOWN = {"confusion_matrix": _matrix, "deferral": _cells, "ece_bins": _bins, "worst_group": _name}
DETAILS = frozenset(_SHOWN)  # the names of what is shown as a table of its own
