"""What is meant by a metric about another one that is asked for alone: `fairness_gap` of what, between which groups?

`global_metric` is the main metric itself. The base is the first metric of the table's default stack, the groups are
those of its only `group.*` column. What was filled in is said; where there are several columns, they are named and one
must be chosen. A name that is no metric's is answered with those that may be meant and that suit the table's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.errors import UsageError, printable
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Definition, Metric, MetricLike, bound
from steelyard.metrics.spellings import spelled, suggestions
from steelyard.metrics.vocabulary import CUTOFF
from steelyard.naming import Expr, parse
from steelyard.records.schema import FIELDS, is_group
from steelyard.records.table import Records
from steelyard.registry import load_entry_points
from steelyard.study.defaults import choose, listed_metrics

_MAIN = "global_metric"


def asked_for(metrics: Sequence[MetricLike | Expr]) -> list[Metric | Expr]:
    """The metrics that are meant; of what only a table can say more (about what, or which is meant) the expression."""
    return [_asked(each) for each in metrics]


def _asked(asked: MetricLike | Expr) -> Metric | Expr:
    if isinstance(asked, Metric):
        return asked
    written = asked if isinstance(asked, Expr) else parse(asked if isinstance(asked, str) else asked.name)
    expr = spelled(written, registry)
    if _is_main(expr) or _is_unknown(expr) or _open(expr):
        return written
    return asked() if isinstance(asked, Definition) else bound(written)


def completed(asked: Sequence[Metric | Expr], records: Records) -> tuple[list[Metric], list[str]]:
    """The metrics with what was left open filled in from the table, and what must be said of that."""
    metrics, said = [], []
    for each in asked:
        if isinstance(each, Metric):
            metrics.append(each)
            continue
        expr = spelled(each, registry)
        if _is_unknown(expr):
            raise UsageError(_unknown(expr.head, records))
        metric = _filled(expr, records)
        said.append(f"{printable(str(each))} was asked for alone and taken as {metric}")
        metrics.append(metric)
    return metrics, said


def left_open(asked: MetricLike | Expr) -> str:
    """What to write where no table says what a metric is about; nothing where it is said."""
    expr = _asked(asked)
    if isinstance(expr, Metric):
        return ""
    expr = spelled(expr, registry)
    if _is_unknown(expr):
        return ""
    if _is_main(expr):
        return f"{_MAIN} is the main metric of a table; write which, such as accuracy"
    example = {"base": "accuracy", "by": "group.site"}
    whole = bound(replace(expr, args=(*expr.args, *((name, parse(example[name])) for name in _open(expr)))))
    return f"{printable(str(expr))} leaves open what it is about; write it out, such as {whole}"


def _filled(expr: Expr, records: Records) -> Metric:
    """The metric that is meant on this table."""
    if _is_main(expr):
        return _main(records)
    filled = [(name, _main(records) if name == "base" else _only_group(expr, records)) for name in _open(expr)]
    return bound(replace(expr, args=(*expr.args, *filled)))


def _main(records: Records) -> Metric:
    """The main metric of a table: the first of those that suit it."""
    return listed_metrics(choose(records))[0]


def _is_main(expr: Expr) -> bool:
    return expr.head.casefold() == _MAIN and not (expr.args or expr.labels)


def _is_unknown(expr: Expr) -> bool:
    """Whether no metric has that name, plug-ins included."""
    if ":" in expr.head or _is_main(expr):
        return False
    names = [expr.head] if expr.cutoff is None else [expr.head, f"{expr.head}{CUTOFF}"]
    return all(registry.meant(name) is None for name in names) and not (load_entry_points() and expr.head in registry)


def _unknown(name: str, records: Records) -> str:
    """What to say of a name that is no metric's: what may be meant among those that this table has the columns for."""
    here = [definition for definition in registry.values() if _fits(definition, records)]
    return f"unknown metric '{printable(name)}'; {suggestions(name, here)}"


def _fits(definition: Definition, records: Records) -> bool:
    read = set(definition.usual_reads or ()) - {p.name for p in definition.params}
    return all(column.removeprefix("reference.") in records for column in read if column in FIELDS)


def _open(expr: Expr) -> list[str]:
    """The options that say what a metric is about, and are not given."""
    if expr.head not in registry:
        return []
    definition = registry[expr.head]
    given = {name for name, _ in expr.args if name}
    placed = sum(not name for name, _ in expr.args)
    later = [p for i, p in enumerate(definition.params) if i >= placed and p.required and p.name not in given]
    return [p.name for p in later if p.name in ("base", "by")]


def _only_group(expr: Expr, records: Records) -> str:
    columns = [name for name in records.stated if is_group(name)]
    if len(columns) == 1:
        return columns[0]
    if not columns:
        raise UsageError(f"{expr.head} compares groups, and the table has no `group.*` column; name one with by=")
    shown = ", ".join(map(printable, columns))
    raise UsageError(f"{expr.head} compares groups; say which with by=, one of {shown}")
