"""Logistic regression on standardised features, with the usual unit penalty on the coefficients."""

from __future__ import annotations

import numpy as np

from steelyard.confidence.calibrators.contract import Method, Parameters, methods, sigmoid
from steelyard.confidence.calibrators.linear import problem, score
from steelyard.errors import InputError
from steelyard.ground.arrays import Floats


def fit(features: Floats, y: Floats) -> Parameters:
    """Coefficients and intercept that minimise Σ log-loss + ½‖w‖²; the intercept is not penalised."""
    if len(np.unique(y)) < 2:
        raise InputError("the training rows hold one class only: nothing separates right from wrong answers")
    from scipy.optimize import minimize

    design = np.column_stack([features, np.ones(len(y))])
    penalty = np.append(np.ones(features.shape[1]), 0.0)

    def loss(w: Floats) -> float:
        z = design @ w
        return float((np.logaddexp(0, z) - y * z).sum() + 0.5 * (penalty * w * w).sum())

    def gradient(w: Floats) -> Floats:
        return np.asarray(design.T @ (sigmoid(design @ w) - y) + penalty * w)

    def curvature(w: Floats) -> Floats:
        p = sigmoid(design @ w)
        return np.asarray((design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty))

    weights = minimize(
        loss, np.zeros(design.shape[1]), jac=gradient, hess=curvature, method="trust-exact", options={"gtol": 1e-8}
    ).x
    return {"coefficients": weights[:-1].tolist(), "intercept": float(weights[-1])}


def apply(parameters: Parameters, features: Floats) -> Floats:
    return sigmoid(score(parameters, features))


methods.add("logistic", Method(name="logistic", fit=fit, apply=apply, problem=problem, scaled=True, binary=True))
