"""Retrieval for people: a search with and without a shift, the evaluators, and trainings of shifts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steelyard.report.document import Document, Figure, Heading, Note, Remarks, Table, interval_text, number
from steelyard.retrieval.corpus import Corpus
from steelyard.retrieval.diagnosis import Diagnosis, evaluators
from steelyard.retrieval.ranks import MEANING, Retrieval
from steelyard.retrieval.shifts.kept import ShiftTrainingResult, Stored, same_queries
from steelyard.retrieval.shifts.named import Named
from steelyard.retrieval.wire import remarks

_RIGHT = frozenset(
    {"value", "baseline", "shifted", "delta", "p", "n", "duration ms", "queries", "gain", "pairs", "norm", "held-out"}
    | {"dimension", "in sample", "p adjusted"}
)
_TOP = 10
_IN_SAMPLE = {
    "SelectionMapAt1Baseline": "map@1, baseline",
    "SelectionMapAt1Shifted": "map@1, shifted",
    "SelectionNdcg3Baseline": "ndcg@3, baseline",
    "SelectionNdcg3Shifted": "ndcg@3, shifted",
    "SelectionScore": "gain in 0.7 map@1 + 0.3 ndcg@3",
}


def retrieval_report(retrieval: Retrieval, corpus: Corpus, named: Named | None) -> Document:
    """KPIs of the queries as they are; with a shift, of both and the difference."""
    made = corpus.ingest
    left_out = sum(corpus.reasons.values())
    document: Document = [
        Note(
            f"{len(corpus):,} queries against {len(corpus.doc_ids):,} documents"
            f"{f' ({left_out:,} queries left out)' if left_out else ''}; "
            f"{' '.join(corpus.embedder).strip()}, {made.dimension} dimensions"
        )
    ]
    level = f"{100 * retrieval.baseline.evaluation.settings.level:g}% interval"
    if retrieval.comparison is None or named is None:
        alone = retrieval.baseline.evaluation
        kpis = tuple((e.metric, number(e.value), interval_text(e.interval), f"{e.n:,}") for e in alone)
        document.append(Table(("metric", "value", level, "n"), kpis, _RIGHT))
    else:
        document.append(Note(f"shift: {named.name} ({named.shift.kind})"))
        rows = [
            (
                d.metric,
                number(d.base),
                number(d.new),
                number(d.delta, signed=True),
                interval_text(d.interval, signed=True),
                number(d.p_value),
                number(d.p_adjusted),
                d.verdict,
            )
            for d in retrieval.comparison
        ]
        columns = ("metric", "baseline", "shifted", "delta", level, "p", "p adjusted", "verdict")
        document.append(Table(columns, tuple(rows), _RIGHT))
    document.append(Note("map@1 is 1/rank of the one relevant document, not cut off at 1: the same as mrr"))
    found = retrieval.baseline.evaluation if retrieval.comparison is None else retrieval.comparison
    said = [part for entry in found for part in entry.note.split("; ") if part and part != MEANING]
    notes = dict.fromkeys((*said, *remarks(retrieval, corpus, named)))
    return document + [Note(f"note: {text}") for text in notes]


def diagnosis_report(diagnosis: Diagnosis, notes: Sequence[str]) -> Document:
    """One row an evaluator."""
    level = f"{100 * diagnosis.evaluation.settings.level:g}% interval"
    document: Document = [
        Note(
            f"{diagnosis.queries:,} queries against {diagnosis.references:,} references that all of them share: "
            "this measures alignment, not retrieval"
        )
    ]
    metrics = diagnosis.metrics
    durations = [number(metrics[f"{name}.duration_ms"]) for name in evaluators]
    if diagnosis.comparison is None:
        rows = [
            (name, number(metrics[name]), interval_text(e.interval), duration)
            for name, e, duration in zip(evaluators, diagnosis.evaluation, durations, strict=True)
        ]
        document.append(Table(("evaluator", "value", level, "duration ms"), tuple(rows), _RIGHT))
    else:
        paired = [
            (
                name,
                number(metrics[f"{name}.baseline"]),
                number(metrics[f"{name}.shift"]),
                number(metrics[f"{name}.delta"], signed=True),
                interval_text(d.interval, signed=True),
                duration,
            )
            for name, d, duration in zip(evaluators, diagnosis.comparison, durations, strict=True)
        ]
        columns = ("evaluator", "baseline", "shifted", "delta", level, "duration ms")
        document.append(Table(columns, tuple(paired), _RIGHT))
    if any(metrics[name] is None for name in evaluators):
        document.append(Note("note: a margin needs at least two references"))
    if diagnosis.zero_queries:
        zero = f"{diagnosis.zero_queries} queries have no direction"
        document.append(Note(f"note: {zero}: all their cosines are 0 and the first reference wins"))
    return document + [Note(f"note: {text}") for text in notes]


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
        level = f"{100 * held_out.level:g}% interval"
        rows = [
            (
                g.metric,
                number(g.baseline),
                number(g.shifted),
                number(g.delta, signed=True),
                interval_text(g.interval, signed=True),
                number(g.p_value),
            )
            for g in held_out.gains
        ]
        score = interval_text(held_out.interval, signed=True)
        means = number(held_out.baseline), number(held_out.shifted), number(held_out.score, signed=True)
        rows.append(("0.7 map@1 + 0.3 ndcg@3", *means, score, number(held_out.p_value)))
        document += [
            Heading("on held-out queries"),
            Table(("metric", "baseline", "shifted", "delta", level, "p"), tuple(rows), _RIGHT),
            _folds(result),
        ]
        notes = [held_out.note, *(g.note for g in held_out.gains)]
        said = [part for note in notes for part in note.split("; ") if part]
        document += [Note(f"note: {text}") for text in dict.fromkeys(said)]
        if picture:
            document.append(Figure("gain on held-out queries, fold by fold", picture))
    if result.in_sample:
        shown = tuple((_IN_SAMPLE.get(name, name), number(value)) for name, value in result.in_sample.items())
        document += [
            Heading("on the training queries themselves (optimistic)"),
            Table(("number", "in sample"), shown, _RIGHT),
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
            f"{f.queries:,}",
            number(f.baseline),
            number(f.shifted),
            number(f.gain, signed=True),
            f"{f.pairs:,}",
            "yes" if f.cancelled else "",
        )
        for i, f in enumerate(folds, 1)
    ]
    columns = ("fold", "queries", "baseline", "shifted", "gain", "pairs", "cancelled")
    return Table(columns, tuple(rows), _RIGHT)


def _stats(result: ShiftTrainingResult) -> Table:
    rows = (
        [(name.replace("_", " "), _plain(value)) for name, value in msgspec.structs.asdict(result.stats).items()]
        if result.stats
        else []
    )
    return Table(("statistic", "value"), tuple(rows), _RIGHT)


def _plain(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else number(value)


def _dimensions(result: ShiftTrainingResult) -> Table:
    order = sorted(range(len(result.delta_vector)), key=lambda i: -abs(result.delta_vector[i]))[:_TOP]
    rows = [(str(i), number(result.delta_vector[i], signed=True)) for i in order]
    return Table(("dimension", "value"), tuple(rows), _RIGHT)


def history_report(found: Sequence[Stored], said: Sequence[str], best: str | None) -> Document:
    """The trainings of a scope, newest first."""
    rows = tuple(
        (
            stored.id,
            stored.result.workflow_name,
            number(stored.result.held_out.score, signed=True) if stored.result.held_out else "n/a",
            interval_text(stored.result.held_out.interval, signed=True) if stored.result.held_out else "",
            number(stored.result.delta_norm),
            "best" if stored.id == best else stored.result.why_not or "helps",
        )
        for stored in found
    )
    document: Document = [Table(("training", "workflow", "held-out", "interval", "norm", "status"), rows, _RIGHT)]
    if not rows:
        document = [Note("no training yet; `steelyard shift train` makes one")]
    return document + [Note(text) for text in (*choice_notes(found), *said)]


def choice_notes(found: Sequence[Stored]) -> list[str]:
    """What to bear in mind where one of several trainings is chosen."""
    usable = [stored for stored in found if stored.result.usable]
    if len(usable) < 2:
        return []
    notes = ["note: the largest of several held-out scores is optimistic"]
    if not same_queries(usable):
        notes.append("note: they were judged on different queries: the scores are not quite comparable")
    return notes


def best_training_report(
    stored: Sequence[Stored], best: Stored | None, rejected: Sequence[tuple[Stored, str]], problems: Sequence[str]
) -> Document:
    """The training that was chosen, which others were not and why, and what cannot be read."""
    document: Document = [Note("no training can be chosen")] if best is None else training_report(best.result)
    document += [Note(f"not chosen: {each.id}: {reason}") for each, reason in rejected]
    return document + [Note(text) for text in (*choice_notes(stored), *problems)]
