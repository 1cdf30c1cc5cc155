"""What a row of an Inspect log is: one sample in one epoch under one scorer.

The id becomes `item`, the epoch `repeat`. A scorer whose values are right or wrong gives `mark`; one with other numbers
gives `score` alone, and no mark. With several scorers each is a task of its own. A scorer that names an answer in any
sample extracts answers: then a reply without one could not be read. Otherwise the whole reply is the answer. Where no
sample has a reply, because the log was made without them or what was done was scored, the score alone counts.
`metadata.*` keeps its name. Several targets are written as the tool writes several answers: "A, B". A log of a run that
has not ended, or that holds fewer samples than were to be run, is an excerpt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from steelyard.errors import counted, printable
from steelyard.records.readers.contract import Table
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.inspect_samples import Held, Sample, Score
from steelyard.records.readers.inspect_scores import SCORER, Scores, declared, number, stated
from steelyard.records.readers.log_values import Due
from steelyard.records.readers.logged import Samples, chosen

_NAMED = 5  # scorers that a remark names


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a log says of its run, and its samples."""

    facts: Mapping[str, Any]
    samples: Held
    remarks: tuple[str, ...] = ()

    def get(self, *path: str) -> Any:
        """The value at a path, None where there is none."""
        found: Any = self.facts
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def text(self, *path: str) -> str | None:
        found = self.get(*path)
        return found if isinstance(found, str) and found else None

    def whole(self, *path: str) -> int | None:
        found = self.get(*path)
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    @property
    def status(self) -> str:
        return self.text("status") or "started"

    @property
    def planned(self) -> int:
        """How many samples were to be run, in all epochs; 0 where the log does not say."""
        ids = self.get("eval", "dataset", "sample_ids")
        count = (len(ids) if isinstance(ids, list) else 0) or self.whole("eval", "dataset", "samples") or 0
        asked = self.get("eval", "config", "sample_id")
        if asked is not None:
            count = _named(asked, ids if isinstance(ids, list) else [], count)
        count = _limited(count, self.get("eval", "config", "limit"))
        epochs = self.whole("eval", "config", "epochs") or 1
        return max(count * epochs, self.whole("results", "total_samples") or 0)

    @property
    def excerpt(self) -> str:
        """Of how much the samples are a part; nothing where they are all."""
        said = []
        if len(self.samples) < self.planned:
            said.append(f"{len(self.samples):,} of {self.planned:,} samples that were to be run")
        if self.status != "success":
            said.append(f"the run did not end well (status {printable(self.status)})")
        return "; ".join(said)

    @property
    def is_ours(self) -> bool:
        """True if `convert` wrote the log: then it says of every sample what became of it."""
        packages, scorers = self.get("eval", "packages"), self.get("eval", "scorers")
        named = [each.get("name") for each in scorers if isinstance(each, dict)] if isinstance(scorers, list) else []
        return isinstance(packages, dict) and SCORER in packages and named == [SCORER]

    def about(self) -> dict[str, str]:
        """The facts of the run."""
        named = {
            "tool_version": self.text("eval", "packages", "inspect_ai"),
            "run_id": self.text("eval", "run_id"),
            "eval_id": self.text("eval", "eval_id"),
            "created": self.text("eval", "created"),
            "task": self.text("eval", "task"),
            "task_version": self.get("eval", "task_version"),
            "model": self.text("eval", "model"),
            "dataset": self.text("eval", "dataset", "name"),
            "git_commit": self.text("eval", "revision", "commit"),
            "status": self.status,
            "epochs": self.whole("eval", "config", "epochs"),
            "limit": self.get("eval", "config", "limit"),
            **{
                name: next((found for found in self._configured(name) if found is not None), None)
                for name in ("temperature", "top_p", "seed", "max_tokens")
            },
        }
        plain = {name: found for name, found in named.items() if isinstance(found, str | int | float | list)}
        return {"tool": "inspect_ai", **{name: str(found) for name, found in plain.items()}}

    def _configured(self, name: str) -> Iterator[Any]:
        for path in (("plan", "config"), ("eval", "model_generate_config")):
            found = self.get(*path, name)
            yield found if isinstance(found, int | float) and not isinstance(found, bool) else None


@dataclass(kw_only=True)
class _Scorer:
    """What all samples say of a scorer."""

    extracts: bool = False  # whether it names an answer in any of them
    graded: bool = False  # whether some values are neither right nor wrong
    unread: int = 0  # values that are texts and stand for no number

    def meet(self, score: Score) -> None:
        self.extracts = self.extracts or score.answer is not None
        if score.value is not None:
            converted = number(score.value)
            self.unread += converted is None
            self.graded = self.graded or converted not in (0.0, 1.0)


class Rows:
    """The rows of a log, once all its samples were seen."""

    def __init__(self, source: Input, log: Log) -> None:
        self._source, self._log = source, log
        self._scorers: dict[str, _Scorer] = {}
        self._items: dict[str, int] = {}  # each item's number
        self._missing = 0
        self._due = Due()
        kinds = set()
        self._replies = False  # whether any sample has one
        for sample in log.samples:
            kinds.add(type(sample.id))
            self._missing += sample.missing
            self._items.setdefault(str(sample.id), len(self._items))
            self._replies = self._replies or bool((sample.completion or "").strip())
            for name, score in sample.scores.items():
                self._scorers.setdefault(name, _Scorer()).meet(score)
        self._replies = self._replies or any(each.extracts for each in self._scorers.values())
        self._mixed = len(kinds) > 1
        self._ours = log.is_ours
        self._chosen = self._asked()
        self._task = log.text("eval", "task")
        self._model = log.text("eval", "model")
        if any(self._scorers[name].graded for name in self._chosen):  # then the score is what is measured
            source.demand = replace(source.demand, asked=source.demand.asked | {"score"})

    def _asked(self) -> tuple[str, ...]:
        """The scorers that count; the name of one whose values are objects stands for all their keys."""
        names = list(self._scorers)
        whole = {name: name.partition(".")[0] for name in names}
        picked = set(chosen(self._source, list(dict.fromkeys((*names, *whole.values())))))
        return tuple(name for name in names if name in picked or whole[name] in picked)

    def table(self) -> Table:
        """All rows as one table."""
        several = len(self._chosen) > 1
        samples = Samples(self._source, what="scores" if several else "samples")
        scores = {name: Scores() for name in self._scorers}
        entries = [] if self._source.leaves_out else stated(self._log.get("results"))
        clusters = {name: [None] * len(self._items) for entry in entries for name in entry.clusters}
        for sample in self._log.samples:
            item = self._items[str(sample.id)]
            for name, score in sample.scores.items():
                scores[name].add(item, sample.epoch, score.value)
            for name, by_item in clusters.items():
                by_item[item] = _hashable(sample.metadata.get(name))
            for chosen_name in self._chosen or (None,):
                samples.add(self._row(samples, sample, chosen_name, several=several))
        unreduced = self._log.get("eval", "config", "epochs_reducer") == []
        metrics = tuple(declared(entries, scores, clusters, unreduced=unreduced))
        return samples.table(
            about=self._log.about(), declared=metrics, excerpt=self._log.excerpt, remarks=self._remarks()
        )

    def _row(self, samples: Samples, sample: Sample, name: str | None, *, several: bool) -> dict[str, Any]:
        score = sample.scores.get(name) if name is not None else None
        scorer = self._scorers[name] if name is not None else _Scorer()
        target = ", ".join(sample.targets) if sample.targets else None
        if self._ours:
            outcome, prediction = _as_written(samples, sample, score)
        else:
            outcome, prediction = self._judged(samples, sample, score, scorer, target)
        points = None if score is None else number(score.value)
        usage = sample.usage.get(self._model or "", (None, None))
        row: dict[str, Any] = {
            "item": str(sample.id) if self._mixed else sample.id,
            "repeat": sample.epoch,
            "target": target,
            "prediction": prediction,
            "outcome": outcome,
            "mark": None if scorer.graded or points is None else int(points),
            "score": points,
        }
        known = {
            "task": f"{self._task}/{name}" if several else self._task,
            "model": self._model,
            "should_abstain": self._due.of(sample.metadata.get("should_abstain")),
            "latency_ms": sample.latency_ms,
            "input_tokens": usage[0],
            "output_tokens": usage[1],
            "signal": sample.signals or None,
            "metadata": sample.metadata or None,
        }
        return row | {column: part for column, part in known.items() if part is not None}

    def _judged(
        self, samples: Samples, sample: Sample, score: Score | None, scorer: _Scorer, target: str | None
    ) -> tuple[str, str | None]:
        """What became of a sample, and the answer that counts."""
        if sample.failed:
            return samples.counted("failed", sample.failed), None
        if score is None or score.value is None:
            return samples.counted("failed", "the sample was not scored"), None
        if not self._replies:
            no_answer = score.value == "N"
            return (samples.outcome(answer=None, completion=None, no_answer=True) if no_answer else "answered"), None
        found = score.answer if scorer.extracts else sample.completion
        blank = not (found or "").strip()
        text = (sample.completion if blank else found) or ""
        meant = next((each for each in sample.targets if each.strip() == text.strip()), target)
        silent = score.value == "N" and bool(text.strip())
        outcome = samples.outcome(
            answer=found, completion=sample.completion, target=meant, no_answer=silent, right=score.judged_right
        )
        return outcome, text if outcome == "answered" else None

    def _remarks(self) -> list[str]:
        place, log = printable(self._source.name), self._log
        said = [*log.remarks, *self._due.remarks(self._source.name)]
        if len(self._chosen) > 1:
            named = ", ".join(printable(name) for name in self._chosen[:_NAMED])
            more = f" and {len(self._chosen) - _NAMED} more" if len(self._chosen) > _NAMED else ""
            said.append(
                f"{place}: {len(self._chosen)} scorers ({named}{more}), each is a task of its own; `scorer=` chooses"
            )
        for name in self._chosen:
            if unread := self._scorers[name].unread:
                what = counted(unread, "value")
                are = "is a text that stands" if unread == 1 else "are texts that stand"
                said.append(f"{place}: {what} of {printable(name)} {are} for no number")
        if self._missing:
            texts = "text is" if self._missing == 1 else "texts are"
            said.append(
                f"{place}: {self._missing:,} {texts} kept in attachments that the log does not hold, and so not known"
            )
        limit = log.get("eval", "config", "limit")
        if limit is not None:
            rows, whole = len({sample.id for sample in log.samples}), log.whole("eval", "dataset", "samples") or 0
            share = 1 - rows / whole if 0 < rows < whole else 1.0
            limited = f"the run was limited to a part of its dataset (limit {printable(str(limit))})"
            self._source.caution("excerpt", f"{limited}: {rows:,} of {whole:,} samples" if whole else limited, share)
        return said


def _named(asked: Any, ids: Sequence[Any], count: int) -> int:
    """How many of so many samples have a name that was asked for, `*` included; 0 where that is not known."""
    names = {str(name) for name in (asked if isinstance(asked, list) else [asked])}
    patterns = [name for name in names if set("*?[") & set(name)]
    found = sum(each in names or any(fnmatchcase(each, pattern) for pattern in patterns) for each in map(str, ids))
    return found or (0 if patterns else min(len(names), count))


def _limited(count: int, limit: Any) -> int:
    """How many of so many samples a limit leaves: a number of them, or the first and the one behind the last."""
    first, end = limit if isinstance(limit, list) and len(limit) == 2 else (0, limit)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (first, end)) or end < 1:
        return count
    return max(0, min(count, end) - max(0, first))


def _as_written(samples: Samples, sample: Sample, score: Score | None) -> tuple[str, str | None]:
    """What became of a sample, and its answer, as our own log says it; where nothing is right or wrong, in metadata."""
    if sample.failed:
        return samples.counted("failed", sample.failed), None
    apart = sample.metadata.get(SCORER)
    said: dict[str, Any] = apart if isinstance(apart, dict) else {}
    stated = said.get("outcome") if score is None else score.reason
    if stated in ("abstained", "unparsed"):
        return samples.counted(stated, "the log says so"), None
    answer = said.get("answer") if score is None else score.answer
    return "answered", answer if isinstance(answer, str) else sample.completion


def _hashable(part: Any) -> Any:
    return part if isinstance(part, str | int | float) else None
