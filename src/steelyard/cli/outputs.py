"""Outputs are checked against inputs and against each other, before anything is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path

from steelyard.errors import UsageError, printable

_KEPT = ("run.json", "evaluation.json", "evidence.npz")  # what lies in the folder of a run that was kept
_STORE = re.compile(  # the store's, under results
    r"\.index/.*|[^/]+/(tenants/[^/]+/)?((runs|active|gates|shifts|running)/.*|cache\.sqlite.*)"
)


def check_outputs(outputs: Mapping[str, Iterable[Path]], inputs: Iterable[str | Path | None]) -> None:
    """Refuse, before anything is written, to write over what is read, over a kept run, or twice to one file.

    `outputs` are files by the option that names them; an option may stand for several.
    """
    written = [(option, path) for option, paths in outputs.items() for path in paths]
    read = [name for name in inputs if name is not None and os.path.exists(name)]
    for _, path in written:
        if any(_same_file(path, name) for name in read):
            raise UsageError(f"{printable(path)} is what would be read; name another file to write to")
        if any(os.path.isdir(name) and _inside(Path(name), path) for name in read):
            raise UsageError(f"{printable(path)} is in a folder that is read; name another place to write to")
        if _is_kept(path):
            raise UsageError(f"{printable(path)} belongs to a run that was kept; name another file to write to")
    for (one, path), (two, other) in combinations(written, 2):
        if _same_file(path, other) and (os.path.isfile(path) or not os.path.exists(path)):  # a device takes both
            raise UsageError(f"{one} and {two} would both write {printable(other)}; name two files")
        if _inside(path, other) or _inside(other, path):
            raise UsageError(f"{one} and {two}: what is a file to one is a folder to the other; name two places")


def _is_kept(path: Path) -> bool:
    """True for a file in the folder of a kept run, and for the store's own: runs, pointers, attempts, the index.

    The same files elsewhere are copies for other tools.
    """
    real = Path(os.path.realpath(path))
    runs = [folder for folder in real.parents if folder.parent.parent.name == "runs"]
    if any(all(os.path.isfile(folder / name) for name in _KEPT) for folder in runs):
        return True
    stores = [folder for folder in real.parents if folder.name == "results"]
    return any(_STORE.fullmatch(real.relative_to(folder).as_posix()) for folder in stores)


def check_folder(option: str, folder: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse a folder that is a file, or that is read."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{option} is a folder; {printable(folder)} is a file")
    if any(not Path(name).is_file() and _same_file(folder, name) for name in inputs):
        raise UsageError(f"{option} is a folder that is read: what is written there would be read next time")


def _same_file(one: str | Path, two: str | Path) -> bool:
    """True if two names stand for one file, through links too, and also where it is not there yet."""
    if os.path.exists(one) and os.path.exists(two):
        return os.path.samefile(one, two)
    return os.path.realpath(one) == os.path.realpath(two)


def _inside(folder: Path, path: Path) -> bool:
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents
