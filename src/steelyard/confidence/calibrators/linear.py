"""Ridge regression on standardised features, cut to [0, 1]: for continuous targets."""

from __future__ import annotations

import numpy as np

from steelyard.confidence.calibrators.contract import Method, Parameters, list_of, methods, number_of
from steelyard.ground.arrays import Floats


def fit(features: Floats, y: Floats) -> Parameters:
    """Coefficients and intercept that minimise Σ(y − ŷ)² + ‖w‖²; the intercept is not penalised."""
    centre = features.mean(0)
    moved = features - centre
    gram = moved.T @ moved + np.eye(features.shape[1])
    coefficients = np.linalg.solve(gram, moved.T @ (y - y.mean()))
    return {"coefficients": coefficients.tolist(), "intercept": float(y.mean() - centre @ coefficients)}


def apply(parameters: Parameters, features: Floats) -> Floats:
    return np.clip(score(parameters, features), 0.0, 1.0)


def problem(parameters: Parameters, features: int) -> str:
    weights = list_of(parameters, "coefficients")
    if weights is None or len(weights) != features or number_of(parameters, "intercept") is None:
        return "one coefficient a feature and one intercept are expected"
    return ""


def score(parameters: Parameters, features: Floats) -> Floats:
    """Intercept plus the weighted features."""
    return features @ np.asarray(parameters["coefficients"], float) + np.asarray(parameters["intercept"], float)


methods.add("linear", Method(name="linear", fit=fit, apply=apply, problem=problem, scaled=True))
