"""A real llama.cpp server with an OpenAI-compatible API, as a process of its own on the loopback.

    with serving(write_known_model(tmp_path / "known.gguf")) as server:
        httpx.get(f"{server.url}/models", headers=server.headers, trust_env=False)

It listens on a port that the system chooses, wants a key that is made for it, keeps no prompt, computes with one
thread, and ends when its standard input is closed: also when the tests are killed.
"""

from __future__ import annotations

import secrets
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

SLOTS, CONTEXT = 4, 16384  # a prompt has the context of one slot: a quarter
_PATIENCE = 120  # seconds until a server that needs a fraction of one is given up


@dataclass(frozen=True, kw_only=True)
class LlamaServer:
    """Where the server listens, and what it wants to see. The model has the name of its file."""

    url: str
    key: str
    model: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@contextmanager
def serving(model: Path) -> Iterator[LlamaServer]:
    """A server of this model, which ends with the block."""
    key = secrets.token_urlsafe()
    command = [sys.executable, "-m", "tests.support.llama_server", str(model)]
    errors = model.with_suffix(".errors")
    with (
        errors.open("wb") as written,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written, text=True
        ) as child,
    ):
        try:
            assert child.stdin is not None
            child.stdin.write(f"{key}\n")
            child.stdin.flush()
            url = _first_line(child)
            assert url.startswith("http://127.0.0.1:"), f"llama.cpp did not start: {url} {errors.read_text()[-2000:]}"
            yield LlamaServer(url=f"{url}/v1", key=key, model=model.name)
        finally:
            _end(child)


def _first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], _PATIENCE)
    return child.stdout.readline().strip() if ready else ""


def _end(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()


def _serve(model: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.api_keys = [sys.stdin.readline().strip()]
    params.port = 0  # of the loopback, if no host is named
    params.n_ctx, params.n_parallel, params.n_gpu_layers = CONTEXT, SLOTS, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.ui = params.endpoint_slots = params.cache_prompt = False
    params.verbosity = params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
