"""A run-spec from its file to a kept, evaluated run."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import BackendError, InputError, StorageError, UsageError
from steelyard.ground.journal import Journal, Rows
from steelyard.runs.saved import SavedRun
from steelyard.uncertainty.settings import Settings

FEW = Settings(resamples=100)
MODELS = """
import json

def right(item, prompt):
    return json.dumps({"answer": "yes" if item["n"] % 2 else "no", "confidence": 0.9})

def always(item, prompt, *, answer="yes"):
    return {"text": f"Answer: {answer}", "input_tokens": 100, "output_tokens": 10}

def broken(item, prompt):
    raise ValueError("secret")

def odd_counts(item, prompt):
    return {"text": "Answer: yes", "input_tokens": (-3, 10**30)[item["n"] % 2], "output_tokens": 1}

def stuck(item, prompt):
    import time
    if item["n"] == 3:
        time.sleep(10_000)
    return "Answer: yes"

def picky(item, prompt):
    if item["n"] < 3:
        raise ValueError("secret")
    return "Answer: yes"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve items, whose label is yes where their number is odd, and models that know it or not."""
    rows = [{"n": n, "text": f"is {n} odd?", "label": "yes" if n % 2 else "no", "site": "ab"[n % 2]} for n in range(12)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "name": "odd", "data": "data.jsonl", "id": "n", "question": "text", "target": "label",
        "labels": ["yes", "no"], "groups": ["site"], "prompt": "Number {{ n }}: {{ question }}",
    }  # fmt: skip
    (tmp_path / "odd.task.yaml").write_text(json.dumps(task))
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def model(function: str, **more: Any) -> dict[str, Any]:
    return {"name": function, "backend": "callable", "options": {"function": f"models.py:{function}"}, **more}


def spec(folder: Path, *models: dict[str, Any], **more: Any) -> Path:
    document = {"id": "odd", "task": "odd.task.yaml", "models": list(models or (model("right"),)), **more}
    path = folder / "spec.yaml"
    path.write_text(json.dumps(document))
    return path


def asked(folder: Path, *models: dict[str, Any], how: dict[str, Any] | None = None, **more: Any) -> sy.Run:
    return sy.run(spec(folder, *models, **more), root=folder / "store", settings=FEW, **(how or {}))


def test_a_spec_becomes_records_an_evaluation_comparisons_and_a_kept_run(folder: Path) -> None:
    run = asked(folder, model("right"), model("always"), metrics=["accuracy"])
    assert run.is_complete
    assert run.exit_code == 0
    assert len(run.records) == 24
    assert run.evaluation["accuracy{model=right}"].value == 1
    assert run.evaluation["accuracy{model=always}"].value == 0.5
    assert run.comparisons["right", "always"]["accuracy"].delta == -0.5
    assert run.folder is not None
    saved = SavedRun.at(run.folder)
    saved.verify()
    assert saved.run.run_id == run.run_id
    assert saved.run.labels["spec"] == "odd"
    assert saved.records is not None
    assert saved.records.to_arrow().equals(run.records.to_arrow())
    frame = run.records.to_pandas()
    assert list(frame.item[:12]) == list(range(12))
    assert list(frame.target[:2]) == ["no", "yes"]
    assert set(frame["group.site"]) == {"a", "b"}
    assert list(frame.confidence[:12]) == [0.9] * 12
    assert frame.input_tokens[12] == 100


def test_the_journal_and_the_cache_are_their_owners_alone(folder: Path) -> None:
    run = asked(folder)
    assert stat.S_IMODE(run.journal.stat().st_mode) == 0o600
    assert stat.S_IMODE(run.journal.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(run.cache.stat().st_mode) == 0o600
    assert sum("reply" in row for row in Rows(run.journal)) == 12


def test_replies_can_be_forgotten(folder: Path) -> None:
    run = asked(folder, how={"forget_replies": True}, metrics=["accuracy"])
    assert b"answer" not in run.journal.read_bytes().replace(b"answered", b"")
    assert run.evaluation["accuracy"].value == 1


def test_replies_are_forgotten_where_an_earlier_run_kept_them(folder: Path) -> None:
    kept = asked(folder, model("picky"))
    assert b"Answer: yes" in kept.journal.read_bytes()
    again = asked(folder, model("picky"), how={"retry_failed": True, "forget_replies": True})
    assert again.run_id != kept.run_id
    assert again.records.counts() == kept.records.counts()
    assert b"Answer: yes" not in again.journal.read_bytes()
    said: list[str] = []
    (again.journal.parent / "finished").unlink()
    asked(folder, model("picky"), how={"resume": True, "forget_replies": True, "say": said.append})
    assert any("was kept with its texts" in line for line in said)
    replayed = {"name": "picky", "backend": "replay", "options": {"file": str(again.journal)}}
    with pytest.raises(InputError, match="without the texts"):
        asked(folder, replayed)


def test_runs_of_the_same_second_do_not_collide(folder: Path) -> None:
    runs = [asked(folder) for _ in range(3)]
    assert len({run.run_id for run in runs}) == 3
    assert len({run.folder for run in runs}) == 3


def test_a_model_that_never_replies_is_exit_4_and_the_run_is_kept(folder: Path) -> None:
    run = asked(folder, model("right"), model("broken"), metrics=["accuracy", "failure_rate"])
    assert run.exit_code == 4
    assert run.folder is not None
    assert run.evaluation["failure_rate{model=broken}"].value == 1
    assert "broken gave no reply to any of 12 requests" in run.problems[0]
    assert "secret" not in run.problems[0]


def test_a_gate_in_the_spec_decides(folder: Path) -> None:
    assert asked(folder, metrics=["accuracy"], gate="accuracy >= 0.9").exit_code == 0
    failed = asked(folder, model("always"), metrics=["accuracy"], gate=["accuracy >= 0.9"])
    assert failed.exit_code == 1
    assert failed.decision is not None
    assert failed.decision.verdict == "fail"


def test_a_gate_on_a_model_that_gave_no_answers_hides_no_problem(folder: Path) -> None:
    gone = {"name": "gone", "base_url": "http://127.0.0.1:9/v1"}
    limits = {"retries": 0, "deadline_s": 30, "concurrency": 1}
    gate = ["accuracy{model=gone} >= 0.5"]
    run = asked(folder, model("right"), gone, metrics=["accuracy"], gate=gate, limits=limits)
    assert run.exit_code == 4
    assert run.decision is None or run.decision.verdict != "pass"
    assert any("cannot be reached" in problem for problem in run.problems)


def test_a_server_that_nothing_reaches_is_given_up(folder: Path) -> None:
    gone = {"name": "gone", "base_url": "http://127.0.0.1:9/v1"}
    run = asked(folder, gone, limits={"retries": 0, "deadline_s": 30, "concurrency": 2})
    assert not run.is_complete
    assert run.tallies["gone"].done < 12
    assert "cannot be reached, by none of 8 requests" in run.problems[0]


def test_counts_of_tokens_that_are_none_cost_no_run(folder: Path) -> None:
    run = asked(folder, model("odd_counts"), metrics=["accuracy"])
    assert run.is_complete
    frame = run.records.to_pandas()
    assert "input_tokens" not in frame
    assert list(frame.output_tokens) == [1] * 12


def test_a_function_that_never_returns_lets_the_program_end(folder: Path) -> None:
    path = spec(folder, model("stuck"), limits={"deadline_s": 0.5}, metrics=["failure_rate"])
    program = "import sys; from steelyard.cli.main import main; sys.argv[0] = 'steelyard'; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "run", str(path), "--root", str(folder / "store"), "--resamples", "100"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"sample_size": 9_223_372_036_854_775_807}, "sample_size"),
        ({"sample_size": 10**30}, "sample_size"),
        ({"models": [model("right", price={"input": 1e300})]}, "price"),
        ({"limits": {"deadline_s": 1e300}}, "deadline_s"),
        ({"models": [{"name": "a", "options": {"api_key": "sk-1"}}]}, "looks like a key"),
        ({"models": [{"name": "a", "options": {"extra": [{"Authorization": "x"}]}}]}, "looks like a key"),
        ({"models": [{"name": "a", "options": {"access_token": "x"}}]}, "looks like a key"),
        ({"models": [{"name": "a", "options": {"grammar": "x" * 5000}, "api_key_env": "NO_KEY_HERE"}]}, "NO_KEY_HERE"),
        ({"metrics": ["accuracy", "co2_kg"]}, "metrics[1]: energy is measured with sustainability"),
        ({"metrics": ["gco2_per_f1_point"]}, "metrics[0]: energy is measured with sustainability"),
        ({"metrics": ["acuracy"]}, "metrics"),
        ({"gate": "acuracy >= 1"}, "gate"),
        ({"gate": "delta(accuracy) >= 0"}, "compares with a baseline"),
        ({"confidence": "verbalized"}, "needs the strategy verbalized"),
        ({"adaptation": {"strategy": ["zero-shott"]}}, "did you mean 'zero-shot'"),
        ({"adaptation": {"strategy": ["zero-shot"], "examples": 3}}, "examples"),
        ({"adaptation": {"strategy": ["few-shot-12"]}}, "other clusters"),
        ({"cluster": "patient"}, "the items have no 'patient'"),
        ({"task": "nothing.task.yaml"}, "nothing.task.yaml"),
        ({"data": {"path": "nothing.csv"}}, "nothing.csv"),
        ({"save": {"workflow": "../x"}}, "workflow"),
        ({"models": [model("nothing")]}, "nothing"),
        ({"models": [model("right"), {"name": "b", "api_key_env": "STEELYARD_NO_SUCH_KEY"}]}, "STEELYARD_NO_SUCH_KEY"),
    ],
)
def test_everything_is_checked_before_the_first_question(folder: Path, more: dict[str, Any], problem: str) -> None:
    with pytest.raises((UsageError, InputError)) as raised:
        asked(folder, **more)
    assert problem in str(raised.value)
    assert not (folder / "store" / "results").exists()


def test_metrics_may_read_what_log_probabilities_will_say(folder: Path) -> None:
    run = asked(folder, metrics=["accuracy"], inference={"logprobs": True})
    assert "in 12 replies: the server gave no logprobs" in run.records.warnings
    said: list[str] = []
    with pytest.raises(InputError, match=r"signal.label.yes"):  # rehearsed, but this server gave none
        asked(folder, metrics=["mean(signal.label.yes)"], inference={"logprobs": True}, how={"say": said.append})
    assert "12 of 12 requests have ended and are kept in" in said[-1]
    with pytest.raises(UsageError, match=r"metrics\[0\]: .*signal.label.maybe"):
        asked(folder, metrics=["mean(signal.label.maybe)"], inference={"logprobs": True})


def test_a_stopped_run_goes_on_and_asks_only_what_is_missing(folder: Path) -> None:
    whole = asked(folder, metrics=["accuracy"])
    rows = list(Rows(whole.journal))
    (whole.journal.parent / "finished").unlink()
    assert whole.folder is not None
    whole.folder.rename(folder / "elsewhere")
    whole.journal.unlink()
    with Journal(whole.journal) as journal:
        for row in rows[:7]:
            journal.append(row)
        journal.append(rows[3])  # twice, as nobody should find it
    again = asked(folder, metrics=["accuracy"], how={"resume": True})
    assert again.run_id == whole.run_id
    assert [row["session"] for row in Rows(again.journal)] == [1] * 8 + [2] * 5
    times = ["latency_ms"]
    assert again.records.to_arrow().drop(times).equals(whole.records.to_arrow().drop(times))


def test_a_changed_spec_never_reuses_rows(folder: Path) -> None:
    first = asked(folder)
    (first.journal.parent / "finished").unlink()
    assert asked(folder, seed=1, how={"resume": True}).run_id != first.run_id
    (folder / "models.py").write_text(MODELS + "\n# changed")
    other = asked(folder, how={"resume": True})
    assert other.run_id not in (first.run_id,)
    assert all(row["session"] == 1 for row in Rows(other.journal))


def test_it_is_said_why_a_run_begins_anew(folder: Path) -> None:
    said: list[str] = []
    how = {"resume": True, "say": said.append}
    first = asked(folder, how=how)
    assert said[0] == "there is no run of this spec yet; one begins"
    asked(folder, how=how)
    assert f"run {first.run_id} is complete: nothing is missing, and nothing is asked" in said
    (folder / "models.py").write_text(MODELS + "\n# changed")
    for each in (folder / "store").rglob("finished"):
        each.unlink()
    asked(folder, how=how)
    assert any("data, prompts or programs were others" in line for line in said)


def test_a_row_of_another_question_is_not_taken_for_an_answer(folder: Path) -> None:
    first = asked(folder)
    rows = list(Rows(first.journal))
    (first.journal.parent / "finished").unlink()
    for name, other in (("item", 99), ("key", "1"), ("strategy", "verbalized"), ("repeat", 2)):
        first.journal.unlink()
        with Journal(first.journal) as journal:
            journal.append({**rows[0], name: other})
        with pytest.raises(StorageError, match="journal of another plan"):
            asked(folder, how={"resume": True})


def test_limits_and_the_description_may_change(folder: Path) -> None:
    first = asked(folder)
    (first.journal.parent / "finished").unlink()
    again = asked(folder, limits={"concurrency": 2}, description="another", how={"resume": True})
    assert again.run_id == first.run_id


def test_one_run_has_one_writer(folder: Path) -> None:
    first = asked(folder)
    (first.journal.parent / "finished").unlink()
    with Journal(first.journal), pytest.raises(StorageError, match="locked"):
        asked(folder, how={"resume": True})


def test_what_failed_is_asked_again_where_that_is_wanted(folder: Path) -> None:
    first = asked(folder, model("picky"), metrics=["failure_rate"])
    assert first.evaluation["failure_rate"].value == 0.25
    digest = (folder / "models.py").read_text()
    again = asked(folder, model("picky"), metrics=["failure_rate"], how={"retry_failed": True})
    assert (folder / "models.py").read_text() == digest
    assert again.run_id != first.run_id
    assert len(list(Rows(again.journal))) == 12
    assert sum(row["session"] == 2 for row in Rows(again.journal)) == 3


def test_cost_is_counted_and_bounded(folder: Path) -> None:
    price = {"input": 1000, "output": 10_000}  # 0.2 per request
    run = asked(folder, model("always", price=price), limits={"max_cost": 0.99, "concurrency": 1})
    assert not run.is_complete
    assert run.folder is None
    assert run.exit_code == 4
    assert "the limit of cost, 0.99, is reached" in run.problems[0]
    assert run.tallies["always"].done == 5
    assert run.tallies["always"].cost == pytest.approx(1.0)
    more = asked(folder, model("always", price=price), limits={"max_cost": 99}, how={"resume": True})
    assert more.run_id == run.run_id
    assert more.is_complete
    assert more.tallies["always"].cost == pytest.approx(2.4)


def test_a_limit_of_cost_may_be_given_and_raised(folder: Path) -> None:
    """It wins over the spec's, stops cleanly, and says how to go on."""
    price, said = {"input": 1000, "output": 10_000}, []
    asked_of = (model("always", price=price),)
    limits = {"concurrency": 1, "max_cost": 99}
    run = asked(folder, *asked_of, limits=limits, how={"max_cost": 0.5, "say": said.append})
    assert (run.tallies["always"].done, run.exit_code) == (3, 4)
    assert said[-1].endswith("the same command with `resume=True` and a higher `max_cost=` goes on from there")
    more = asked(folder, *asked_of, limits=limits, how={"max_cost": 5, "resume": True})
    assert (more.run_id, more.is_complete) == (run.run_id, True)
    with pytest.raises(UsageError, match="`max_cost=` is above 0"):
        asked(folder, *asked_of, how={"max_cost": 0})
    with pytest.raises(UsageError, match="no model has a price"):
        asked(folder, how={"max_cost": 5})


def test_what_a_right_answer_costs_is_a_metric(folder: Path) -> None:
    price = {"input": 1000, "output": 10_000}  # 0.2 per request
    run = asked(folder, model("always", price=price), metrics=["cost_per_correct", "token_total", "elapsed_seconds"])
    assert run.evaluation["cost_per_correct"].value == pytest.approx(12 * 0.2 / 6)
    assert run.evaluation["cost_per_correct"].interval is not None
    assert run.evaluation["token_total"].value == 12 * 110
    assert run.evaluation["elapsed_seconds"].value == pytest.approx(run.seconds)
    assert run.evaluation.facts == {"wall_seconds": run.seconds}


def test_a_server_that_is_not_there_is_said(folder: Path) -> None:
    gone = {"name": "gone", "base_url": "http://127.0.0.1:9/v1"}
    run = asked(folder, gone, limits={"retries": 0, "deadline_s": 5}, sample_size=2)
    assert run.exit_code == 4
    assert run.records.counts()["failed"] == 2


def test_a_notebook_has_a_loop_of_its_own(folder: Path) -> None:
    async def cell() -> sy.Run:
        return asked(folder, metrics=["accuracy"])

    assert asyncio.run(cell()).is_complete


def test_a_spec_may_be_a_mapping(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    document = {"id": "odd", "task": "odd.task.yaml", "models": [model("right")], "metrics": ["accuracy"]}
    assert sy.run(document, root=folder / "store", settings=FEW).evaluation["accuracy"].value == 1


def test_every_repeat_is_a_row(folder: Path) -> None:
    run = asked(folder, repeat=3)
    assert len(run.records) == 36
    assert list(run.records.to_pandas().repeat[:3]) == [1, 2, 3]


def test_nothing_answered_at_all_is_an_error(folder: Path) -> None:
    price = {"input": 1, "output": 1}
    with pytest.raises(BackendError):
        _nothing(folder, price)


def _nothing(folder: Path, price: dict[str, int]) -> None:
    from steelyard.runner.asking import Asking

    original = Asking.run

    async def run(self: Asking) -> None:
        self.broken["right"] = "the server refused the key"

    Asking.run = run  # type: ignore[method-assign]
    try:
        asked(folder)
    finally:
        Asking.run = original  # type: ignore[method-assign]
