"""Settings shared by every test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from steelyard.metrics import metrics
from tests.support.known_model import write_known_model
from tests.support.llama_server import LlamaServer, serving

# Compiled kernels may be built inside an example; a deadline would measure the compiler. In CI the examples are always
# the same ones, so that a change is judged by itself and not by its luck; at a desk each run looks somewhere new.
settings.register_profile(
    "steelyard",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("steelyard")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and inherited by what tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_metric_left_behind() -> Iterator[None]:
    """A plug-in that one test loads is in no catalogue that another test reads."""
    before = set(metrics)
    yield
    for name in set(metrics) - before:
        metrics.remove(name)


@pytest.fixture(scope="session")
def known_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """A real llama.cpp server with the model whose probabilities are known; each worker of the tests has its own."""
    for package in ("gguf", "xllamacpp"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: it has no wheel for this machine")
    with serving(write_known_model(tmp_path_factory.mktemp("llama") / "known.gguf")) as server:
        yield server
