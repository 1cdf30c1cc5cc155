"""No signature of the public surface says `Any`, apart from a few where that is the truth."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import steelyard

OPEN = {
    "BenchmarkReport.to_dict": "a document of JSON",
    "Comparison.to_dict": "a document of JSON",
    "Estimate.to_dict": "a document of JSON",
    "Evaluation.to_dict": "a document of JSON",
    "Records.to_dict": "a document of JSON",
    "Selection.to_dict": "a document of JSON",
    "Records.array": "an array whose type follows from the column that is asked for by name",
    "Records.split": "values of slices are whatever their columns hold",
    "across": "the function that it decorates has options of its own",
    "compose": "the function that it decorates has options of its own",
    "evidence": "the function that it decorates has options of its own",
    "metric": "the function that it decorates has options of its own",
    "over": "the function that it decorates has options of its own",
    "row_score": "arrays, constants and labels of rows, as NumPy and Arrow have them",
    "sums": "arrays, constants and labels of rows, as NumPy and Arrow have them",
}
_ANY = re.compile(r"\b(Any|Json)\b")


def _named() -> Iterator[tuple[str, object]]:
    for name in steelyard.__all__:
        yield name, getattr(steelyard, name)
    for room in steelyard._ROOMS:
        module = import_module(f"steelyard.{room}")
        for name in module.__all__:
            yield f"{room}.{name}", getattr(module, name)


def _functions(name: str, known: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The function itself; of a class, its public methods and properties, inherited ones of ours too."""
    if inspect.isfunction(known):
        yield name, known
    if not inspect.isclass(known):
        return
    for member in dir(known):
        found = inspect.getattr_static(known, member)
        function = (
            found.fget
            if isinstance(found, property)
            else found.func
            if isinstance(found, functools.cached_property)
            else getattr(found, "__func__", found)
        )
        if not member.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{member}", function


SURFACE = {
    name: function
    for public, known in _named()
    for name, function in _functions(public, known)
    if function.__module__.startswith("steelyard")
}


def _is_open(function: Callable[..., Any]) -> bool:
    given = inspect.signature(function).parameters.values()
    untyped = [each for each in given if each.annotation is each.empty and each.name not in ("self", "cls")]
    return bool(untyped) or any(_ANY.search(str(each)) for each in function.__annotations__.values())


def test_what_is_public_says_what_it_takes_and_gives() -> None:
    assert {"evaluate", "Records.take", "runs.metrics", "Evaluation.save"} <= set(SURFACE)
    assert {name for name, function in SURFACE.items() if _is_open(function)} == set(OPEN)
