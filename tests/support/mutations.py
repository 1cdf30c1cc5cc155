"""Documents in which something is not as it should be."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_deeper = st.sampled_from((True, True, True, False))


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with one of its parts replaced by anything."""
    if isinstance(value, dict) and value and data.draw(_deeper):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: mutated(value[key], data)}
    if isinstance(value, list) and value and data.draw(_deeper):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], mutated(value[place], data), *value[place + 1 :]]
    return data.draw(anything)
