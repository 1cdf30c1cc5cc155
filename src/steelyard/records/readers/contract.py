"""What a reader is: a way to know a format by looking at it, and a function from one opened input to one table.

A new format is one file. In this folder it is found by being there; elsewhere it is imported, or named by an entry
point in the group "steelyard":

    def sniff(head: Head) -> Certainty:
        return "sure" if head.text and head.text.startswith("#mine") else "no"

    @reader("mine", about="lines that begin with #mine", suffixes=(".mine",), sniff=sniff)
    def load(source: Input) -> Table:
        ...

`load` reads `source.blocks()` (text) or `source.whole()` (binary), or `source.member(name)` of a bundle; it names its
columns with `source.column(name)`, and raises `source.error(...)` with the line and the field, never with the value.
The rules of the vocabulary (kinds, ranges, unique keys) are checked once, later, for all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.ground.arrays import Mask
from steelyard.records.declared import Declared
from steelyard.records.extras import Extra
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.schema import kind_of
from steelyard.records.task import Task
from steelyard.registry import Registry

Column = Any  # an Arrow array; pyarrow's stubs know few of the calls that its functions take
MOST_COLUMNS = 1_000
DEEPEST = 8  # levels of objects within objects


@dataclass(frozen=True)
class Table:
    """What came out of one input: its columns, and the line of each row (None: `first_line` and onwards).

    `task` is what the format itself says of the task; `about` names the run (run_id, git_commit) where the file does.
    `declared` are the numbers that a log states of itself, next to the same made of its rows; `excerpt` says of how
    much the rows are a part ("10 of 12 samples that were to be run"), where the file says that there should be more.
    """

    columns: Mapping[str, Column]
    rows: int
    _: KW_ONLY
    lines: npt.NDArray[np.int64] | None = None
    first_line: int = 1
    warnings: tuple[str, ...] = ()
    problems: tuple[InputError, ...] = ()  # of columns that are read: the table is refused, with all of them
    extras: Mapping[str, Extra] = field(default_factory=dict)  # columns that are kept and cannot be read
    skipped: tuple[str, ...] = ()  # names of columns that nobody wanted
    no_answers: Mapping[str, Mask] = field(default_factory=dict)  # rows whose prediction stands for an outcome, by it
    task: Task | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    declared: tuple[Declared, ...] = ()
    excerpt: str = ""


# How surely an input is of a format. "sure": it bears a mark that no other format has. "likely": it has the shape of
# a general format, which a more special one may have too. "maybe": nothing speaks against it; the suffix decides.
Certainty = Literal["no", "maybe", "likely", "sure"]
Takes = Literal["file", "bundle", "both"]
Load = Callable[[Input], Table]


class Learned(Protocol):
    """What reading a file once told about its columns; two that are equal in shape give columns of the same kinds."""

    @property
    def shape(self) -> tuple[tuple[str, ...], ...]: ...


# The table a part at a time. Without what an earlier reading learned there are no parts: it is what this one returns.
Parts = Callable[[Input, Any], Generator[Table, None, Learned]]
Sniff = Callable[[Head], Certainty]


def by_suffix(_: Head) -> Certainty:
    """The certainty of a format that cannot be known by looking."""
    return "maybe"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A format: what it is for, the suffixes it usually has, how it is recognised, and the function that reads it."""

    name: str
    about: str
    load: Load
    suffixes: tuple[str, ...] = ()
    sniff: Sniff = by_suffix
    takes: Takes = "file"
    parts: Parts | None = None
    last_counts: bool = False
    sheets: bool = False

    def has_suffix(self, name: str) -> bool:
        return name.lower().endswith(self.suffixes)

    def table(self, source: Input) -> Table:
        """What is in an input, and what the input itself has to say."""
        table = self.load(source)
        return replace(table, warnings=(*table.warnings, *source.warnings)) if source.warnings else table


readers: Registry[Reader] = Registry("format")


def reader(
    name: str,
    *,
    about: str,
    suffixes: tuple[str, ...] = (),
    sniff: Sniff = by_suffix,
    takes: Takes = "file",
    parts: Parts | None = None,
    last_counts: bool = False,
    sheets: bool = False,
) -> Callable[[Load], Load]:
    """Register the function below it as the reader of a format.

    name      what `read(..., format=...)` calls it
    about     what such an input holds, in words that complete "name: ..."
    suffixes  those that such files usually have, in lower case; a hint, not a condition
    sniff     from the head of an input to how surely it is of this format; cheap, and without errors on garbage
    takes     files, bundles (folders and zip archives) or both; a bundle is in `source.bundle`
    parts     the same table a part at a time, for files that are larger than memory
    last_counts  whether an archive may list a name twice, because its tool appends what is newer; else it is refused
    sheets    whether an input may have several tables, one of which is chosen by `source.sheet`
    """

    def register(load: Load) -> Load:
        known = Reader(
            name=name,
            about=about,
            load=load,
            suffixes=suffixes,
            sniff=sniff,
            takes=takes,
            parts=parts,
            last_counts=last_counts,
            sheets=sheets,
        )
        readers.add(name, known)
        return load

    return register


def joined(chunks: list[Column]) -> Column:
    """Pieces of one column, of one type, as one array; text beyond two gigabytes needs wide offsets."""
    if chunks[0].type == pa.string() and sum(chunk.nbytes for chunk in chunks) > 2**31 - 2**20:
        chunks = [chunk.cast(pa.large_string()) for chunk in chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def give_back() -> None:
    """Let the system have memory again that arrays do not use any more, before other arrays need as much."""
    pa.default_memory_pool().release_unused()


def widened(arrays: list[Column]) -> Any:
    """The one type that holds all these arrays exactly as they are meant, or None if their kinds clash."""
    types = {array.type for array in arrays if kind_of(array) != "null"}
    if len(types) <= 1:
        return types.pop() if types else pa.null()
    kinds = {kind_of(array) for array in arrays} - {"null"}
    if kinds == {"int", "float"}:
        return pa.float64()
    if kinds == {"list"}:
        inner = widened([array.flatten() for array in arrays if kind_of(array) == "list"])
        return None if inner is None else pa.list_(inner)
    return pa.large_string() if kinds == {"text"} else None
