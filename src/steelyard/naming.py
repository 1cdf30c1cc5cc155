"""Metric expressions and their text: `ece(bins=15)`, `f1."very bad"`, `accuracy{group.site=x}`.

    expr  = head ["@" int] ["(" arg {"," arg} ")"] {"." label} ["{" slice "}"]
    head  = word | word {"." word} ":" word          the second form names a plug-in
    arg   = [word "="] value        value = number | "true" | "false" | string | "[" values "]" | expr
    slice = path "=" label {"," path "=" label}      path = word {"." label}
    label = bare | JSON string      bare = letters, digits, "_", "-" and "+", not starting with "-" or "+"

This module knows the grammar only. What a name means is the registry's business; whether `a.b` is a column or a
metric is the parameter's. `str(parse(text))` is canonical spacing and quoting; `parse(str(e)) == e`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.errors import UsageError, printable

RESERVED = frozenset({"low", "high", "delta"})

_DEEPEST = 50  # a hostile name must not exhaust the stack

_HEAD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*|[A-Za-z]\w*")
_WORD = re.compile(r"[A-Za-z]\w*")
_BARE = re.compile(r"\w[\w+-]*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INT = re.compile(r"\d+")


@dataclass(frozen=True)
class Quoted:
    """A string that was written in quotes: never a column, a metric or a keyword."""

    text: str


@dataclass(frozen=True)
class Expr:
    """One parsed expression. `args` keeps (name or "", value) in the order written."""

    head: str
    cutoff: int | None = None
    args: tuple[tuple[str, object], ...] = ()
    labels: tuple[str, ...] = ()
    slice: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """The expression read as a column name: `signal.evidence`."""
        return ".".join((self.head, *self.labels))

    @property
    def is_path(self) -> bool:
        return self.cutoff is None and not self.args and not self.slice

    def __str__(self) -> str:
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        args = ", ".join(f"{name}={value_text(v)}" if name else value_text(v) for name, v in self.args)
        labels = "".join(f".{label_text(label)}" for label in self.labels)
        return f"{self.head}{cutoff}{f'({args})' if args else ''}{labels}{slice_text(dict(self.slice))}"


def parse(text: str) -> Expr:
    """Read one expression; anything left over is an error that points at it.

    >>> str(parse("aurc( rank=signal.evidence,loss=abs )"))
    'aurc(rank=signal.evidence, loss=abs)'
    """
    if sum(map(text.count, "([")) > _DEEPEST:
        raise UsageError(f"cannot read '{printable(text)}': more than {_DEEPEST} brackets")
    scanner = _Scanner(text)
    expr = scanner.expr()
    scanner.end()
    return expr


def label_text(label: object) -> str:
    """A label as written in a name: bare where the grammar allows it, else a JSON string."""
    text = str(label)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def word_text(text: str) -> str:
    """A text as an option's value: bare where it is a plain word that reads back as text, else a JSON string."""
    plain = _WORD.fullmatch(text) and text.isascii() and text not in ("true", "false")
    return text if plain else json.dumps(text, ensure_ascii=False)


def column_text(name: str) -> str:
    """A column's name as an option's value: bare where it reads back as a path, else a JSON string."""
    try:
        expr = parse(name)
    except UsageError:
        return json.dumps(name, ensure_ascii=False)
    plain = expr.is_path and expr.path == name and str(expr) == name and ":" not in name
    return name if plain and name not in ("true", "false") else json.dumps(name, ensure_ascii=False)


def path_text(path: str) -> str:
    """A column name as written in a slice: the first word, then labels."""
    head, *labels = path.split(".")
    return ".".join((head, *map(label_text, labels)))


def slice_text(slice_: Mapping[str, object]) -> str:
    """`{group.site=x,model=m1}`, or nothing for the whole table."""
    if not slice_:
        return ""
    return "{" + ",".join(f"{path_text(path)}={label_text(value)}" for path, value in slice_.items()) + "}"


def value_text(value: object) -> str:
    """An option's value in canonical form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, Quoted):
        return json.dumps(value.text, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return str(value)


class _Scanner:
    """Recursive descent over the text, one method a grammar rule."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def expr(self) -> Expr:
        head = self.match(_HEAD)
        if head is None:
            raise self.error("a name is expected")
        cutoff = None
        if self.take("@"):
            digits = self.match(_INT)
            if digits is None:
                raise self.error("a whole number is expected after '@'")
            cutoff = int(digits)
        args: tuple[tuple[str, object], ...] = ()
        if self.take("("):
            args = tuple(self.items(self.arg, ")"))
        labels: list[str] = []
        while self.take("."):
            labels.append(self.label())
        slice_: tuple[tuple[str, str], ...] = ()
        if self.take("{"):
            slice_ = tuple(self.items(self.equation, "}"))
            if len(dict(slice_)) < len(slice_):
                raise self.error("a column stands twice in the slice")
        return Expr(head, cutoff, args, tuple(labels), slice_)

    def items(self, item, close: str) -> list:  # type: ignore[no-untyped-def, type-arg]
        if self.take(close):
            return []
        found = [item()]
        while not self.take(close):
            if not self.take(","):
                raise self.error(f"',' or '{close}' is expected")
            found.append(item())
        return found

    def arg(self) -> tuple[str, object]:
        start = self.at
        name = self.match(_WORD)
        if name is not None and self.take("="):
            return name, self.value()
        self.at = start
        return "", self.value()

    def value(self) -> object:
        if self.take("["):
            return tuple(self.items(self.value, "]"))
        text = self.match(_STRING)
        if text is not None:
            return Quoted(self.unquote(text))
        number = self.match(_NUMBER)
        if number is not None:
            return int(number) if re.fullmatch(r"[+-]?\d+", number) else float(number)
        expr = self.expr()
        if expr.is_path and not expr.labels and expr.head in ("true", "false"):
            return expr.head == "true"
        return expr

    def equation(self) -> tuple[str, str]:
        head = self.match(_WORD)
        if head is None:
            raise self.error("a column name is expected")
        parts = [head]
        while self.take("."):
            parts.append(self.label())
        if not self.take("="):
            raise self.error("'=' is expected")
        return ".".join(parts), self.label()

    def label(self) -> str:
        text = self.match(_STRING)
        if text is not None:
            return self.unquote(text)
        bare = self.match(_BARE)
        if bare is None:
            raise self.error("a label is expected (quote it if it is not a plain word)")
        return bare

    def unquote(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error("this is not a valid quoted string") from None

    def match(self, pattern: re.Pattern[str]) -> str | None:
        self.skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def take(self, mark: str) -> bool:
        self.skip()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def end(self) -> None:
        self.skip()
        if self.at < len(self.text):
            raise self.error("nothing more is expected here")

    def error(self, problem: str) -> UsageError:
        return UsageError(f"cannot read '{printable(self.text)}' at character {self.at + 1}: {problem}")
