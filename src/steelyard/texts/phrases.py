"""Finding phrases among tokens: one pass, whole tokens, the longest phrase that begins at a token.

The phrases are a trie of tokens. Few tokens of a text begin a phrase, and phrases are short, so a plain walk from each
such token takes a few microseconds for a note; an automaton with failure links would save next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_END = ""  # no token is empty


class Phrases(Generic[T]):
    """Phrases of tokens, each with what it stands for."""

    def __init__(self, phrases: Iterable[tuple[Sequence[str], T]] = ()) -> None:
        self._root: dict[str, Any] = {}
        for phrase, meaning in phrases:
            self.add(phrase, meaning)

    def add(self, phrase: Sequence[str], meaning: T) -> None:
        """Add a phrase, or say what a known one stands for from now on."""
        node = self._root
        for token in phrase:
            node = node.setdefault(token, {})
        node[_END] = meaning

    def get(self, phrase: Sequence[str]) -> T | None:
        """What exactly this phrase stands for."""
        node: Any = self._root
        for token in phrase:
            node = node.get(token)
            if node is None:
                return None
        meaning: T | None = node.get(_END)
        return meaning

    def find(self, tokens: Sequence[str]) -> list[tuple[int, int, T]]:
        """Every phrase in its place: where it begins, where it ends, what it stands for. They do not overlap."""
        root, size = self._root, len(tokens)
        phrases: list[tuple[int, int, T]] = []
        after = 0
        for start in [i for i, token in enumerate(tokens) if token in root]:
            if start < after:
                continue
            node, end = root[tokens[start]], start + 1
            longest = None
            while True:
                if _END in node:
                    longest = (start, end, node[_END])
                if end == size or tokens[end] not in node:
                    break
                node = node[tokens[end]]
                end += 1
            if longest is not None:
                phrases.append(longest)
                after = longest[1]
        return phrases
