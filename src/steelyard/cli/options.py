"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from steelyard.errors import UsageError, printable

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="A metric, such as accuracy or ece(bins=15); repeat for more. See `steelyard metrics`.",
    ),
]
By = Annotated[
    list[str] | None, typer.Option("--by", help="Also per value of this column; a*b crosses two. Repeatable.")
]
Pool = Annotated[
    list[str] | None,
    typer.Option("--pool", help="Cell columns to pool over: model, strategy, task, perturbation. Repeatable."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="The column that is resampled as a unit, such as patient. Default: cluster, else task and item.",
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", help="Rename columns: item=item_id,repeat=epoch (known=original)."),
]
Where = Annotated[list[str] | None, typer.Option("--where", help="Keep rows with this value: model=a. Repeatable.")]
TaskFile = Annotated[Path | None, typer.Option("--task-file", help="YAML with labels, range, direction of the task.")]
InputFormat = Annotated[
    str | None, typer.Option("--input-format", help="jsonl, csv, parquet or phq8; default: from the file's name.")
]
Salvage = Annotated[
    bool, typer.Option("--salvage", help="Keep the whole lines before a torn last one, and say how many.")
]
Format = Annotated[str, typer.Option("--format", help="table, json or markdown.")]
Out = Annotated[Path | None, typer.Option("--out", help="A folder to write the result document to.")]
Resamples = Annotated[int, typer.Option("--resamples", help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals.")]
Method = Annotated[
    str, typer.Option("--method", help="auto (by family), percentile, bca, or plain: percentile as it comes.")
]
Unchanged = Annotated[
    str,
    typer.Option("--unchanged", help="Runs with the same answers: say so (say), or judge them as any others (judge)."),
]
Stream = Annotated[
    str, typer.Option("--stream", help="counter, or legacy to reproduce published percentile intervals.")
]

FORMATS = ("table", "json", "markdown")
STORE_FORMATS = (*FORMATS, "csv")
_KEPT = ("run.json", "evaluation.json")  # what lies in the folder of a run that was kept


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """`a=b,c=d` and repeated options as a mapping."""
    found: dict[str, str] = {}
    for text in texts or []:
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise UsageError(f"--{option} takes name=value, not '{printable(part)}'")
            if name.strip() in found:
                raise UsageError(f"--{option} names '{printable(name.strip())}' twice")
            found[name.strip()] = value.strip()
    return found


def names(texts: list[str]) -> list[str]:
    """`a,b` and repeated options as a list."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def settings(resamples: int, seed: int, level: float = 0.95, method: str = "auto", stream: str = "counter") -> Any:
    """How uncertainty is computed; what is no such value is refused."""
    from steelyard.uncertainty.settings import Settings

    return Settings(resamples=resamples, seed=seed, level=level, method=cast(Any, method), stream=cast(Any, stream))


def check_format(format_: str, *, store: bool = False) -> None:
    known = STORE_FORMATS if store else FORMATS
    if format_ not in known:
        raise UsageError(f"--format is one of {', '.join(known)}, not '{printable(format_)}'")


def check_outputs(outputs: Mapping[str, Path | Iterable[Path] | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse, before anything is written, to write over what is read, over a kept run, or twice to one file.

    `outputs` are files by the option that names them; an option may stand for several.
    """
    written = [(option, path) for option, paths in outputs.items() for path in _each(paths)]
    read = [name for name in inputs if name is not None and os.path.exists(name)]
    for _, path in written:
        if any(same_file(path, name) for name in read):
            raise UsageError(f"{printable(path)} is what would be read; name another file to write to")
        if os.path.exists(path) and all(os.path.isfile(path.parent / name) for name in _KEPT):
            raise UsageError(f"{printable(path)} belongs to a run that was kept; name another file to write to")
    for (one, path), (two, other) in combinations(written, 2):
        if same_file(path, other) and (os.path.isfile(path) or not os.path.exists(path)):  # a device takes both
            raise UsageError(f"{one} and {two} would both write {printable(other)}; name two files")
        if _inside(path, other) or _inside(other, path):
            raise UsageError(f"{one} and {two}: what is a file to one is a folder to the other; name two places")


def same_file(one: str | Path, two: str | Path) -> bool:
    """Whether two names stand for one file, through links too, and also where it is not there yet."""
    if os.path.exists(one) and os.path.exists(two):
        return os.path.samefile(one, two)
    return os.path.realpath(one) == os.path.realpath(two)


def _each(paths: Path | Iterable[Path] | None) -> Iterable[Path]:
    if paths is None:
        return ()
    return (paths,) if isinstance(paths, Path) else paths


def _inside(folder: Path, path: Path) -> bool:
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents


def allow_plugins(metrics: list[str] | None) -> None:
    """Let `--metric module:name` find a module in the working folder."""
    if any(":" in m for m in metrics or []) and "" not in sys.path:
        sys.path.insert(0, "")


def table(
    paths: list[str],
    *,
    cluster: str | None,
    map_: list[str] | None,
    where: list[str] | None,
    task_file: Path | None,
    input_format: str | None,
    salvage: bool,
) -> Any:
    """The records of some files, with the options of the command line."""
    from steelyard.records.readers import read

    return read(
        paths,
        format=input_format,
        cluster=cluster,
        task=task_file,
        rename=pairs(map_, "map"),
        where=pairs(where, "where"),
        salvage=salvage,
    )


def chosen(metrics: list[str] | None, records: Any, *, comparable: bool = False) -> list[str]:
    """The metrics asked for, else a stack that suits the columns; says which and why."""
    if metrics:
        return metrics
    from steelyard.metrics.definition import metric_of
    from steelyard.study.defaults import choose

    found: list[str] = []
    for choice in choose(records):
        kept = [m for m in choice.metrics if not (comparable and metric_of(m).definition.no_delta)]
        found += kept
        say(f"chose {', '.join(kept)}: {choice.why}")
    return found


def run_of(path: str, mode: str | None, *, where: list[str] | None, **options: Any) -> Any:
    """One run of a file: the rows of a mode, where the file has several."""
    records = table([path], where=where, salvage=False, **options)
    if mode is not None:
        if "strategy" not in records:
            raise UsageError(f"--mode: {printable(path)} has no column 'strategy'")
        return records.filter({"strategy": mode})
    modes = records.labels("strategy").values if "strategy" in records else ()
    if len(modes) > 1:
        shown = ", ".join(printable(m, limit=30) for m in modes)
        raise UsageError(f"{printable(path)} holds several modes; choose one with --mode: {shown}")
    return records


def pictures(figures: Mapping[str, Mapping[str, bytes]], folder: Path) -> dict[Path, bytes]:
    """The files that figures become in a folder: each as PNG, SVG and PDF."""
    return {folder / f"{name}.{suffix}": data for name, each in figures.items() for suffix, data in each.items()}


def write(files: Mapping[Path, str | bytes]) -> None:
    """Write files, and name each."""
    from steelyard.ground.files import write_atomic

    for path, content in files.items():
        write_atomic(path, content)
        say(f"wrote {path}")


def show(document: Any, report: Any, format_: str, target: Path | None) -> None:
    """Print the result in the format asked for, and write the document to a file where asked."""
    from steelyard.ground.files import write_atomic
    from steelyard.ground.json import dumps
    from steelyard.report.formats import csv, markdown, text

    if target is not None:
        write_atomic(target, dumps(document))
    if format_ == "json":
        sys.stdout.write(dumps(document))
    else:
        sys.stdout.write({"markdown": markdown, "csv": csv}.get(format_, text).render(report))
    sys.stdout.flush()
    if target is not None:
        say(f"wrote {target}")


def say(message: str) -> None:
    """A remark beside the result: on standard error, so that pipes stay clean."""
    sys.stderr.write(printable(message, limit=2000) + "\n")


@contextmanager
def progress(title: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on a terminal once work exceeds a second; nothing in pipes."""
    if not sys.stderr.isatty():
        yield None
        return
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(TextColumn(title), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)
    started, shown = monotonic(), False

    def update(share: float) -> None:
        nonlocal shown
        if not shown and monotonic() - started > 1.0:
            bar.start()
            shown = True
        bar.update(task, completed=share)

    try:
        yield update
    finally:
        if shown:
            bar.stop()
