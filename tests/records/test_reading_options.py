"""Every option of reading is one everywhere: in Python, at the command line, in pytest, in gates and in a matrix."""

from __future__ import annotations

import inspect
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.cli.command import as_options
from steelyard.cli.options import records as options
from steelyard.cli.runs.matrix import command_line
from steelyard.errors import UsageError
from steelyard.pytest_plugin import check
from steelyard.records.reading import Reading, ReadingAsIs, options_of, stated
from steelyard.runner.matrix import load
from tests.support.answers import lines
from tests.support.commands import command

ALL = options_of(Reading)
TORN = '{"item": 9, "target":'

# of every option a value that changes what is read, in Python and as it is typed
VALUES: dict[str, tuple[Any, list[str]]] = {
    "format": ("jsonl", ["jsonl"]),
    "map": ({"item": "case", "target": "gold, final"}, ["item=case", '"target"="gold, final"']),
    "where": (["age>=65"], ["age>=65"]),
    "salvage": (True, []),
    "sheet": ("Answers", ["Answers"]),
    "only": (["age"], ["age"]),
    "drop": (["messages", "a, b"], ["messages", '"a, b"']),
    "scorer": (["match"], ["match"]),
    "abstain_when": (["empty", "/^pass/"], ["empty", "/^pass/"]),
    "cluster": ("ward", ["ward"]),
    "task": ("t.yaml", ["t.yaml"]),
    "labels": ("fold", ["fold"]),
    "correct": ("labels", ["labels"]),
    "abstain": (["-", "I don't know"], ["-", "I don't know"]),
    "unparsed": (["???"], ["???"]),
    "lexicon": (["terms.csv"], ["terms.csv"]),
}
TOGETHER = {name: value for name, value in VALUES.items() if name != "sheet"}  # of lines, which have no sheets


def rows() -> list[dict[str, Any]]:
    return [
        {"case": n, "gold, final": "yes", "prediction": "Yes." if n % 2 else "-", "age": 60 + n, "ward": n // 2}
        | {"messages": "long", "a, b": 1}
        for n in range(8)
    ]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.txt"  # the suffix says nothing: `format` does
    path.write_text(lines(rows()) + TORN)
    (tmp_path / "t.yaml").write_text("labels: ['yes', 'no']\n")
    (tmp_path / "terms.csv").write_text("category,term,root\nanatomy,liver,hepat\n")
    return path


def in_yaml() -> dict[str, Any]:
    return {ALL[name].typed(name): value for name, (value, _) in TOGETHER.items()}


def words() -> list[str]:
    flags = {name: f"--{option.typed(name).replace('_', '-')}" for name, option in ALL.items()}
    return [
        w for name, (_, typed) in TOGETHER.items() for w in (_given(flags[name], typed) if typed else [flags[name]])
    ]


def _given(flag: str, typed: list[str]) -> list[str]:
    return [word for text in typed for word in (flag, text)]


def test_the_list_holds_what_is_tested_here() -> None:
    assert sorted(VALUES) == sorted(ALL)
    assert set(options_of(ReadingAsIs)) < set(ALL)


def test_every_option_is_told_in_the_help_of_python_and_of_the_command() -> None:
    told, shown = inspect.getdoc(steelyard.read) or "", command("evaluate", "--help").out
    for name, option in ALL.items():
        assert f"\n{name} " in told
        assert option.help.split()[0] in told
        assert f"--{option.typed(name).replace('_', '-')}" in shown


def test_what_is_typed_is_what_the_library_is_given() -> None:
    typed = {ALL[name].typed(name): _typed(name) for name in ALL}
    assert options.Reading(**typed).stated == {name: value for name, (value, _) in VALUES.items()}
    nothing = {p.name: p.default for p in options.Reading.parameters()}
    assert options.Reading(**nothing).stated == {}


def _typed(name: str) -> Any:
    value, texts = VALUES[name]
    return texts if isinstance(value, list | dict) else value


def test_all_of_them_together_say_the_same_in_python_at_the_command_line_in_pytest_and_in_a_matrix(
    answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(answers.parent)
    keywords: dict[str, Any] = {name: value for name, (value, _) in TOGETHER.items()}
    (expected,) = steelyard.evaluate(answers.name, ["accuracy"], resamples=100, **keywords).estimates
    assert (expected.value, expected.n) == (2 / 3, 3)  # of ages 65 to 67; 66 declined
    typed = command("evaluate", answers.name, "-m", "accuracy", "--resamples", 100, "--format", "json", *words())
    assert typed.code == 0, typed.err
    assert (typed.json["estimates"][0]["value"], typed.json["estimates"][0]["n"]) == (2 / 3, 3)
    assert "incomplete" in typed.out
    with pytest.raises(pytest.fail.Exception, match=r"PASS +0\.6667 +0\.6 +3 [\s\S]*its end could not be read"):
        check(answers.name, rules="accuracy >= 0.6", resamples=100, root=".", **keywords)
    Path("m.yaml").write_text(
        json.dumps(
            {"variants": [{"name": "v", "evaluate": {"files": [answers.name], "metrics": ["accuracy"], **in_yaml()}}]}
        )
    )
    made = load(Path("m.yaml"), command_line)
    asked = made.arguments(made.spec.variants[0])
    assert set(words()) <= set(asked)
    done = command(*asked[1:], "--resamples", 100, "--format", "json", root=answers.parent)
    assert done.code == 0, done.err
    assert done.json["estimates"][0]["n"] == 3
    with pytest.raises(UsageError, match=r"`sheet=` is for workbooks; answers\.txt is read as jsonl"):
        steelyard.read(answers.name, sheet="Answers", **keywords)


def test_a_name_that_is_no_option_is_refused_with_a_hint(answers: Path) -> None:
    with pytest.raises(UsageError, match=r"`clusters=` is no option of reading; did you mean `cluster=`\?"):
        steelyard.read(answers, clusters="ward")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"`cluster=` is no option of reading; there are: format, map"):
        stated({"cluster": "ward"}, ReadingAsIs)
    with pytest.raises(pytest.fail.Exception, match="`lexikon=` is no option of reading; did you mean `lexicon=`"):
        check(answers, rules="accuracy >= 0", lexikon="terms.csv")  # type: ignore[call-arg]


def test_a_kept_run_refuses_each_of_them_by_its_name(tmp_path: Path, answers: Path) -> None:
    keep = ("-m", "accuracy", "--resamples", 100, "--save", "--run-id", "kept")
    kept = command("evaluate", answers, *keep, *words(), root=tmp_path, cwd=answers.parent)
    assert kept.code == 0, kept.err
    for name, (_, typed) in VALUES.items():
        flag = f"--{ALL[name].typed(name).replace('_', '-')}"
        refused = command(
            "gate", "--run", "kept", "--rule", "accuracy >= 0", *(_given(flag, typed) or [flag]), root=tmp_path
        )
        assert (refused.code, f"{flag} is for files of answers" in refused.err) == (2, True), shlex.join(
            [flag, refused.err]
        )


def test_messages_name_an_option_as_it_is_typed() -> None:
    for name, option in ALL.items():
        assert as_options(f"`{name}=`") == f"--{option.typed(name).replace('_', '-')}"
