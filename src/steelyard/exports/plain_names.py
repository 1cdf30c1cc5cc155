"""Names of metrics as tools accept them that know letters, digits, `_`, `-` and `.` only.

    ece(bins=15)                     ece-bins-15
    accuracy{group.site=x}           accuracy-group.site-x
    ndcg@10                          ndcg-10
    f1."very bad"                    f1.very-bad-5c1f7ab2

A name is a function of the key alone, so that it is the same in every run. Where it would not be, or would not be the
only one of that spelling, it ends in eight digits of the key's SHA-256: quoted labels, letters beyond ASCII, very long
keys, and any two keys that would share a name, or a name with an ending, whatever the case.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

_LONGEST = 200  # characters of a name without its ending
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")
_LOST = re.compile(r"[^A-Za-z0-9_.\-(){}\[\]=@:, ]")  # what carries meaning and has no place in a name


def plain_names(keys: Sequence[str], endings: Sequence[str] = ()) -> dict[str, str]:
    """A name for each key; no two share one, nor does one with an ending (`.low`) look like another.

    >>> plain_names(["ece(bins=15)", "accuracy{group.site=x}"])
    {'ece(bins=15)': 'ece-bins-15', 'accuracy{group.site=x}': 'accuracy-group.site-x'}
    """
    names = {key: _name(key) for key in dict.fromkeys(keys)}
    spelt = Counter(form for name in names.values() for form in _forms(name, endings))
    return {
        key: _marked(name, key) if any(spelt[form] > 1 for form in _forms(name, endings)) else name
        for key, name in names.items()
    }


def _forms(name: str, endings: Sequence[str]) -> list[str]:
    return [f"{name}{ending}".casefold() for ending in ("", *endings)]


def _name(key: str) -> str:
    words = _OTHER.sub("-", key).replace(".-", ".").replace("-.", ".").strip("-.") or "metric"
    whole = len(words) <= _LONGEST and not _LOST.search(key) and words[0].isalpha()
    return words if whole else _marked(words, key)


def _marked(name: str, key: str) -> str:
    digits = hashlib.sha256(key.encode()).hexdigest()[:8]
    return name if name.endswith(f"-{digits}") else f"{name[:_LONGEST].strip('-.')}-{digits}"
