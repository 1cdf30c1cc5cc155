"""What can go wrong, as one tree. Each class knows the exit code of the command line.

    SteelyardError
    ├── UsageError    2   unknown option, metric or variant; a malformed spec
    ├── InputError    3   the data that came in breaks a rule
    ├── BackendError  4   a model backend gave up
    └── StorageError  5   disk full, locked, a corrupt artifact

A message says what happened, where, and what to do next. It never echoes a value from the data: any text field
may hold patient data. Names of columns and files are shown, with control characters escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

# GitHub executes a line that begins with ::, and older commands and Azure's wherever they stand in one
_RUN_BY_BUILDS = re.compile(r"(?<!\S):(?=:)|#(?=#(?:vso)?\[)")


class SteelyardError(Exception):
    """Anything Steelyard refuses, with a message for people and an exit code for programs.

    >>> import steelyard as sy
    >>> try:
    ...     sy.value("acuracy", target=["a"], prediction=["a"])
    ... except sy.SteelyardError as refused:
    ...     print(type(refused).__name__, refused.exit_code)
    UsageError 2
    """

    exit_code: ClassVar[int] = 2


class UsageError(SteelyardError):
    """The request itself is wrong: an unknown name, a bad option, a malformed spec.

    >>> import steelyard as sy
    >>> sy.value("acuracy", target=["a"], prediction=["a"])
    Traceback (most recent call last):
    steelyard.errors.UsageError: unknown metric 'acuracy'; did you mean accuracy or aurc? `steelyard metrics` lists all
    """

    exit_code = 2


class InputError(SteelyardError):
    """The data breaks a rule. Knows the file, the line and the field where it can.

    `rows` is how many rows break it; `others` are further problems of the same data.

    >>> str(InputError("is not a number", file="run.csv", line=3, field="confidence"))
    'run.csv:3: confidence: is not a number'
    """

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        rows: int = 1,
        others: tuple[InputError, ...] = (),
    ) -> None:
        self.problem, self.file, self.line, self.field = problem, file, line, field
        self.rows, self.others = rows, others
        where = printable(file) if file else ""
        if line is not None:
            where = f"{where}:{line}" if where else f"row {line}"
        parts = [part for part in (where, printable(field) if field else "", problem) if part]
        several = f" (in {rows:,} rows, this is the first)" if rows > 1 else ""
        more = f"; {counted(len(others), 'other problem')}" if others else ""
        super().__init__(": ".join(parts) + several + more)

    @classmethod
    def together(cls, problems: Sequence[InputError]) -> InputError:
        """Several problems as one: the first, with the others in it."""
        first, *others = problems
        if not others:
            return first
        return cls(
            first.problem, file=first.file, line=first.line, field=first.field, rows=first.rows, others=tuple(others)
        )


class BackendError(SteelyardError):
    """A model backend gave up."""

    exit_code = 4


class StorageError(SteelyardError):
    """The disk, a lock or an artifact is not as it must be."""

    exit_code = 5


def printable(text: object, *, limit: int | None = 120) -> str:
    """`text` fit for a terminal and a log, its length bounded by `limit` if any.

    Control, format and surrogate characters are escaped, and so is what a build server would run.

    >>> printable("a\\x1b[31mb"), printable("::error::b"), printable("std::list")
    ('a\\\\x1b[31mb', '\\\\x3a:error::b', 'std::list')
    """
    given = str(text) if limit is None else str(text)[: limit + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in given)
    shown = _RUN_BY_BUILDS.sub(lambda mark: f"\\x{ord(mark[0]):x}", shown)
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def counted(n: int, noun: str) -> str:
    """How many of something, in words that agree.

    >>> counted(1, "row"), counted(1200, "query"), counted(0, "cluster")
    ('1 row', '1,200 queries', '0 clusters')
    """
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """
    >>> plural("patient"), plural("query"), plural("case series"), plural("batch")
    ('patients', 'queries', 'case series', 'batches')
    """
    if noun.endswith("series"):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"
