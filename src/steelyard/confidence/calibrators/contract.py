"""What a calibration method is: a fit of some parameters, and how they turn features into a probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.registry import Registry

Parameters = Mapping[str, float | list[float]]


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method. `fit` sees rows × features and the target of each row; `apply` needs the parameters only.

    `problem` says why parameters from a file do not fit so many features, or nothing.

    `scaled`: features come standardised. `one_feature`: it takes one only. `binary`: the target is 0 or 1.
    `probability`: its feature is a probability already.
    """

    name: str
    fit: Callable[[Floats, Floats], Parameters]
    apply: Callable[[Parameters, Floats], Floats]
    problem: Callable[[Parameters, int], str]
    scaled: bool = False
    one_feature: bool = False
    binary: bool = False
    probability: bool = False


methods: Registry[Method] = Registry("calibration method")


def number_of(parameters: Parameters, name: str) -> float | None:
    """A parameter that is one number, None where it is not."""
    value = parameters.get(name)
    return float(value) if isinstance(value, int | float) else None


def list_of(parameters: Parameters, name: str) -> list[float] | None:
    """A parameter that is a list, None where it is not."""
    value = parameters.get(name)
    return value if isinstance(value, list) else None


def sigmoid(z: Floats) -> Floats:
    """1/(1 + exp(−z)) without overflow at either end."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + small), small / (1 + small))
