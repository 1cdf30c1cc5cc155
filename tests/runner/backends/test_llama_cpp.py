"""A GGUF file run by llama.cpp within a run: equal to its server, ends with whoever asks, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import BackendError, InputError, UsageError
from steelyard.ground.http import Limits
from steelyard.runner.backends import Inference, Message, Options, Reply, Request, backends, llama_cpp
from steelyard.runner.doctor import examined
from steelyard.runner.spec import load_spec
from tests.support.known_model import EVIDENCE, LABELS, answer_of, write_known_model
from tests.support.llama_server import LlamaServer, serving
from tests.support.places import ROOT

pytestmark = pytest.mark.slow

ASKED = Inference(temperature=0.0, max_tokens=16, logprobs=True, top_logprobs=20)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_known_model(tmp_path_factory.mktemp("known") / "known.gguf")


@pytest.fixture(scope="module")
def server(gguf: Path) -> Iterator[LlamaServer]:
    with serving(gguf) as running:
        yield running


def request(text: str, model: str = "known") -> Request:
    return Request(model=model, messages=(Message(role="user", content=text),), inference=ASKED)


def options(gguf: Path, limits: Limits | None = None, **more: Any) -> Options:
    return Options(folder=gguf.parent, options={"gguf": gguf.name, "threads": 1, **more}, limits=limits or Limits())


def asked(given: Options, requests: list[Request], backend: str = "llama_cpp") -> list[Reply]:
    async def all_of_them() -> list[Reply]:
        async with backends[backend].open(given) as opened:
            return list(await asyncio.gather(*(opened.ask(each) for each in requests)))

    return asyncio.run(all_of_them())


# -- the same as the server ----------------------------------------------------------------------------------------


def test_embedded_equals_the_server(gguf: Path, server: LlamaServer) -> None:
    """Answers, tokens and log-probabilities of the same file are the same, many asked at once."""
    texts = [f"Report {number}: there is a {word}." for number, word in enumerate([*EVIDENCE] * 3)]
    embedded = asked(options(gguf), [request(text) for text in texts])
    over_http = Options(base_url=server.url, api_key_env="K", environment={"K": server.key})
    served = asked(over_http, [request(text, server.model) for text in texts], "openai")
    assert [reply.failure for reply in (*embedded, *served)] == [""] * 2 * len(texts)
    assert [reply.text for reply in embedded] == [answer_of(text) for text in texts]
    for ours, theirs in zip(embedded, served, strict=True):
        assert (ours.text, ours.finish) == (theirs.text, theirs.finish)
        assert (ours.input_tokens, ours.output_tokens) == (theirs.input_tokens, theirs.output_tokens)
        assert ours.tokens is not None
        assert theirs.tokens is not None
        assert [token.text for token in ours.tokens] == [token.text for token in theirs.tokens]
        for mine, other in zip(ours.tokens, theirs.tokens, strict=True):
            assert mine.logprob == pytest.approx(other.logprob, abs=1e-5)
            likely = [({t: p for t, p in each.top if p > -10}) for each in (mine, other)]
            assert likely[0] == pytest.approx(likely[1], abs=1e-5)


def test_a_whole_run(gguf: Path, tmp_path: Path) -> None:
    """What is in the file is in the digest of the plan and the key of the cache: another of its name is asked anew."""
    rows = [{"id": word, "report": f"There is a {word}.", "label": EVIDENCE[word][0]} for word in [*EVIDENCE][:-1]]
    (tmp_path / "reports.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "bugs", "data": "reports.jsonl", "id": "id", "question": "report", "target": "label"}
    (tmp_path / "bugs.task.yaml").write_text(json.dumps({**task, "labels": list(LABELS)}))
    (tmp_path / "model.gguf").write_bytes(gguf.read_bytes())
    spec = {
        "id": "bugs",
        "task": "bugs.task.yaml",
        "models": [{"name": "known", "backend": "llama_cpp", "options": {"gguf": "model.gguf", "threads": 1}}],
        "inference": {"logprobs": True, "top_logprobs": 20, "format": "text", "max_tokens": 16},
        "confidence": "logprobs",
        "metrics": ["accuracy"],
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    run = sy.run(tmp_path / "spec.yaml", root=tmp_path, environment={})
    assert run.exit_code == 0
    assert run.evaluation["accuracy"].value == 1
    assert [model.cached for model in run.tallies.values()] == [0]
    again = sy.run(tmp_path / "spec.yaml", root=tmp_path, environment={})
    assert [model.cached for model in again.tallies.values()] == [len(rows)]
    with (tmp_path / "model.gguf").open("ab") as file:
        file.write(b"\0")
    changed = sy.run(tmp_path / "spec.yaml", root=tmp_path, environment={})
    assert [model.cached for model in changed.tallies.values()] == [0]
    plans = [json.loads((each.journal.parent / "spec.json").read_text())["plan"] for each in (run, again, changed)]
    assert plans[0] == plans[1] != plans[2]


def test_a_question_has_the_whole_context_however_many_are_asked_at_once(gguf: Path) -> None:
    fitting, too_long = request("crash " + "x" * 600), request("crash " + "x" * 1_500)
    replies = asked(options(gguf, Limits(in_flight=8), n_ctx=1_024), [fitting, too_long] * 4)
    assert [reply.text for reply in replies[::2]] == ["Answer: Critical"] * 4
    assert {reply.failure for reply in replies[1::2]} == {"status 400 (Bad Request)"}


# -- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "needs the option gguf"),
        ({"gguf": 7}, "needs the option gguf"),
        ({"gguf": "known.gguf", "n_ctxt": 5}, "did you mean 'n_ctx'"),
        ({"gguf": "known.gguf", "threads": 0}, "at least 1"),
        ({"gguf": "known.gguf", "n_ctx": True}, "whole number"),
    ],
)
def test_options_that_cannot_be_used(gguf: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        backends["llama_cpp"].open(Options(folder=gguf.parent, options=given))
    with pytest.raises(UsageError, match="no use for base_url"):
        backends["llama_cpp"].open(Options(base_url="http://127.0.0.1:9", options={"gguf": "known.gguf"}))


def test_without_the_extra(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install \"steelyard\[local\]\""):
        backends["llama_cpp"].open(options(gguf))


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("a text")
    with pytest.raises(InputError, match="not a GGUF file"):
        backends["llama_cpp"].open(options(tmp_path / "text.gguf"))
    with pytest.raises(InputError, match="no such file"):
        backends["llama_cpp"].open(options(tmp_path / "none.gguf"))


def test_a_damaged_model_is_said_before_the_first_question(gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(gguf.read_bytes()[:2_000])
    with pytest.raises(BackendError, match=r"llama.cpp cannot load cut.gguf: it is damaged"):
        asked(options(tmp_path / "cut.gguf"), [request("crash")])
    model = {"name": "m", "backend": "llama_cpp", "options": {"gguf": str(tmp_path / "cut.gguf")}}
    spec = {"id": "x", "task": "ckd_detection", "sample_size": 2, "models": [model]}
    with pytest.raises(BackendError, match="cannot load"):
        sy.run(spec, root=tmp_path, environment={})
    (finding,) = [each for each in examined(load_spec(spec), {}, root=tmp_path) if each.model == "m"]
    assert (finding.about, finding.level, finding.exit_code) == ("model", "problem", 4)


def test_a_look_at_a_model(gguf: Path) -> None:
    async def look() -> list[tuple[str, str]]:
        async with backends["llama_cpp"].open(options(gguf)) as backend:
            return [(finding.about, finding.level) for finding in await backend.check("known")]

    assert asyncio.run(look()) == [("model", "ok"), ("server", "ok"), ("logprobs", "ok")]


# -- how it ends ---------------------------------------------------------------------------------------------------


def test_a_process_that_dies_stops_its_model_alone(gguf: Path) -> None:
    async def killed() -> None:
        async with backends["llama_cpp"].open(options(gguf, Limits(retries=0))) as backend:
            assert (await backend.ask(request("crash"))).text == "Answer: Critical"
            os.kill(backend._child.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            backend._child.wait()  # type: ignore[attr-defined]
            with pytest.raises(BackendError, match="has ended by itself"):
                await backend.ask(request("crash"))

    asyncio.run(killed())


def test_it_ends_with_whoever_started_it(gguf: Path) -> None:
    """Also with one that is killed and can tidy up nothing."""
    asking = f"""
import asyncio
from pathlib import Path
from steelyard.runner.backends import Options, backends

async def main():
    options = Options(folder=Path({str(gguf.parent)!r}), options={{"gguf": {gguf.name!r}, "threads": 1}})
    async with backends["llama_cpp"].open(options) as backend:
        print(backend._child.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
    command = [sys.executable, "-c", asking]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            os.kill(child, 0)
        finally:
            parent.kill()
    patience = time.monotonic() + 120  # it needs a fraction of a second
    while _is_running(child) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not _is_running(child)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
