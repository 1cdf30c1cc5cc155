"""One typing error in a long word: a letter left out, doubled, wrong, or two of them swapped.

A word of at least seven letters that no lexicon and no list of plain words knows is read as the one known word that is
one edit away; of several, the one that is a name by itself. Where these name two things
(hypetension), or the first letter differs, it stays what it is. So it does where a wrong letter sounds different: a
slip of the pen keeps the sound (omeprezole), another word does not (cefixime is no cefepime, dysphasia no dysphagia).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

SHORTEST = 7
_ALIKE = ("aeiouy", "cksxz", "mn", "dt", "fvp", "bp", "gj", "lr")  # letters that are written for one another
_MOST_KEPT = 200_000


class Misspellings:
    """What unknown words may mean, from the known ones."""

    def __init__(
        self, known: Iterable[str], plain: frozenset[str] = frozenset(), names: Mapping[str, str] | None = None
    ) -> None:
        self._names = names or {}
        self._known = frozenset(word for word in known if word.isalpha())
        self._plain = plain
        self._near: dict[str, list[str]] = {}
        for word in sorted(self._known):
            if len(word) >= SHORTEST:
                for form in {word, *_deletions(word)}:
                    self._near.setdefault(form, []).append(word)
        self._kept: dict[str, str | None] = {}

    def meant(self, word: str) -> str | None:
        """The known word that this one misspells; None where it is known itself, or nothing is near."""
        if word not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[word] = self._looked_up(word)
        return self._kept[word]

    def _looked_up(self, word: str) -> str | None:
        if len(word) < SHORTEST or not word.isalpha() or word in self._known or word in self._plain:
            return None
        if any(stem in self._plain or stem in self._known for stem in _stems(word)):
            return None
        near = {known for form in (word, *_deletions(word)) for known in self._near.get(form, ())}
        close = [known for known in near if known[0] == word[0] and one_edit(word, known)]
        if len(close) <= 1:
            return close[0] if close else None
        names = sorted(known for known in close if known in self._names)
        return names[0] if len({self._names[name] for name in names}) == 1 else None


def one_edit(a: str, b: str) -> bool:
    """True if one letter was left out, added, replaced by one that sounds alike, or swapped with its neighbour.

    >>> one_edit("pnuemonia", "pneumonia"), one_edit("hypotension", "hypertension"), one_edit("cefixime", "cefepime")
    (True, False, False)
    """
    if len(a) > len(b):
        a, b = b, a
    if len(b) - len(a) > 1 or a == b:
        return False
    i = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if len(a) < len(b):
        return a[i:] == b[i + 1 :]
    if a[i + 1 :] == b[i + 1 :]:
        return any(a[i] in letters and b[i] in letters for letters in _ALIKE)
    return a[i : i + 2] == b[i : i + 2][::-1] and a[i + 2 :] == b[i + 2 :]


def _deletions(word: str) -> Iterator[str]:
    return (word[:i] + word[i + 1 :] for i in range(1, len(word)))


def _stems(word: str) -> Iterator[str]:
    """What is left of a word without a usual ending: an inflected plain word is no misspelling."""
    for ending, instead in (("s", ""), ("es", ""), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"), ("ly", "")):
        if word.endswith(ending):
            yield word[: -len(ending)] + instead
