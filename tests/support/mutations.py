"""Documents with something wrong somewhere: a value of another type in any place, or a key that is gone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DEEP = "[" * 3_000 + "]" * 3_000  # as JSON

_odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["", "\ud800", "\x00", "{{x}}", "I don't know", "1e999", float("nan"), float("inf"), -1, 2**80]),
    st.sampled_from([[], {}, [[]], [None], [{}], {"": None}, {"a.b": {"a": 1}}, {"id": [1]}, {"id": "\ud800"}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """A document with one to three places changed."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        everywhere = list(places(changed))
        if not everywhere:
            break
        *path, key = draw(st.sampled_from(everywhere))
        holder = changed
        for part in path:
            holder = holder[part]
        if draw(st.booleans()):
            holder[key] = copy.deepcopy(draw(_odd))
        else:
            del holder[key]
    return changed
