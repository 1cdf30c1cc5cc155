"""A command is a signature and a call: its annotations say what it reads and writes, and one place checks that."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import typer
import typer.main

from steelyard.cli.command import READS, Shown, Writes, as_options, command
from steelyard.report.document import Count, Table
from tests.support.answers import answers, lines
from tests.support.commands import COMMANDS
from tests.support.commands import command as steelyard

NO_CONTENT = {"root", "plot"}  # where the store is, and a folder whose files only the pictures name


def marks(name: str) -> dict[str, list[Any]]:
    parameters = inspect.signature(COMMANDS[name].callback).parameters.values()
    return {p.name: [type(mark).__name__ for mark in get_args(p.annotation)[1:]] for p in parameters}


def paths(name: str) -> list[str]:
    parameters = inspect.signature(COMMANDS[name].callback).parameters.values()
    return [p.name for p in parameters if "Path" in str(get_args(p.annotation)[:1]) and p.name not in NO_CONTENT]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_path_of_every_command_is_known_as_read_or_written(name: str) -> None:
    known = marks(name)
    unmarked = [p for p in paths(name) if not {"Reads", "Writes"} & set(known[p]) and p != "out"]
    assert unmarked == []


def test_several_formats_are_written_next_to_the_document_and_the_first_is_printed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(answers()))
    out = tmp_path / "o"
    asked = ("evaluate", tmp_path / "a.jsonl", "-m", "accuracy", "--resamples", 100, "--out", out)
    done = steelyard(*asked, "--format", "md,json,html,md", root=tmp_path)
    assert done.code == 0, done.err
    assert sorted(path.name for path in out.iterdir()) == ["evaluation.html", "evaluation.json", "evaluation.md"]
    assert done.out == (out / "evaluation.md").read_text()
    assert json.loads((out / "evaluation.json").read_text())["kind"] == "evaluation"
    assert (out / "evaluation.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("evaluate", "a.jsonl", "--format", "json,md"), "several formats are written to a folder: name it with --out"),
        (("runs", "list", "--format", "json,md"), "several formats are written to a folder: name it with --out"),
        (("evaluate", "a.jsonl", "--format", "htlm"), "did you mean 'html'?"),
    ],
)
def test_formats_that_cannot_be_had_are_refused(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = steelyard(*arguments, root=tmp_path)
    assert done.code == 2
    assert problem in done.err
    assert done.out == ""


def run(body: Any, *arguments: str) -> int:
    app = typer.Typer()
    app.command()(body)
    with pytest.raises(SystemExit) as ended:
        typer.main.get_command(app)(list(arguments))
    return int(ended.value.code or 0)


def test_a_command_defined_in_a_test_is_checked_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    @command(writes="counts.json")
    def counts(
        *,
        file: Annotated[Path, typer.Argument(), READS],
        extra: Annotated[Path | None, typer.Option("--extra"), Writes()] = None,
    ) -> Shown:
        calls.append(file)
        size = len(file.read_text())
        files = {} if extra is None else {"--extra": {extra: "more\n"}}
        return Shown(document={"size": size}, report=[Table(("size",), ((Count(size),),))], exit_code=6, files=files)

    path = tmp_path / "in.txt"
    path.write_text("abc")
    assert run(counts, str(path), "--out", str(tmp_path), "--extra", str(tmp_path / "e")) == 6
    shown = capsys.readouterr()
    assert shown.out == "size\n----\n   3\n"
    assert json.loads((tmp_path / "counts.json").read_text()) == {"size": 3}
    assert (tmp_path / "e").read_text() == "more\n"
    assert shown.err.splitlines() == [f"wrote {tmp_path / 'e'}", f"wrote {tmp_path / 'counts.json'}"]
    for output in (path, tmp_path / "counts.json"):
        app = typer.Typer()
        app.command()(counts)
        with pytest.raises(Exception, match=r"is what would be read|would both write"):
            typer.main.get_command(app)(
                [str(path), "--out", str(tmp_path), "--extra", str(output)], standalone_mode=False
            )
    assert calls == [path]  # nothing ran before the outputs were checked
    assert path.read_text() == "abc"


def test_an_output_that_only_the_body_knows_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.json"
    hidden.write_text("{}")

    @command(prints=False)
    def late(*, plot: Annotated[Path, typer.Option("--plot")]) -> Shown:
        return Shown(files={"--plot": {plot / "first": b"x", plot / "hidden.json": b"y"}}, reads=(hidden,))

    app = typer.Typer()
    app.command()(late)
    with pytest.raises(Exception, match="is what would be read"):
        typer.main.get_command(app)(["--plot", str(tmp_path)], standalone_mode=False)
    assert hidden.read_text() == "{}"
    assert not (tmp_path / "first").exists()


def test_what_the_last_parameter_reads_is_protected_like_any_other(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("abc")

    @command(prints=False)
    def copied(
        *, to: Annotated[Path, typer.Option("--to"), Writes()], source: Annotated[Path, typer.Option("--source"), READS]
    ) -> Shown:
        raise AssertionError(f"{source} is over {to}")

    app = typer.Typer()
    app.command()(copied)
    with pytest.raises(Exception, match="is what would be read"):
        typer.main.get_command(app)(["--to", str(kept), "--source", str(kept)], standalone_mode=False)


def test_messages_of_the_library_are_translated_once() -> None:
    assert as_options("use `align=intersection` or `map=target=x`") == "use --align intersection or --map target=x"
    assert as_options("say `allow_in_sample=True`; `tau=` is missing") == "say --allow-in-sample; --tau is missing"
    assert as_options("see `steelyard metrics`") == "see `steelyard metrics`"
