"""Runs that are killed, stopped or refused: what is done is kept, and goes on."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.ground.journal import Rows
from steelyard.uncertainty.settings import Settings
from tests.support.commands import steelyard
from tests.support.model_server import ModelServer, model_server
from tests.support.soak import begin, check, finished, journals, killed, rows_written, write_spec

FEW = Settings(resamples=100)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with model_server(tmp_path, "--delay", "0.05") as running:
        yield running


@pytest.mark.slow
def test_killed_at_any_moment_a_run_loses_and_doubles_nothing(tmp_path: Path, server: ModelServer) -> None:
    """All of it, with 10,000 records, is `make soak`."""
    undisturbed = finished(write_spec(tmp_path, server, 200), tmp_path / "left", server)
    disturbed = killed(tmp_path, server, records=200, cycles=3, in_flight=2)
    assert disturbed.kills >= 1
    assert disturbed.sessions > 1
    check(undisturbed, disturbed, 200)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_keeps_what_is_done_and_says_how_to_go_on(
    tmp_path: Path, server: ModelServer, number: signal.Signals, code: int
) -> None:
    spec, root = write_spec(tmp_path, server, 400), tmp_path / "store"
    process = begin(spec, root, "--concurrency", "2")  # so slow that it cannot end before it is stopped
    while rows_written(root) < 20 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == code, said.decode()
    (journal,) = journals(root)
    done = [row["key"] for row in Rows(journal)]
    assert 20 <= len(done) < 400
    text = said.decode()
    assert f"{len(done)} of 400 requests have ended and are kept in {journal}" in text
    assert "--resume goes on" in text
    assert "Traceback" not in text
    whole = finished(spec, root, server)
    assert whole.keys == list(range(400))


def test_a_refused_key_stops_a_server_at_once_and_the_others_go_on(tmp_path: Path, server: ModelServer) -> None:
    spec = json.loads(write_spec(tmp_path, server, 40).read_text())
    spec["models"] = [
        {"name": "refused", "base_url": server.at("unauthorized")},
        {"name": "fine", "base_url": server.at("echo")},
    ]
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = steelyard("run", tmp_path / "spec.yaml", "--root", tmp_path / "store", "--resamples", 100)
    assert done.code == 4, done.err
    assert "check the API key" in done.out
    refused = [call for call in server.calls if call["mode"] == "unauthorized"]
    assert 0 < len(refused) <= 16
    (journal,) = journals(tmp_path / "store")
    assert {row["model"] for row in Rows(journal)} == {"fine"}
    assert len(list(Rows(journal))) == 40
    assert not (tmp_path / "store/results/evaluation/runs").exists()
    assert "--resume" in done.err


def test_every_server_refusing_is_an_error_without_a_run(tmp_path: Path, server: ModelServer) -> None:
    spec = write_spec(tmp_path, server, 40, mode="unauthorized")
    done = steelyard("run", spec, "--root", tmp_path / "store")
    assert done.code == 4
    assert "check the API key" in done.err
    assert "question" not in done.err


def test_a_bad_day_of_a_server_is_a_good_run(tmp_path: Path, server: ModelServer) -> None:
    run = sy.run(write_spec(tmp_path, server, 60, mode="mixed"), root=tmp_path / "store", settings=FEW)
    assert run.exit_code == 0
    assert run.records.counts()["answered"] == 60
    assert run.tallies["m"].retries > 0


@pytest.mark.parametrize("mode", ["html", "truncated", "no_choices", "null"])
def test_what_is_no_answer_is_never_one(tmp_path: Path, server: ModelServer, mode: str) -> None:
    run = sy.run(write_spec(tmp_path, server, 4, mode=mode), root=tmp_path / "store", settings=FEW)
    assert run.records.counts() == {"answered": 0, "abstained": 0, "unparsed": 0, "failed": 4}
    assert run.exit_code == 4
    assert run.folder is not None


def test_a_reply_that_was_cut_off_is_unparsed(tmp_path: Path, server: ModelServer) -> None:
    run = sy.run(write_spec(tmp_path, server, 4, mode="cut"), root=tmp_path / "store", settings=FEW)
    assert run.records.counts()["unparsed"] == 4


def test_sixteen_workers_swap_no_answers(tmp_path: Path, server: ModelServer) -> None:
    run = sy.run(write_spec(tmp_path, server, 200), root=tmp_path / "store", settings=FEW)
    from steelyard.runner.plan import planned
    from steelyard.runner.spec import load_spec
    from tests.support.model_server import text_of

    plan = planned(load_spec(tmp_path / "spec.yaml"))
    for row in Rows(run.journal):
        prompt = "\n".join(message.content for message in plan.request(plan.place(row["key"])).messages)
        assert row["reply"]["text"] == text_of(prompt)
    assert len(server.calls) == 200  # repeats are asked, not copied


def test_a_second_run_is_served_the_first_repeat_from_the_cache(tmp_path: Path, server: ModelServer) -> None:
    spec = write_spec(tmp_path, server, 40)
    first = sy.run(spec, root=tmp_path / "store", settings=FEW)
    calls = len(server.calls)
    second = sy.run(spec, root=tmp_path / "store", settings=FEW)
    assert len(server.calls) - calls == 20  # the second repeats
    frame = second.records.to_pandas()
    assert list(frame.cached) == [True, False] * 20
    assert frame.latency_ms.isna().tolist() == [True, False] * 20
    assert second.tallies["m"].cached == 20
    assert second.tallies["m"].cost == pytest.approx((first.tallies["m"].cost or 0) / 2)
    assert "20 replies came from the cache" in " ".join(second.records.warnings)
    assert frame.output_tokens.isna().tolist() == [True, False] * 20
    different = ["latency_ms", "cached", "cost", "input_tokens", "output_tokens"]
    assert second.records.to_arrow().drop(different).equals(first.records.to_arrow().drop(different))


def test_no_key_and_no_text_reaches_what_is_printed(tmp_path: Path, server: ModelServer) -> None:
    spec = json.loads(write_spec(tmp_path, server, 20).read_text())
    spec["models"][0]["api_key_env"] = "SOAK_KEY"
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    key = "sk-very-secret-0123456789"
    asked = ("run", tmp_path / "spec.yaml", "--root", tmp_path / "store", "--resamples", 100, "--format", "json")
    done = steelyard(*asked, SOAK_KEY=key)
    assert done.code == 0, done.err
    assert all(call["authorized"] for call in server.calls)
    for path in (tmp_path / "store").rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()
    assert key not in done.out + done.err
    assert "because the values say so" not in done.out + done.err
