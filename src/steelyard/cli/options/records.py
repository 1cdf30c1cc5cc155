"""Options of commands that read files of answers, and the table that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import completing
from steelyard.cli.command import PLUGINS, READS, Bundle, say, shell_text
from steelyard.errors import UsageError, printable
from steelyard.ground.commas import listed, pair_of, split_commas, unquoted

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
        help="Cell columns to pool over: model, strategy, task, perturbation. Repeatable.",
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
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        autocompletion=completing.columns,
        help="The column that is resampled as a unit, such as patient. Default: cluster, else task and item.",
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", autocompletion=completing.renamings, help="Rename columns: item=item_id,repeat=epoch (known=original)."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        autocompletion=completing.conditions,
        help='Keep rows: model=a, race=A,B, "age>=65" (= != < <= > >=); all must hold. Repeatable.',
    ),
]
TaskFile = Annotated[
    Path | None, typer.Option("--task-file", help="YAML with labels, range, direction of the task."), READS
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--input-format",
        autocompletion=completing.input_formats,
        help="csv, tsv, jsonl, json, parquet, arrow, xlsx, inspect, lm-eval, helm, promptfoo, every-eval-ever or phq8, "
        "each also as .gz or .zst; default: by looking.",
    ),
]
Salvage = Annotated[
    bool, typer.Option("--salvage", help="Keep the whole lines before a torn last one, and say how many.")
]
Labels = Annotated[
    str,
    typer.Option(
        "--labels",
        help="exact; strip: without white space around them; fold: case and a final full stop make no difference.",
    ),
]
Abstain = Annotated[
    list[str] | None,
    typer.Option("--abstain", help='A prediction that means declining, such as "I don\'t know". Repeatable.'),
]
Unparsed = Annotated[
    list[str] | None,
    typer.Option("--unparsed", help="A prediction that means that the reply could not be read. Repeatable."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        autocompletion=completing.columns,
        help="Of columns outside the vocabulary, hold only these in memory. Repeatable.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", autocompletion=completing.columns, help="Do not read these columns. Repeatable."),
]
Scorer = Annotated[
    list[str] | None,
    typer.Option("--scorer", help="Of a log, the scorer or metric that counts; several are each a task. Repeatable."),
]
AbstainWhen = Annotated[
    list[str] | None,
    typer.Option(
        "--abstain-when",
        help="Replies in a log that mean declining: noanswer, phrases (both by default), empty, /PATTERN/, never.",
    ),
]
Lexicon = Annotated[
    list[str] | None,
    typer.Option(
        "--lexicon",
        help="A table of clinical terms that metrics of texts know besides their own, or icd10cm. Repeatable.",
    ),
    READS,
]
Versus = Annotated[
    str | None,
    typer.Option("--versus", autocompletion=completing.conditions, help="Two parts of one table: model=old,new."),
]


@dataclass(frozen=True, kw_only=True)
class Reading(Bundle):
    """How files of answers are read."""

    cluster: Cluster = None
    map_: Map = None
    where: Where = None
    task_file: TaskFile = None
    input_format: InputFormat = None
    labels: Labels = "strip"
    abstain: Abstain = None
    unparsed: Unparsed = None
    only: Only = None
    drop: Drop = None
    scorer: Scorer = None
    abstain_when: AbstainWhen = None
    lexicon: Lexicon = None

    @property
    def stated(self) -> dict[str, Any]:
        """What `read` is called with: only what was given."""
        named = {
            "format": self.input_format,
            "cluster": self.cluster,
            "task": self.task_file,
            "map": pairs(self.map_, "map"),
            "where": self.where,
            "labels": self.labels if self.labels != "strip" else None,
            "abstain": self.abstain,
            "unparsed": self.unparsed,
            "only": names(self.only or []),
            "drop": names(self.drop or []),
            "scorer": self.scorer,
            "abstain_when": self.abstain_when,
            "lexicon": self.lexicon,
        }
        return {name: value for name, value in named.items() if value}

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
            return records.filter({"strategy": mode})
        modes = records.labels("strategy").values if "strategy" in records else ()
        if len(modes) > 1:
            shown = ", ".join(printable(m, limit=30) for m in modes)
            raise UsageError(f"{printable(path)} holds several modes; choose one with --mode: {shown}")
        return records


@dataclass(frozen=True, kw_only=True)
class TornReading(Reading):
    """The same, where the whole lines of a torn file may be kept."""

    salvage: Salvage = False

    @property
    def stated(self) -> dict[str, Any]:
        return {**super().stated, **({"salvage": True} if self.salvage else {})}


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
