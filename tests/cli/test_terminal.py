"""What a command does where its output is a terminal: width, colour and paging, and none of them in a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.report.layout import columns_of
from tests.support.answers import answers, lines
from tests.support.commands import command
from tests.support.terminal import CODES, on_terminal

MARKED = "sed s/^/>/"  # a pager that leaves a mark


@pytest.fixture
def asked(tmp_path: Path) -> tuple[object, ...]:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(answers()))
    return ("evaluate", path, "-m", "accuracy", "-m", "f1", "--resamples", 100)


def is_paged(screen: str) -> bool:
    return screen.startswith(">")


def test_a_report_longer_than_the_screen_is_paged(asked: tuple[object, ...]) -> None:
    assert is_paged(on_terminal(*asked, size=(4, 80), PAGER=MARKED, STEELYARD_PAGER=MARKED))
    assert not is_paged(on_terminal(*asked, size=(200, 80), STEELYARD_PAGER=MARKED))


@pytest.mark.parametrize("env", [{"STEELYARD_PAGER": ""}, {"CI": "true"}, {"TERM": "dumb"}])
def test_nothing_is_paged_where_nobody_turns_pages(asked: tuple[object, ...], env: dict[str, str]) -> None:
    assert not is_paged(on_terminal(*asked, size=(4, 80), **{"STEELYARD_PAGER": MARKED, **env}))


def test_nothing_is_paged_on_request_or_without_a_pager(asked: tuple[object, ...]) -> None:
    assert not is_paged(on_terminal(*asked, "--no-pager", size=(4, 80), STEELYARD_PAGER=MARKED))
    assert "accuracy" in on_terminal(*asked, size=(4, 80), STEELYARD_PAGER="no-such-pager-anywhere")


def test_colour_is_for_terminals_that_want_it(asked: tuple[object, ...]) -> None:
    assert CODES.search(on_terminal(*asked))
    assert not CODES.search(on_terminal(*asked, TERM="dumb"))
    assert not CODES.search(command(*asked, TERM="xterm-256color").out)
    compared = ("gate", "--run", asked[1], "--rule", "accuracy >= 0", "--resamples", 100)
    assert "\x1b[1;3" in on_terminal(*compared)
    assert "\x1b[1;3" not in on_terminal(*compared, NO_COLOR="1")
    assert "\x1b[1m" in on_terminal(*compared, NO_COLOR="1")


def test_what_has_no_room_is_said_and_wide_shows_it(asked: tuple[object, ...]) -> None:
    narrow = CODES.sub("", on_terminal(*asked, size=(24, 50)))
    assert max(map(columns_of, narrow.splitlines())) <= 50
    assert "columns not shown: method" in narrow
    assert "--wide" in narrow
    wide = CODES.sub("", on_terminal(*asked, "--wide", size=(24, 50)))
    assert wide == command(*asked).out
    assert "method" in wide.splitlines()[2]


def test_columns_overrides_what_the_terminal_says(asked: tuple[object, ...]) -> None:
    assert "columns not shown" in on_terminal(*asked, size=(24, 300), COLUMNS="50")
    assert "columns not shown" not in command(*asked, COLUMNS="50").out
