"""Expressions of metrics as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from steelyard.naming import Expr

labels = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
words = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda w: w not in ("true", "false"))
values = st.recursive(
    st.one_of(
        st.integers(-(10**12), 10**12),
        st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()),
        st.booleans(),
        st.builds(Expr, head=words),
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)
expressions = st.builds(
    Expr,
    head=words,
    cutoff=st.none() | st.integers(0, 1000),
    args=st.lists(st.tuples(words, values), max_size=3, unique_by=lambda pair: pair[0]).map(tuple),
    labels=st.lists(labels, max_size=2).map(tuple),
    slice=st.lists(st.tuples(words, labels), max_size=2, unique_by=lambda pair: pair[0]).map(tuple),
)
