"""The clusters of a table: whose rows belong together, as columns of ids in the order that random numbers meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.ground.arrays import Codes
from steelyard.records.derive import combine
from steelyard.records.labels import Labels, by_text, label_key, ranked, together, value_name

Id = tuple[Any, ...]  # one value per column that says what a cluster is


class Clusters(Sequence[Id]):
    """A list of clusters, kept once per side; rows and evidence refer to it by places.

    Ids are sorted by their text, null first, so that an id 7 and an id "7" have the same place and get the same random
    numbers.
    """

    def __init__(self, columns: Iterable[Labels]) -> None:
        self.columns = tuple(columns)

    @classmethod
    def of(cls, ids: Iterable[Id]) -> Clusters:
        """Ids as they stand, in whatever order."""
        listed = tuple(ids)
        clusters = cls(ranked(column, _text) for column in zip(*listed, strict=True))
        clusters.ids = listed
        return clusters

    @classmethod
    def of_rows(cls, columns: Sequence[Labels]) -> tuple[Clusters, Codes]:
        """The clusters of a table with these columns, and the place of each row's cluster."""
        parts = [by_text(column) for column in columns]
        if len(parts) == 1 and not parts[0].missing.any():
            return cls([Labels(np.arange(len(parts[0].values)), parts[0].values)]), parts[0].codes
        return _distinct(parts)

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, place: Any) -> Any:
        return self.ids[place]

    def __iter__(self) -> Iterator[Id]:
        return iter(self.ids)

    def __eq__(self, other: object) -> bool:
        return self is other or self.ids == (other.ids if isinstance(other, Clusters) else other)

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"Clusters({len(self)} of {len(self.columns)} columns)"

    @cached_property
    def ids(self) -> tuple[Id, ...]:
        """The ids themselves."""
        return tuple(zip(*(np.asarray(column).tolist() for column in self.columns), strict=True))

    def at(self, places: Codes) -> Clusters:
        """Those at these places."""
        return Clusters(column[places] for column in self.columns)

    def united(self, other: Clusters) -> tuple[Clusters, Codes, Codes]:
        """The clusters of both in order, and the places there of these and of the others."""
        if self is other:
            return self, np.arange(len(self)), np.arange(len(self))
        joint, place = _distinct([together(a, b, _text) for a, b in zip(self.columns, other.columns, strict=True)])
        return joint, place[: len(self)], place[len(self) :]

    def stacked(self, other: Clusters) -> Clusters:
        """Those of two runs one after the other, told apart by a first part 0 or 1."""
        run = Labels(np.repeat([0, 1], [len(self), len(other)]), (0, 1))
        return Clusters([run, *(together(a, b, _text) for a, b in zip(self.columns, other.columns, strict=True))])

    @property
    def by_text(self) -> Codes:
        """Their places in the order of a table: by text."""
        return self._sorted(lambda column: column)

    @property
    def by_value(self) -> Codes:
        """Their places in the order of their values: 9 before 10."""
        return self._sorted(lambda column: ranked(np.asarray(column).tolist(), label_key))

    def _sorted(self, column_in_order: Callable[[Labels], Labels]) -> Codes:
        keys = [column_in_order(column).codes for column in self.columns]
        return np.argsort(combine(keys, len(self)), kind="stable")


def _distinct(columns: Sequence[Labels]) -> tuple[Clusters, Codes]:
    """The different ids in rows of columns whose values are in order, and the place of each row's."""
    key = combine([column.codes for column in columns], len(columns[0]))
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return Clusters(column[first] for column in columns), place.astype(np.int64, copy=False)


def _text(value: Any) -> tuple[str, str]:
    """What ids are sorted by: their text; the kind only where the text is equal."""
    return value_name(value), type(value).__name__
