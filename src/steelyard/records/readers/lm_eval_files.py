"""A samples file of lm-eval as a whole: what is known before its rows, and the columns that are made of all of them."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.records.readers.lm_eval_results import Results, Values
from steelyard.records.readers.lm_eval_samples import Line, metric_of


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is known of a file before its rows: by its name, the results next to it, and the first of its lines."""

    task: str | None
    model: str | None
    delimiter: str
    no_match: frozenset[str]
    metrics: tuple[str, ...]
    counted: tuple[str | None, ...]  # the metrics that count; None where none says right or wrong
    by_text: bool  # whether targets are the texts of choices, and not their places

    def task_of(self, metric: str | None) -> str | None:
        """The task of a row: where several metrics count, each is a task."""
        return self.task if len(self.counted) == 1 else "/".join(part for part in (self.task, metric) if part)


def judges_among(lines: Sequence[Line], metrics: Sequence[str]) -> Iterator[str]:
    """The metrics that say right or wrong on all these samples."""
    for name in metrics:
        values = {metric_of(line, name) for line in lines}
        firsts = {first for first, _ in values if not math.isnan(first)}
        if firsts and firsts <= {0.0, 1.0} and all(math.isnan(second) for _, second in values):
            yield name


def names_text(line: Line) -> bool:
    """True if the target of a multiple choice is no place, nor a list of places, among the choices."""
    asked, target = line.asked(), line.target
    if len(asked) < 2 or not all(isinstance(text, str) for text in asked) or target is None:
        return False
    numbers = re.fullmatch(r"\[?\s*(-?\d{1,9}(?:,\s*-?\d{1,9})*)\s*\]?", target)
    return numbers is None or any(int(number) >= len(asked) for number in numbers[1].split(","))


class File:
    """What the samples of one file say, column by column: what is made of all of them together."""

    def __init__(self, setup: Setup, results: Results | None) -> None:
        self.setup, self.results = setup, results
        self._ids = array("q")
        self._filters: dict[str, int] = {}
        self._codes = array("q")
        self._values: dict[str, tuple[array[float], array[float]]] = {
            name: (array("d"), array("d")) for name in setup.metrics
        }

    def take(self, doc_id: int, filter_name: str, values: Mapping[str, tuple[float, float]]) -> None:
        """Take what a sample says."""
        self._ids.append(doc_id)
        self._codes.append(self._filters.setdefault(filter_name, len(self._filters)))
        for name, columns in self._values.items():
            for column, value in zip(columns, values[name], strict=True):
                column.append(value)

    def values(self, metric: str, filter_name: str) -> Values | None:
        """The values of a metric on the samples of a filter; None where there are none."""
        if metric not in self._values or filter_name not in self._filters:
            return None
        rows = np.frombuffer(self._codes, np.int64) == self._filters[filter_name]
        first, second = (np.frombuffer(column, float)[rows] for column in self._values[metric])
        return Values(first=first, second=second)

    def marks(self) -> list[float | None]:
        """Right, wrong or unknown for every row; unknown everywhere where a metric says something else anywhere."""
        columns = []
        for metric in self.setup.counted:
            values = np.full(len(self._ids), np.nan)
            if metric is not None and self.judges(metric):
                values = np.frombuffer(self._values[metric][0], float)
            columns.append(values)
        return [None if math.isnan(value) else value for value in np.stack(columns, 1).ravel().tolist()]

    def judges(self, metric: str) -> bool:
        """True if a metric is 0 or 1 wherever it is stated."""
        first, second = (np.frombuffer(column, float) for column in self._values[metric])
        return bool((np.isnan(first) | np.isin(first, (0.0, 1.0))).all() and np.isnan(second).all())

    def strategies(self) -> list[str | None]:
        """The filter of every row where there are several."""
        names: list[str | None] = list(self._filters) if len(self._filters) > 1 else [None]
        return [names[code if len(names) > 1 else 0] for code in self._codes for _ in self.setup.counted]

    def repeats(self) -> list[int]:
        """The number of every row among those of the same document and filter, from 1."""
        ids, codes = np.frombuffer(self._ids, np.int64), np.frombuffer(self._codes, np.int64)
        order = np.lexsort((np.arange(len(ids)), ids, codes))
        starts = np.flatnonzero(np.diff(ids[order], prepend=0) | np.diff(codes[order], prepend=-1))
        sizes = np.diff(starts, append=len(ids))
        numbers = np.empty(len(ids), np.int64)
        numbers[order] = np.arange(len(ids)) - np.repeat(starts, sizes) + 1
        return [int(number) for number in np.repeat(numbers, len(self.setup.counted))]

    def fewest(self) -> int:
        """How many samples the filter has that has the fewest."""
        return int(np.bincount(np.frombuffer(self._codes, np.int64)).min())
