"""Metric expressions, rules about them, and their text: `ece(bins=15)`, `low(delta(accuracy{group.site=x})) >= -0.01`.

    rule  = ["!"] expr ("<=" | ">=" | "<" | ">") number ["for each" (path | "cell")]
    expr  = head ["@" int] ["(" arg {"," arg} ")"] ["@" int] {"." label} ["{" slice "}"]      with one cutoff at most
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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite

from steelyard.errors import UsageError, printable
from steelyard.halves import whole_text

RESERVED = frozenset({"low", "high", "delta"})

_DEEPEST = 50  # a hostile name must not exhaust the stack

_HEAD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*|[A-Za-z]\w*")
_WORD = re.compile(r"[A-Za-z]\w*")
_BARE = re.compile(r"\w[\w+-]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INT = re.compile(r"[0-9]+")
_SIGNS = "−－＋"  # look like - and +
_EACH = re.compile(r"for\s+each\b")


@dataclass(frozen=True)
class Quoted:
    """A string that was written in quotes: never a column, a metric or a keyword."""

    text: str


@dataclass(frozen=True, kw_only=True)
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

    @property
    def plugins(self) -> set[str]:
        """The heads `module:name`, of this expression and of those inside it."""
        inside = [value.plugins for _, given in self.args for value in _flat(given) if isinstance(value, Expr)]
        return ({self.head} if ":" in self.head else set()).union(*inside)

    def __str__(self) -> str:
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        args = ", ".join(f"{name}={value_text(v)}" if name else value_text(v) for name, v in self.args)
        labels = "".join(f".{label_text(label)}" for label in self.labels)
        return f"{self.head}{cutoff}{f'({args})' if args else ''}{labels}{slice_text(dict(self.slice))}"


def _flat(value: object) -> Iterator[object]:
    """A value, or the values of a list."""
    if isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


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


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One parsed rule: a bound (or the value) of a metric (or of its delta) against a threshold.

    `marked`: written with "!", so that it may oppose the direction in which the metric is better. `key` is the left
    side as written, which may be a literal key of a run's Metrics.
    """

    key: str
    metric: Expr
    relation: str
    threshold: float
    bound: str | None = None  # low or high
    delta: bool = False
    marked: bool = False
    each: str | None = None  # a column, or "cell"

    @property
    def kind(self) -> str:
        """point, confirming (the bound must clear the threshold) or permissive (it must not be shown to miss it)."""
        if self.bound is None:
            return "point"
        return "confirming" if (self.bound == "low") == self.relation.startswith(">") else "permissive"

    def __str__(self) -> str:
        left = f"delta({self.metric})" if self.delta else str(self.metric)
        left = f"{self.bound}({left})" if self.bound else left
        each = f" for each {self.each if self.each == 'cell' else path_text(self.each)}" if self.each else ""
        return f"{'!' if self.marked else ''}{left} {self.relation} {value_text(self.threshold)}{each}"


def parse_rule(text: str) -> Rule:
    """Read one rule.

    >>> str(parse_rule("low( delta(accuracy) )>=-0.01"))
    'low(delta(accuracy)) >= -0.01'
    """
    if sum(map(text.count, "([")) > _DEEPEST:
        raise UsageError(f"cannot read '{printable(text)}': more than {_DEEPEST} brackets")
    try:
        return _Scanner(text).rule()
    except UsageError as problem:
        meant = _meant(text)
        raise (UsageError(f"{problem}; {meant}") if meant else problem) from None


_PERCENT = re.compile(r"[<>]=?\s*(-?[0-9.]+)\s*%")
_BASELINE = re.compile(r"^(?P<left>.+?)\s*(?P<relation>[<>]=?)\s*(the\s+)?(base|baseline|old|before|active)\b", re.I)
_AND = re.compile(r"\s(and|&&?|or|\|\|?)\s|,\s*\w+\s*[<>]")


def _meant(text: str) -> str:
    """What to write instead of a rule in words that rules do not have; nothing where that cannot be told."""
    share = _PERCENT.search(text)
    if share is not None:
        with suppress(ValueError):
            return f"write {float(share[1]) / 100:g} for {share[1]}%"
    against = _BASELINE.match(text)
    if against is not None:
        return f"write delta({printable(against['left'].strip())}) {against['relation']} 0 to compare with the baseline"
    return "write one rule each, as `rule=` may be repeated: all of them must hold" if _AND.search(text) else ""


def plugins_in(text: str) -> set[str]:
    """The plug-ins `module:name` that an expression or a rule names; a colon anywhere else names none.

    >>> sorted(plugins_in("low(delta(over(my.parts:margin, of=[other:error]))) >= 0"))
    ['my.parts:margin', 'other:error']
    >>> plugins_in('recall."ICD:x"{group.site="a:b"} >= 0')
    set()
    """
    for read in (parse, lambda rule: parse_rule(rule).metric):
        with suppress(UsageError):
            return read(text).plugins
    return set()


def number_in(text: str) -> float:
    """The number that a text is, in the digits 0 to 9; a ValueError where it is none, also in other digits.

    >>> number_in("-0.5"), number_in("1e3")
    (-0.5, 1000.0)
    """
    if not text.isascii() or "_" in text:  # Python would read both
        raise ValueError
    return float(text)


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


def split_slice(key: str) -> tuple[str, dict[str, str]]:
    """A flat key as the metric's name and its slice; a key that does not end in a slice is a name of its own."""
    if not key.endswith("}"):
        return key, {}
    try:
        expr = parse(key)
        return str(replace(expr, slice=())), dict(expr.slice)
    except UsageError:  # a documented key with a label that is no word: its slice is a metric's all the same
        name, _, rest = key.rpartition("{")
    try:
        return name, dict(parse(f"x{{{rest}").slice)
    except UsageError:
        return key, {}


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
    """Recursive descent over the text, one method per grammar rule."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def expr(self) -> Expr:
        head = self.match(_HEAD)
        if head is None:
            raise self.error("a name is expected")
        cutoff = self.cutoff()
        args: tuple[tuple[str, object], ...] = ()
        if self.take("("):
            args = tuple(self.items(self.arg, ")"))
            cutoff = self.cutoff() if cutoff is None else cutoff
        labels: list[str] = []
        while self.take("."):
            labels.append(self.label())
        slice_: tuple[tuple[str, str], ...] = ()
        if self.take("{"):
            slice_ = tuple(self.items(self.equation, "}"))
            if len(dict(slice_)) < len(slice_):
                raise self.error("a column appears twice in the slice")
        return Expr(head=head, cutoff=cutoff, args=args, labels=tuple(labels), slice=slice_)

    def cutoff(self) -> int | None:
        if not self.take("@"):
            return None
        digits = self.match(_INT)
        if digits is None:
            raise self.error("a whole number is expected after '@'")
        return int(digits)

    def rule(self) -> Rule:
        marked = self.take("!")
        self.skip()
        start = self.at
        expr = self.expr()
        key = self.text[start : self.at].strip()
        end = self.at
        self.at = start  # what is wrong with the left side is pointed at there
        bound, expr = self.wrapped(expr, ("low", "high"))
        delta, expr = self.wrapped(expr, ("delta",))
        if expr.head in RESERVED:
            raise self.error(f"'{expr.head}' stands in the wrong place; write low(delta(metric))")
        self.at = end
        relation = next((mark for mark in ("<=", ">=", "<", ">") if self.take(mark)), None)
        if relation is None:
            equals = self.text.startswith("=", self.at)
            hint = "; equality is never decided by data" if equals else ""
            raise self.error(f"one of <=, >=, <, > is expected{hint}")
        number = self.match(_NUMBER)
        if number is None:
            raise self.error("a number is expected")
        if not isfinite(float(number)):
            raise self.error("a number that is not so large is expected")
        each = None
        if self.match(_EACH) is not None:
            each = self.column()
        self.end()
        return Rule(
            key=key,
            metric=expr,
            relation=relation,
            threshold=float(number),
            bound=bound,
            delta=delta is not None,
            marked=marked,
            each=each,
        )

    def wrapped(self, expr: Expr, heads: tuple[str, ...]) -> tuple[str | None, Expr]:
        """What an expression such as low(…) is wrapped in, and what is inside."""
        if expr.head not in heads:
            return None, expr
        alone = len(expr.args) == 1 and not expr.args[0][0] and isinstance(expr.args[0][1], Expr)
        if not alone or expr.labels or expr.slice or expr.cutoff is not None:
            raise self.error(f"{expr.head}(…) takes one metric, with its slice inside")
        inside = expr.args[0][1]
        assert isinstance(inside, Expr)
        return expr.head, inside

    def items(self, item, close: str) -> list:  # type: ignore[no-untyped-def, type-arg]
        if self.take(close):
            return []
        items = [item()]
        while not self.take(close):
            if not self.take(","):
                raise self.error(f"',' or '{close}' is expected")
            items.append(item())
        return items

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
            return int(number) if re.fullmatch(r"[+-]?[0-9]+", number) else float(number)
        expr = self.expr()
        if expr.is_path and not expr.labels and expr.head in ("true", "false"):
            return expr.head == "true"
        return expr

    def equation(self) -> tuple[str, str]:
        column = self.column()
        if not self.take("="):
            raise self.error("'=' is expected")
        return column, self.label()

    def column(self) -> str:
        head = self.match(_WORD)
        if head is None:
            raise self.error("a column name is expected")
        parts = [head]
        while self.take("."):
            parts.append(self.label())
        return ".".join(parts)

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
            return whole_text(str(json.loads(text)))
        except ValueError:
            raise self.error("this is not a valid quoted string") from None

    def match(self, pattern: re.Pattern[str]) -> str | None:
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match.group()

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
        word = next(iter(self.text[self.at :].split()), "")
        if any(c in _SIGNS or (c.isnumeric() and not c.isascii()) for c in word):
            problem += "; numbers are written in the digits 0 to 9, with - and +"
        return UsageError(f"cannot read '{printable(self.text)}' at character {self.at + 1}: {problem}")
