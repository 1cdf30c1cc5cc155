"""One class against the rest, in plain loops from the four counts and what was declined."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from tests.support.naive.table import Oracle, Row, Table, Value, answered, asked, outcome, share, with_target


def the_class(table: Table, positive: Any) -> Any:
    """The class asked for, else the rarer of two targets of all rows; of equally rare ones the last in order."""
    if positive is not None:
        return positive
    counts = Counter(row["target"] for row in table.whole or table.rows if row["target"] is not None)
    if len(counts) != 2:
        return None
    fewest = min(counts.values())
    return max(label for label, n in counts.items() if n == fewest)


def is_known(table: Table, label: Any) -> bool:
    """Whether the label occurs in the table at all; a misspelt one has no rates."""
    return any(row["target"] == label or row["prediction"] == label for row in table.whole or table.rows)


def said(row: Row, label: Any) -> bool:
    return outcome(row) == "answered" and row["prediction"] == label


def said_other(row: Row, label: Any) -> bool:
    return outcome(row) == "answered" and row["prediction"] != label


def rate(table: Table, *, of: str, positive: Any = None, answered_only: bool = False) -> Value:
    label = the_class(table, positive)
    if label is None or not is_known(table, label):
        return None
    rows = with_target(answered(table) if answered_only else asked(table))
    positives = [row for row in rows if row["target"] == label]
    negatives = [row for row in rows if row["target"] != label]
    if of == "sensitivity":
        return share(sum(said(row, label) for row in positives), len(positives))
    if of == "fnr":
        return share(sum(not said(row, label) for row in positives), len(positives))
    if of == "specificity":
        return share(sum(said_other(row, label) for row in negatives), len(negatives))
    return share(sum(said(row, label) for row in negatives), len(negatives))


def predictive(table: Table, *, positive: Any = None, of_positives: bool) -> Value:
    label = the_class(table, positive)
    if label is None or not is_known(table, label):
        return None
    rows = [row for row in with_target(answered(table)) if (row["prediction"] == label) is of_positives]
    return share(sum((row["target"] == label) is of_positives for row in rows), len(rows))


def selection_rate(table: Table, *, positive: Any = None) -> Value:
    label = the_class(table, positive)
    if label is None or not is_known(table, label):
        return None
    rows = asked(table)
    return share(sum(said(row, label) for row in rows), len(rows))


def net_benefit(table: Table, *, pt: float, positive: Any = None, score: str = "confidence") -> Value:
    label = the_class(table, positive)
    if label is None or not is_known(table, label):
        return None
    rows = [row for row in with_target(asked(table)) if outcome(row) != "answered" or row[score] is not None]
    treated = [row for row in rows if outcome(row) == "answered" and row[score] >= pt]
    hits = sum(row["target"] == label for row in treated)
    alarms = len(treated) - hits
    return None if not rows else hits / len(rows) - alarms / len(rows) * pt / (1 - pt)


SCREENING: dict[str, Oracle] = {
    **{of: partial(rate, of=of) for of in ("sensitivity", "specificity", "fpr", "fnr")},
    **{f"{of}(positive=A)": partial(rate, of=of, positive="A") for of in ("sensitivity", "specificity", "fpr", "fnr")},
    **{
        f"{of}(answered_only=true)": partial(rate, of=of, answered_only=True)
        for of in ("sensitivity", "specificity", "fpr", "fnr")
    },
    "ppv": partial(predictive, of_positives=True),
    "npv": partial(predictive, of_positives=False),
    "ppv(positive=Z)": partial(predictive, of_positives=True, positive="Z"),
    "npv(positive=A)": partial(predictive, of_positives=False, positive="A"),
    "selection_rate": selection_rate,
    "selection_rate(positive=Z)": partial(selection_rate, positive="Z"),
    "net_benefit(pt=0.3)": partial(net_benefit, pt=0.3),
    "net_benefit(pt=0.5, positive=A)": partial(net_benefit, pt=0.5, positive="A"),
}
