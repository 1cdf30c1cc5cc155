"""The terminal that a report is printed on: how wide it is, what it can show, and what pages it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

NARROWEST = 40  # a terminal that says it is narrower is taken for this wide
_PAGER = "less -RFX"


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """A terminal's size and abilities. `width` is None where lines may be as long as they are."""

    width: int | None = None
    height: int | None = None
    bold: bool = False
    colour: bool = False
    pager: tuple[str, ...] = ()

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str], *, wide: bool = False, page: bool = True) -> Terminal:
        """The terminal behind a stream; a pipe or a file has no width, no colour and no pager."""
        try:
            if not stream.isatty():
                return cls()
            columns, lines = os.get_terminal_size(stream.fileno())
        except (OSError, ValueError):
            return cls()
        stated = env.get("COLUMNS", "")
        columns = int(stated) if stated.isdecimal() and int(stated) else columns or 80
        styled = env.get("TERM", "") not in ("", "dumb")
        return cls(
            width=None if wide else max(NARROWEST, columns),
            height=lines or None,
            bold=styled,
            colour=styled and not env.get("NO_COLOR"),
            pager=_pager(env, wide=wide) if page and styled and not env.get("CI") else (),
        )

    def show(self, text: str, stream: TextIO) -> None:
        """Print the text, through the pager where it is longer than the screen."""
        if self.pager and self.height is not None and text.count("\n") >= self.height:
            stream.flush()
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the pager's: it stops a search, not the pager
            try:
                done = subprocess.run(self.pager, input=text.encode(errors="backslashreplace"), stdout=stream)
            except OSError:
                pass  # a pager that cannot be started is as good as none
            else:
                if done.returncode in (0, 2, 130):
                    return
            finally:
                signal.signal(signal.SIGINT, before)
        stream.write(text)
        stream.flush()


def _pager(env: Mapping[str, str], *, wide: bool) -> tuple[str, ...]:
    """The command that pages: STEELYARD_PAGER, else PAGER, else less if it is there; an empty one pages nothing."""
    stated = next((env[name] for name in ("STEELYARD_PAGER", "PAGER") if name in env), None)
    if stated is None:
        stated = (f"{_PAGER}S" if wide else _PAGER) if shutil.which("less") else ""
    try:
        words = shlex.split(stated)
    except ValueError:
        return ()
    if words and os.path.basename(words[0]) == "less" and len(words) == 1 and "LESS" not in env:
        words.append("-RFX")  # plain less would show the codes of colours
    return tuple(words)


def width_of(stream: TextIO) -> int | None:
    """How wide the terminal behind a stream is; None for a pipe or a file."""
    return Terminal.of(stream, os.environ, page=False).width


def standard_output(*, wide: bool, page: bool) -> Terminal:
    """The terminal that standard output is, if it is one."""
    return Terminal.of(sys.stdout, os.environ, wide=wide, page=page)
