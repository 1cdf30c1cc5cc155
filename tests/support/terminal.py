"""A command on a real pseudo-terminal, in this process: what appears on a screen of 80 columns and 24 lines."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support.commands import command

CODES = re.compile(r"\x1b\[[0-9;]*m")  # bold and colours: all that a report may send besides text
SIZE = (24, 80)


def on_terminal(*arguments: Any, root: Path | None = None, size: tuple[int, int] = SIZE, **env: str) -> str:
    """What a command writes to its standard output where that is a terminal, without the returns of its lines."""
    main, side = os.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    pieces: list[bytes] = []
    reader = Thread(target=_read, args=(main, pieces))
    reader.start()
    unset = dict.fromkeys(("COLUMNS", "NO_COLOR", "CI", "STEELYARD_PAGER"), "")
    try:
        with os.fdopen(side, "w", encoding="utf-8") as screen:
            done = command(*arguments, root=root, screen=screen, **{"TERM": "xterm-256color", **unset, **env})
    finally:
        reader.join()
        os.close(main)
    assert done.code in (0, 1, 6), done.err
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read(main: int, pieces: list[bytes]) -> None:
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # the other side is closed
            return
        if not piece:
            return
        pieces.append(piece)
