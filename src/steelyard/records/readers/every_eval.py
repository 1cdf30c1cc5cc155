"""Runs in the format of Every Eval Ever: a JSON document of aggregate scores, and its samples, one per line.

    data/triage/acme/small/<uuid>.json              the aggregate, which names its samples
    data/triage/acme/small/<uuid>_samples.jsonl

The aggregate is read together with the samples next to it, and the samples with the aggregate, where there is one; a
folder or a zip archive is read with all that is in it. A sample has one line for each result of the aggregate
that it belongs to. The evaluation's name becomes `task`, followed by the result's id where it has several; `scorer=`
chooses among the results by their ids. The mark is `is_correct`, unless nothing is correct although there are scores:
then nobody said so. Equal samples of one model are repeats.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from steelyard.errors import counted, printable
from steelyard.records.declared import Declared
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.every_eval_files import SAMPLES, TOOL, Run, aggregate_name, run_of_file, runs_in_bundle
from steelyard.records.readers.every_eval_rows import Aggregate, Result, Sample
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.log_rows import Shape, blanked, lines, retold
from steelyard.records.readers.log_values import Due
from steelyard.records.readers.logged import Samples, chosen

_AGGREGATE = frozenset(("evaluation_results", "eval_library", "model_info", "retrieved_timestamp", "source_metadata"))


def sniff(head: Head) -> Certainty:
    """An aggregate or a sample by its keys; a folder by a file of samples next to a document of the same name."""
    if head.members is not None:
        names = set(head.members)
        return "sure" if any(aggregate_name(name) in names for name in names if name.endswith(SAMPLES)) else "no"
    keys = set(head.keys)
    if head.container or not {"schema_version", "evaluation_id"} <= keys:
        return "no"
    is_sample = {"sample_id", "evaluation_name"} <= keys
    return "sure" if is_sample or len(_AGGREGATE & keys) > 1 else "no"


@reader(
    "every-eval-ever",
    about="a run in the format of Every Eval Ever, an aggregate with its samples, or a folder of such",
    suffixes=(".json", ".jsonl"),
    sniff=sniff,
    takes="both",
)
def load(source: Input) -> Table:
    """The samples of a run, or of all runs in a folder."""
    runs = list(runs_in_bundle(source)) if source.bundle is not None else [run_of_file(source)]
    own = runs[0].samples if len(runs) == 1 else source
    log = _Log(own)
    for run in runs:
        log.read(run)
    table = log.table(runs)
    parts = {id(part): part for run in runs for part in (run.samples, *run.others) if part is not source}
    source.warnings += [warning for part in parts.values() for warning in part.warnings]
    return table


# -- rows --------------------------------------------------------------------------------------------------------------


class _Task(NamedTuple):
    """What a sample is scored under: an evaluation, and the id of a result of it."""

    name: str
    result: str | None


@dataclass
class _Seen:
    """What the samples of a task are like."""

    rows: int = 0
    total: float = 0.0
    scored: int = 0
    correct: int = 0
    graded: bool = False
    claimed: bool = False  # whether some sample has a score other than 0

    def add(self, score: float | None, correct: bool | None) -> None:
        self.rows += 1
        self.correct += bool(correct)
        if score is not None:
            self.total += score
            self.scored += 1
            self.graded |= score not in (0, 1)
            self.claimed |= score != 0

    @property
    def unmarked(self) -> bool:
        """True if nothing is correct although there are scores: nobody said what is."""
        return not self.correct and self.claimed


class _Log:
    """The samples of all runs, and what is to be said of them."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self.samples = Samples(source)
        self._due = Due()
        self._tasks: dict[_Task, int] = {}
        self._seen: list[_Seen] = []
        self._codes = array("i")  # of the task, by row
        self._repeats: Counter[tuple[int, str | None, str]] = Counter()
        self._hashes: dict[tuple[int, str], str] = {}
        self._mixed: set[tuple[int, str]] = set()
        self._by_run: dict[tuple[int, int], _Seen] = {}
        self._other = self._rows = 0

    def read(self, run: Run) -> None:
        """Add the samples of a run."""
        for number, sample in lines(run.samples, Shape(run.samples, Sample, tool=TOOL), begun=run.begun):
            self._rows += 1
            run.rows += 1
            self._add(run, sample, number)

    def _add(self, run: Run, sample: Sample, number: int) -> None:
        item = sample.sample_hash if sample.sample_id in (None, "") else str(sample.sample_id)
        if not item or not sample.evaluation_name:
            missing = "evaluation_name" if item else "sample_id"
            raise run.samples.error("is missing", line=number, field=missing)
        aggregate = run.aggregate or Aggregate()
        run.strangers += None not in (ids := (aggregate.evaluation_id, sample.evaluation_id)) and len(set(ids)) > 1
        judged = sample.evaluation
        score, correct = (judged.score, judged.is_correct) if judged is not None else (None, None)
        task = _Task(sample.evaluation_name, sample.evaluation_result_id)
        code = self._tasks.setdefault(task, len(self._tasks))
        if code == len(self._seen):
            self._seen.append(_Seen())
        self._by_run.setdefault((id(run), code), _Seen()).add(score, correct)
        if self._source.scorers and task.result not in self._source.scorers:
            self._other += 1
            return
        self._seen[code].add(score, correct)
        self._codes.append(code)
        if sample.sample_hash and self._hashes.setdefault((code, item), sample.sample_hash) != sample.sample_hash:
            self._mixed.add((code, item))
        model = sample.model_id or aggregate.model_info.id
        self._repeats[code, model, item] += 1
        key = {"item": item, "repeat": self._repeats[code, model, item], "task": str(code)}
        self.samples.add(key | ({"model": model} if model else {}) | self._record(sample, score, correct))

    def _record(self, sample: Sample, score: float | None, correct: bool | None) -> dict[str, Any]:
        references, answer = sample.references(), sample.answer()
        target = references[0] if len(references) == 1 else None
        refused = sample.error is not None and "refus" in sample.error.casefold()
        if sample.error and not refused:
            outcome = self.samples.counted("failed", "the sample states an error")
        else:
            outcome = self.samples.outcome(
                answer=answer, completion=sample.reply(), target=target, no_answer=refused, right=bool(correct)
            )
        usage, times, metadata = sample.token_usage, sample.performance, sample.metadata or {}
        stated = {
            "latency_ms": times.latency_ms if times is not None else None,
            "input_tokens": usage.input_tokens if usage is not None else None,
            "output_tokens": usage.output_tokens if usage is not None else None,
            "evaluation_id": sample.evaluation_id,
            "sample_hash": sample.sample_hash,
        }
        record: dict[str, Any] = {
            "target": target,
            "prediction": answer if outcome == "answered" else None,
            "outcome": outcome,
            "mark": None if outcome == "failed" else correct,
            "score": score,
            **{name: value for name, value in stated.items() if value is not None},
            "metadata": metadata,
        }
        if times is not None:
            record["performance"] = {
                "time_to_first_token_ms": times.time_to_first_token_ms,
                "generation_time_ms": times.generation_time_ms,
            }
        if (due := self._due.of(metadata.get("should_abstain"))) is not None:
            record["should_abstain"] = due
        return record

    # -- what all of them say ------------------------------------------------------------------------------------------

    def table(self, runs: list[Run]) -> Table:
        """All samples, with the names of their tasks, and what the aggregates say."""
        chosen(self._source, sorted({task.result for task in self._tasks if task.result}))
        names = self._names()
        several = sum(run.aggregate is not None for run in runs) > 1
        facts = [run.aggregate.facts() for run in runs if run.aggregate is not None]
        for run in runs:
            for text in self._contradictions(run):
                run.samples.caution("contradiction", text)
        if len(runs) == 1:
            self._say_limited(runs[0])
        table = self.samples.table(
            about={name: value for name, value in (facts[0] if facts else {}).items() if _agreed(facts, name)},
            declared=[each for run in runs for each in self._declared(run, several=several)],
            excerpt=next(filter(None, map(self._excerpt, runs)), ""),
            remarks=[
                *self._remarks(names),
                *self._due.remarks(self._source.name),
            ],
        )
        unmarked = np.array([seen.unmarked for seen in self._seen], bool)[np.array(self._codes, np.int64)]
        table = blanked(self._source, table, "mark", unmarked)
        return retold(self._source, table, "task", {str(code): name for code, name in names.items()})

    def _names(self) -> dict[int, str]:
        results = Counter(task.name for task in self._tasks)
        return {
            code: f"{task.name}/{task.result}" if results[task.name] > 1 and task.result else task.name
            for task, code in self._tasks.items()
        }

    def _samples_of(self, run: Run, result: Result) -> _Seen:
        """The samples of a run under one result of its aggregate."""
        assert run.aggregate is not None
        name = result.evaluation_name or ""
        own = self._tasks.get(_Task(name, result.evaluation_result_id))
        alone = sum(each.evaluation_name == result.evaluation_name for each in run.aggregate.evaluation_results) == 1
        if own is None and alone:
            own = self._tasks.get(_Task(name, None))
        return _Seen() if own is None else self._by_run.get((id(run), own), _Seen())

    def _declared(self, run: Run, *, several: bool) -> Iterator[Declared]:
        if run.aggregate is None:
            return
        for result in run.aggregate.evaluation_results:
            stated, seen = result.score_details.score, self._samples_of(run, result)
            if stated is None:
                continue
            mean = result.recomputed(seen.total / seen.scored, run.aggregate.eval_library.name) if seen.scored else None
            name = f"{result.named} ({run.aggregate.model_info.id})" if several else result.named
            yield Declared(name=name, stated=stated, recomputed=mean)

    def _excerpt(self, run: Run) -> str:
        """How much is missing of what the aggregate says there is."""
        if run.rows < (total := run.detailed.total_rows or 0):
            return f"{run.rows:,} of {counted(total, 'row')} that the aggregate counts"
        for result in run.aggregate.evaluation_results if run.aggregate is not None else ():
            uncertainty, seen = result.score_details.uncertainty, self._samples_of(run, result)
            due = (uncertainty.num_samples or 0) if uncertainty is not None else 0
            if 0 < seen.rows < due:
                return f"{seen.rows:,} of {due:,} samples behind {printable(result.named)}"
        return ""

    def _contradictions(self, run: Run) -> Iterator[str]:
        """What the samples of a run do not have in common with its aggregate."""
        stated = run.detailed
        if run.rows > (stated.total_rows if stated.total_rows is not None else run.rows):
            yield f"{counted(run.rows, 'row')}, the aggregate counts {stated.total_rows:,}"
        if run.strangers:
            names = "names" if run.strangers == 1 else "name"
            some = f"{run.strangers:,} of {counted(run.rows, 'row')}"
            yield f"{some} {names} another evaluation than the aggregate does"
        known = stated.checksum and stated.hash_algorithm == "sha256"
        if known and run.samples.sha256 != str(stated.checksum).casefold():
            yield "the samples were changed after the aggregate was written: their checksum differs"

    def _say_limited(self, run: Run) -> None:
        """Say that not all of a dataset was run; that may have been the plan."""
        results = run.aggregate.evaluation_results if run.aggregate is not None else ()
        size = max((each.source_data.samples_number or 0 for each in results), default=0)
        if (items := len({item for _, _, item in self._repeats})) < size:
            what = f"{items:,} of the {size:,} samples of the dataset were run"
            run.samples.caution("excerpt", what, 1 - items / size)

    def _remarks(self, names: Mapping[int, str]) -> Iterator[str]:
        file = printable(self._source.name)
        graded = [names[code] for code, seen in enumerate(self._seen) if seen.graded and not seen.unmarked]
        unmarked = [names[code] for code, seen in enumerate(self._seen) if seen.unmarked]
        if graded:
            yield (
                f"{file}: the scores of {_listed(graded)} are more than right and wrong; accuracy counts is_correct, "
                "mean(score) is their mean"
            )
        if unmarked:
            yield f"{file}: nothing in {_listed(unmarked)} is correct, although there are scores; so there are no marks"
        if self._mixed:
            ids = "1 id stands" if len(self._mixed) == 1 else f"{len(self._mixed):,} ids stand"
            yield (
                f"{file}: {ids} for samples that differ in sample_hash, which count as repeats; "
                "`map=item=sample_hash` keeps them apart"
            )
        if self._other:
            belong = "belongs" if self._other == 1 else "belong"
            some = f"{self._other:,} of {counted(self._rows, 'row')}"
            yield f"{file}: {some} {belong} to other results than `scorer=` names"


def _agreed(facts: list[dict[str, str]], name: str) -> bool:
    return len({each.get(name) for each in facts}) == 1


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{printable(name)}'" for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
