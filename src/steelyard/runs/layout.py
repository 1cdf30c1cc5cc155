"""Where runs live: folders under a root, by domain, tenant, workflow and run.

    <root>/results/<domain>/[tenants/<tenant>/]runs/<workflow>/<RunId>/run.json
    <root>/results/<domain>/[tenants/<tenant>/]active/<profile>/<metric>.json
    <root>/results/<domain>/[tenants/<tenant>/]running/<RunId>/journal
    <root>/results/<domain>/[tenants/<tenant>/]cache.sqlite

Names from outside pass an allow-list before they become folders, and no link may lead out of the root. What is kept is
its owner's to read; a store is shared with a group by the mode of `results`, and all that is kept later follows it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import StorageError, UsageError, printable
from steelyard.ground.files import GROUP, OWNER, Access, allow, make_folders, reason

DOMAIN = "evaluation"
RUNNING, CACHE, JOURNAL = "running", "cache.sqlite", "journal"
TENANTS = "tenants"  # the folder in which each tenant has its own
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def checked(kind: str, name: str) -> str:
    """A name fit for a folder; anything else is refused, not repaired."""
    if not _is_plain(name):
        raise UsageError(
            f"the {kind} '{printable(name, limit=60)}' is not a plain name: letters, digits and . _ + - "
            "(not at the start), at most 100"
        )
    return name


def _is_plain(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and ".." not in name and not name.endswith(".")


@dataclass(frozen=True)
class Scope:
    """One tenant's part of one domain, under a root."""

    root: Path
    domain: str = DOMAIN
    tenant: str | None = None

    def __post_init__(self) -> None:
        checked("domain", self.domain)
        if self.tenant is not None:
            checked("tenant", self.tenant)

    @property
    def folder(self) -> Path:
        base = results(self.root) / self.domain
        return base if self.tenant is None else base / TENANTS / self.tenant

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def active(self) -> Path:
        return self.folder / "active"

    @property
    def running(self) -> Path:
        """Where runs are while models are asked, with what they replied."""
        return self.folder / RUNNING

    @property
    def cache(self) -> Path:
        """Replies that were paid for once."""
        return self.folder / CACHE

    def run(self, workflow: str, run_id: str) -> Path:
        """The folder of a run, after its names have passed."""
        return self.runs / checked("workflow", workflow) / checked("run id", run_id)


@dataclass(frozen=True)
class View:
    """What a question about runs may see: one tenant's runs (None: those of no tenant), of one domain or of all."""

    root: Path
    tenant: str | None = None
    domain: str | None = None

    def __post_init__(self) -> None:
        for kind, name in (("domain", self.domain), ("tenant", self.tenant)):
            if name is not None:
                checked(kind, name)

    def scopes(self) -> Iterator[Scope]:
        """The scopes in it that have a folder."""
        yield from (s for s in scopes(self.root) if s.tenant == self.tenant and self.domain in (None, s.domain))

    def scope(self) -> Scope:
        """The one scope that is meant: of the domain named, else of the only one that has runs."""
        if self.domain is not None:
            return Scope(self.root, self.domain, self.tenant)
        used = [scope for scope in self.scopes() if any(run_folders(scope))]
        if len(used) > 1:
            shown = ", ".join(scope.domain for scope in used)
            raise UsageError(f"there are runs of several domains; choose one: {shown}")
        return used[0] if used else Scope(self.root, DOMAIN, self.tenant)


def results(root: Path) -> Path:
    return root / "results"


def access(root: Path) -> Access:
    """Who may read what is kept under a root: its owner, or the group that the store is shared with."""
    try:
        mode = stat.S_IMODE(results(root).stat().st_mode)
    except OSError:
        return OWNER
    return GROUP if mode & 0o077 == GROUP.folder & 0o077 else OWNER


def share(scope: Scope) -> None:
    """Share a store with its group: what is kept from now on in all of it, and the way there in this scope.

    Runs that were kept before stay as they are; pointers and the index are read by whoever reads the store.
    """
    try:
        make_folders(results(scope.root), GROUP)
        allow(results(scope.root), GROUP.folder)
        for folder in _way(scope):
            if folder.is_dir() and not folder.is_symlink():
                allow(folder, GROUP.folder)
        for file in (*scope.active.glob("*/*.json"), *(results(scope.root) / ".index").glob("*")):
            allow(file, GROUP.file)
    except OSError as problem:
        raise StorageError(f"cannot share {printable(results(scope.root))}: {reason(problem)}") from None
    if access(scope.root) != GROUP:
        raise StorageError(f"cannot share {printable(results(scope.root))}: it belongs to somebody else")


def _way(scope: Scope) -> Iterator[Path]:
    """The folders of a scope that lead to what is kept."""
    yield results(scope.root) / ".index"
    yield results(scope.root) / scope.domain
    yield scope.folder.parent
    yield scope.folder
    for below in (scope.runs, scope.active, scope.folder / "gates", scope.folder / "shifts"):
        yield below
        yield from (below / name for name in folders(below))


def found_root(start: Path) -> Path:
    """The folder that holds `results`: the repository that `start` is in, else `start` itself."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists() or (folder / "results").is_dir():
            return folder
    return start


def inside(root: Path, path: Path) -> Path:
    """The path, if nothing on the way from the root is a link, and no name there differs in case only."""
    here = root
    for part in path.relative_to(root).parts:
        below = here / part
        if below.is_symlink():
            raise StorageError(f"{printable(below)} is a link; runs are kept in plain folders only")
        if not below.exists() and here.is_dir():
            alike = [name for name in os.listdir(here) if name.casefold() == part.casefold() and name != part]
            if alike and here.name == TENANTS:  # whose it is, is nobody else's business
                raise StorageError(f"'{printable(part)}' differs from another name in case only; choose another")
            if alike:
                raise StorageError(
                    f"'{printable(part)}' differs from '{printable(alike[0])}' in case only; use one of them"
                )
        here = below
    return path


def scopes(root: Path) -> Iterator[Scope]:
    """Every scope that has a folder."""
    for domain in folders(results(root)):
        yield Scope(root, domain)
        for tenant in folders(results(root) / domain / TENANTS):
            yield Scope(root, domain, tenant)


def run_folders(scope: Scope) -> Iterator[str]:
    """Every run folder of a scope, from the root on; hidden ones are unfinished writes and no runs."""
    runs = scope.runs
    base = runs.relative_to(scope.root).as_posix()
    for workflow in folders(runs):
        for run_id in folders(runs / workflow):
            yield f"{base}/{workflow}/{run_id}"


def folders(folder: Path) -> list[str]:
    """The plain folders in a folder, by name; nothing behind a link."""
    if folder.is_symlink():
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and _is_plain(e.name))
    except OSError:  # not there, or not for us to see
        return []
