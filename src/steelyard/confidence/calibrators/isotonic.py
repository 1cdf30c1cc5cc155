"""Isotonic regression of one feature: the rising step function nearest to the target, linear between its corners."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from steelyard.confidence.calibrators.contract import Method, Parameters, list_of, methods
from steelyard.ground.arrays import Floats


def fit(features: Floats, y: Floats) -> Parameters:
    """Corners (x, y) of the fit. Equal x are pooled first; a corner inside a level stretch is left out."""
    from scipy.optimize import isotonic_regression

    x, place, counts = np.unique(features[:, 0], return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=y) / counts
    level = np.asarray(isotonic_regression(means, weights=counts.astype(float)).x)
    inner = np.zeros(len(x), bool)
    inner[1:-1] = (level[1:-1] == level[:-2]) & (level[1:-1] == level[2:])
    return {"x": x[~inner].tolist(), "y": np.clip(level[~inner], 0.0, 1.0).tolist()}


def apply(parameters: Parameters, features: Floats) -> Floats:
    return np.interp(features[:, 0], np.asarray(parameters["x"], float), np.asarray(parameters["y"], float))


def problem(parameters: Parameters, _: int) -> str:
    x, y = list_of(parameters, "x"), list_of(parameters, "y")
    if not x or not y or len(x) != len(y):
        return "x and y are lists of the same length"
    rises = all(a < b for a, b in pairwise(x)) and all(a <= b for a, b in pairwise(y))
    return "" if rises and y[0] >= 0 and y[-1] <= 1 else "x rises, and y does not fall and stays within [0, 1]"


methods.add("isotonic", Method(name="isotonic", fit=fit, apply=apply, problem=problem, one_feature=True))
