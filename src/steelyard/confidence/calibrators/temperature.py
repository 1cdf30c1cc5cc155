"""Temperature scaling: sigmoid(logit(p)/T). Monotone, so it changes no ranking: neither AURC nor AUGRC."""

from __future__ import annotations

import math

import numpy as np

from steelyard.confidence.calibrators.contract import Method, Parameters, methods, number_of, sigmoid
from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats

LOWEST, HIGHEST = 0.05, 10.0
_CLIP = 1e-6
_GRID = 400


def scaled(p: Floats, temperature: float) -> Floats:
    """The probabilities at another temperature; p is kept 1e-6 away from 0 and 1.

    >>> float(scaled(np.array([0.8]), 1.0)[0].round(6))
    0.8
    """
    if not temperature > 0:
        raise UsageError("the temperature is above 0")
    clipped = np.clip(p, _CLIP, 1 - _CLIP)
    return sigmoid(np.log(clipped / (1 - clipped)) / temperature)


def nll(p: Floats, y: Floats) -> float:
    """Mean negative log-likelihood, p kept 1e-6 away from 0 and 1."""
    clipped = np.clip(p, _CLIP, 1 - _CLIP)
    return float(-np.mean(y * np.log(clipped) + (1 - y) * np.log(1 - clipped)))


def fit(features: Floats, y: Floats) -> Parameters:
    """The temperature in [0.05, 10] with the least NLL; 1 where none is better."""
    from scipy.optimize import minimize_scalar

    p = features[:, 0]

    def loss(log_t: float) -> float:
        return nll(scaled(p, float(np.exp(log_t))), y)

    # clipping bends the loss, so the best of a grid comes first and is refined between its neighbours
    grid = np.linspace(np.log(LOWEST), np.log(HIGHEST), _GRID)
    best = int(np.argmin([loss(t) for t in grid]))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    inside = float(minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9}).x)
    log_temperature = min((ends[0], inside, ends[1]), key=loss)  # the first of equals: the lowest
    if loss(0.0) <= loss(log_temperature) + 1e-12:
        return {"temperature": 1.0}
    return {"temperature": min(max(math.exp(log_temperature), LOWEST), HIGHEST)}  # exp(log 10) rounds to above 10


def apply(parameters: Parameters, features: Floats) -> Floats:
    return scaled(features[:, 0], number_of(parameters, "temperature") or math.nan)


def problem(parameters: Parameters, _: int) -> str:
    return "" if (number_of(parameters, "temperature") or 0) > 0 else "the temperature is a number above 0"


methods.add(
    "temperature_scaling",
    Method(
        name="temperature_scaling",
        fit=fit,
        apply=apply,
        problem=problem,
        one_feature=True,
        binary=True,
        probability=True,
    ),
    aliases=("temperature",),
)
