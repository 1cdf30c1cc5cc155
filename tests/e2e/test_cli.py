"""The command line as a user meets it: results, messages, exit codes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.answers import answers, lines
from tests.support.commands import SCRIPT, command, steelyard
from tests.support.places import SHARED


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text(lines(answers()))
    return path


def test_help_and_version_are_immediate_and_import_nothing_heavy() -> None:
    assert "evaluate" in command("--help").stdout
    assert command("--version").stdout.startswith("steelyard 0.")
    heavy = "('numpy', 'scipy', 'pyarrow', 'numba')"
    code = f"import sys; import steelyard.cli.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_json_is_the_written_document_byte_by_byte_and_the_same_twice(data: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", data, "--cluster", "patient", "--by", "group.site", "--format", "json", "--resamples", 500)
    one = command(*arguments, "--out", tmp_path / "out")
    two = command(*arguments)
    assert one.returncode == two.returncode == 0, one.stderr
    assert one.stdout == two.stdout == (tmp_path / "out" / "evaluation.json").read_text()
    assert os.listdir(tmp_path / "out") == ["evaluation.json"]
    document = json.loads(one.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    keys = {"metric", "slice", "value", "se", "interval", "method", "n", "clusters", "excluded"}
    keys |= {"undefined_resamples", "better", "unit", "note", "detail", "level"}
    keys |= {"clusters_scarcest", "cautions", "variant", "n_evaluated", "n_abstained", "n_predictions", "n_missing"}
    for estimate in document["estimates"]:
        assert set(estimate) == keys
    assert document["population"]["rows"] == 100
    assert document["uncertainty"]["resamples"] == 500
    assert document["uncertainty"]["seed"] == 42
    assert document["uncertainty"]["cluster"] == ["patient"]
    assert len(document["inputs"][0]["sha256"]) == 64
    assert document["tool"]["name"] == "steelyard"
    assert {json.dumps(e["slice"]) for e in document["estimates"]} == {
        "{}",
        '{"group.site": "x"}',
        '{"group.site": "y"}',
    }


def test_a_stack_is_chosen_from_the_columns_and_said_why(data: Path) -> None:
    done = command("evaluate", data, "--resamples", 200)
    assert done.returncode == 0
    assert "accuracy" in done.stdout
    assert "the targets are labels" in done.stderr
    assert "there is a confidence" in done.stderr


def test_standard_input_and_several_files_are_one_table(tmp_path: Path) -> None:
    rows = answers()
    for i, part in enumerate((rows[:40], rows[40:])):
        (tmp_path / f"{i}.jsonl").write_text(lines(part))
    arguments = ("-m", "accuracy", "-m", "aurc", "--format", "json", "--resamples", 200)
    whole = command("evaluate", "-", *arguments, stdin=lines(rows))
    parts = command("evaluate", tmp_path / "0.jsonl", tmp_path / "1.jsonl", *arguments)
    assert whole.returncode == parts.returncode == 0, whole.stderr + parts.stderr
    for a, b in zip(*(json.loads(r.stdout)["estimates"] for r in (whole, parts)), strict=True):
        assert a["value"] == pytest.approx(b["value"], abs=1e-12)
        assert a["interval"] == pytest.approx(b["interval"], abs=1e-12)


def test_compare_two_files_and_two_parts_of_one(tmp_path: Path) -> None:
    base = answers(0, 0.5)
    new = [{**row, "prediction": row["target"] if i % 3 else row["prediction"]} for i, row in enumerate(base)]
    (tmp_path / "old.jsonl").write_text(lines(base))
    (tmp_path / "new.jsonl").write_text(lines(new))
    both = [{**r, "model": "a"} for r in base] + [{**r, "model": "b"} for r in new]
    (tmp_path / "all.jsonl").write_text(lines(both))
    arguments = ("--metric", "accuracy", "--cluster", "patient", "--format", "json")
    two = command("compare", tmp_path / "old.jsonl", tmp_path / "new.jsonl", *arguments, "--out", tmp_path)
    one = command("compare", tmp_path / "all.jsonl", "--versus", "model=a,b", *arguments)
    assert two.returncode == one.returncode == 0, two.stderr + one.stderr
    delta, same = (json.loads(r.stdout)["deltas"][0] for r in (two, one))
    assert {"metric", "slice", "base", "new", "delta", "se", "interval", "p_value", "better", "verdict", "note"} <= set(
        delta
    )
    assert delta["verdict"] == "better"
    assert delta["delta"] == same["delta"]
    assert delta["interval"] == same["interval"]
    assert (tmp_path / "comparison.json").read_text() == two.stdout


def test_a_metric_from_a_module_in_the_working_folder(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from steelyard import metric\n\n@metric(better='lower', bounds=(0, 1))\ndef gap(confidence, correct):\n"
        "    '''Distance of confidence and correctness.'''\n    return abs(confidence - correct)\n"
    )
    done = command("evaluate", data, "--metric", "mine:gap", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (estimate,) = json.loads(done.stdout)["estimates"]
    assert estimate["metric"] == "mine:gap"
    assert estimate["interval"] is not None
    assert command("metrics", "mine:gap", cwd=tmp_path).returncode == 0


def test_a_metric_from_an_installed_package(data: Path, tmp_path: Path) -> None:
    (tmp_path / "plug.py").write_text(
        "from steelyard import metric\n\n@metric(formula='0')\ndef nothing_at_all(correct):\n"
        "    '''Always nothing, to be found.'''\n    return correct * 0\n"
    )
    info = tmp_path / "plug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[steelyard]\nplug = plug\n")
    done = steelyard("evaluate", data, "-m", "nothing_at_all", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "nothing_at_all" in done.stdout
    assert "nothing_at_all" in steelyard("metrics", PYTHONPATH=str(tmp_path)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("evaluate", "{data}", "--metric", "acuracy"), 2, "did you mean accuracy"),
        (("evaluate", "{data}", "--metric", "ece("), 2, "a name is expected"),
        (("evaluate", "{data}", "--format", "xml"), 2, "--format is one of"),
        (("evaluate", "{data}", "--level", "2"), 2, "level"),
        (("evaluate", "{data}", "--by", "group.sight"), 2, "did you mean 'group.site'"),
        (("evaluate", "{data}", "--cluster", "ward"), 2, "cluster column 'ward'"),
        (("evaluate", "{data}", "--map", "item"), 2, "--map takes name=value"),
        (("evaluate", "{data}", "--where", "group.site=q"), 2, "no row has group.site=q"),
        (("evaluate", "{data}", "--metric", "latency.p50"), 3, "needs column 'latency_ms'"),
        (("evaluate", "{data}", "--metric", "mae"), 3, "needs numbers"),
        (("evaluate", "{data}", "--metric", "flip_rate"), 3, "perturbation"),
        (("evaluate", "no-such-file.jsonl"), 3, "no-such-file.jsonl"),
        (("compare", "{data}"), 2, "two files"),
        (("compare", "{data}", "--versus", "model"), 2, "model=old,new"),
        (("metrics", "acuracy"), 2, "did you mean"),
        (("evaluate",), 2, "Missing argument"),
        (("weigh",), 2, "no such command"),
        (("evaluate", "{data}", "-m", "accuracy", "--out", "{data}"), 5, "cannot write"),
    ],
)
def test_failures_have_a_class_and_one_clear_line(
    data: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = command(*(a.format(data=data) for a in arguments))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_undefined_metrics_are_null_with_a_reason_and_exit_zero(tmp_path: Path) -> None:
    rows = [{"item": i, "target": "a", "prediction": None, "confidence": None} for i in range(5)]
    (tmp_path / "silent.jsonl").write_text(lines(rows))
    names = ("selective_accuracy", "ece", "balanced_accuracy", "f1.b", "aurc", "auroc", "cmax")
    done = command("evaluate", tmp_path / "silent.jsonl", *[x for n in names for x in ("-m", n)], "--format", "json")
    assert done.returncode == 0, done.stderr
    found = {e["metric"]: e for e in json.loads(done.stdout)["estimates"]}
    for name in names[:-1]:
        assert found[name]["value"] is None
        assert found[name]["note"].startswith("undefined")
    assert found["cmax"]["value"] == 0.0
    table = command("evaluate", tmp_path / "silent.jsonl", "-m", "ece").stdout
    assert "n/a" in table


def test_everything_failed_is_not_a_crash(tmp_path: Path) -> None:
    rows = [{"item": i, "target": "a", "prediction": None, "outcome": "failed"} for i in range(5)]
    (tmp_path / "failed.jsonl").write_text(lines(rows))
    done = command("evaluate", tmp_path / "failed.jsonl", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = {e["metric"]: e["value"] for e in json.loads(done.stdout)["estimates"]}
    assert found["accuracy"] is None
    assert found["failure_rate"] == 1.0


def test_control_characters_from_data_never_reach_the_terminal(tmp_path: Path) -> None:
    rows = [
        {
            **row,
            "group": {"site": "\x1b]0;owned\x07\x1b[31mred\r\u009b" if i % 2 else "## GATE: PASSED\n| a | [x](y) |"},
        }
        for i, row in enumerate(answers())
    ]
    (tmp_path / "hostile.jsonl").write_text(lines(rows))
    for style in ("table", "markdown"):
        done = command(
            "evaluate", tmp_path / "hostile.jsonl", "-m", "accuracy", "--by", "group.site", "--format", style
        )
        assert done.returncode == 0
        for mark in ("\x1b", "\x07", "\r", "\u009b"):
            assert mark not in done.stdout + done.stderr
    assert "\n## GATE" not in done.stdout
    assert "[x](y)" not in done.stdout


def test_values_of_the_data_never_reach_a_message(tmp_path: Path) -> None:
    secret = "SECRET-PATIENT-NAME"
    good = {"item": "q1", "target": "a", "prediction": "b", "confidence": 0.5}
    for bad in (
        {"confidence": secret},
        {"outcome": secret},
        {"confidence": 7, "note": secret},
        {"should_abstain": secret},
    ):
        (tmp_path / "bad.jsonl").write_text(lines([good, {**good, "item": "q2", **bad}]))
        done = command("evaluate", tmp_path / "bad.jsonl", "-m", "accuracy")
        assert done.returncode == 3
        assert secret not in done.stdout + done.stderr
        assert "bad.jsonl:2" in done.stderr


def test_a_closed_pipe_ends_quietly(data: Path) -> None:
    command = f"{SCRIPT} metrics | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def started(folder: Path, *, terminal: bool) -> tuple[subprocess.Popen[bytes], int]:
    """A command that resamples for an hour or so, and the end of its standard error that is read."""
    (folder / "big.jsonl").write_text(lines(answers(patients=5000)))
    command = [
        SCRIPT,
        "evaluate",
        folder / "big.jsonl",
        "-m",
        "auroc",
        "--resamples",
        "2000000",
        "--out",
        folder / "out",
    ]
    end, stderr = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment)
    os.close(stderr)
    return process, end


def read_until(end: int, text: bytes | None) -> str:
    """What is written there up to a text, or up to the end."""
    shown = b""
    while text is None or text not in shown:
        ready, _, _ = select.select([end], [], [], 300)
        assert ready, "nothing for five minutes"
        try:
            block = os.read(end, 4096)
        except OSError:  # how a terminal ends
            break
        if not block:
            break
        shown += block
    return shown.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_with_their_code_and_leave_nothing_behind(tmp_path: Path, number: int, code: int) -> None:
    process, end = started(tmp_path, terminal=True)
    assert "resampling" in read_until(end, b"resampling")
    process.send_signal(number)
    stderr = read_until(end, None)
    os.close(end)
    assert process.wait(timeout=300) == code, stderr
    assert "Traceback" not in stderr
    out = tmp_path / "out"
    assert not out.exists() or not list(out.iterdir())


def test_a_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    piped, pipe = started(tmp_path, terminal=False)
    shown, terminal = started(tmp_path, terminal=True)
    try:
        assert "resampling" in read_until(terminal, b"resampling")
    finally:
        for process in (piped, shown):
            process.terminate()
    assert "resampling" not in read_until(pipe, None)
    for process, end in ((piped, pipe), (shown, terminal)):
        os.close(end)
        process.wait(timeout=300)


def test_gpqa_means_and_paired_difference() -> None:
    path = SHARED / "gpqa" / "gpqa_diamond_scores.csv"
    if not path.exists():
        pytest.skip("needs ../shared/data")
    renamed = ("--map", "item=item_id,repeat=epoch,model=model_id", "--format", "json")
    done = command("evaluate", path, *renamed, "-m", "mean(score, better=higher)")
    assert done.returncode == 0, done.stderr
    nano, mini = json.loads(done.stdout)["estimates"]
    assert nano["value"] == pytest.approx(0.6758, abs=5e-5)
    assert nano["se"] == pytest.approx(0.0276, abs=5e-5)
    assert mini["value"] == pytest.approx(0.6172, abs=5e-5)
    assert mini["se"] == pytest.approx(0.0296, abs=5e-5)
    versus = ("--versus", "model=openai/gpt-5.4-mini-2026-03-17,openai/gpt-5-nano-2025-08-07")
    done = command("compare", path, *renamed, *versus, "-m", "mean(score, better=higher)")
    (delta,) = json.loads(done.stdout)["deltas"]
    assert delta["delta"] == pytest.approx(0.0586, abs=5e-5)
    assert delta["se"] == pytest.approx(0.0278, abs=5e-5)
    # the published t interval is [.0038, .1134]; two pseudo-clusters, one up, one down, move a bounded delta a little
    assert delta["interval"] == pytest.approx([0.0032, 0.1128], abs=5e-5)
    assert delta["p_value"] == pytest.approx(0.038, abs=0.006)
    done = command("compare", path, *renamed, *versus, "-m", "mean(score, better=higher)", "--method", "percentile")
    (delta,) = json.loads(done.stdout)["deltas"]
    assert delta["interval"] == pytest.approx([0.003, 0.112], abs=0.004)


def test_odd_column_names_are_scores_too(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("item,bleu-4,my score\n1,0.5,1\n2,0.25,0\n")
    done = command("evaluate", tmp_path / "scores.csv", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [e["metric"] for e in json.loads(done.stdout)["estimates"]] == ['mean("bleu-4")', 'mean("my score")']


@pytest.mark.parametrize(
    ("redirect", "code"), [(">/dev/full", 5), (">&-", 0), ("2>&-", 0), ("PYTHONIOENCODING=latin-1", 0)]
)
def test_odd_streams_do_not_break_it(data: Path, redirect: str, code: int) -> None:
    before, after = (redirect, "") if "=" in redirect else ("", redirect)
    command = f"{before} {SCRIPT} evaluate {data} -m accuracy --resamples 100 {after}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, errors="replace")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_columns_of_lists_are_refused_where_they_mean_nothing(tmp_path: Path) -> None:
    rows = [{"item": i, "target": ["a"], "prediction": ["a"], "tags": ["x"]} for i in range(3)]
    (tmp_path / "lists.jsonl").write_text(lines(rows))
    for arguments in (("-m", "mae"), ("-m", "accuracy"), ("-m", "answer_rate", "--by", "tags"), ("--cluster", "tags")):
        done = command("evaluate", tmp_path / "lists.jsonl", *arguments)
        assert done.returncode == 3, done.stderr
