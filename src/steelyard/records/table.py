"""Records: what a model answered, as immutable columns.

A record is one answer to one item: (model, strategy, task, item, repeat, perturbation) is unique in a table. Columns
are Arrow arrays; metrics read them as NumPy floats (NaN where null) or as `Labels`. A subset is a view that takes a
column only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.arrays import Codes, Floats, Mask
from steelyard.ground.showing import Json, Shows, not_over_input
from steelyard.halves import whole_text
from steelyard.records import derive
from steelyard.records.clusters import Clusters
from steelyard.records.conditions import Conditions, conditions, meeting
from steelyard.records.extras import Extra
from steelyard.records.labels import Labels, encode, frozen, value_name, value_of
from steelyard.records.overview import in_short, lacking, overview
from steelyard.records.schema import KEY, OUTCOMES, SHOWN, kind_of, to_arrow
from steelyard.records.sources import Source, where_of
from steelyard.records.task import Task
from steelyard.records.texts import Kept

__all__ = ["Records", "Source"]


class Records(Shows):
    """An immutable table of answers. Make one with `Records.from_columns` or `read`.

    >>> Records.from_columns({"item": ["q1", "q2"], "target": ["A", "B"], "prediction": ["A", None]})
    Records(2 rows: 1 answered, 1 abstained; columns: item, target, prediction)
    """

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        *,
        cluster: str | None = None,
        task: Task | None = None,
        sources: Sequence[Source] = (),
        warnings: Sequence[str] = (),
        rows: npt.NDArray[np.int64] | None = None,
        origin: npt.NDArray[np.int64] | None = None,
        extras: Mapping[str, Extra] | None = None,
        skipped: Sequence[str] = (),
        kept_of_texts: Kept | None = None,
    ) -> None:
        self._base = dict(columns)
        self._extras = dict(extras or {})  # kept, and raised when they are asked for
        self.skipped = tuple(skipped)  # columns of the sources that nobody wanted
        self._cluster = cluster
        self.task = task or Task()
        self.sources = tuple(sources)
        self.warnings = tuple(warnings)
        self.reading: Mapping[str, Any] = {}  # how its rows were chosen and read, where that was asked for
        self.is_told = True  # false of kept rows from before that was recorded
        self._rows = rows
        self._chosen: npt.NDArray[np.int64] | None = None  # the rows that a filter left; parts are parts of these
        self._origin = origin  # the row of the sources that each row of the columns came from
        self._held = len([*self._base.values(), *(each.column for each in self._extras.values()), ()][0])
        self._size = len(rows) if rows is not None else self._held
        self._derived: dict[str, Any] = {}
        self.kept_of_texts: Kept = {} if kept_of_texts is None else kept_of_texts  # shared by all parts of the table

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, object],
        *,
        cluster: str | None = None,
        task: Task | Mapping[str, object] | None = None,
        sources: Sequence[Source] = (),
        extras: Mapping[str, Extra] | None = None,
    ) -> Records:
        """A table from lists with None, NumPy or Arrow arrays; dotted names such as `group.site` are fine.

        >>> Records.from_columns({"item": [1, 2], "target": ["a", "b"], "group.site": ["x", None]}).stated
        ('item', 'target', 'group.site')
        """
        from steelyard.records.admitting import admitted

        where = where_of(sources)
        names = {whole_text(str(name)): values for name, values in columns.items()}
        arrays = {name: to_arrow(name, values, where) for name, values in names.items()}
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{printable(name)} {size}" for name, size in sizes.items())
            raise InputError(f"columns differ in length: {shown}")
        return admitted(arrays, cluster=cluster, task=Task.of(task), sources=sources, extras=extras)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, name: object) -> bool:
        return name in self._base or name in self._extras

    def __repr__(self) -> str:
        return in_short(self)

    @property
    def stated(self) -> tuple[str, ...]:
        """The names of the columns that came in and can be read."""
        return tuple(self._base)

    @property
    def extras(self) -> tuple[str, ...]:
        """The names of columns that are kept and cannot be read: `column` raises what is wrong with one."""
        return tuple(self._extras)

    @property
    def name(self) -> str | None:
        """The first source's name, for messages."""
        return self.sources[0].name if self.sources else None

    @property
    def is_part(self) -> bool:
        """True for a subset of what came in."""
        return self._origin is not None or (self._rows is not None and len(self._rows) < self._held)

    def where(self, row: int) -> tuple[str | None, int]:
        """File and line of a row."""
        at = row if self._rows is None else int(self._rows[row])
        return where_of(self.sources)(at if self._origin is None else int(self._origin[at]))

    def by_source(self) -> list[Codes]:
        """The rows of each source that has some."""
        if len(self.sources) < 2:
            return [np.arange(len(self))]
        rows = np.arange(self._held) if self._rows is None else self._rows
        origin = rows if self._origin is None else self._origin[rows]
        source = np.searchsorted(np.cumsum([source.rows for source in self.sources]), origin, side="right")
        order = np.argsort(source, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(source[order])) + 1)

    # -- reading columns ---------------------------------------------------------------------------------------

    def column(self, name: str, *, needed_by: str = "this") -> pa.Array:
        """The Arrow column, or an error that says what the table has."""
        if name in self._extras:
            raise self._extras[name].problem
        if name not in self._base:
            raise InputError(self.lacks(name, needed_by))
        if self._rows is None:
            return self._base[name]
        return self._once(f"column {name}", lambda: self._base[name].take(pa.array(self._rows)))

    def array(self, name: str, *, needed_by: str = "this") -> Any:
        """A column as metrics read it: floats with NaN for numbers and booleans, `Labels` for text."""
        derived = derive.DERIVED.get(name)
        if derived is not None:
            return self._once(f"array {name}", lambda: frozen(derived(self)))
        if name == "outcome":
            return self.labels(name)
        column = self.column(name, needed_by=needed_by)
        if kind_of(column) == "text":
            return self.labels(name)
        if kind_of(column) == "list":
            return column
        return self.stated_numbers(name)

    def labels(self, name: str) -> Labels:
        """A column as labels, whatever its kind; values sorted. The outcome is the derived one, complete.

        >>> records = Records.from_columns({"item": [1, 2, 3], "target": ["a", "a", "b"]})
        >>> records.labels("target").values
        ('a', 'b')
        """
        if name == "outcome":
            return Labels(self.outcome.astype(np.int64), OUTCOMES)
        return self._once(f"labels {name}", lambda: encode(self.column(name)))

    def numbers(self, name: str, *, needed_by: str = "this") -> Floats:
        """A column as floats; text is an error."""
        kind = kind_of(self.column(name, needed_by=needed_by))
        if kind not in ("int", "float", "null"):
            raise InputError(
                f"{needed_by} needs numbers in '{printable(name)}', the column holds {SHOWN[kind]}",
                file=self.name,
            )
        return self.stated_numbers(name)

    def stated_numbers(self, name: str) -> Floats:
        """A column of numbers as it was stated, NaN where a row has none."""
        return self._once(f"numbers {name}", lambda: frozen(derive.floats(self.column(name))))

    def is_numeric(self, name: str) -> bool:
        """True if a column holds numbers."""
        return kind_of(self.column(name)) in derive.NUMBERS

    def only(self, name: str) -> str | None:
        """The one value of a column as text; None where there is no such column or not just one value.

        >>> records = Records.from_columns({"item": [1, 2, 3], "target": ["a", "a", "b"]})
        >>> records.only("target"), records.take(np.array([0, 1])).only("target")
        (None, 'a')
        """
        values = self.labels(name).values if name in self else ()
        return value_name(values[0]) if len(values) == 1 else None

    def codes(self, name: str) -> Codes:
        """Integer codes of a column's values in sorted order, −1 for null."""
        return self.labels(name).codes

    @property
    def outcome(self) -> npt.NDArray[np.int8]:
        """The outcome of every row as an index into OUTCOMES."""
        return self._once("outcome", lambda: derive.outcome_codes(self))

    def counts(self) -> dict[str, int]:
        """How many rows have each outcome.

        >>> Records.from_columns({"item": [1, 2], "prediction": ["a", None]}).counts()
        {'answered': 1, 'abstained': 1, 'unparsed': 0, 'failed': 0}
        """
        return dict(zip(OUTCOMES, map(int, np.bincount(self.outcome, minlength=4)), strict=True))

    # -- clusters ----------------------------------------------------------------------------------------------

    @property
    def states_cluster(self) -> bool:
        """True if it was said what a cluster is, by the call or by a column `cluster`."""
        return self._cluster is not None or "cluster" in self

    @property
    def cluster_columns(self) -> tuple[str, ...]:
        """What a cluster is: the column asked for, else `cluster`, else (task, item)."""
        if self._cluster is not None:
            return (self._cluster,)
        if "cluster" in self:
            return ("cluster",)
        return ("task", "item") if "task" in self else ("item",)

    @property
    def cluster(self) -> tuple[Clusters, Codes]:
        """The clusters, and the place of each row's among them."""
        return self._once("cluster", lambda: Clusters.of_rows([self.labels(name) for name in self.cluster_columns]))

    # -- subsets -----------------------------------------------------------------------------------------------

    def take(self, rows: Codes | Mask) -> Records:
        """The rows at these places, or where this mask is true.

        >>> records = Records.from_columns(
        ...     {"item": [1, 2, 3], "target": ["a", "a", "b"], "prediction": ["a", "b", None]}
        ... )
        >>> len(records.take(np.array([0, 2])))
        2
        """
        index = np.flatnonzero(rows) if rows.dtype == bool else np.asarray(rows, np.int64)
        return self._with(rows=index if self._rows is None else self._rows[index])

    def filter(self, where: Conditions) -> Records:
        """The rows that meet all conditions: `{"model": "a"}`, `"age>=65"` or `["age>=65", "race=A,B"]`.

        >>> records = Records.from_columns(
        ...     {"item": [1, 2, 3], "target": ["a", "a", "b"], "prediction": ["a", "b", None]}
        ... )
        >>> len(records.filter("target=a"))
        2
        """
        kept = self._meeting(where)
        before = list(self.reading.get("where", ()))
        kept.reading = {"of": len(self), **self.reading, "where": [*before, *map(str, conditions(where))]}
        return kept

    def of_run(self, column: str, value: str) -> Records:
        """The rows of one of several runs in the table; which run that is, is no condition on its rows."""
        return self._meeting({column: value})

    def _meeting(self, where: Conditions) -> Records:
        keep, warnings = meeting(self, where)
        kept = self.take(keep)
        kept.warnings, kept._chosen = (*kept.warnings, *warnings), kept._rows
        return kept

    def split(self, names: Iterable[str]) -> Iterator[tuple[dict[str, Any], Records]]:
        """The parts with equal values in these columns, in sorted order, each with those values.

        >>> records = Records.from_columns(
        ...     {"item": [1, 2, 3], "target": ["a", "a", "b"], "prediction": ["a", "b", None]}
        ... )
        >>> [(values, len(part)) for values, part in records.split(["target"])]
        [({'target': 'a'}, 2), ({'target': 'b'}, 1)]
        """
        columns = list(names)
        if not columns:
            yield {}, self
            return
        labels = [self._labels_or_error(name) for name in columns]
        key = derive.combine([label.codes for label in labels], len(self))
        keys, first = np.unique(key, return_index=True)
        if len(keys) == 1:
            yield {n: value_of(label, 0) for n, label in zip(columns, labels, strict=True)}, self
            return
        order = np.argsort(key, kind="stable")
        bounds = np.append(np.searchsorted(key[order], keys), len(order))
        for i, row in enumerate(first):
            values = {n: value_of(label, row) for n, label in zip(columns, labels, strict=True)}
            yield values, self.take(order[bounds[i] : bounds[i + 1]])

    def with_columns(self, added: Mapping[str, pa.Array]) -> Records:
        """The table with further columns (as long as the table); present ones are replaced.

        >>> records = Records.from_columns(
        ...     {"item": [1, 2, 3], "target": ["a", "a", "b"], "prediction": ["a", "b", None]}
        ... )
        >>> records.with_columns({"group.site": pa.array(["x", "y", "y"])}).stated[-1]
        'group.site'
        """
        base = {name: self.column(name) for name in self._base}
        origin = self._origin if self._origin is None or self._rows is None else self._origin[self._rows]
        table = Records(
            {**base, **added},
            cluster=self._cluster,
            task=self.task,
            sources=self.sources,
            warnings=self.warnings,
            origin=self._rows if origin is None else origin,
            extras=self._extras if self._rows is None else {n: self.extra(n) for n in self._extras},
            skipped=self.skipped,
            kept_of_texts=self.kept_of_texts,
        )
        table.reading, table.is_told = self.reading, self.is_told
        return table

    def extra(self, name: str) -> Extra:
        """A column that cannot be read, as it is kept."""
        extra = self._extras[name]
        return extra if self._rows is None else replace(extra, column=extra.column.take(pa.array(self._rows)))

    def to_arrow(self) -> pa.Table:
        """The table with all its columns, those that cannot be read too."""
        columns = {name: self.column(name) for name in self._base}
        return pa.table({**columns, **{name: self.extra(name).column for name in self._extras}})

    def to_dict(self) -> Json:
        """What is known of the table without its rows: counts, columns with their kinds, clusters, sources."""
        return overview(self)

    def save(self, path: str | Path) -> Path:
        """Write the rows to a file by its suffix (`.csv`, `.jsonl`, `.parquet`, …), in place of one that is there."""
        from steelyard.records.writers import write_records

        not_over_input(Path(path), (source.name for source in self.sources))
        write_records(self, Path(path))
        return Path(path)

    def as_reference(self) -> Records:
        """Every row as its unperturbed partner answered it; needs the `reference.*` columns."""
        named = {name: f"reference.{name}" for name in (*self._base, "outcome") if f"reference.{name}" in self._base}
        return self.with_columns({name: self.column(reference) for name, reference in named.items()})

    @property
    def is_marked(self) -> bool:
        """True if whoever scored the answers left marks, which count instead of comparing labels."""
        return "mark" in self.stated and kind_of(self.column("mark")) != "null"

    def is_unperturbed(self) -> npt.NDArray[np.bool_]:
        """True for rows that were asked as they are."""
        if "perturbation" not in self:
            return np.ones(len(self), bool)
        return np.asarray(self.column("perturbation").is_null().to_numpy(zero_copy_only=False))

    @property
    def whole(self) -> Records:
        """The table that this one is a part of, or the table itself: what is a fact of all rows is read there."""
        return self if self._rows is self._chosen else self._with(rows=self._chosen)

    def _with(self, *, rows: npt.NDArray[np.int64] | None) -> Records:
        part = Records(
            self._base,
            cluster=self._cluster,
            task=self.task,
            sources=self.sources,
            warnings=self.warnings,
            rows=rows,
            origin=self._origin,
            extras=self._extras,
            skipped=self.skipped,
            kept_of_texts=self.kept_of_texts,
        )
        part._chosen, part.reading, part.is_told = self._chosen, self.reading, self.is_told
        return part

    # -- checks ------------------------------------------------------------------------------------------------

    def keys(self) -> Codes:
        """One integer per row for its record key, within this table."""
        return derive.combine([derive.key_codes(self, n) for n in KEY if n in self], len(self))

    def _labels_or_error(self, name: str) -> Labels:
        if name not in self and name != "outcome":
            raise UsageError(self.lacks(name, "this"))
        return self.labels(name)

    def lacks(self, name: str, needed_by: str) -> str:
        """What to say of a column that is not there."""
        return lacking(name, needed_by, self.name or "", [*self._base, *self._extras, *self.skipped])

    def _once(self, what: str, make: Callable[[], Any]) -> Any:
        if what not in self._derived:
            self._derived[what] = make()
        return self._derived[what]
