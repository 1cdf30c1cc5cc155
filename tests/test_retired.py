"""Every retired spelling still works, says in which version it goes, and goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

import steelyard
from steelyard.pytest_plugin import check
from steelyard.retired import REMOVE_IN
from tests.support.commands import COMMANDS, command

FIXTURE = "steelyard_gate"


def test_no_retired_spelling_outlives_its_version() -> None:
    """When one is listed here, take it away, with its tests and its line in `REMOVE_IN`."""
    assert [name for name, gone in REMOVE_IN.items() if Version(gone) <= Version(steelyard.__version__)] == []


def test_hidden_options_are_the_retired_ones() -> None:
    hidden = {
        f"{name} {p.opts[0].removeprefix('--').replace('-', '_')}=": p.help
        for name, each in COMMANDS.items()
        for p in each.params
        if getattr(p, "hidden", False)
    }
    assert set(hidden) == {name for name in REMOVE_IN if not name.startswith(FIXTURE)}
    assert all(hidden.values())  # what to do instead


def test_an_option_that_does_nothing_says_when_it_goes(tmp_path: Path) -> None:
    done = command("runs", "decide", "--metric", "accuracy", "--require-significant", root=tmp_path)
    gone = REMOVE_IN["runs decide require_significant="]
    said = f"--require-significant is deprecated and will be removed in {gone}: it is what is done anyway\n"
    assert done.err.count(said) == 1
    assert "deprecated" not in command("runs", "decide", "--metric", "accuracy", root=tmp_path).err


def test_an_earlier_argument_of_the_fixture_says_when_it_goes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,target,prediction\n1,a,a\n2,b,b\n3,a,b\n")
    gone = REMOVE_IN["steelyard_gate allow_inconclusive="]
    said = rf"^allow_inconclusive=True is deprecated and will be removed in {gone}: give inconclusive='pass'$"
    with pytest.warns(DeprecationWarning, match=said):
        decision = check(
            tmp_path / "a.csv", rules="low(accuracy) >= 0.5", allow_inconclusive=True, resamples=100, root=tmp_path
        )
    assert decision.verdict == "inconclusive"
