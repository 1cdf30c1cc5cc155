"""The documented keys of a run: its numbers under the names that other documents know them by, and its Details.

    n_predictions                                answered, abstained or unparsed rows, where a metric is about them
    brier_score, aurc_full, augrc_full           brier or brier(binary=true), aurc, augrc
    per_class.<label>.{precision,recall,f1}      0 where undefined, as documented
    per_group.<group>.<metric>                   the metric in every group
    global_metric, disparities.<group>           the metric over all groups, and each group's distance from it

and, as Details, what is no number:

    confusion_matrix                             {true: {predicted: rows}}, with `no_answer` for rows without an answer
    deferral                                     the four cells of declining and being right to (a rate alone: two)
    ece_bins                                     the bins of the expected calibration error
    worst_group                                  the name of the worst group

Every slice that was evaluated has its own: `<key>` for the whole table, `<key>{model=m1}` in a cell, where a label that
is no plain word is quoted, as in every name with a slice.

Where several metrics could fill one key, the first that was asked for does, in every slice. `per_class.*` is of one
reading: with or without rows that were not answered. `per_group.*` is of one grouping column, `global_metric` and
`disparities.*` of one metric over it; nothing is written of the others. A further detail of a kind stands under its
metric's name: `ece_bins.ece(bins=15)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.ground.json import plain
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Better, Metric
from steelyard.metrics.questions.correctness import SHOWN_LABELS
from steelyard.naming import Expr, label_text, slice_text, split_slice
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.study.results import Evaluation
from steelyard.study.wire import documented_names, flat_key
from steelyard.uncertainty.number import Estimate

Parts = tuple[str, ...]  # of a key: its words and labels

_OF_ANSWERS = {"prediction", "correct", "answered", "abstained", "unparsed", "failed"}
_KEYS = {"n_predictions", "per_class", "per_group", "disparities", "global_metric"}
_PER_CLASS = ("precision", "recall", "f1")
_GROUPED = ("fairness_gap", "worst_group")
_DEFERRAL = ("deferral_alignment", "deferral_balanced", "unsafe_answer_rate", "over_deferral_rate")


def is_documented(key: str) -> bool:
    """True if a key is one of these names, and no metric's own."""
    head = key.partition(".")[0]
    return head in _KEYS or head in documented_names()


def made_from(name: str) -> tuple[str, ...]:
    """The metrics that a documented key without an estimate of its own is made from."""
    head = name.partition(".")[0]
    return {
        "per_class": ("f1_macro", "f1_weighted", "f1", "precision", "recall"),
        "per_group": _GROUPED,
        "disparities": _GROUPED,
        "global_metric": _GROUPED,
    }.get(head, ())


def meant_by(key: str) -> str:
    """The metric that a documented key means, with its slice; any other key as it is."""
    name, slice_ = split_slice(key)
    words = name.split(".")
    if words[0] == "per_class" and len(words) > 2 and words[-1] in _PER_CLASS:
        label = ".".join(words[1:-1])
        return f"{words[-1]}.{label if label.startswith(chr(34)) else label_text(label)}{slice_text(slice_)}"
    return documented_names().get(name, name) + slice_text(slice_)


@dataclass(frozen=True)
class Documented:
    """A number under a documented key, and the estimate that it is under another name, where there is one."""

    value: float
    better: Better | None = None
    estimate: Estimate | None = None


def documented(evaluation: Evaluation) -> dict[str, Documented]:
    """The numbers of every slice under their documented keys."""
    known = {flat_key(e.metric, e.slice): e for e in evaluation}
    answered_only = next((_answered_only(e) for e in evaluation if _is_of_classes(e)), False)
    grouped = next((e.of for e in evaluation if _head(e) in _GROUPED), None)
    by_key: dict[str, Documented] = {}
    for slice_, estimates in _by_slice(evaluation):
        numbers = {
            **_predictions(estimates),
            **_renamed(estimates),
            **_per_class(slice_, [e for e in estimates if _answered_only(e) == answered_only]),
            **({} if grouped is None else _per_group(slice_, estimates, grouped, known)),
        }
        by_key |= {_key(parts, slice_): number for parts, number in numbers.items()}
    return by_key


def details(evaluation: Evaluation, *, most_counts: float = math.inf) -> dict[str, Any]:
    """What comes with the numbers of every slice; confusion matrices as long as they hold at most so many counts."""
    by_key: dict[str, Any] = {}
    first: dict[str, str] = {}
    for e in evaluation:
        name, value = _extra(e)
        if name == "confusion_matrix":
            most_counts -= len(value) ** 2
        if not name or (name == "confusion_matrix" and most_counts < 0):
            continue
        alone = name == "deferral" or first.setdefault(name, e.metric) == e.metric
        key = _key((name,) if alone else (name, e.metric), e.slice)
        by_key[key] = {**by_key.get(key, {}), **value} if name == "deferral" else plain(value)
    return by_key


def detail_name(key: str) -> str:
    """Which of the details a key is about: `confusion_matrix` of `confusion_matrix{model=m1}`."""
    return key.partition("{")[0].partition(".")[0]


def _by_slice(evaluation: Evaluation) -> list[tuple[Mapping[str, Any], list[Estimate]]]:
    slices: dict[str, tuple[Mapping[str, Any], list[Estimate]]] = {}
    for e in evaluation:
        slices.setdefault(flat_key("", e.slice), (e.slice, []))[1].append(e)
    return list(slices.values())


def _key(parts: Parts, slice_: Mapping[str, Any]) -> str:
    return flat_key(str(Expr(head=parts[0], labels=parts[1:])), slice_) if slice_ else ".".join(parts)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _predictions(estimates: Sequence[Estimate]) -> dict[Parts, Documented]:
    """How many predictions there are, where a metric is about them: the rows of a ranking are queries."""
    read = {column for e in estimates if e.of is not None for column in e.of.reads}
    count = estimates[0].n_predictions if read & _OF_ANSWERS else None
    return {} if count is None else {("n_predictions",): Documented(count)}


def _renamed(estimates: Sequence[Estimate]) -> dict[Parts, Documented]:
    numbers: dict[Parts, Documented] = {}
    for e in estimates:
        key = "" if e.of is None else e.of.documented_as
        if e.value is not None and key:
            numbers.setdefault((key,), Documented(e.value, e.better, e))
    return numbers


def _head(e: Estimate) -> str:
    return "" if e.of is None else e.of.definition.name


def _answered_only(e: Estimate) -> bool:
    return e.of is not None and e.of.values.get("answered_only") is True


def _is_of_classes(e: Estimate) -> bool:
    return _head(e) == "f1_macro" or _class_of(e) is not None


def _class_of(e: Estimate) -> str | None:
    """The class that an estimate is about by itself, such as `Critical` of `precision.Critical`."""
    return e.of.label if e.of is not None and _head(e) in _PER_CLASS else None


def _per_class(slice_: Mapping[str, Any], estimates: Sequence[Estimate]) -> dict[Parts, Documented]:
    """The classes, from f1_macro or as estimates of their own, which have intervals."""
    numbers: dict[Parts, Documented] = {}
    for e in estimates:
        for parts, number in _class_numbers(e, slice_):
            if parts not in numbers or number.estimate is not None:
                numbers[parts] = number
    return numbers


def _class_numbers(e: Estimate, slice_: Mapping[str, Any]) -> Iterator[tuple[Parts, Documented]]:
    label = _class_of(e)
    if label is not None:
        yield ("per_class", label, _head(e)), Documented(e.value or 0.0, e.better, e)
    elif _head(e) == "f1_macro" and isinstance(e.detail, Mapping):
        labels = e.detail["labels"]
        if labels is None:
            return  # they are texts, and have no names
        if set(slice_) - set(CELL) and len(labels) > SHOWN_LABELS:
            return  # every label in every slice of a column may be millions of numbers
        counts = (e.detail[name] for name in ("hits", "support", "predicted"))
        for label, hits, support, predicted in zip(labels, *counts, strict=True):
            numbers = _share(hits, predicted), _share(hits, support), _share(2 * hits, support + predicted)
            for name, value in zip(_PER_CLASS, numbers, strict=True):
                yield ("per_class", value_name(label), name), Documented(value, "higher")


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _per_group(
    slice_: Mapping[str, Any], estimates: Sequence[Estimate], first: Metric, known: Mapping[str, Estimate]
) -> dict[Parts, Documented]:
    """The groups of the first column asked for; the whole and the distances from it, of the first metric over them."""
    numbers: dict[Parts, Documented] = {}
    for e in estimates:
        if e.of is None or _head(e) not in _GROUPED or not isinstance(e.detail, Mapping):
            continue
        base, column = e.of.values["base"], e.of.values["by"]
        if column != first.values["by"]:
            continue
        groups = {name: v for name, v in e.detail["per_group"].items() if v is not None}
        overall = e.detail["overall"]
        for name, value in groups.items():
            same = known.get(flat_key(base.name, {**slice_, column: name}))
            numbers.setdefault(("per_group", name, base.name), _named(value, base.better, same))
        if base != first.values["base"] or overall is None:
            continue
        numbers.setdefault(("global_metric",), _named(overall, base.better, known.get(flat_key(base.name, slice_))))
        for name, value in groups.items():
            distance = registry["disparity"](base, by=column, label=name)
            same = known.get(flat_key(distance.name, slice_))
            numbers.setdefault(("disparities", name), _named(value - overall, None, same))
    return numbers


def _named(value: float, better: Better | None, same: Estimate | None) -> Documented:
    """The number, as the estimate that has the same value; areas, say, are compared up to a coverage of all groups."""
    equal = same is not None and same.value is not None and math.isclose(same.value, value, abs_tol=1e-12)
    return Documented(value, better, same if equal else None)


# -- details -----------------------------------------------------------------------------------------------------------


def _extra(e: Estimate) -> tuple[str, Any]:
    """The name of what comes together with an estimate, and the thing itself; no name where there is nothing."""
    head = _head(e)
    if not isinstance(e.detail, Mapping):
        return "", None
    if head == "f1_macro" and e.detail["confusion_matrix"] is not None:
        return "confusion_matrix", _matrix(e.detail)
    if head in _DEFERRAL:
        return "deferral", e.detail
    if head == "ece":
        return "ece_bins", e.detail["bins"]
    if head == "worst_group" and e.detail["group"] is not None:
        return "worst_group", e.detail["group"]
    return "", None


def _matrix(detail: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Rows by their true label, then by what was said; a column of no label is one that is no row.

    `no_answer` are rows without an answer, `outside_labels` answers that are none of the labels asked for. Where a
    label is itself called so, an underscore is added to the column's name until no label is.
    """
    labels = [value_name(label) for label in detail["labels"]]
    further = {_free("no_answer", labels): detail["no_answer"]}
    if any(detail["outside_labels"]):
        further = {_free("outside_labels", labels): detail["outside_labels"], **further}
    return {
        label: {**dict(zip(labels, counts, strict=True)), **{name: column[i] for name, column in further.items()}}
        for i, (label, counts) in enumerate(zip(labels, detail["confusion_matrix"], strict=True))
    }


def _free(name: str, labels: Sequence[str]) -> str:
    while name in labels:
        name += "_"
    return name
