"""How a file, or standard input, is opened: what cannot be read says why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from steelyard.errors import InputError

STANDARD_INPUT = "-"


@contextmanager
def opened(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """The input's name for messages, and its bytes; what the system refuses is an error with that name."""
    name = "<stdin>" if path == STANDARD_INPUT else path
    with ExitStack() as closing:
        try:
            stream = sys.stdin.buffer if path == STANDARD_INPUT else closing.enter_context(open(path, "rb"))
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=name) from None
        except ValueError:
            raise InputError("cannot be read: there is no such name for a file", file=name) from None
        except AttributeError:
            raise InputError("cannot be read: standard input is closed", file=name) from None
        try:
            yield name, stream
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=name) from None


def reason(problem: OSError) -> str:
    """Why the system refused, in its own words."""
    return (problem.strerror or "the system gives no reason").lower()
