"""Retrieval for people: a search with and without a shift, the evaluators, and trainings of shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from steelyard.errors import counted
from steelyard.report.document import (
    Cell,
    Count,
    Document,
    Heading,
    MetricName,
    Note,
    Remarks,
    Row,
    Table,
    Value,
    number,
)
from steelyard.report.figures.retrieval import held_out_figure
from steelyard.report.rows import difference, judged, level_name, measured, paired
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.diagnosis import Diagnosis, evaluators
from steelyard.retrieval.elsewhere import OtherSearch
from steelyard.retrieval.ranks import MEANING, Retrieval
from steelyard.retrieval.shifts.kept import ShiftTrainingResult, StoredTraining, same_queries
from steelyard.retrieval.shifts.named import NamedShift
from steelyard.retrieval.wire import remarks

_TOP = 10
_EVALUATORS = {
    "CosineSimilarityEvaluator": "Cosine Similarity",
    "MarginEvaluator": "Margin between the Two Nearest References",
    "NdcgEvaluator": "nDCG",
    "MrrEvaluator": "Mean Reciprocal Rank",
}
_IN_SAMPLE = {
    "SelectionMapAt1Baseline": "map@1, baseline",
    "SelectionMapAt1Shifted": "map@1, shifted",
    "SelectionNdcg3Baseline": "ndcg@3, baseline",
    "SelectionNdcg3Shifted": "ndcg@3, shifted",
    "SelectionScore": "gain in 0.7 map@1 + 0.3 ndcg@3",
}


def retrieval_report(retrieval: Retrieval, corpus: Corpus, named: NamedShift | None) -> Document:
    """KPIs of the queries as they are; with a shift, of both and the difference."""
    ingest = corpus.ingest
    left_out = sum(corpus.reasons.values())
    without = f" ({counted(left_out, 'query')} left out)" if left_out else ""
    document: Document = [
        Note(
            f"{counted(len(corpus), 'query')} against {counted(len(corpus.doc_ids), 'document')}"
            f"{without}; "
            f"{' '.join(corpus.embedder).strip()}, {ingest.dimension} dimensions"
        )
    ]
    level = level_name(retrieval.baseline.evaluation.settings.level)
    if retrieval.comparison is None or named is None:
        alone = retrieval.baseline.evaluation
        kpis = tuple((MetricName(e.metric), *measured(e.value, e.interval), Count(e.n)) for e in alone)
        document.append(Table(("metric", "value", level, "n"), kpis))
    else:
        document.append(Note(f"shift: {named.name} ({named.shift.kind})"))
        rows = [
            (
                MetricName(d.metric),
                *paired(d.base, d.new, d.delta, d.interval),
                Value(d.p_value),
                Value(d.p_adjusted),
                judged(d.verdict),
            )
            for d in retrieval.comparison
        ]
        columns = ("metric", "baseline", "shifted", "delta", level, "p", "p adjusted", "verdict")
        document.append(Table(columns, tuple(rows)))
    if corpus.judged is None:
        document.append(Note("map@1 is 1/rank of the one relevant document, not cut off at 1: the same as mrr"))
    elif retrieval.depth < len(corpus.doc_ids):
        document.append(Note(f"rankings end after {counted(retrieval.depth, 'document')}"))
    numbers = retrieval.baseline.evaluation if retrieval.comparison is None else retrieval.comparison
    said = [note for entry in numbers for note in entry.notes if note != MEANING]
    notes = dict.fromkeys((*said, *remarks(retrieval, corpus, named)))
    return document + [Note(f"note: {text}") for text in notes]


def diagnosis_report(diagnosis: Diagnosis, notes: Sequence[str]) -> Document:
    """One row per evaluator."""
    level = level_name(diagnosis.evaluation.settings.level)
    document: Document = [
        Note(
            f"{counted(diagnosis.queries, 'query')} against {counted(diagnosis.references, 'shared reference')}: "
            "this measures alignment, not retrieval"
        )
    ]
    metrics = diagnosis.metrics
    durations = [Value(metrics[f"{name}.duration_ms"]) for name in evaluators]
    if diagnosis.comparison is None:
        rows = [
            (_evaluator(name), *measured(metrics[name], e.interval), duration)
            for name, e, duration in zip(evaluators, diagnosis.evaluation, durations, strict=True)
        ]
        document.append(Table(("evaluator", "value", level, "duration ms"), tuple(rows)))
    else:
        rows = [
            (
                _evaluator(name),
                *paired(metrics[f"{name}.baseline"], metrics[f"{name}.shift"], metrics[f"{name}.delta"], d.interval),
                duration,
            )
            for name, d, duration in zip(evaluators, diagnosis.comparison, durations, strict=True)
        ]
        columns = ("evaluator", "baseline", "shifted", "delta", level, "duration ms")
        document.append(Table(columns, tuple(rows)))
    if any(metrics[name] is None for name in evaluators):
        document.append(Note("note: a margin needs at least two references"))
    if diagnosis.zero_queries:
        zero = f"{counted(diagnosis.zero_queries, 'query')} without a direction"
        document.append(Note(f"note: {zero}: all such cosines are 0 and the first reference wins"))
    return document + [Note(f"note: {text}") for text in notes]


def _evaluator(name: str) -> MetricName:
    return MetricName(name, title=_EVALUATORS.get(name, ""))


def training_report(result: ShiftTrainingResult, *, picture: str | None = None) -> Document:
    """A training: what held-out queries say first, then what the learner saw and where the shift points."""
    held_out = result.held_out
    document: Document = [
        Heading(f"shift training {result.training_id or ''}".strip()),
        Note(
            f"workflow {result.workflow_name}, {result.training_mode}; "
            f"{len(result.delta_vector)} dimensions, norm {number(result.delta_norm)}"
        ),
        Note(_verdict(result)),
    ]
    if held_out is not None:
        gains: list[Row] = [
            (MetricName(g.metric), *paired(g.baseline, g.shifted, g.delta, g.interval), Value(g.p_value))
            for g in held_out.gains
        ]
        whole = paired(held_out.baseline, held_out.shifted, held_out.score, held_out.interval)
        gains.append(("0.7 map@1 + 0.3 ndcg@3", *whole, Value(held_out.p_value)))
        columns = ("metric", "baseline", "shifted", "delta", level_name(held_out.level), "p")
        document += [
            Heading("on held-out queries"),
            Table(columns, tuple(gains)),
            _folds(result),
        ]
        notes = dict.fromkeys(filter(None, (held_out.note, *(g.note for g in held_out.gains))))
        document += [Note(f"note: {text}") for text in notes]
        figure = held_out_figure(result)
        document += [] if figure is None else [replace(figure, path=picture)]
    if result.in_sample:
        shown = tuple((_IN_SAMPLE.get(name, name), Value(value)) for name, value in result.in_sample.items())
        document += [
            Heading("on the training queries themselves (optimistic)"),
            Table(("number", "in sample"), shown),
        ]
    if result.stats is not None:
        document += [Heading("what the learner saw"), _stats(result)]
    document += [Heading("largest dimensions"), _dimensions(result)]
    return document + ([Remarks(tuple(result.notes))] if result.notes else [])


def _verdict(result: ShiftTrainingResult) -> str:
    if result.is_cancelled:
        return f"CANCELLED: {result.cancel_reason}. It is not applied."
    if result.usable:
        return "HELPS: the gain on held-out queries is shown to be above 0."
    return f"NOT CHOSEN: it is {result.why_not}."


def _folds(result: ShiftTrainingResult) -> Table:
    folds = result.held_out.folds if result.held_out else []
    rows = [
        (
            str(i),
            Count(f.queries),
            Value(f.baseline),
            Value(f.shifted),
            Value(f.gain, signed=True),
            Count(f.pairs),
            "yes" if f.cancelled else "",
        )
        for i, f in enumerate(folds, 1)
    ]
    columns = ("fold", "queries", "baseline", "shifted", "gain", "pairs", "cancelled")
    return Table(columns, tuple(rows))


def _stats(result: ShiftTrainingResult) -> Table:
    rows = (
        [(name.replace("_", " "), _statistic(value)) for name, value in msgspec.structs.asdict(result.stats).items()]
        if result.stats
        else []
    )
    return Table(("statistic", "value"), tuple(rows), frozenset({"value"}))


def _statistic(value: bool | int | float) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return Count(value) if isinstance(value, int) else Value(value)


def _dimensions(result: ShiftTrainingResult) -> Table:
    order = sorted(range(len(result.delta_vector)), key=lambda i: -abs(result.delta_vector[i]))[:_TOP]
    rows = [(Count(i, grouped=False), Value(result.delta_vector[i], signed=True)) for i in order]
    return Table(("dimension", "value"), tuple(rows))


def history_report(trainings: Sequence[StoredTraining], said: Sequence[str], best: str | None) -> Document:
    """The trainings of a scope, newest first."""
    rows = tuple(_training(stored, best) for stored in trainings)
    document: Document = [Table(("training", "workflow", "held-out", "interval", "norm", "status"), rows)]
    if not rows:
        document = [Note("no training yet; `steelyard shift train` makes one")]
    return document + [Note(text) for text in (*choice_notes(trainings), *said)]


def _training(stored: StoredTraining, best: str | None) -> Row:
    result, held_out = stored.result, stored.result.held_out
    score: Row = (Value(None), "") if held_out is None else difference(held_out.score, held_out.interval)
    status = "best" if stored.id == best else stored.why_not or "helps"
    return stored.id, result.workflow_name, *score, Value(result.delta_norm), status


def choice_notes(trainings: Sequence[StoredTraining]) -> list[str]:
    """What to bear in mind where one of several trainings is chosen."""
    usable = [stored for stored in trainings if not stored.why_not]
    if len(usable) < 2:
        return []
    notes = ["note: the largest of several held-out scores is optimistic"]
    if not same_queries(usable):
        notes.append("note: they were judged on different queries: the scores are not quite comparable")
    return notes


def best_training_report(
    stored: Sequence[StoredTraining],
    best: StoredTraining | None,
    rejected: Sequence[tuple[StoredTraining, str]],
    problems: Sequence[str],
) -> Document:
    """The training that was chosen, which others were not and why, and what cannot be read."""
    document: Document = [Note("no training can be chosen")] if best is None else training_report(best.result)
    document += [Note(f"not chosen: {each.id}: {reason}") for each, reason in rejected]
    return document + [Note(text) for text in (*choice_notes(stored), *problems)]


def search_report(search: OtherSearch) -> Document:
    """A search that another tool made: its files, and what they say."""
    facts: list[Row] = [("folder", search.name), *(("file", name) for name in search.files)]
    document: Document = [
        Note("made elsewhere: it can be looked at and segmented, and is no run of the store"),
        Table(("fact", "value"), tuple(facts)),
    ]
    means = tuple(
        (side, MetricName(metric), Value(value), Count(search.queries[side]))
        for side, values in search.values.items()
        for metric, value in values.items()
    )
    if means:
        document += [Heading("queries"), Table(("side", "metric", "mean", "n"), means)]
    if search.numbers:
        numbers = tuple((key, Value(value)) for key, value in search.numbers.items())
        document += [Heading("its own numbers"), Table(("number", "value"), numbers)]
    return document
