"""`selective`, `calibrate` and `schema` as a user meets them: results, files, messages, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import lines
from tests.support.commands import command
from tests.support.phq8 import Run, small
from tests.support.places import EXAMPLES


@pytest.fixture(scope="module")
def phq8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phq8")
    subprocess.run([sys.executable, EXAMPLES / "phq8/make.py", folder], check=True, capture_output=True)
    return folder


def written(path: Path, run: Run) -> Path:
    path.write_text(json.dumps(run, indent=1))
    return path


def people_of(run: Run, experiment: int = 0) -> list[Run]:
    return run["experiments"][experiment]["results"]["results"]


def test_the_documented_commands(phq8: Path, tmp_path: Path) -> None:
    run, train = phq8 / "run.json", phq8 / "train.json"
    one = command(
        "selective", "--input", run, "--mode", "few_shot", "--confidence", "default", "--loss", "abs",
        "--bootstrap-resamples", 10000, "--seed", 42, "--format", "json", "--output", tmp_path / "m.json",
    )  # fmt: skip
    assert one.returncode == 0, one.stderr
    document = json.loads(one.stdout)
    assert document == json.loads((tmp_path / "m.json").read_text())
    assert document["population"] == {
        "participants_total": 41, "participants_included": 40, "participants_failed": 1, "items_total": 320,
    }  # fmt: skip
    assert document["confidence_variants"]["llm"]["bootstrap"]["n_resamples"] == 10000
    two = command(
        "selective", "--input", run, "--mode", "zero_shot", "--input", run, "--mode", "few_shot", "--loss", "abs",
        "--bootstrap-resamples", 500, "--format", "json",
    )  # fmt: skip
    assert two.returncode == 0, two.stderr
    paired = json.loads(two.stdout)
    assert set(paired["confidence_variants"]["llm"]) == {"input_0", "input_1"}
    assert [i["mode"] for i in paired["inputs"]] == ["zero_shot", "few_shot"]
    right = paired["confidence_variants"]["llm"]["input_1"]["aurc_full"]
    assert right == pytest.approx(document["confidence_variants"]["llm"]["aurc_full"])
    warm = command("calibrate", "temperature", "--input", train, "--mode", "few_shot", "--output", tmp_path / "t.json")
    assert warm.returncode == 0, warm.stderr
    assert "cross-fitted" in warm.stdout
    fit = command(
        "calibrate", "fit", "--input", train, "--mode", "few_shot", "--method", "logistic",
        "--features", "verbalized_confidence,retrieval_similarity_mean", "--output", tmp_path / "c.json",
        "--plot", tmp_path / "plots",
    )  # fmt: skip
    assert fit.returncode == 0, fit.stderr
    assert len(list((tmp_path / "plots").iterdir())) == 3
    used = command(
        "selective", "--input", run, "--mode", "few_shot", "--confidence", "verbalized_calibrated", "--confidence",
        "calibrated,verbalized", "--calibration", tmp_path / "t.json", "--calibration", tmp_path / "c.json",
        "--bootstrap-resamples", 200, "--format", "json", "--out", tmp_path / "out", "--plot", tmp_path / "curves",
    )  # fmt: skip
    assert used.returncode == 0, used.stderr
    variants = json.loads(used.stdout)["confidence_variants"]
    assert list(variants) == ["verbalized_calibrated", "calibrated", "verbalized"]
    for key in ("aurc_full", "augrc_full"):
        assert variants["verbalized"][key] == pytest.approx(variants["verbalized_calibrated"][key], abs=1e-12)
    assert (tmp_path / "out/selective.json").exists()
    assert len(list((tmp_path / "curves").iterdir())) == 3 * 5


def test_a_calibrator_is_refused_on_its_own_rows(phq8: Path, tmp_path: Path) -> None:
    train, artifact = phq8 / "train.json", tmp_path / "i.json"
    fit = command(
        "calibrate", "fit", "--input", train, "--mode", "few_shot", "--method", "isotonic", "--confidence", "token_msp",
        "--output", artifact,
    )  # fmt: skip
    assert fit.returncode == 0, fit.stderr
    arguments = (
        "selective", "--input", train, "--mode", "few_shot", "--confidence", "calibrated:token_msp",
        "--calibration", artifact, "--bootstrap-resamples", 0,
    )  # fmt: skip
    refused = command(*arguments)
    assert refused.returncode == 3
    assert "--allow-in-sample" in refused.stderr
    allowed = command(*arguments, "--allow-in-sample")
    assert allowed.returncode == 0
    assert "in-sample" in allowed.stdout


def test_records_with_signals_work_the_same(tmp_path: Path) -> None:
    rows = [
        {"item": f"q{i}", "cluster": i // 3, "target": "yes", "prediction": ["yes", "no", None][i % 3],
         "confidence": (i % 7) / 7, "signal": {"mine": i % 5, "llm_evidence_count": i % 4}}
        for i in range(60)
    ]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text(lines(rows))
    done = command(
        "selective", "--input", path, "--confidence", "default", "--confidence", "confidence,signal.mine",
        "--bootstrap-resamples", 200, "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["confidence_variants"]) == ["llm", "confidence", "signal.mine"]
    assert document["loss"]["name"] == "zero_one"
    assert document["inputs"][0]["run_id"] is None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda r: people_of(r)[0]["item_signals"]["Sleep"].update(token_msp=float("nan")), 3, "a finite number is"),
        (lambda r: r["experiments"][0]["results"].update(results=[]), 3, "there are no participants"),
        (lambda r: r.update(experiments=[]), 3, "there are no participants"),
        (lambda r: people_of(r).append(people_of(r)[0]), 3, "participant 300 appears twice in mode 'few_shot'"),
        (lambda r: r["experiments"].append(r["experiments"][0]), 3, "a second experiment of the mode 'few_shot'"),
        (lambda r: people_of(r)[1]["ground_truth_items"].pop("Tired"), 3, "participant 301 lacks the item Tired"),
        (lambda r: people_of(r)[1]["predicted_items"].update(Tired=4), 3, "item Tired: a whole number from 0 to 3"),
    ],
)  # fmt: skip
def test_bad_runs_are_refused_with_place_and_reason(tmp_path: Path, change: Any, code: int, said: str) -> None:
    path = written(tmp_path / "run.json", small(change=change))
    done = command("selective", "--input", path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"steelyard: error: {path}")
    assert done.stdout == ""


def test_all_failed_is_null_and_no_error(tmp_path: Path) -> None:
    def fail(run: Run) -> None:
        for person in people_of(run):
            person.update(success=False, predicted_items={}, item_signals={})

    path = written(tmp_path / "run.json", small(change=fail))
    done = command("selective", "--input", path, "--format", "json", "--plot", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    variant = json.loads(done.stdout)["confidence_variants"]["llm"]
    assert variant["cmax"] is None
    assert variant["notes"]


def test_two_runs_without_common_participants(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", small(range(300, 306)))
    two = written(tmp_path / "b.json", small(range(400, 406)))
    done = command("selective", "--input", one, "--input", two)
    assert done.returncode == 3
    assert "no participant in common" in done.stderr
    three = written(tmp_path / "c.json", small(range(302, 308)))
    done = command("selective", "--input", one, "--input", three)
    assert done.returncode == 3
    assert "--intersection-only" in done.stderr
    done = command("selective", "--input", one, "--input", three, "--intersection-only", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["comparison"]["participants_overlap_total"] == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--confidence", "tokn_msp"], 2, "unknown confidence variant 'tokn_msp'; did you mean 'token_msp'?"),
        (["--confidence", "token_pe"], 3, "signal.token_pe: is missing"),
        (["--confidence", "consistency"], 3, "consistency needs the signal consistency_modal_confidence"),
        (["--confidence", "calibrated"], 2, "needs --calibration FILE"),
        (["--loss", "square"], 2, "unknown loss 'square'"),
        (["--coverage-grid", "0.1,x"], 2, "--coverage-grid takes numbers"),
        (["--coverage-grid", "0.101,0.102"], 2, "both be written as 0.10"),
        (["--area-coverage", "0"], 2, "above 0 and at most 1"),
        (["--bootstrap-resamples", "7"], 2, "at least 100"),
        (["--mode", "zero_shot"], 2, "no row has strategy=zero_shot; the column has few_shot"),
        (["--mode", "a", "--mode", "b"], 2, "there are 2 for 1"),
        (["--calibration", "nothing.json"], 2, "cannot read nothing.json"),
        (["--format", "xml"], 2, "--format is one of"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_met(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    path = written(tmp_path / "run.json", small())
    done = command("selective", "--input", path, *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_outputs_that_must_not_be_written(tmp_path: Path) -> None:
    path = written(tmp_path / "run.json", small())
    before = path.read_bytes()
    same = command("selective", "--input", path, "--output", path)
    assert same.returncode == 2
    assert "what would be read" in same.stderr
    assert path.read_bytes() == before
    fit = command(
        "calibrate", "fit", "--input", path, "--method", "isotonic", "--confidence", "token_msp",
        "--output", tmp_path / "c.json",
    )  # fmt: skip
    assert fit.returncode == 0, fit.stderr
    over = command("selective", "--input", path, "--calibration", tmp_path / "c.json", "--output", tmp_path / "c.json")
    assert over.returncode == 2
    for target in (tmp_path, "", "."):
        done = command("selective", "--input", path, "--output", target, "--bootstrap-resamples", 0, cwd=tmp_path)
        assert done.returncode == 5, done.stderr
        assert "it is a folder" in done.stderr
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    done = command("selective", "--input", path, "--output", link, "--bootstrap-resamples", 0)
    assert done.returncode == 0
    assert link.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema_version"] == "1"


def test_several_modes_must_be_chosen_from(tmp_path: Path) -> None:
    path = written(tmp_path / "run.json", small(modes=("zero_shot", "few_shot")))
    done = command("selective", "--input", path)
    assert done.returncode == 2
    assert "choose one with --mode: few_shot, zero_shot" in done.stderr


def test_other_json_is_refused(tmp_path: Path) -> None:
    for text in ("[]", '{"a": 1}', '"x"', "{", ""):
        path = tmp_path / "other.json"
        path.write_text(text)
        done = command("selective", "--input", path)
        assert done.returncode == 3, (text, done.stderr)
        assert done.stderr.count("\n") == 1


def test_schemas_are_printed(tmp_path: Path) -> None:
    for name in ("selective", "calibrator"):
        done = command("schema", name)
        assert done.returncode == 0
        assert json.loads(done.stdout)["$schema"].startswith("https://json-schema.org/")
    assert command("schema", "selectiv").returncode == 2
