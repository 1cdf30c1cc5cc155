"""One way to say things: an option means the same in every command, and is there wherever it makes sense."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from steelyard.cli.command import Reads
from tests.support.commands import COMMANDS, command

SHARED = ("--out", "--resamples", "--align", "--save", "--where", "--map")
COMPARES = {"compare", "gate", "rank", "selective"}
WRITES_VECTORS = {"shift apply"}  # --output names a file of arrays: there is no document
DOCUMENTED = ("--input", "--mode", "--confidence", "--loss", "--calibration", "--seed", "--bootstrap-resamples")


def having(option: str) -> set[str]:
    return {name for name, each in COMMANDS.items() if any(option in p.opts for p in each.params)}


@pytest.mark.parametrize("option", SHARED)
def test_an_option_is_explained_alike_in_every_command(option: str) -> None:
    named = [p for each in COMMANDS.values() for p in each.params if option in p.opts]
    texts = {p.help.split(",")[0].split(". ")[0].rstrip(".") for p in named if not p.hidden}
    assert len(named) > 1
    assert len(texts) == 1, texts


def test_options_are_there_wherever_they_make_sense() -> None:
    assert having("--align") == COMPARES
    assert having("--input-format") <= having("--where") & having("--map")
    assert having("--output") - WRITES_VECTORS <= having("--out")
    assert having("--level") <= having("--resamples")
    assert having("--format") <= having("--out")
    assert having("--map") == having("--where") >= {"evaluate", "compare", "gate", "selective", "benchmark"}
    assert having("--run-id") == having("--save") >= {"evaluate", "compare", "rank", "benchmark", "retrieval run"}
    assert having("--resamples") >= {"evaluate", "compare", "gate", "rank", "selective", "runs compare", "runs decide"}


@pytest.mark.parametrize("option", [*DOCUMENTED, "--intersection-only", "--output"])
def test_documented_spellings_stay_visible(option: str) -> None:
    assert [p.hidden for p in COMMANDS["selective"].params if option in p.opts] == [False]


FILES = {
    "benchmark": 3,
    "retrieval run": 2,
    "retrieval eval": 2,
    "shift train": 2,
    "shift apply": 2,
    "segment propose": 2,
    "runs matrix": 1,
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_named_by_their_place(name: str) -> None:
    places = [p for p in COMMANDS[name].params if p.param_type_name == "argument"]
    assert len(places) == FILES[name]
    assert [p.name for p in places if not p.help] == []


def test_every_file_that_is_read_has_a_place_or_is_one_of_those_that_go_with_it() -> None:
    beside = {
        "--task-file", "--lexicon", "--calibration", "--rules", "--qrels", "--shift", "--embedder", "--cache",
        "--input", "--run", "--baseline", "--shifted",
    }  # fmt: skip
    shapes = {name: each.callback.__signature__.parameters for name, each in COMMANDS.items()}
    for name, parameters in shapes.items():
        hidden = {p.name for p in COMMANDS[name].params if getattr(p, "hidden", False)}
        reading = [p for p in parameters.values() if any(isinstance(m, Reads) for m in get_args(p.annotation)[1:])]
        options = {o for p in COMMANDS[name].params for o in p.opts if p.name in {r.name for r in reading} - hidden}
        assert {option for option in options if option.startswith("--")} <= beside, name


def test_a_gate_takes_its_baseline_by_place_or_by_option(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "b.csv").write_text(PLAIN.replace("2,b,a", "2,b,b"))
    rule = ("--rule", "delta(accuracy) >= 0", "--resamples", 100, "--format", "json")
    placed = command("gate", "b.csv", "a.csv", *rule, cwd=tmp_path, root=tmp_path)
    named = command("gate", "--run", "b.csv", "--baseline", "a.csv", *rule, cwd=tmp_path, root=tmp_path)
    assert (placed.code, placed.out) == (named.code, named.out)
    assert placed.code != 2, placed.err
    twice = command("gate", "b.csv", "a.csv", "--baseline", "a.csv", *rule, cwd=tmp_path, root=tmp_path)
    assert (twice.code, "the baseline is given twice, by its place and by --baseline" in twice.err) == (2, True)


PLAIN = "item,target,prediction,confidence\n1,a,a,0.9\n2,b,a,0.2\n3,b,b,0.7\n4,a,a,0.6\n"


def test_a_plain_table_is_ranked_by_its_confidence_and_told_how_to_keep_the_artifact(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    said = "the metrics artifact is written with --out FOLDER or --output FILE\n"
    shown = command("selective", "a.csv", "--resamples", 0, cwd=tmp_path)
    assert (shown.code, said in shown.err) == (0, True)
    assert "confidence: confidence" in shown.out
    by_option = command("selective", "--input", "a.csv", "--bootstrap-resamples", 0, cwd=tmp_path)
    assert by_option.out == shown.out
    kept = command("selective", "a.csv", "--resamples", 0, "--out", "o", "--format", "json", cwd=tmp_path)
    assert said not in kept.err
    assert list(kept.json["confidence_variants"]) == ["confidence"]
    assert command("selective", cwd=tmp_path).err == (
        "steelyard: error: missing: a file; `--help` lists what the command takes\n"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--where", "nobody=1"), "nobody"),
        (("--where", "target"), "target"),
        (("--map", "item"), "--map takes name=value, not 'item'"),
        (("--map", "item=target,item=prediction"), "--map names 'item' twice"),
    ],
)
def test_what_is_wrong_with_a_condition_or_a_renaming_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    done = command("evaluate", "a.csv", *arguments, cwd=tmp_path)
    assert done.code in (2, 3)
    assert problem in done.err
    assert "Traceback" not in done.err
