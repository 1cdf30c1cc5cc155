"""Nothing that a command prints or writes on the examples changes unless a change means it to."""

from __future__ import annotations

import re

import pytest

from tests.golden.net import COMMANDS, NET, SCENARIOS, commands, nets

DRAWN_BY = re.compile(r"Matplotlib v[0-9.]+")
PICTURE = re.compile(r"<svg.*?</svg>", re.DOTALL)


@pytest.mark.parametrize("name", nets())
def test_what_commands_print_and_write_is_as_it_was(name: str) -> None:
    text, kept = nets()[name](), (NET / f"{name}.txt").read_text()
    if DRAWN_BY.findall(text) != DRAWN_BY.findall(kept):  # another version places letters elsewhere
        text, kept = PICTURE.sub("", text), PICTURE.sub("", kept)
    assert text == kept, "if this is meant: python -m tests.golden.net, and say so"


def test_every_command_is_in_the_net() -> None:
    lines = [line for each in SCENARIOS.values() for one in each for line in commands(one)]
    assert [name for name in COMMANDS if not any(line.startswith(f"{name} ") for line in lines)] == []


def test_no_file_of_the_net_is_left_over() -> None:
    assert {path.stem for path in NET.iterdir()} == set(nets())
