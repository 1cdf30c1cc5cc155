"""`steelyard gate` as CI meets it: files of answers and kept runs, exit codes, what is written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.support.answers import answer_files, lines, rows_of
from tests.support.commands import command
from tests.support.gates import HOSTILE
from tests.support.shelf import foreign_run

# -- files of answers --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return answer_files(tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new.jsonl", "--baseline", "old.jsonl", "--rule", "low(delta(accuracy)) >= -0.01"), 0, "gate: PASS"),
        (("--run", "new.jsonl", "--rules", "gate.yaml"), 0, "baseline old.jsonl"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0.99"), 1, "gate: FAIL"),
        (("--run", "new.jsonl", "--rule", "low(accuracy) >= 0.76"), 6, "smallest detectable difference"),
        (("--run", "few.jsonl", "--rule", "low(accuracy) >= 0.1"), 6, "only 5 patients"),
        (("--run", "few.jsonl", "--rule", "high(accuracy) >= 0.1"), 1, "only 5 patients"),
        (
            ("--run", "failing.jsonl", "--baseline", "old.jsonl", "--rule", "delta(accuracy) >= -1"),
            1,
            "no rule is about failure_rate",
        ),
    ],
)
def test_files_are_gated_with_exit_codes_for_the_three_verdicts(
    files: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--cluster", "patient", "--resamples", 200, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("run", "rule", "code"),
    [
        ("new.jsonl", "accuracy >= 0.5", 0),
        ("new.jsonl", "accuracy >= 0.99", 1),
        ("new.jsonl", "accuracy == 0.5", 2),
        ("torn.jsonl", "accuracy >= 0.5", 3),
        ("nowhere", "accuracy >= 0.5", 2),
        ("new.jsonl", "low(accuracy) >= 0.76", 6),
    ],
)
def test_the_process_ends_with_the_documented_code(files: Path, tmp_path: Path, run: str, rule: str, code: int) -> None:
    done = command("gate", "--run", run, "--rule", rule, "--cluster", "patient", "--root", tmp_path, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert bool(done.stdout) == (code in (0, 1, 6))
    assert bool(done.stderr) == (code in (2, 3, 5))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new.jsonl"), 2, "a gate needs rules"),
        (("--run", "new.jsonl", "--gate-profile", "gold"), 2, "unknown gate profile 'gold'; known: rank"),
        (("--run", "new.jsonl", "--rule", "accuracy == 0.5"), 2, "equality is never decided"),
        (("--run", "new.jsonl", "--rule", "accuracy <= 0.5"), 2, "higher is better"),
        (("--run", "new.jsonl", "--rule", "low(acuracy) >= 0.5"), 2, "did you mean accuracy"),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0.5 for each group.sight"), 2, "did you mean 'group.site'"),
        (("--run", "new.jsonl", "--rules", "typo.yaml"), 2, "did you mean 'rules'?"),
        (
            ("--run", "new.jsonl", "--rule", "accuracy >= 0", "--baseline", "active"),
            2,
            "nothing is active under 'any'; promote or pin a run first",
        ),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0", "--format", "xml"), 2, "--format is one of"),
        (("--run", "torn.jsonl", "--rule", "accuracy >= 0"), 3, "torn.jsonl:100"),
        (("--run", "empty.jsonl", "--rule", "accuracy >= 0"), 3, "empty.jsonl"),
        (("--run", "new.jsonl", "--baseline", "other.jsonl", "--rule", "delta(accuracy) >= 0"), 3, "have no partner"),
        (("--run", "new.jsonl", "--rule", "low(latency.p50) <= 1"), 3, "latency_ms"),
        (("--run", "nowhere", "--rule", "accuracy >= 0"), 2, "'nowhere' is no run here"),
        (("--run", "new.jsonl", "--rule", "delta(accuracy) >= -1"), 2, "compares with a baseline, and none was given"),
        (
            ("--run", "new.jsonl", "--rule", "nonsense >= 0"),
            2,
            "unknown metric 'nonsense'; `steelyard metrics` lists all",
        ),
        (("--run", "new.jsonl", "--rule", "accurracy >= 0"), 2, "did you mean accuracy?"),
        (
            ("--run", "new.jsonl", "--rule", "recall.yess >= 0"),
            2,
            "neither run has the label 'yess'; did you mean 'yes'?",
        ),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0 for each group.sit"), 2, "group.sit"),
        (
            ("--run", "new.jsonl", "--baseline", "olt.jsonl", "--rule", "delta(accuracy) >= 0"),
            2,
            "the baseline 'olt.jsonl' is no file; did you mean 'old.jsonl'?",
        ),
        (
            ("--run", "nwe.jsonl", "--rule", "accuracy >= 0"),
            2,
            "the run 'nwe.jsonl' is no file; did you mean 'new.jsonl'?",
        ),
        (("--run", "new.jsonl", "--rule", "accuracy >= 0", "--output", "."), 5, "it is a folder"),
    ],
)
def test_what_cannot_be_gated_ends_in_one_line_and_its_code(
    files: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--cluster", "patient", "--resamples", 200, "--root", tmp_path, cwd=files)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_everything_that_ci_reads_is_written(files: Path, tmp_path: Path) -> None:
    rows = [
        {**r, "group": {"site": HOSTILE[1] if i % 8 < 4 else "100%\r\n::error::x"}}
        for i, r in enumerate(rows_of(2, 0.8))
    ]
    (tmp_path / "new.jsonl").write_text(lines(rows))
    done = command(
        "gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99 for each group.site", "--rule", "accuracy >= 0.1",
        "--rule", "low(accuracy) >= 0.76", "--cluster", "patient", "--resamples", 200, "--junit", "out/gate.xml",
        "--summary", "out/gate.md", "--output", "out/acceptance_gate.json", "--github", "--format", "json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert (tmp_path / "out" / "acceptance_gate.json").read_text() == done.stdout
    assert [r["verdict"] for r in document["rules"]] == ["fail", "fail", "pass", "inconclusive"]
    assert document["run"] == "new.jsonl"
    assert "attempt" not in document  # files that are not kept are not counted
    suite = ElementTree.parse(tmp_path / "out" / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")
    summary = (tmp_path / "out" / "gate.md").read_text()
    assert [row for row in summary.split("\n") if row.startswith("#")] == ["## gate: FAIL"]
    commands = [row for row in done.stderr.split("\n") if row.startswith("::")]
    assert [row.split(" ")[0] for row in commands] == ["::error", "::error", "::warning"]
    assert sum("::error::x" in row for row in done.stderr.split("\n")) == 1
    assert any("100%25" in row for row in commands)


def test_annotations_come_by_themselves_inside_github_actions(files: Path) -> None:
    arguments = ("gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99", "--cluster", "patient")
    assert "::error" in command(*arguments, cwd=files, GITHUB_ACTIONS="true").stdout
    assert "::error" not in command(*arguments, cwd=files).stdout


@pytest.mark.parametrize("format_", ["json", "csv", "markdown"])
def test_annotations_do_not_run_into_what_a_program_reads(files: Path, format_: str) -> None:
    done = command(
        "gate", "--run", "new.jsonl", "--rule", "accuracy >= 0.99", "--github", "--format", format_, cwd=files
    )
    assert done.returncode == 1
    assert "::error" in done.stdout + done.stderr
    assert "::error" not in done.stdout


@pytest.mark.parametrize("content", ["rules: [accuracy == 0.5]", "profile: gold"])
def test_a_rule_that_cannot_be_read_is_named_with_its_file(files: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "gate.yaml").write_text(content)
    done = command("gate", "--run", "new.jsonl", "--rules", tmp_path / "gate.yaml", cwd=files)
    assert done.returncode == 2
    assert "gate.yaml" in done.stderr


@pytest.mark.parametrize("option", ["--output", "--junit", "--summary"])
def test_no_output_is_written_over_the_answers(tmp_path: Path, option: str) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text(lines(rows_of(2, 0.8)))
    before = path.read_bytes()
    done = command("gate", "--run", path, "--rule", "accuracy >= 0", option, path, "--resamples", 200)
    assert path.read_bytes() == before
    assert done.returncode == 2, done.stdout


def test_no_output_is_written_over_a_baseline_that_the_rules_name(tmp_path: Path) -> None:
    for name, share in (("old", 0.6), ("new", 0.8)):
        (tmp_path / f"{name}.jsonl").write_text(lines(rows_of(1, share)))
    (tmp_path / "gate.yaml").write_text("rules: [delta(accuracy) >= -1]\nbaseline: old.jsonl\n")
    before = (tmp_path / "old.jsonl").read_bytes()
    done = command("gate", "--run", "new.jsonl", "--rules", "gate.yaml", "--output", "old.jsonl", cwd=tmp_path)
    assert (tmp_path / "old.jsonl").read_bytes() == before
    assert done.returncode == 2, done.stdout


def test_a_metric_from_a_module_in_the_working_folder_can_be_gated(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from steelyard import metric\n\n@metric(better='lower', bounds=(0, 1))\ndef gap(confidence, correct):\n"
        "    '''Distance of confidence and correctness.'''\n    return abs(confidence - correct)\n"
    )
    (tmp_path / "new.jsonl").write_text(lines(rows_of(2, 0.8)))
    # in a process of its own: what it registers must not stay in this one
    done = command("gate", "--run", "new.jsonl", "--rule", "high(mine:gap) <= 1", "--resamples", 200, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistyped_file_leaves_nothing_behind(tmp_path: Path) -> None:
    done = command("gate", "--run", "nwe.jsonl", "--rule", "accuracy >= 0", cwd=tmp_path)
    assert done.returncode in (2, 3, 5)
    assert os.listdir(tmp_path) == []


def test_the_schema_is_printed(tmp_path: Path) -> None:
    done = command("schema", "gate-rules")
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"rules": ["accuracy >= 0.8"], "baseline": "active"})
    assert list(validator.iter_errors({"rules": "accuracy >= 0.8"}))
    assert list(validator.iter_errors({"rules": ["accuracy >= 0.8"], "bseline": "active"}))


# -- kept runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three kept runs: old, new (better), failing; old is active and pinned."""
    root = tmp_path_factory.mktemp("store")
    for name in ("old", "new", "failing"):
        done = command(
            "evaluate", files / f"{name}.jsonl", "--cluster", "patient", "-m", "accuracy", "-m", "aurc", "-m",
            "failure_rate", "--by", "group.site", "--resamples", 200, "--save", "--run-id", name, "--root", root,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for arguments in (("promote", "old", "--metric", "accuracy"), ("pin", "old", "--as", "release-1")):
        done = command("runs", *arguments, "--root", root)
        assert done.returncode == 0, done.stderr
    return root


def gate(root: Path, *arguments: Any, code: int = 0) -> dict[str, Any]:
    done = command("gate", *arguments, "--root", root, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


@pytest.fixture
def own(store: Path, tmp_path: Path) -> Path:
    """A copy of the store, to be changed."""
    shutil.copytree(store, tmp_path / "own")
    return tmp_path / "own"


def test_baselines_by_every_name_mean_the_same_run_and_attempts_count_up(own: Path) -> None:
    folder = own / "results" / "evaluation" / "runs" / "evaluate" / "old"
    tries = ("active", "active:accuracy", "pinned:release-1", "old", folder)
    documents = [
        gate(own, "--run", "new", "--baseline", baseline, "--rule", "low(delta(accuracy)) >= -0.01")
        for baseline in tries
    ]
    assert [d["baseline"] for d in documents] == ["old"] * 5
    assert [d["attempt"] for d in documents] == [1, 2, 3, 4, 5]
    assert [d["verdict"] for d in documents] == ["pass"] * 5
    (rule,) = documents[0]["rules"]
    assert {"rule", "value", "low", "high", "passed", "reason"} <= set(rule)
    assert rule["rule"] == "low(delta(accuracy)) >= -0.01"
    assert rule["passed"] is True
    assert -0.01 <= rule["low"] < rule["value"] < rule["high"]
    assert documents[0]["checks"] == {"low(delta(accuracy))": "OK"}
    # another baseline is another count
    assert gate(own, "--run", "new", "--baseline", "new", "--rule", "delta(accuracy) >= 0")["attempt"] == 1


def test_the_second_look_is_said(own: Path) -> None:
    arguments = ("gate", "--run", "new", "--baseline", "old", "--rule", "delta(accuracy) >= 0", "--root", own)
    assert "attempt" not in command(*arguments).stdout
    assert "attempt 2 with these rules on these data against this baseline" in command(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("new", "old", "delta(accuracy) >= 0.9"), 1, "no allowance for chance"),
        (("new", "old", "low(delta(accuracy)) >= 0.15"), 6, "would not pass it"),
        (("new", "old", "delta(accuracy{group.site=x}) >= -1"), 0, ""),
        (("new", "old", "delta(accuracy) >= -1 for each group.site"), 0, ""),
        (("failing", "old", "delta(accuracy) >= -1"), 1, "no rule is about failure_rate"),
        (("failing", "old", "failure_rate <= 0.1"), 0, ""),
        (("new", None, "accuracy >= 0.5"), 0, ""),
        (("new", None, "aurc_full <= 0.9"), 0, ""),
    ],
)
def test_kept_runs_are_gated_with_exit_codes_for_the_three_verdicts(
    own: Path, arguments: tuple[str, str | None, str], code: int, said: str
) -> None:
    run, baseline, rule = arguments
    against = ("--baseline", baseline) if baseline else ()
    document = gate(own, "--run", run, *against, "--rule", rule, code=code)
    assert document["passed"] is (code == 0)
    if said:
        assert any(said in "; ".join((r["reason"], *r["advice"])) for r in document["rules"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--run", "new", "--baseline", "pinned:nothing"), 2, "nothing is pinned under 'nothing'; there is release-1"),
        (("--run", "new", "--baseline", "active:ece"), 2, "nothing is active under 'ece'; there is accuracy"),
        (("--run", "new", "--baseline", "nowhere"), 2, "'nowhere' is no run here"),
        (("--run", "nowhere"), 2, "'nowhere' is no run here"),
    ],
)
def test_a_run_or_baseline_that_is_not_there_is_said(
    store: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = command("gate", *arguments, "--rule", "accuracy >= 0", "--root", store)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("file", ["run.json", "evidence.npz", "evaluation.json"])
def test_a_tampered_run_is_not_gated(own: Path, side: str, file: str) -> None:
    path = own / "results" / "evaluation" / "runs" / "evaluate" / side / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = command("gate", "--run", "new", "--baseline", "pinned:release-1", "--rule", "accuracy >= 0", "--root", own)
    assert done.returncode == 5, done.stdout + done.stderr
    assert done.stdout == ""


def test_an_incomplete_baseline_gates_nothing(own: Path) -> None:
    folder = foreign_run(own / "results" / "evaluation" / "runs" / "evaluate" / "half", {"accuracy": 0.1})
    document = json.loads((folder / "run.json").read_text())
    del document["CompletedAtUtc"]
    (folder / "run.json").write_text(json.dumps(document))
    done = command("gate", "--run", "new", "--baseline", "half", "--rule", "accuracy >= 0", "--root", own)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "not complete" in done.stderr
    assert gate(own, "--run", "half", "--rule", "accuracy >= 0", code=1)["passed"] is False


def test_the_level_of_the_interval_is_shown_as_it_is(files: Path, tmp_path: Path) -> None:
    saved = command(
        "evaluate", files / "new.jsonl", "--cluster", "patient", "-m", "accuracy", "--level", 0.99, "--save",
        "--run-id", "wide", "--root", tmp_path,
    )  # fmt: skip
    assert saved.returncode == 0, saved.stderr
    done = command("gate", "--run", "wide", "--rule", "low(accuracy) >= 0.5", "--root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "95% interval" not in done.stdout
