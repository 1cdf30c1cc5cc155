"""How the samples of lm-eval become rows: one per document and filter, of a samples file or of all in a folder.

    {"doc_id": 0, "doc": {"q": …, "site": "x"}, "target": "0",
     "arguments": {"gen_args_0": {"arg_0": …, "arg_1": " a"}, …}, "resps": [[["-0.26", "False"]], …],
     "filtered_resps": [["-0.26", "False"], …], "filter": "none", "metrics": ["acc", "acc_norm"],
     "doc_hash": …, "prompt_hash": …, "acc": 1.0, "acc_norm": 0.0}

The item is `doc_id`, the task is in the file's name, the model in the results file next to it, the filter is the
strategy where there are several, and a document that comes again is a repeat. What is in `doc` has its name:
`doc.site`.

One metric counts: the first that says right or wrong on every document in sight, or the one asked for as `scorer=`.
It is the mark; all that are numbers are `score.<metric>`, word and byte perplexities and bits per byte for each
document. Of a multiple choice, the prediction is the likeliest choice, written as the target is (its place or its
text), and the confidence its share: the softmax of the log-likelihoods, which `acc_norm` divides by the characters of
the choice, `acc_bytes` by its bytes, and from which `acc_mutual_info` takes those without the question. Of a reply, the
prediction is what the filter made of it; what filters write where they find nothing is no answer. Of a text whose
likelihood was taken, the prediction is whether the model would have written it, or the log-likelihood.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError, counted, printable
from steelyard.halves import whole_text
from steelyard.records.declared import Declared
from steelyard.records.readers.contract import Certainty, Column, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.lm_eval_files import File, Setup, judges_among, names_text
from steelyard.records.readers.lm_eval_results import Results
from steelyard.records.readers.lm_eval_samples import (
    BY_LENGTH,
    NO_SAMPLES,
    Choices,
    Line,
    are_results,
    brier,
    choices_of,
    completion_of,
    lines_of,
    log_of,
    metric_of,
    reply_of,
    score_of,
    shares,
)
from steelyard.records.readers.logged import Samples, chosen

_STAMP = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_STAMP})\.jsonl")
_RESULTS = re.compile(rf"(?:.+_)?(?P<time>{_STAMP})\.json")
_DEEPEST = 2  # folders below the one that is given: it may hold one per model, or per suite and model
_HASHES = ("doc_hash", "prompt_hash")


def sniff(head: Head) -> Certainty:
    """The keys of the first line, or the names in a folder; the results of a run are known too, to say what to give."""
    if head.members is not None:
        names = [name.rpartition("/")[2] for name in head.members if name.count("/") <= _DEEPEST]
        return "sure" if any(map(_SAMPLES.fullmatch, names)) or any(map(_is_results, names)) else "no"
    keys = set(head.keys)
    if keys >= {"doc_id", "doc"}:
        is_long = not head.objects and head.name.startswith("samples_")  # the first line ends where nobody looks
        return "sure" if is_long or keys & {"resps", "filtered_resps"} else "no"
    return "sure" if are_results(head) else "no"


def _is_results(name: str) -> bool:
    return name.startswith("results_") and _RESULTS.fullmatch(name) is not None


@reader(
    "lm-eval",
    about="the samples_*.jsonl of lm-eval, or a folder with them",
    suffixes=(".jsonl",),
    sniff=sniff,
    takes="both",
)
def load(source: Input) -> Table:
    """The rows of a samples file, or of all of a folder."""
    log = _Log(source)
    if source.bundle is None:
        log.read(source, _next_to(source))
        return log.table()
    names = [name for name in source.bundle.names() if _SAMPLES.fullmatch(name.rpartition("/")[2])]
    if not names:
        raise source.error(NO_SAMPLES)
    results: dict[str, Results | None] = {}
    for name in names:
        place = _results_of(name, source.bundle.names())
        if place is not None and place not in results:
            results[place] = _results(source, source.member(place))
        found = results[place] if place is not None else None
        log.read(source.member(name), _fitting(source, name, place or "", found))
    return log.table()


def _next_to(source: Input) -> Results | None:
    """The results of the run that a samples file is of: those of the same time, else the only ones."""
    named = _SAMPLES.search(source.name)
    near = source.siblings(f"*_{named['time']}.json") if named else []
    near = near or source.siblings("results_*.json")
    if len(near) != 1:
        return None
    return _fitting(source, source.name, near[0].name, _results(source, near[0]))


def _fitting(source: Input, samples: str, place: str, results: Results | None) -> Results | None:
    """The results, if they are of the samples' time; others if they have the task, which is said."""
    named = _SAMPLES.search(samples)
    if results is None or (named and place.endswith(f"_{named['time']}.json")):
        return results
    if named and named["task"] not in results.tasks():
        return None
    why = "which is of another time" if named else "though its name does not say of which run it is"
    source.warnings.append(
        f"{printable(samples)}: the model and the settings are those of {printable(os.path.basename(place))}, {why}; "
        "move that file away if they are not of one run"
    )
    return results


def _results(source: Input, file: Input) -> Results | None:
    """The results in a file; what is wrong with it is said, and no reason to refuse the samples."""
    try:
        return Results.of(file)
    except InputError as problem:
        source.warnings.append(f"{problem}; so nothing is known of the run")
        return None


def _results_of(samples: str, names: Sequence[str]) -> str | None:
    """The same among the names of a bundle."""
    folder, _, own = samples.rpartition("/")
    near = [name for name in names if name.rpartition("/")[0] == folder]
    beside = [name for name in near if _RESULTS.fullmatch(name.rpartition("/")[2])]
    named = _SAMPLES.fullmatch(own)
    same = [name for name in beside if named and name.endswith(f"_{named['time']}.json")]
    return same[0] if same else beside[0] if len(beside) == 1 else None


# -- rows --------------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """What a sample says that the model answered."""

    target: str | None
    prediction: str | None
    outcome: str
    confidence: float | None = None


class _Log:
    """The rows of one samples file or several, and what is known of each."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._samples = Samples(source)
        self._files: list[File] = []
        self._lines = array("q")
        self._inside: dict[str, bool] = {}  # the fields of documents, and whether they are wanted
        self._remarks: list[str] = []
        self._met: list[str] = []  # the names of all metrics
        source.begins_with(("item", "target", "prediction"))

    def read(self, file: Input, results: Results | None) -> None:
        """Add the rows of a samples file."""
        reading: File | None = None
        for lines in lines_of(file):
            if reading is None and lines:
                reading = File(self._setup(file, results, lines), results)
                self._files.append(reading)
            for line in lines:
                if reading is not None:
                    self._add(reading, line)
        if file is not self._source:
            self._source.warnings += file.warnings

    def _setup(self, file: Input, results: Results | None, lines: Sequence[Line]) -> Setup:
        folder, name = os.path.split(whole_text(file.name))
        named = _SAMPLES.search(name)
        task = named["task"] if named else None
        if task is None and results is not None and len(results.tasks()) == 1:
            task = results.tasks()[0]
        model = results.model if results is not None else None
        if model is None and "__" in os.path.basename(folder):  # as lm-eval writes the / in a model's name
            model = os.path.basename(folder).replace("__", "/", 1)
        for known in self._files:
            if (known.setup.task, known.setup.model) == (task, model):
                raise file.error(
                    "this is a second run of the same task by the same model; give the file of one of them"
                )
        metrics = tuple(dict.fromkeys(name for line in lines for name in line.metrics))
        self._met += metrics
        return Setup(
            task=task,
            model=model,
            delimiter=results.delimiter(task) if results is not None and task is not None else " ",
            no_match=results.no_match(task) if results is not None and task is not None else frozenset(("[invalid]",)),
            metrics=metrics,
            counted=self._counted(file, metrics, lines),
            by_text=any(map(names_text, lines)),
        )

    def _counted(self, file: Input, metrics: Sequence[str], lines: Sequence[Line]) -> tuple[str | None, ...]:
        asked = [name for name in metrics if name in self._source.scorers]
        if asked:
            return tuple(asked)
        first = next(judges_among(lines, metrics), None)
        if self._source.scorers and self._source.bundle is not None:
            self._remarks.append(
                f"{printable(file.name)}: has none of the metrics that were asked for; "
                + (f"{printable(first)} counts" if first else "none counts")
            )
        elif self._source.scorers:
            chosen(self._source, metrics, what="metric")
        return (first,)

    def _add(self, file: File, line: Line) -> None:
        """Add the rows of a sample: one for each metric that counts."""
        setup = file.setup
        values = {name: metric_of(line, name) for name in setup.metrics}
        asked, replies = line.asked(), line.replies()
        choices = choices_of(line, setup.delimiter, setup.metrics, asked, replies)
        if choices is not None and "brier_score" in values:
            values["brier_score"] = brier(line, choices), math.nan
        doc_id = line.doc_id
        file.take(doc_id, line.text("filter") or "none", values)
        scores = {name: score for name, value in values.items() if not math.isnan(score := score_of(name, *value))}
        extras = {**({"score": scores} if scores else {}), **self._extras(line)}
        for metric in setup.counted:
            is_right = metric is not None and values[metric][0] == 1
            if choices is not None:
                answer = self._chosen(line, setup, choices, metric)
            elif asked and not isinstance(asked[0], dict):
                answer = self._likely(line, replies[0])
            else:
                answer = self._written(line, setup, replies[0], is_right=is_right)
            task = setup.task_of(metric)
            about = {"model": setup.model, "task": task}
            known = {name: value for name, value in about.items() if value is not None}
            self._samples.add({**known, "item": doc_id, **answer._asdict(), **extras})
            self._lines.append(line.number)

    def _chosen(self, line: Line, setup: Setup, choices: Choices, metric: str | None) -> _Answer:
        """The likeliest choice, the first of equals; its confidence is its share."""
        scores = choices.weighed(metric)
        target = line.target if choices.are_named else None
        if any(math.isnan(score) for score in scores):
            return _Answer(target, None, self._samples.counted("failed", "a log-likelihood is no number"))
        place = scores.index(max(scores))
        share = shares(scores)[place]
        is_known = choices.are_named or metric not in BY_LENGTH
        prediction = choices.texts[place] if setup.by_text and choices.are_named else str(place)
        return _Answer(target, prediction, "answered", share if is_known and not math.isnan(share) else None)

    def _likely(self, line: Line, reply: Any) -> _Answer:
        """Whether the model would have written a text, or how likely it found it."""
        if math.isnan(log_of(line, reply)):
            return _Answer(None, None, self._samples.counted("failed", "a log-likelihood is no number"))
        prediction = str(reply[1]) if isinstance(reply, list) and len(reply) > 1 else str(reply_of(reply))
        return _Answer(None, prediction, "answered")

    def _written(self, line: Line, setup: Setup, reply: Any, *, is_right: bool) -> _Answer:
        """What the filter made of a reply."""
        target, answer = line.target, reply_of(reply)
        found = None if answer in setup.no_match else answer
        completion = answer if found is not None and found.strip() else completion_of(line)
        outcome = self._samples.outcome(answer=found, completion=completion, target=target, right=is_right)
        return _Answer(target, found or completion if outcome == "answered" else None, outcome)

    def _extras(self, line: Line) -> dict[str, Any]:
        """The hashes and fields of the document that are wanted."""
        extras: dict[str, Any] = {name: line.text(name) for name in _HASHES if self._source.want(name) != "skip"}
        if self._inside.get("", True):
            doc = line.value("doc")
            if not isinstance(doc, dict) or not self._source.goes_inside("doc", doc):
                self._inside[""] = self._source.want("doc") != "skip"
                extras |= {"doc": doc} if self._inside[""] else {}
            else:
                extras["doc"] = {key: value for key, value in doc.items() if self._wants(key, value)}
        return extras

    def _wants(self, key: str, value: Any) -> bool:
        if key not in self._inside:
            name = f"doc.{key}"
            goes_inside = isinstance(value, dict) and self._source.goes_inside(name, value)
            self._inside[key] = goes_inside or self._source.want(name) != "skip"
        return self._inside[key]

    # -- the table -----------------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """All rows, with the columns that are made of all of them."""
        if self._source.scorers:
            chosen(self._source, list(dict.fromkeys(self._met)), what="metric")
        table = self._samples.table(
            about=self._facts(), declared=self._declared(), excerpt=self._excerpt(), remarks=self._said()
        )
        lines = np.frombuffer(self._lines, np.int64) if self._source.bundle is None else None
        return replace(table, columns={**table.columns, **self._attached(table)}, lines=lines)

    def _attached(self, table: Table) -> dict[str, Column]:
        marks = [mark for file in self._files for mark in file.marks()]
        named: dict[str, Column] = {
            "mark": pa.array(marks, pa.float64() if any(m is not None for m in marks) else None)
        }
        strategies = [name for file in self._files for name in file.strategies()]
        if any(strategies):
            named["strategy"] = pa.array(strategies, pa.string())
        repeats = [number for file in self._files for number in file.repeats()]
        if max(repeats) > 1:
            named["repeat"] = pa.array(repeats, pa.int64())
        attached = {}
        for original, column in named.items():
            name = self._source.column(original)
            if name in table.columns and name not in self._source.mapped:
                raise self._source.taken(name)
            if name not in table.columns and self._source.want(original) != "skip":
                attached[name] = column
        return attached

    def _facts(self) -> dict[str, str]:
        tasks = tuple(dict.fromkeys(file.setup.task for file in self._files if file.setup.task is not None))
        metrics = dict.fromkeys(name for file in self._files for name in file.setup.counted if name is not None)
        results = {id(file.results): file.results for file in self._files}
        (only,) = results.values() if len(results) == 1 else (None,)
        facts = {"tool": "lm-eval", "task": ", ".join(tasks), "metric": ", ".join(metrics)}
        facts |= only.facts(tasks) if only is not None else {}
        return {name: value for name, value in facts.items() if value}

    def _declared(self) -> list[Declared]:
        return [
            each
            for file in self._files
            if file.results is not None and file.setup.task is not None
            for each in file.results.declared(file.setup.task, file.values, alone=len(self._files) == 1)
        ]

    def _counts(self) -> Iterator[tuple[File, int | None, int]]:
        """The files whose results say how many documents were run, with that and how many there are."""
        for file in self._files:
            if file.results is not None and file.setup.task is not None:
                original, effective = file.results.counts(file.setup.task)
                if effective is not None:
                    yield file, original, effective

    def _excerpt(self) -> str:
        short = [(file, effective) for file, _, effective in self._counts() if file.fewest() < effective]
        return "; ".join(
            f"{file.fewest():,} of {counted(effective, 'document')} of {printable(file.setup.task)} that were run"
            for file, effective in short
        )

    def _said(self) -> list[str]:
        name = printable(self._source.name)
        for file, original, effective in self._counts():
            if original is not None and effective < original:
                what = (
                    f"only {effective:,} of the {original:,} documents of {printable(file.setup.task)} were to be run"
                )
                self._source.caution("excerpt", what, 1 - effective / original)
        undecided = [
            f"{name}: {printable(metric)} of {printable(file.setup.task or 'the task')} is not 0 or 1 everywhere, so "
            f"it marks nothing as right or wrong; it is in score.{printable(metric)}"
            for file in self._files
            for metric in file.setup.counted
            if metric is not None and not file.judges(metric)
        ]
        return [*self._remarks, *undecided]
