"""Settings shared by every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from steelyard.metrics import metrics

# compiled kernels may be built inside an example; a deadline would measure the compiler
settings.register_profile("steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
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
