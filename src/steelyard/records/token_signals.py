"""Signals from the log-probabilities of the tokens of an answer.

A token is a mapping with `logprob`, and `top_logprobs`: the likeliest tokens at its place, each with a `logprob`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError

Tokens = Sequence[Mapping[str, Any]]


def token_msp(tokens: Tokens) -> float:
    """Mean over tokens of the chosen token's probability.

    >>> round(token_msp([{"logprob": -0.1}, {"logprob": -1.0}]), 6)
    0.636358
    """
    log_probabilities = [_number(token, "logprob", place) for place, token in enumerate(_not_empty(tokens))]
    return float(np.exp(log_probabilities).mean())


def token_pe(tokens: Tokens) -> float:
    """Predictive entropy: mean over tokens of −Σ p log p, p normalised over the top tokens; 0 where one is certain.

    >>> round(token_pe([{"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -3.0}]}]), 6)
    0.204808
    """
    return float(np.mean([_entropy(top) for top in _tops(tokens)]))


def token_energy(tokens: Tokens) -> float:
    """Mean over tokens of log Σ exp(logprob) over the top tokens: the log of the mass they hold, at most 0.

    >>> round(token_energy([{"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -3.0}]}]), 6)
    -0.046437
    """
    return float(np.mean([np.logaddexp.reduce(top) for top in _tops(tokens)]))


def _entropy(top: npt.NDArray[np.float64]) -> float:
    log_p = top - np.logaddexp.reduce(top)
    return max(0.0, float(-(np.exp(log_p) * log_p).sum()))


def _tops(tokens: Tokens) -> list[npt.NDArray[np.float64]]:
    tops = []
    for place, token in enumerate(_not_empty(tokens)):
        top = token.get("top_logprobs")
        if not isinstance(top, Sequence) or isinstance(top, str) or not top:
            raise InputError("a list with at least one entry is expected", field=f"logprobs[{place}].top_logprobs")
        tops.append(np.array([_number(entry, "logprob", place) for entry in top]))
    return tops


def _not_empty(tokens: Tokens) -> Tokens:
    if not tokens:
        raise InputError("at least one token is expected", field="logprobs")
    return tokens


def _number(token: Any, key: str, place: int) -> float:
    value = token.get(key) if isinstance(token, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise InputError("a finite number is expected", field=f"logprobs[{place}].{key}")
    return float(value)
