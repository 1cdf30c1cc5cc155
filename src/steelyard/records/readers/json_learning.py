"""Learning the fields of JSON objects as they come in: which columns there are, of which kind, and what does not fit.

A value that does not fit a column that is read is a problem, and null. A column that nobody reads holds whatever there
is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steelyard.errors import InputError, counted, printable
from steelyard.ground.json import TOO_LARGE, Flaw
from steelyard.records.readers.contract import DEEPEST, MOST_COLUMNS
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.json_fields import KINDS, Leaf, MisfitError, Node, fit
from steelyard.records.schema import FIELDS, SHOWN


class Fields:
    """The fields of one input's objects, as far as they are known."""

    def __init__(self, source: Input, known: Fields | None = None) -> None:
        self.root: Node = Node() if known is None else known.root
        self._source = source
        # column -> the field it comes from
        self._columns: dict[str, str] = {} if known is None else known.take_over(source)
        self._problems: dict[tuple[str, str], set[int]] = {}  # what is wrong with which column -> the lines
        self._nulled: dict[str, set[int]] = {}  # column that nobody reads -> lines with a number that cannot be kept
        self.no_answers: dict[int, str] = {}  # line -> the outcome that its prediction stands for

    def learn(self, values: dict[str, Any], number: int) -> bool:
        """Check an object, and learn what is new in it; True if anything was.

        What must not pass is replaced by null in `values`.
        """
        if not self._columns:
            self._source.begins_with(_names(values))
        return self._learn(self.root, values, (), number)

    def take_over(self, source: Input) -> dict[str, str]:
        """The columns, for reading the same file once more."""
        for name in self._columns.values():
            source.column(name)
        return self._columns

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]:
        """The columns and their kinds, in the order in which they were met."""
        return tuple((leaf.column, leaf.kind, leaf.element) for leaf in self.root.leaves() if leaf.want != "skip")

    @property
    def problems(self) -> list[InputError]:
        """What is wrong with columns that are read."""
        return [
            self._source.error(problem, line=min(at), field=column, rows=len(at))
            for (column, problem), at in self._problems.items()
        ]

    @property
    def remarks(self) -> list[str]:
        """What became of values that nobody reads."""
        return [
            f"{counted(len(at), 'value')} of '{printable(column)}' cannot be kept as numbers, and "
            f"{'is' if len(at) == 1 else 'are'} taken as missing"
            for column, at in self._nulled.items()
        ]

    def too_large(self, leaf: Leaf, line: int) -> None:
        """Say that a whole number would be rounded."""
        if leaf.want == "read":
            self._problems.setdefault((leaf.column, TOO_LARGE), set()).add(line)
        else:
            leaf.demote(TOO_LARGE, line)

    def _learn(self, node: Node, values: dict[str, Any], path: tuple[str, ...], number: int) -> bool:
        """The same of an object within another."""
        changed = False
        for key, value in values.items():
            name = ".".join((*path, key))
            if isinstance(value, Flaw) and value.key is not None:
                raise self._source.error(value.problem, line=number, field=f"{name}.{value.key}")
            child = node.fields.get(key)
            if child is None or (isinstance(child, Leaf) and child.kind == "null" and isinstance(value, dict)):
                met = self._met(child, name, value, len(path) + 1, number)
                changed |= met is not child
                node.fields[key] = child = met
            if isinstance(child, Node):
                if isinstance(value, dict):
                    changed |= self._learn(child, value, (*path, key), number)
                    continue
                if value is None:
                    continue
                leaf = self._collapsed(child, name, value, number)
                if leaf is None:
                    values[key] = None
                    continue
                node.fields[key] = child = leaf
                changed = True
            changed |= self._fit(child, values, key, number)
        return changed

    def _fit(self, leaf: Leaf, values: dict[str, Any], key: str, number: int) -> bool:
        """Check a value against its column; True if the column learned from it."""
        value = values[key]
        if leaf.column == "prediction" and isinstance(value, str):
            outcome = self._source.labels.outcome_of(value)
            if outcome is not None:  # before it tells anything about the kind of the answers
                self.no_answers[number] = outcome
                values[key] = None
                return False
        if leaf.kind != "json":
            try:
                return fit(leaf, value)
            except MisfitError as problem:
                if leaf.want == "read":
                    self._problems.setdefault((leaf.column, str(problem)), set()).add(number)
                    values[key] = None
                    return False
                if isinstance(value, Flaw):
                    self._nulled.setdefault(leaf.column, set()).add(number)
                    values[key] = None
                    return False
                leaf.demote(str(problem), number)
                values[key] = self._cleaned(leaf, value, number)
                return True
        values[key] = self._cleaned(leaf, value, number)
        return False

    def _cleaned(self, leaf: Leaf, value: Any, number: int) -> Any:
        """A value that nobody reads, with null for numbers that are not finite; a duplicate key in it is an error."""
        if isinstance(value, Flaw):
            if value.key is not None:
                raise self._source.error(value.problem, line=number, field=f"{leaf.column}.{value.key}")
            self._nulled.setdefault(leaf.column, set()).add(number)
            return None
        if isinstance(value, dict):
            return {key: self._cleaned(leaf, part, number) for key, part in value.items()}
        return [self._cleaned(leaf, part, number) for part in value] if isinstance(value, list) else value

    def _met(self, known: Leaf | None, name: str, value: Any, depth: int, number: int) -> Leaf | Node:
        """What a field is that is met for the first time, or for the first time with an object."""
        may_be = isinstance(value, dict) and depth < DEEPEST and self._source.known_as(name) not in FIELDS
        if may_be and self._source.goes_inside(name, value):
            if known is not None:
                self._columns.pop(known.column, None)
            return Node()
        return known or self._leaf(name, number)

    def _collapsed(self, node: Node, name: str, value: Any, number: int) -> Leaf | None:
        """The leaf that an object becomes where a row has another kind of value; None where its parts are read."""
        problem = f"an object is expected as in the rows before, this is {_shown(value)}"
        read = [leaf for leaf in node.leaves() if leaf.want == "read"]
        if read:
            self._problems.setdefault((read[0].column, problem), set()).add(number)
            return None
        for leaf in node.leaves():
            self._columns.pop(leaf.column, None)
        collapsed = self._leaf(name, number)
        collapsed.former = node
        collapsed.demote(problem, number)
        return collapsed

    def _leaf(self, name: str, number: int) -> Leaf:
        column = self._source.column(name)
        if column in self._columns:
            if {column} != {name, self._columns[column]}:
                raise self._source.taken(column)
            raise self._source.error("appears twice: as a dotted name and as an object", line=number, field=name)
        if len(self._columns) >= MOST_COLUMNS:
            raise self._source.error(f"more than {MOST_COLUMNS:,} different fields", line=number, field=name)
        self._columns[column] = name
        return Leaf(column, self._source.want(name))


def _names(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """The names of an object's fields, with those of objects in it."""
    for key, value in values.items():
        yield path + key
        if isinstance(value, dict):
            yield from _names(value, f"{path}{key}.")


def _shown(value: Any) -> str:
    return "no finite number" if isinstance(value, Flaw) else SHOWN[KINDS[type(value)]]
