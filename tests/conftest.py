"""Settings shared by every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from steelyard.metrics import metrics
from tests.support.known_model import write_known_model
from tests.support.llama_server import LlamaServer, serving

# The same examples every time and everywhere, so that a change is judged by itself and not by its luck; `make explore`
# looks somewhere new, and what it finds becomes an example that is written down. There is no deadline: it would measure
# the compiler of kernels, and fixtures of one test are made to be used by all of its examples.
USUAL = settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("usual", USUAL)
settings.register_profile("more", USUAL, max_examples=150)
settings.register_profile("explore", USUAL, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("usual")

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
