"""What an embedder is: something that turns texts into vectors, one per text.

A new one is a file that ends with

    embedders.add("mine", factory)

where `factory(argument, *, …)` gets what stands behind the colon of `mine:argument` ("" for nothing) and names the
settings that it takes as keyword-only parameters. Whatever it returns goes through `Checked`, so a NaN, a zero vector
or a missing row is an error with its array and row, wherever the vectors came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.registry import Registry
from steelyard.texts.vectors import Matrix, checked

Progress = Callable[[float], None]  # told which share is done


class Embedder(Protocol):
    """Turns texts into vectors. `provider` and `model` say where they come from; two of the same are comparable."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        """One row per text. `what` the texts are ("documents") and their ids are for errors, or to look vectors up."""
        ...


Factory = Callable[..., Embedder]

embedders: Registry[Factory] = Registry("embedder")


def embedder(spec: str, **settings: Any) -> Embedder:
    """The embedder that `name` or `name:argument` says, with its settings; one that is None counts as not given.

    >>> embedder("hash:64").model
    'words-64'
    """
    name, _, argument = spec.partition(":")
    factory = embedders[name]
    parameters = inspect.signature(factory).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    given = {setting: value for setting, value in settings.items() if value is not None}
    for setting in given:
        if setting not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no settings"
            raise UsageError(f"the embedder '{printable(name)}' has no setting '{printable(setting)}'; {takes}")
    return Checked(factory(argument, **given))


class Checked:
    """An embedder whose texts and vectors are as they must be, or an error."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def cached(self) -> int:
        """How many vectors came from a cache so far."""
        return int(getattr(self.inner, "cached", 0))

    @property
    def damaged(self) -> int:
        """How many records of the cache could not be used when it was last read."""
        return int(getattr(self.inner, "damaged", 0))

    def __repr__(self) -> str:
        return f"<embedder {self.provider} {self.model}>"

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        if not texts or len(ids) != len(texts):
            raise UsageError(f"cannot embed {what}: at least one text is expected, and one id for each")
        for id, text in zip(ids, texts, strict=True):
            if not text.strip():
                raise empty(what, id)
        vectors = checked(self.inner.embed(ids, texts, what=what, progress=progress), f"the vectors of {what}")
        if len(vectors) != len(texts):
            raise InputError(
                f"the vectors of {what}: {counted(len(vectors), 'row')} came back for {counted(len(texts), 'text')}"
            )
        return vectors


def empty(what: str, id: str) -> InputError:
    """A text in which there is nothing to embed."""
    return InputError(f"{what}: the text of '{printable(id)}' has no words, so it has no vector; leave it out")
