"""What must be said of a table before its numbers are read: labels that no target has, doubtful confidences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from steelyard.errors import counted, printable
from steelyard.metrics.definition import Metric
from steelyard.metrics.questions.calibration import class_probability
from steelyard.naming import label_text
from steelyard.records.answers import LabelRules
from steelyard.records.asked import uneven_items, uneven_repeats
from steelyard.records.cautions import Caution, each_once
from steelyard.records.conditions import conditions
from steelyard.records.labels import are_names, value_name
from steelyard.records.marks import contradicting_marks
from steelyard.records.reading import Reading, options_of
from steelyard.records.schema import kind_of
from steelyard.records.table import Records
from steelyard.registry import closest
from steelyard.uncertainty.scarcity import FEW_CLUSTERS

SHOWN_LABELS = 50  # labels that a table may have in all for them to be listed


def may_show(labels: Iterable[Any]) -> bool:
    """True if these are names of classes, and few enough for a list."""
    known = {*labels}
    return len(known) <= SHOWN_LABELS and are_names(known)


_FEW = 5  # labels that are named in one warning
_DECLINES = re.compile(
    r"(?i)\b(do(n't| not) know|not sure|unsure|cannot (say|tell|determine|answer)|can't (say|tell|answer)|unknown|"
    r"decline|abstain|refuse|no answer|insufficient|n/?a|none of the)\b"
)


def unmet_labels(records: Records, asked: Sequence[Metric] = ()) -> list[str]:
    """A warning if labels are predicted that no target has: often a misspelt or unclean label, or a way to decline.

    Labels may be names of people: they are shown where there are few of them in all. The answers of a benchmark may be
    texts in one of its tasks, and are counted only; those that are scored as texts are no labels, and nothing is said.
    """
    stated = set(records.stated)
    if any(metric.definition.rows.texts for metric in asked):
        return []
    if records.task.labels is not None or "mark" in stated or not {"target", "prediction"} <= stated:
        return []
    if any(kind_of(records.column(name)) != "text" for name in ("target", "prediction")):
        return []
    targets, predictions = records.labels("target").values, records.labels("prediction")
    counts = np.bincount(predictions.codes[predictions.codes >= 0], minlength=len(predictions.values))
    rows = {text: int(n) for text, n in zip(predictions.values, counts, strict=True) if n and text not in {*targets}}
    if not rows:
        return []
    total, several = sum(rows.values()), len(rows) > 1
    labels = f"{len(rows)} predicted labels are" if several else "1 predicted label is"
    said = f"{labels} never a target, in {counted(total, 'row')}"
    if records.task.benchmark is not None or not may_show((*targets, *predictions.values)):
        return [f"{said}; check for misspelt or unclean labels"]
    return [f"{said}: {', '.join(_mended(text, n, targets) for text, n in list(rows.items())[:_FEW])}{_more(rows)}"]


def _mended(text: str, rows: int, targets: Sequence[Any]) -> str:
    """A label with its count, and what would make it one of the targets."""
    shown = f"'{_inert(text)}' ({rows:,})"
    alike = next((target for target in targets if LabelRules(labels="fold").key(text) == _folded(target)), None)
    if alike is not None:
        return f"{shown}, which is '{_inert(alike)}' with `labels=fold`"
    if _DECLINES.search(text):
        return f"{shown}, which means declining with `abstain={_inert(text)}`"
    near = closest(text, [str(target) for target in targets])
    return f"{shown}, nearest to '{_inert(near)}'" if near else shown


def _inert(label: object) -> str:
    """A label as it is shown: between such marks it would pass for a parameter."""
    return printable(label, limit=40).replace("`", "'")


def _folded(target: Any) -> str:
    return LabelRules(labels="fold").key(str(target))


def _more(rows: Mapping[str, int]) -> str:
    return f", and {len(rows) - _FEW} more" if len(rows) > _FEW else ""


def cautions_of(records: Records) -> tuple[Caution, ...]:
    """What keeps a gate from believing a table: what its files tell, and what its rows do."""
    found = [caution for source in records.sources for caution in source.cautions]
    failed = records.counts()["failed"] / max(len(records), 1)
    if failed:
        found.append(Caution("failed", f"{100 * failed:.3g}% of the rows failed, and leave every metric", failed))
    return each_once((*found, *contradicting_marks(records), *uneven_repeats(records)))


def unlike(base: Mapping[str, Any], new: Mapping[str, Any], versus: Sequence[str] = ()) -> tuple[Caution, ...]:
    """A caution where the rows of two runs were not chosen and read alike, but for what tells the runs apart.

    >>> unlike({"where": ["age>=65", "model=a"]}, {"where": ["model=b"]})[0].text
    'the runs were not read alike: where (age>=65; none)'
    """
    apart = [f"{name} ({_told(one)}; {_told(two)})" for name, one, two in _differing(base, new, versus)]
    return (Caution("conditions", f"the runs were not read alike: {', '.join(apart)}"),) if apart else ()


def _differing(
    base: Mapping[str, Any], new: Mapping[str, Any], versus: Sequence[str]
) -> Iterator[tuple[str, Any, Any]]:
    names = [name for name, option in options_of(Reading).items() if option.told == "compared"]
    for name in (*names, "task_labels", "task_range"):
        one, two = base.get(name), new.get(name)
        if name == "where":
            one, two = (_without(each or (), {*versus, "model", "strategy"}) for each in (one, two))
        if _in_order(one) != _in_order(two):
            yield name, one, two


def _in_order(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value


def _without(where: Iterable[str], columns: Collection[str]) -> list[str]:
    return [text for text in where if conditions(text)[0].column not in columns]


def _told(value: Any) -> str:
    shown = "; ".join(map(str, value)) if isinstance(value, list) else value
    return printable(shown, limit=60) if shown else "none"


def warnings_of(records: Records, asked: Sequence[Metric] = (), *, paired: bool = False) -> list[str]:
    """What is said of a table, and of the metrics that are asked for; of a pair, each delta says its few clusters."""
    few = len(records.cluster[0])
    narrow = 2 <= few < FEW_CLUSTERS and not paired
    return [
        *unmet_labels(records, asked),
        *uneven_items(records),
        *_other_clusters(records),
        *(each.text for each in (*contradicting_marks(records), *uneven_repeats(records))),
        *([f"only {few} clusters: intervals may be too narrow"] if narrow else []),
        *class_warnings(records, asked),
    ]


def _other_clusters(records: Records) -> list[str]:
    """A warning where rows name their cluster, and another one was asked for."""
    own = records.cluster_columns
    if "cluster" not in records or "cluster" in own:
        return []
    few = len(records.labels("cluster").values)
    return [f"the rows name a cluster of their own ({few:,} of them); what is resampled is {', '.join(own)}, as asked"]


def class_warnings(records: Records, asked: Sequence[Metric]) -> list[str]:
    """What metrics about classes take for granted: which one is positive, and what a confidence is about."""
    return [
        *unknown_labels(records, asked),
        *assumed_positive(records, asked),
        *_doubtful_confidence(records, asked),
        *_doubtful_risk(records, asked),
    ]


def unknown_labels(records: Records, asked: Sequence[Metric]) -> list[str]:
    """A warning of metrics about a class that no row has: its label is misspelt, or nobody is of it."""
    about = [m for m in asked if m.label is not None and callable(m.definition.members) and not m.over_tasks]
    columns = [name for name in ("target", "prediction") if name in records]
    if not about or not columns:
        return []
    known = {value for name in columns for value in records.labels(name).values} | {*(records.task.labels or ())}
    names = {value_name(value): value for value in known}
    said = []
    for metric in about:
        if value_name(metric.label) not in names:
            near = closest(value_name(metric.label), list(names)) if may_show(known) else None
            hint = f"; did you mean '{_inert(near)}'?" if near else ""
            said.append(f"{metric.name}: no row has the label '{_inert(metric.label)}'{hint}")
    return said


def _doubtful_risk(records: Records, asked: Sequence[Metric]) -> list[str]:
    """A warning if the usual confidence is read as the probability of a class, and is high whichever is predicted."""
    about = [m for m in asked if m.definition.name == "net_benefit" and m.values["score"] == "confidence"]
    if not about or not {"prediction", "confidence"} <= set(records.stated) or class_probability(records):
        return []
    return [
        "net_benefit reads the confidence as the probability of the positive label, and here it may be that of the "
        "answer: name the column that holds the probability, as in net_benefit(pt=0.1, score=risk)"
    ]


def _doubtful_confidence(records: Records, asked: Sequence[Metric]) -> list[str]:
    """A warning if metrics read a confidence as about the answer, and it evidently states one class's probability."""
    about = [m for m in asked if _reads_answers_confidence(m)]
    label = class_probability(records) if about else ""
    if not label:
        return []
    names = list(dict.fromkeys(m.definition.name for m in about))
    able = next((m.definition.name for m in about if "positive" in m.values), "")
    cure = f"ask for {able}(positive={label_text(label)})" if able else "state how sure each answer is instead"
    take = f"{names[0]} takes" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} take"
    return [f"{_like_a_class(label)}; {take} it for confidence in the answer: {cure}"]


def ranked_by_class(records: Records) -> list[str]:
    """The same of a table that is ranked by its confidence."""
    label = class_probability(records)
    return [f"{_like_a_class(label)}; ranked by it, sure answers of the other class come last"] if label else []


def _like_a_class(label: str) -> str:
    shown = _inert(label)
    return f"the confidence looks like the probability of {shown}: high where that is predicted, low where it is not"


def _reads_answers_confidence(metric: Metric) -> bool:
    """True if a metric takes the confidence for that in the answer.

    Rates of a class read answers and no confidence; net_benefit reads a probability of the class and no answer.
    """
    stated = metric.values.get("positive") is not None
    return not stated and "confidence" in metric.reads and bool({"prediction", "correct"} & set(metric.reads))


def assumed_positive(records: Records, asked: Sequence[Metric]) -> list[str]:
    """Which label counts as the positive one, where metrics are about one class and nobody said which."""
    if records.task.positive is not None:
        return []
    about = [m for metric in asked for m in _inside(metric) if m.values.get("positive", "") is None]
    parts = [part for _, part in records.split(["task"])] if "task" in records else [records]
    labels = {
        str(label): m.definition.name
        for m in about
        for part in parts
        if (label := _positive(m.merged([m.summary(part)]))) is not None
    }
    cause = "is taken for the positive label, because nobody said which it is: name it"
    return [
        f"{_inert(label)} {cause}, as in {name}(positive={label_text(label)}), or by positive in a task file"
        if are_names({label})
        else f"the rarer target {cause}, as in {name}(positive=…), or by positive in a task file"
        for label, name in labels.items()
    ]


def _positive(constants: Mapping[str, Any]) -> Any:
    """The positive label among the constants of a metric, or of what it is composed of."""
    inner = (*constants.get("parts", ()), *([constants["overall"]] if "overall" in constants else []))
    return constants.get("positive") or next(filter(None, map(_positive, inner)), None)


def _inside(metric: Metric) -> list[Metric]:
    """A metric, and those that it is about."""
    return [metric] if metric.base is None else [metric, *_inside(metric.base)]
