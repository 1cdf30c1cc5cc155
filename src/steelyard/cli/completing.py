"""What a shell may complete: metrics, columns of the file on the line, runs, formats, tasks.

Completion is quick and silent: whatever goes wrong completes nothing. Only names are offered, never what a cell holds.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from steelyard.halves import whole

VARIABLE = "_STEELYARD_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_HEAD = 1 << 20  # bytes of a file that are looked at for its columns
_RUNS = 200

Completer = Callable[[typer.Context, str], list[str]]


def _quietly(names: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """A completer of these names, whatever their case; after a comma, of one more of them."""

    @wraps(names)
    def completer(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        try:
            fitting = [name for name in names(ctx) if name.casefold().startswith(begun.casefold())]
            return [_word(before + comma + name) for name in fitting]
        except Exception:  # whatever it is, a shell in the middle of a line is not the place to say it
            return []

    # typer reads the parameters of a completer from its signature
    del completer.__wrapped__
    completer.__annotations__ = {"ctx": typer.Context, "incomplete": str}
    return completer


@_quietly
def metrics(ctx: typer.Context) -> Iterable[str]:
    """The metrics by name; of a ranking only those that read one."""
    from steelyard.metrics import metrics as registry

    ranking = ctx.info_name == "rank"
    return sorted(name for name in registry if not ranking or "gains" in (registry[name].usual_reads or ()))


@_quietly
def columns(ctx: typer.Context) -> Iterable[str]:
    """The columns of the files that the line names."""
    return dict.fromkeys(name for path in _files(ctx) for name in _columns(path))


@_quietly
def conditions(ctx: typer.Context) -> Iterable[str]:
    """The columns of the files that the line names, each as the beginning of a condition."""
    return dict.fromkeys(f"{name}=" for path in _files(ctx) for name in _columns(path))


@_quietly
def renamings(ctx: typer.Context) -> Iterable[str]:
    """What the columns of the files on the line may be called: known=original."""
    from steelyard.records.schema import FIELDS

    originals = dict.fromkeys(name for path in _files(ctx) for name in _columns(path))
    return [f"{known}={original}" for known in FIELDS for original in originals if known != original]


@_quietly
def runs(ctx: typer.Context) -> Iterable[str]:
    """The ids of the runs that were kept, the newest first."""
    from steelyard.runs.environment import domain_of, root_of, tenant_of
    from steelyard.runs.index import Index
    from steelyard.runs.layout import View

    given, said = ctx.params, lambda _: None
    root = root_of(Path(given["root"]) if given.get("root") else None, os.environ, said)
    view = View(root, tenant_of(given.get("tenant"), os.environ, said), domain_of(given.get("domain"), os.environ))
    if not (root / "results").is_dir():
        return []
    with Index.within(view) as index:
        return [run.run_id for run in index.runs()[:_RUNS]]


@_quietly
def report_formats(_ctx: typer.Context) -> Iterable[str]:
    """The formats of a report."""
    from steelyard.report.formats import known

    return dict.fromkeys(["table", "json", *known()])


@_quietly
def input_formats(_ctx: typer.Context) -> Iterable[str]:
    """The formats that are read."""
    from steelyard.records.readers import readers

    return sorted(readers)


@_quietly
def tasks(_ctx: typer.Context) -> Iterable[str]:
    """The tasks that come with the program."""
    from steelyard.runner.tasks import known_tasks

    return [task.name for task in known_tasks()]


@_quietly
def schemas(_ctx: typer.Context) -> Iterable[str]:
    """The documents that have a schema."""
    from steelyard.report.schemas import schemas as known

    return sorted(known)


def _word(name: str) -> str:
    """A name as one word of the line: bash puts there what it is given, the other shells quote it themselves."""
    if not os.environ.get(VARIABLE, "").endswith("bash"):
        return name
    return "".join(letter if letter.isalnum() or letter in "_-+.,=@:/%" else f"\\{letter}" for letter in name)


def _files(ctx: typer.Context) -> list[Path]:
    """The files that the line names so far; after an option without its value they are among the other words."""
    words: list[str] = []
    for given in [*ctx.params.values(), *ctx.args]:
        words += [str(each) for each in given] if isinstance(given, list | tuple) else [str(given)]
    return [path for word in dict.fromkeys(words) if (path := Path(word).expanduser()).is_file()]


def _columns(path: Path) -> list[str]:
    """The names of a file's columns, from its beginning."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".arrow", ".feather"):
        from pyarrow import ipc, parquet

        return list(parquet.read_schema(path).names if suffix == ".parquet" else ipc.open_file(path).schema.names)
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8-sig", errors="strict" if path.stat().st_size <= _HEAD else "ignore")
    if suffix in (".csv", ".tsv"):
        return next(csv.reader(io.StringIO(head), delimiter="\t" if suffix == ".tsv" else ","), [])
    if suffix in (".jsonl", ".ndjson"):
        return _fields(whole(json.loads(head.partition("\n")[0])))
    if suffix == ".json":
        rows = whole(json.loads(head))
        return _fields(rows[0]) if isinstance(rows, list) and rows else []
    return []


def _fields(row: Any, before: str = "") -> list[str]:
    """The fields of an object, those of `group` and `signal` by their full name."""
    names: list[str] = []
    for name, value in row.items():
        names += _fields(value, f"{name}.") if isinstance(value, dict) and not before else [f"{before}{name}"]
    return names


def script(shell: str) -> str:
    """What a shell must run to complete `steelyard`."""
    from typer._completion_shared import get_completion_script

    return get_completion_script(prog_name="steelyard", complete_var=VARIABLE, shell=shell)


def install(shell: str) -> Path:
    """Write the script where the shell reads it; returns the file."""
    from typer._completion_shared import install as installed

    return installed(shell=shell, prog_name="steelyard", complete_var=VARIABLE)[1]
