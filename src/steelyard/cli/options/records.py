"""Options of commands that read files of answers, and the table that they mean."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from steelyard.cli import completing
from steelyard.cli.command import PLUGINS, READS, Bundle, keyword, say, shell_text
from steelyard.errors import UsageError, printable
from steelyard.ground.commas import listed, pair_of, pair_text, quoted, split_commas, unquoted
from steelyard.records import reading
from steelyard.records.reading import Option, options_of

if TYPE_CHECKING:
    from steelyard.metrics.definition import Metric
    from steelyard.naming import Expr
    from steelyard.study.defaults import Choice


def split_metrics(given: list[str] | None) -> list[str] | None:
    """`a,ece(bins=15)` and repeated options as one list of metrics: commas inside brackets and quotes do not split."""
    return None if given is None else [name for text in given for name in split_commas(text) if name]


Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        autocompletion=completing.metrics,
        help="A metric, such as accuracy or ece(bins=15); a,b or repeat for more. See `steelyard metrics`.",
        callback=split_metrics,
    ),
    PLUGINS,
]
Primary = Annotated[
    list[str] | None,
    typer.Option(
        "--primary",
        autocompletion=completing.metrics,
        help="What decides, such as accuracy or accuracy{task=a}; a,b or repeat for more. Default: the first metric. "
        "The others explore: their p-values are adjusted apart.",
        callback=split_metrics,
    ),
    PLUGINS,
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", autocompletion=completing.columns, help="Also per value of this column; a*b crosses two. Repeatable."
    ),
]
Pool = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        autocompletion=completing.columns,
        help="Cell columns to pool over: model, strategy, task, perturbation, group.split. Repeatable.",
    ),
]
Align = Annotated[
    str,
    typer.Option(
        "--align", help="Two runs: strict, unmatched rows are an error; intersection, they are left out and counted."
    ),
]
Unchanged = Annotated[
    str,
    typer.Option("--unchanged", help="Runs with the same answers: say so (say), or judge them as any others (judge)."),
]
Versus = Annotated[
    str | None,
    typer.Option("--versus", autocompletion=completing.conditions, help="Two parts of one table: model=old,new."),
]


class ReadingAsIs(Bundle):
    """How a file is read of which every column is kept as it is."""

    options: ClassVar = options_of(reading.ReadingAsIs)

    def __init__(self, **given: Any) -> None:
        self._given = given

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        return [_parameter(name, option) for name, option in cls.options.items()]

    @property
    def stated(self) -> Any:
        """What the library is called with: only what was given."""
        named = {name: _value(option, self._given[option.typed(name)], name) for name, option in self.options.items()}
        return {name: value for name, value in named.items() if value}


class Reading(ReadingAsIs):
    """How files of answers are read."""

    options: ClassVar = options_of(reading.Reading)

    def table(self, paths: list[str], columns: Sequence[str] | None) -> Any:
        """The records of some files; `columns` are those outside the vocabulary that are used, None: all are kept."""
        from steelyard.cli.progress import progress
        from steelyard.records.readers import read

        with progress("reading") as told:
            return read(paths, columns=columns, progress=told, **self.stated)

    def run(self, path: str, mode: str | None, columns: Sequence[str]) -> Any:
        """One run of a file: the rows of a mode, where the file has several."""
        records = self.table([path], columns)
        if mode is not None:
            if "strategy" not in records:
                raise UsageError(f"--mode: {printable(path)} has no column 'strategy'")
            return records.of_run("strategy", mode)
        modes = records.labels("strategy").values if "strategy" in records else ()
        if len(modes) > 1:
            shown = ", ".join(printable(m, limit=30) for m in modes)
            raise UsageError(f"{printable(path)} holds several modes; choose one with --mode: {shown}")
        return records


class SuiteReading(ReadingAsIs):
    """How the answers to a suite's tasks are read: what else there is to say, the suite says."""

    options: ClassVar = {
        name: option for name, option in Reading.options.items() if name in ("map", "where", "lexicon")
    }


_COMPLETING = {
    "column": completing.columns,
    "columns": completing.columns,
    "pairs": completing.renamings,
    "conditions": completing.conditions,
    "format": completing.input_formats,
}


def _parameter(name: str, option: Option) -> inspect.Parameter:
    """An option of reading as a command takes it."""
    one = {"text": str | None, "column": str | None, "file": Path | None, "flag": bool}
    typed = typer.Option(
        f"--{option.typed(name).replace('_', '-')}",
        help=option.help if option.kind in one else f"{option.help} Repeatable.",
        autocompletion=_COMPLETING.get(name) or _COMPLETING.get(option.kind),
    )
    marks = (typed, READS) if option.kind in ("file", "files") else (typed,)
    hint = Annotated[one.get(option.kind, list[str] | None), *marks]  # type: ignore[valid-type]
    return keyword(option.typed(name), hint, False if option.kind == "flag" else None)


def _value(option: Option, given: Any, name: str) -> Any:
    """What was typed, as the library takes it."""
    if option.kind == "pairs":
        return pairs(given, name)
    return names(given or []) if option.kind == "columns" else given


def words_of(asked: object) -> list[str]:
    """What is typed to read as the attributes of this object say, which have the names of the options."""
    words = []
    for name, option in Reading.options.items():
        value, flag = getattr(asked, option.typed(name)), f"--{option.typed(name).replace('_', '-')}"
        if option.kind == "flag":
            words += [flag] if value else []
        else:
            words += [word for text in _texts(option, value) for word in (flag, text)]
    return words


def _texts(option: Option, value: Any) -> list[str]:
    """The texts that mean a value where it is typed, each with the option before it."""
    from steelyard.records.conditions import conditions

    if option.kind == "conditions":
        return [str(condition) for condition in conditions(value)]
    if option.kind == "pairs":
        return [pair_text(*pair) for pair in value.items()]
    if option.kind == "columns":
        return [name if listed(name) == [name] else quoted(name) for name in value]
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """`a=b,c=d` and repeated options as a mapping."""
    known: dict[str, str] = {}
    for text in texts or []:
        for part in split_commas(text):
            pair = pair_of(part)
            if pair is None:
                raise UsageError(f"--{option} takes name=value, not '{printable(part)}'")
            if pair[0] in known:
                raise UsageError(f"--{option} names '{printable(pair[0])}' twice")
            known[pair[0]] = pair[1]
    return known


def names(texts: list[str]) -> list[str]:
    """`a,b` and repeated options as a list."""
    return [name for text in texts for name in listed(text)]


def versus_of(text: str) -> tuple[str, str, str]:
    """A column, and the values of it that are the base run and the new one."""
    first, *rest = split_commas(text)
    base = pair_of(first)
    sides = [unquoted(side) for side in rest if side]
    if base is None or len(rest) != 1 or sides in ([], [base[1]]):
        raise UsageError("--versus takes a column and two values: model=old,new")
    return (*base, sides[0])


def only_for_files(*, kept: str = "one of these is a kept run", **options: Any) -> None:
    """Refuse options that are about files of answers, where a kept run is given."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        raise UsageError(f"`{given}=` is for files of answers; {kept}")


def say_unit_of(*tables: Any) -> None:
    """Say once if a column looks like the unit of the tables and nobody said so."""
    from steelyard.records.unit import likely_unit

    say_unit(next(filter(None, map(likely_unit, tables)), None))


def say_unit(unit: Any) -> None:
    """Say which column looks like the unit, if any does, with the option to type."""
    if unit is not None:
        say(f"{unit}: --cluster {shell_text(unit.column)}")


def say_chosen(choices: Sequence[Choice]) -> None:
    """Say which metrics were taken that nobody named, and why."""
    for choice in choices:
        say(f"chose {', '.join(map(str, choice.metrics))}: {choice.why}")


def asked_metrics(given: list[str] | None) -> list[Metric | Expr] | None:
    """The metrics that are named on the command line, read once; None where the table is to choose."""
    from steelyard.study.asking import asked_for

    return None if given is None else asked_for(given)
