"""The program `steelyard`, run in this process or as a process of its own, and every command that it has."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import pytest
import typer.main

from steelyard.cli.main import app, main

SCRIPT = Path(sys.executable).with_name("steelyard")
BUILT: Any = typer.main.get_command(app)  # once, because that takes as long as many a command; for `command` alone


class Done(subprocess.CompletedProcess[str]):
    """How a command ended, and what it wrote."""

    @property
    def code(self) -> int:
        return self.returncode

    @property
    def out(self) -> str:
        return self.stdout

    @property
    def err(self) -> str:
        return self.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def command(
    *arguments: Any,
    cwd: Path | None = None,
    root: Path | None = None,
    stdin: str | None = None,
    screen: TextIO | None = None,
    **env: str,
) -> Done:
    """`steelyard` inside this process: as its script does it, without the second that a new interpreter takes.

    With a `screen`, that is its standard output.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    given = sys.stdin if stdin is None else io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    before = signal.getsignal(signal.SIGTERM)
    with (
        chdir(cwd or os.getcwd()),
        patch.dict(os.environ, environment(root, env), clear=True),
        patch.object(sys, "argv", ["steelyard", *map(str, arguments)]),
        patch.object(typer.main, "get_command", lambda _: BUILT),
        patch.object(sys, "stdin", given),
        redirect_stdout(screen or out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        finally:
            signal.signal(signal.SIGTERM, before)
    return Done(arguments, code, out.getvalue(), err.getvalue())


def steelyard(*arguments: Any, cwd: Path | None = None, stdin: str | None = None, **env: str) -> Done:
    """`steelyard` as a process of its own."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(None, env),
        timeout=300,
    )
    return Done(done.args, done.returncode, done.stdout, done.stderr)


def environment(root: Path | None, env: dict[str, str]) -> dict[str, str]:
    """The environment of a command: nothing of the person or service that runs the tests, and what is given."""
    clean = {key: text for key, text in os.environ.items() if not key.startswith(("STEELYARD_", "GITHUB_"))}
    return {**clean, **({} if root is None else {"STEELYARD_ROOT": str(root)}), **env}


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by its words."""
    for word, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, f"{name}{word} ")
        else:
            yield f"{name}{word}", found


COMMANDS = dict(commands(typer.main.get_command(app)))
