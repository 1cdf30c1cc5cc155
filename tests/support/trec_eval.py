"""trec_eval's own numbers, from a process of its own.

Its C code writes past its arrays for some judgements (negative grades among them), which kills the process sooner or
later, or lets it run for ever, depending on what else is in its memory. So it runs apart, and is asked again where it
died or gave no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import reject

_TRIES = 3
_PATIENCE = 60.0  # seconds; an answer takes milliseconds
_PEER: list[ProcessPoolExecutor] = []


def trec_eval(judged: Mapping[str, Any], run: Mapping[str, Any], asked: set[str], level: int = 1) -> dict[str, Any]:
    """Every measure of every topic, as trec_eval gives it."""
    pytest.importorskip("pytrec_eval", reason="pytrec_eval is trec_eval itself; it is not installed")
    for _ in range(_TRIES):
        if not _PEER:
            _PEER.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        try:
            return _PEER[0].submit(_evaluated, judged, run, asked, level).result(timeout=_PATIENCE)
        except (BrokenProcessPool, TimeoutError):
            peer = _PEER.pop()
            for process in list((peer._processes or {}).values()):
                process.kill()
            peer.shutdown(wait=False)
    return reject()


def _evaluated(judged: Mapping[str, Any], run: Mapping[str, Any], asked: set[str], level: int) -> dict[str, Any]:
    import pytrec_eval

    return dict(pytrec_eval.RelevanceEvaluator(judged, asked, relevance_level=level).evaluate(run))
