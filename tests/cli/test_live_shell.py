"""A person at a terminal: bash completes what is typed, and a long table waits in less until q is pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SECONDS = 120  # until a screen that does not change is given up
BIN = Path(sys.executable).parent


class Screen:
    """A program on a pseudo-terminal of 80 columns and 24 lines: keys go in, what appears comes out."""

    def __init__(self, *words: str, cwd: Path, **env: str) -> None:
        self.main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        unset = ("CI", "NO_COLOR", "COLUMNS", "PAGER", "STEELYARD_PAGER", "LESS", "PROMPT_COMMAND")
        own = {name: value for name, value in os.environ.items() if name not in unset}
        path = os.pathsep.join((str(BIN), own.get("PATH", "")))
        self.process = subprocess.Popen(
            words,
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=cwd,
            env={**own, "PATH": path, "TERM": "xterm", **env},
            start_new_session=True,
        )
        os.close(side)
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.main, keys.encode())

    def until(self, text: str) -> str:
        """What appeared up to this text."""
        end = time.monotonic() + SECONDS
        while text not in self.seen:
            if not select.select([self.main], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"'{text}' did not appear in {self.seen!r}")
            try:
                piece = os.read(self.main, 65536)
            except OSError:  # the program has ended
                piece = b""
            if not piece:
                raise AssertionError(f"ended before '{text}' appeared in {self.seen!r}")
            self.seen += piece.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before


@contextmanager
def on_screen(*words: str, cwd: Path, **env: str) -> Iterator[Screen]:
    screen = Screen(*words, cwd=cwd, **env)
    try:
        yield screen
    finally:
        screen.process.kill()
        screen.process.wait()
        os.close(screen.main)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_metrics_and_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,target,prediction,group.ward\n1,a,a,x\n")
    with on_screen("bash", "--noprofile", "--norc", "-i", cwd=tmp_path, PS1="> ", INPUTRC="/dev/null") as bash:
        bash.type("source <(steelyard --show-completion bash); echo re''ady\n")
        bash.until("ready\r\n")
        for typed, completed in (
            ("steelyard evalu", "steelyard evaluate"),
            ("steelyard evaluate a.csv -m balan", "balanced_accuracy"),
            ("steelyard evaluate a.csv -m accuracy,balan", "accuracy,balanced_accuracy"),
            ("steelyard evaluate a.csv --by gro", "group.ward"),
        ):
            bash.type(f"{typed}\t")
            bash.until(completed)
            bash.type("\x15")  # the line is cleared


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_a_long_table_waits_in_less(tmp_path: Path) -> None:
    with on_screen("steelyard", "metrics", cwd=tmp_path) as shown:
        first = shown.until("\x1b[K")  # less waits at its prompt
        assert first.count("\n") < 30
        assert "steelyard metrics NAME" not in first
        shown.type("q")
        assert shown.process.wait(SECONDS) == 0


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_an_interrupt_is_the_pagers_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with on_screen("steelyard", "metrics", cwd=tmp_path) as shown:
        before = termios.tcgetattr(shown.main)[3]
        shown.until("\x1b[K")
        shown.type("\x03")
        shown.type("q")
        assert shown.process.wait(SECONDS) == 0
        assert termios.tcgetattr(shown.main)[3] == before
