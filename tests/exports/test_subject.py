"""What is exported: an evaluation.json, or a kept run; and what may be written where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.answers import answers, lines
from tests.support.commands import Done
from tests.support.commands import command as command
from tests.support.exports import estimate, written

FEW = ("-m", "accuracy", "--resamples", 100)
TO = ("--to", "every-eval-ever", "--about", "model=acme/m1")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(lines(answers()))
    done = command("evaluate", "a.jsonl", *FEW, "--out", "out", cwd=tmp_path, root=tmp_path)
    assert done.code == 0, done.err
    for tenant in ("-", "other"):
        kept = ("--save", "--run-id", "r1" if tenant == "-" else "hidden", "--tenant", tenant)
        asked = ("evaluate", "a.jsonl", *FEW, *kept, "--label", "model=acme/m2")
        assert command(*asked, cwd=tmp_path, root=tmp_path).code == 0
    return tmp_path


def export(place: Path, *arguments: object) -> Done:
    return command("export", *arguments, cwd=place, root=place)


def test_a_file_and_a_run_by_id_folder_and_file(place: Path) -> None:
    done = export(place, "out/evaluation.json", "x.json", *TO)
    assert done.code == 0, done.err
    assert done.out == "exported 1 number to x.json as every-eval-ever\n"
    assert "wrote x.json" in done.err
    record = json.loads((place / "x.json").read_text())
    assert (
        record["evaluation_results"][0]["score_details"]["uncertainty"]["confidence_interval"]["method"] == "wilson-t"
    )
    folder = "results/evaluation/runs/evaluate/r1"
    for name in ("r1", folder, f"{folder}/run.json"):
        done = export(place, name, "y.json", "--to", "eee", "--format", "json")
        assert done.code == 0, done.err
        assert done.json == {"to": "every-eval-ever", "target": "y.json", "numbers": 1, "files": ["y.json"]}
        record = json.loads((place / "y.json").read_text())
        assert record["model_info"]["id"] == "acme/m2"
        assert record["source_metadata"]["additional_details"]["run_id"] == "r1"


def test_the_same_evaluation_is_the_same_file(place: Path) -> None:
    for _ in range(2):
        assert export(place, "r1", "records", *TO).code == 0
    (path,) = (place / "records").rglob("*.json")
    before = path.read_bytes()
    assert export(place, "r1", "again", *TO).code == 0
    (again,) = (place / "again").rglob("*.json")
    assert again.relative_to(place / "again") == path.relative_to(place / "records")
    assert again.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("nothing", "x.json", *TO), 2, "is no run here"),
        (("none.json", "x.json", *TO), 2, "is no file"),
        (("a.jsonl", "x.json", *TO), 3, "a.jsonl"),
        (("out/evaluation.json", "x.json", "--to", "mlfow"), 2, "did you mean 'mlflow'?"),
        (("out/evaluation.json", "x.json", "--to", "eee"), 2, "name it with --about model=…"),
        (("out/evaluation.json", "x.json", *TO, "--about", "x"), 2, "--about takes name=value"),
        (("out/evaluation.json", "out/evaluation.json", *TO), 2, "is what would be read"),
        (("out/evaluation.json", "./out/../out/evaluation.json", *TO), 2, "is what would be read"),
        (("r1", "results/evaluation/runs/evaluate/r1/x.json", *TO), 2, "belongs to a run that was kept"),
        (("out/evaluation.json", "results/evaluation/runs/evaluate/r1", *TO), 2, "belongs to a run that was kept"),
        (("results/evaluation/runs/evaluate/r1", "results/evaluation/runs/evaluate/r1/y", *TO), 2, "in a folder that"),
        (("out/evaluation.json", "a.jsonl", *TO), 5, "cannot write"),
        (("out/evaluation.json", "http://localhost/x", *TO), 2, "is no file or folder"),
        (("results/evaluation/tenants/other/runs/evaluate/hidden", "x.json", *TO), 2, "not this tenant's"),
        (("hidden", "x.json", *TO), 2, "is no run here"),
        (("out/evaluation.json", "x.json"), 2, "--to"),
    ],
)
def test_what_is_refused_leaves_nothing(place: Path, arguments: tuple[str, ...], code: int, problem: str) -> None:
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file() and ".index" not in p.parts}
    done = export(place, *arguments)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file() and ".index" not in p.parts} == before


def test_a_comparison_is_no_evaluation(place: Path) -> None:
    asked = ("compare", "a.jsonl", "a.jsonl", *FEW, "--out", "out")
    assert command(*asked, cwd=place, root=place).code == 0
    done = export(place, "out/comparison.json", "x.json", *TO)
    assert done.code == 2
    assert "export the evaluation of each run" in done.err


def test_a_run_that_was_changed_is_refused(place: Path) -> None:
    path = place / "results/evaluation/runs/evaluate/r1/evaluation.json"
    path.write_text(path.read_text().replace("accuracy", "acuracy"))
    done = export(place, "r1", "x.json", *TO)
    assert done.code == 5
    assert "was changed after it was written" in done.err


def test_a_document_from_the_future_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [estimate()])
    path.write_text(path.read_text().replace('"schema_version": "1"', '"schema_version": "2"'))
    done = export(tmp_path, path, "x.json", *TO)
    assert done.code == 3
    assert "version 2" in done.err
