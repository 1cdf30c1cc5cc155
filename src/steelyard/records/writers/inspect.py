"""A log that Inspect reads: one task, one model, a sample per row.

    item                          id
    repeat                        epoch (whole numbers from 1; others are numbered, their names kept in the metadata)
    input, target                 input, target
    completion, else prediction   output.completion; words in brackets where the model declined or its reply could not
                                  be read and the table does not have it: without a completion nothing was replied
    outcome, mark, target         scores.steelyard: C or I, or the mark where it is a number between; N where the model
                                  declined; I with an empty answer where the reply could not be read
                                  where nobody says what is right: no score, and metadata.steelyard has the outcome
    outcome failed                error
    latency_ms, *_tokens          total_time, output.usage, model_usage
    metadata.x, group.x           metadata.x
    every other column            metadata, under its own name

If every reply has a score, the results state accuracy and stderr as Inspect defines them: accuracy is the mean over
samples of the mean over epochs, stderr the standard error of that mean. Texts are compared without white space around
them, as they are when they are read to be evaluated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

import steelyard
from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats
from steelyard.ground.files import written_at
from steelyard.ground.json import plain
from steelyard.halves import whole_text
from steelyard.records.admitting import admitted
from steelyard.records.derive import FAILED
from steelyard.records.labels import value_name
from steelyard.records.readers.inspect_scores import SCORER
from steelyard.records.schema import CELL, OUTCOMES, is_group, kind_of
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.records.task import Task
from steelyard.records.writers.contract import batches, some, writer

NO_MODEL = "none/none"  # what Inspect itself writes where there is none
_METRICS = ("accuracy", "stderr")
REPLIED = {
    "abstained": "[the model declined; its words are not in the table]",
    "unparsed": "[the reply could not be read; its words are not in the table]",
}
_LETTERS = {1.0: "C", 0.0: "I"}
_TOKENS: tuple[str, ...] = ("input_tokens", "output_tokens")
_PLACED = frozenset(
    (
        *("item", "task", "model", "input", "target", "completion", "prediction", "outcome", "mark", "latency_ms"),
        *_TOKENS,
    )
)


@writer("inspect", ".inspect.json", text=True, whole=True)
def inspect(parts: Iterable[Records], path: Path, _: bool) -> list[str]:
    """Write the rows as the samples of an Inspect log."""
    records, _all = some(parts)
    log, encoded = _Log(_one_cell(_checked(records)), records.sources), msgspec.json.Encoder(enc_hook=str).encode
    with open(path, "wb") as file:
        file.write(encoded(log.head())[:-1] + b',"samples":[')
        for place, sample in enumerate(log.samples()):
            file.write((b",\n" if place else b"\n") + encoded(sample))
        file.write(b"\n]}\n")
    unheard = "replies that the table does not have (declined, or not to be read) are told in brackets in their place"
    return [*log.said, *([f"{log.unheard:,} {unheard}"] if log.unheard else [])]


def _checked(records: Records) -> Records:
    """The records after the rules at the door: a log needs items, known outcomes, and no record twice."""
    return admitted(
        {name: records.column(name) for name in records.stated},
        cluster=None,
        task=Task(),
        sources=() if records.is_part else records.sources,
        extras={name: records.extra(name) for name in records.extras},
    )


def _one_cell(records: Records) -> Records:
    """The records, if they are one model's on one task: samples are told apart by id and epoch alone."""
    for name in CELL:
        labels = records.labels(name) if name in records else None
        if labels is not None and len(labels.values) + bool(labels.missing.any()) > 1:
            raise UsageError(
                f"a log of Inspect is about one task and one model, and the rows differ in '{name}'; write one file "
                f"for each, with `where={name}=…`"
            )
    return records


@dataclass(frozen=True)
class _Epochs:
    """The epoch of every row; `names` are those of repeats that are no whole numbers from 1."""

    numbers: npt.NDArray[np.int64]
    named: bool = False

    @classmethod
    def of(cls, records: Records) -> _Epochs:
        if "repeat" not in records or kind_of(records.column("repeat")) == "null":
            return cls(np.ones(len(records), np.int64))
        column = records.column("repeat")
        if kind_of(column) == "int" and not column.null_count and int(pc.min(column).as_py()) >= 1:
            return cls(column.to_numpy())
        codes = records.codes("repeat")
        return cls(codes + (2 if (codes < 0).any() else 1), named=True)


class _Log:
    """What a table says, as a log of Inspect says it."""

    def __init__(self, records: Records, sources: Sequence[Source]) -> None:
        self.records, self.sources, self.said = records, sources, list[str]()
        self.unheard = 0  # replies whose words are not known
        self.task, self.model = (self._only(name) for name in ("task", "model"))
        self.epochs = _Epochs.of(records)
        if self.epochs.named:
            last = int(self.epochs.numbers.max())
            self.said.append(f"the repeats are numbered from 1 to {last:,} as epochs; metadata.repeat has their names")
        self.scores = self._scored()
        self.log_id = _hex(self.task, self.model, *(str(source.sha256) for source in sources))
        if self.model == NO_MODEL:
            self.said.append(f"the rows name no model, which a log needs; this one says '{NO_MODEL}'")

    def _only(self, name: str) -> str:
        """The one task or model: by its column, else as the sources say."""
        stated = self.records.only(name)
        about = {source.about.get(name) for source in self.sources if source.rows}
        if stated is None and len(about) == 1:
            stated = about.pop()
        if stated is None and name == "task":
            stated = whole_text(Path(self.sources[0].name if self.sources else "").name.partition(".")[0])
        return stated or (NO_MODEL if name == "model" else "answers")

    # -- scores ------------------------------------------------------------------------------------------------------

    def _scored(self) -> Floats:
        """The score of every row, NaN where there is none: the question failed, or nobody knows what is right."""
        failed = self.records.outcome == FAILED
        scores = np.where(failed, np.nan, self._judged())
        unknown = int(np.count_nonzero(np.isnan(scores) & ~failed))
        if unknown:
            have = "row has" if unknown == 1 else "rows have"
            self.said.append(f"{unknown:,} {have} no score, as nobody says what is right; so no accuracy is stated")
        self.is_judged = not unknown
        return scores

    def _judged(self) -> Floats:
        records = self.records
        if "mark" in records.stated:
            return np.where(records.array("answered") == 1, records.stated_numbers("mark"), 0.0)
        compared: list[str] = [name for name in ("target", "prediction") if name in records.stated]
        is_list = any(kind_of(records.column(name)) == "list" for name in compared)
        if is_list or (len(compared) < 2 and "correct" not in records.stated):
            return np.full(len(records), np.nan)
        texts = [name for name in compared if kind_of(records.column(name)) == "text"]
        stripped = {name: pc.utf8_trim_whitespace(records.column(name)) for name in texts}
        return np.asarray(records.with_columns(stripped).array("correct"), np.float64)

    def _metrics(self) -> dict[str, Any]:
        """Accuracy and its standard error, as Inspect defines them: over the means of the samples."""
        known = ~np.isnan(self.scores)
        _, place, counts = np.unique(self.records.codes("item")[known], return_inverse=True, return_counts=True)
        means = np.bincount(place, self.scores[known]) / counts if len(counts) else np.zeros(0)
        spread = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
        values = (float(means.mean()) if len(means) else 0.0, spread)
        return {name: {"name": name, "value": value} for name, value in zip(_METRICS, values, strict=True)}

    # -- the log -----------------------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """Everything but the samples."""
        rows, failed = len(self.records), self.records.counts()["failed"]
        codes = self.records.codes("item")
        items, scored = len(np.unique(codes)), len(np.unique(codes[~np.isnan(self.scores)]))
        epochs = int(self.epochs.numbers.max())
        score = {"name": SCORER, "scorer": SCORER, "scored_samples": scored, "unscored_samples": items - scored}
        usage = self._usage()
        return {
            "version": 2,
            "status": "success" if all(source.is_whole for source in self.sources) else "cancelled",
            "eval": {
                "eval_id": self.log_id,
                "run_id": _hex(self.log_id, "run"),
                "created": self._created(),
                "task": self.task,
                "task_id": _hex(self.task),
                "dataset": {"name": self.task, "samples": items},
                "model": self.model,
                "config": {"epochs": epochs} if items * epochs == rows else {},
                "packages": {"steelyard": steelyard.__version__},
                "metadata": {"sources": [plain(source.to_dict()) for source in self.sources]},
                "scorers": [{"name": SCORER, "metrics": [{"name": f"inspect_ai/{name}"} for name in _METRICS]}],
            },
            "plan": {},  # like `stats` of no use here, and asked for by whoever reads the head alone
            "results": {
                "total_samples": rows,
                "completed_samples": rows - failed,
                "scores": [{**score, "metrics": self._metrics() if self.is_judged else {}}] if scored else [],
            },
            "stats": {"model_usage": {self.model: usage}} if usage else {},
        }

    def _created(self) -> str:
        """When the answers were written: as the first source says, else by its file."""
        first = self.sources[0] if self.sources else None
        stated = "" if first is None else first.about.get("created", "")
        try:
            return datetime.fromisoformat(stated).astimezone(UTC).isoformat()
        except (ValueError, OverflowError):
            return written_at("" if first is None else first.name).isoformat()

    def _usage(self) -> dict[str, int]:
        sums = {
            name: int(np.nansum(self.records.stated_numbers(name))) for name in _TOKENS if name in self.records.stated
        }
        return {**sums, "total_tokens": sum(sums.values())} if sums else {}

    def samples(self) -> Iterator[dict[str, Any]]:
        """A sample per row."""
        row = 0
        keys: dict[str, str] = {}
        for names, values in batches(self.records, json.loads):
            keys = keys or _metadata_keys(names, repeat=self.epochs.named)
            for given in values:
                yield self._sample(row, dict(zip(names, given, strict=True)), keys)
                row += 1

    def _sample(self, row: int, given: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        outcome, epoch, score = OUTCOMES[self.records.outcome[row]], int(self.epochs.numbers[row]), self.scores[row]
        prediction = given.get("prediction")
        completion = _text(given.get("completion")) or _text(prediction) or self._in_place_of_reply(outcome)
        output: dict[str, Any] = {"model": self.model, "completion": completion}
        if completion:
            message = {"role": "assistant", "content": completion, "source": "generate"}
            output["choices"] = [{"message": message, "stop_reason": "stop"}]
        sample = {
            "id": given["item"],
            "epoch": epoch,
            "input": _text(given.get("input")),
            "target": _target(given.get("target")),
            "output": output,
            "metadata": {key: given[name] for name, key in keys.items() if given[name] is not None},
            "uuid": _hex(self.log_id, str(given["item"]), str(epoch)),
        }
        tokens = {name: given[name] for name in _TOKENS if type(given.get(name)) is int}
        if tokens:
            usage = {**tokens, "total_tokens": sum(tokens.values())}
            output["usage"], sample["model_usage"] = usage, {self.model: usage}
        if type(given.get("latency_ms")) in (int, float):  # a table may hold anything under any name
            sample["total_time"] = output["time"] = given["latency_ms"] / 1000
        if outcome == "failed":
            sample["error"] = {"message": "the question failed", "traceback": "", "traceback_ansi": ""}
        elif not np.isnan(score):
            sample["scores"] = {SCORER: _score(outcome, float(score), prediction)}
        else:
            answer = {} if prediction is None else {"answer": _text(prediction)}
            sample["metadata"][SCORER] = {"outcome": outcome, **answer}
        return sample

    def _in_place_of_reply(self, outcome: str) -> str:
        """What stands where the model replied and the table does not have its words: an empty reply would be none."""
        self.unheard += outcome in REPLIED
        return REPLIED.get(outcome, "")


def _score(outcome: str, score: float, prediction: Any) -> dict[str, Any]:
    if outcome == "answered":
        return {"value": _LETTERS.get(score, score), "answer": _text(prediction)}
    return {"value": "N" if outcome == "abstained" else "I", "answer": "", "reason": outcome}


def _metadata_keys(names: list[str], *, repeat: bool) -> dict[str, str]:
    """The columns that go into a sample's metadata, and what they are called there; no two share a name."""
    kept = [name for name in names if name not in _PLACED and (name != "repeat" or repeat)]
    keys = {name: name.partition(".")[2] if is_group(name) else name for name in kept}
    taken = [key for name, key in keys.items() if not name.startswith("group.")]
    return {name: name if name.startswith("group.") and key in taken else key for name, key in keys.items()}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(plain(value), default=str) if isinstance(value, list | dict) else value_name(value)


def _target(value: Any) -> str | list[str]:
    return [_text(each) for each in value] if isinstance(value, list) else _text(value)


def _hex(*parts: str) -> str:
    """An id that depends on what it names alone."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:22]
