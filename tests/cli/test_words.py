"""The words of a command line: other spellings, help of anything, and hints for what is no command."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest
import typer.main

from steelyard.cli.main import app
from steelyard.cli.words import spelled, unknown
from tests.support.commands import COMMANDS, command

ROOT = typer.main.get_command(app)
GROUPED = [name for name in COMMANDS if " " in name]


@pytest.mark.parametrize("name", GROUPED)
def test_a_hyphen_does_for_the_blank_of_every_command_in_a_group(name: str) -> None:
    assert spelled(ROOT, [name.replace(" ", "-"), "--top", "3"]) == [*name.split(), "--top", "3"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["posneg-train", "--folds", "3"], ["shift", "train", "--folds", "3"]),
        (["posneg-run", "--queries", "q"], ["retrieval", "run", "--shift", "best", "--queries", "q"]),
        (["posneg-run", "--shift=none"], ["retrieval", "run", "--shift=none"]),
        (["posneg-history"], ["shift", "history"]),
        (["eval"], ["retrieval", "eval"]),
        (["help"], ["--help"]),
        (["help", "runs", "compare"], ["runs", "compare", "--help"]),
        (["help", "runs-compare"], ["runs", "compare", "--help"]),
        (["help", "promote"], ["runs", "promote", "--help"]),
        (["help", "ece"], ["metrics", "ece"]),
        (["--version"], ["--version"]),
        (["runs-nonsense"], ["runs-nonsense"]),
        ([], []),
    ],
)
def test_what_is_typed_becomes_the_command_that_is_meant(typed: list[str], meant: list[str]) -> None:
    assert spelled(ROOT, typed) == meant


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_and_a_flag_takes_no_value(name: str) -> None:
    with COMMANDS[name].make_context(name, [], resilient_parsing=True) as context:
        parameters = COMMANDS[name].get_params(context)
        assert [p.name for p in parameters if not (p.hidden or p.help)] == []
        assert [p.name for p in parameters if getattr(p, "is_flag", False) and p.display_type_rich(context)] == []


def test_short_help_fits_a_terminal_of_80_columns() -> None:
    short, explained = command("runs", "compare", "-h", COLUMNS="80"), command("help", "runs-compare", COLUMNS="80")
    assert (short.code, short.err) == (0, "")
    assert short.out == explained.out
    assert "<bool>" not in short.out
    assert max(map(len, short.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["promote"], "`steelyard runs promote`"),
        (["evalute", "a.csv"], "`steelyard evaluate`"),
        (["run-compare"], "`steelyard runs compare`"),
        (["compare-runs"], "`steelyard runs compare`"),
        (["runs", "promot"], "`steelyard runs promote`"),
        (["runs", "train"], "`steelyard shift train`"),
    ],
)
def test_an_unknown_command_is_looked_for_in_all_groups(typed: list[str], hint: str) -> None:
    done = command(*typed)
    assert done.code == 2
    assert f"no such command '{typed[-1] if typed[0] == 'runs' else typed[0]}'; did you mean" in done.err
    assert hint in done.err
    assert done.err.count("\n") == 1


def test_a_word_like_no_command_is_answered_by_where_they_are_listed() -> None:
    assert unknown("zzzz", [("rank",)]) == "no such command 'zzzz'; `steelyard --help` lists the commands"


def test_the_program_alone_shows_its_help_and_help_of_a_metric_its_card() -> None:
    shown = command("--help").out
    assert command().out.rstrip() == command("-h").out.rstrip() == command("help").out.rstrip() == shown.rstrip()
    assert command("help", "ece").out == command("metrics", "ece").out


# -- completion --------------------------------------------------------------------------------------------------------


def completed(line: str, cwd: Path, shell: str = "bash") -> list[str]:
    """What is offered for the last word of a line."""
    words = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_STEELYARD_COMPLETE": f"complete_{shell}",
    }
    done = command(cwd=cwd, root=cwd, **words)
    assert (done.code, done.err) == (0, "")
    return done.out.split("\n")[:-1]


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("item,target,prediction,patient,the site\n1,SECRET,SECRET,SECRET,SECRET\n")
    (tmp_path / "b.jsonl").write_text('{"item": 1, "target": "SECRET", "group": {"sex": "SECRET"}}\n')
    (tmp_path / "torn.csv").write_bytes(b"\xff\xfe\x00")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("steelyard evaluate a.csv --by pa", ["patient"]),
        ("steelyard evaluate a.csv --cluster t", ["target", r"the\ site"]),
        ("steelyard evaluate b.jsonl --by gr", ["group.sex"]),
        ("steelyard evaluate a.csv --where pa", ["patient="]),
        ("steelyard evaluate a.csv --map cluster=pa", ["cluster=patient"]),
        ("steelyard compare a.csv a.csv -m ec", ["ece", "ece_null"]),
        ("steelyard metrics rms", ["rmse"]),
        ("steelyard look a.csv --format ma", ["markdown"]),
        ("steelyard look a.csv --input-format prompt", ["promptfoo"]),
        ("steelyard schema acc", ["acceptance-gate"]),
        ("steelyard runs pro", ["promote"]),
        ("steelyard evaluate torn.csv --by p", []),
        ("steelyard evaluate missing.csv --by p", []),
        ("steelyard nonsense --by z", []),
        ("steelyard runs show ", []),
    ],
)
def test_a_shell_is_offered_names_and_never_a_value(answered: Path, line: str, offered: list[str]) -> None:
    assert [name for name in completed(line, answered) if name] == offered
    assert "SECRET" not in "".join(completed(line, answered))
    assert sorted(path.name for path in answered.iterdir()) == ["a.csv", "b.jsonl", "torn.csv"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_offered_the_runs_that_were_kept(answered: Path, shell: str) -> None:
    done = command("evaluate", "a.csv", "-m", "accuracy", "--save", "--run-id", "first", cwd=answered, root=answered)
    assert done.code == 0, done.err
    assert "first" in "".join(completed("steelyard runs show fi", answered, shell))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str) -> None:
    done = command("--show-completion", shell)
    assert done.code == 0
    assert f"complete_{shell}" in done.out


def test_a_shell_that_is_not_known_is_refused() -> None:
    done = command("--show-completion", "cmd")
    assert (done.code, done.err) == (
        2,
        "steelyard: error: --show-completion is one of bash, zsh, fish, not 'cmd'\n",
    )


def test_completion_is_installed_where_the_shell_reads_it(tmp_path: Path) -> None:
    with patch.dict(os.environ, {"HOME": str(tmp_path)}):
        done = command("--install-completion", "fish")
    assert done.code == 0, done.err
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert str(file) in done.out
    assert "_STEELYARD_COMPLETE" in file.read_text()
