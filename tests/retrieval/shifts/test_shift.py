"""Shifts: what each kind does, which are refused, and learning one against loops over queries and documents."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.retrieval import train_shift
from steelyard.retrieval.shifts.named import named_shift
from steelyard.retrieval.shifts.shift import Additive, NoShift, applied, shift_of
from steelyard.runs.layout import Scope
from tests.support.search import naive_training, problems

options = st.fixed_dictionaries(
    {
        "hard_negatives": st.sampled_from([0, 1, 2, 3, 7, 100]),
        "max_norm": st.sampled_from([None, 0, 0.25, 1.5]),
        "epsilon": st.sampled_from([0.0, 1e-3, 0.7]),
    }
)


@given(problems(), options, st.sampled_from([np.float64, np.float32, np.int64]))
def test_learning_against_loops(problem: dict[str, Any], chosen: dict[str, Any], kind: Any) -> None:
    wanted = naive_training(**problem, **chosen)
    queries, docs = np.array(problem["queries"], kind), np.array(problem["docs"], kind)
    found = train_shift(queries, docs, problem["gold"], **chosen)
    assert found.delta.tolist() == pytest.approx(wanted["delta"], abs=1e-12)
    assert found.norm == pytest.approx(wanted["norm"], abs=1e-12)
    stats = found.stats
    assert (stats.pairs, stats.unique_pairs, stats.zero_directions) == (
        wanted["pairs"],
        wanted["unique"],
        wanted["zero"],
    )
    assert stats.norm_before_clip == pytest.approx(wanted["before"], abs=1e-12)
    if wanted["before"] != pytest.approx(chosen["max_norm"] or -1, abs=1e-12):
        assert stats.clipped is wanted["clipped"]
    found_lengths = (stats.direction_norm_min, stats.direction_norm_mean, stats.direction_norm_max)
    assert found_lengths == pytest.approx(wanted["lengths"], abs=1e-12)
    assert stats.cancel_out_suspected is wanted["suspected"]
    assert found.cancelled is (found.norm < chosen["epsilon"])
    assert (found.cancel_reason is None) is not found.cancelled
    assert isinstance(found.shift, NoShift if found.cancelled else Additive)
    assert stats["pairs"] == stats.pairs


def test_what_went_in_is_left_as_it_was() -> None:
    rng = np.random.default_rng(0)
    queries, docs, gold = rng.normal(size=(9, 4)), rng.normal(size=(5, 4)), rng.integers(0, 5, 9)
    kept = queries.copy(), docs.copy(), gold.copy()
    found = train_shift(queries, docs, gold)
    applied(found.shift, queries)
    assert all((a == b).all() for a, b in zip(kept, (queries, docs, gold), strict=True))


def test_the_order_of_queries_is_irrelevant() -> None:
    rng = np.random.default_rng(1)
    queries, docs, gold = rng.normal(size=(300, 16)), rng.normal(size=(40, 16)), rng.integers(0, 40, 300)
    order = rng.permutation(300)
    one = train_shift(queries, docs, gold, hard_negatives=3)
    two = train_shift(queries[order], docs, gold[order], hard_negatives=3)
    assert two.delta == pytest.approx(one.delta, abs=1e-13)
    assert two.stats.pairs == one.stats.pairs
    assert two.stats.unique_pairs == one.stats.unique_pairs


@pytest.mark.parametrize("copies", [1, 3, 50])
@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_copies_of_the_right_document_use_no_budget(copies: int, wanted: int) -> None:
    docs = [[1.0, 0.0]] * (copies + 1) + [[1.0, float(i)] for i in range(1, 5)]
    found = train_shift([[1.0, 0.0]], docs, [copies], hard_negatives=wanted, max_norm=None)
    assert found.stats.zero_directions == copies
    assert found.stats.pairs == min(wanted, 4)
    steps = range(1, min(wanted, 4) + 1)
    assert found.delta.tolist() == pytest.approx([0.0, -sum(steps) / len(steps)])


def test_the_border_of_a_zero_direction() -> None:
    for step, zero in ((1e-9, 1), (1.0001e-9, 0), (-1e-9, 1), (-2e-9, 0)):
        docs = [[0.0, step], [0.0, 0.0], [-1.0, 0.0]]  # 1e-9 squared is 1e-18 as a double
        found = train_shift([[1.0, 0.0]], docs, [1])
        assert (1e-9) ** 2 <= 1e-18
        assert found.stats.zero_directions == zero, step


def test_a_shift_as_long_as_epsilon_is_kept() -> None:
    docs = [[0.0, 0.5], [0.25, 0.5]]  # the first is nearer, the second is right: delta is (0.25, 0)
    given_ = ([[-1.0, 0.0]], docs, [1])
    assert train_shift(*given_, epsilon=0.25).cancelled is False
    short = train_shift(*given_, epsilon=0.26)
    assert short.cancelled
    assert short.cancel_reason == "Delta norm 0.250000 below epsilon 0.260000"
    assert short.delta.tolist() == [0.25, 0.0]
    clipped = train_shift(*given_, epsilon=0.2, max_norm=0.1)
    assert clipped.cancelled  # the length after clipping decides
    assert clipped.stats.clipped
    assert train_shift(*given_, max_norm=0.25).stats.clipped is False


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1e-9])
def test_epsilon_is_a_number_from_0(epsilon: float) -> None:
    with pytest.raises(UsageError):
        train_shift([[1.0]], [[1.0]], [0], epsilon=epsilon)


@pytest.mark.parametrize("gold", [[2], [-2], [0, 0], [0.0], ["d"]])
def test_gold_that_is_no_document(gold: list[Any]) -> None:
    with pytest.raises(InputError):
        train_shift([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], gold)


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_kinds() -> None:
    queries = np.array([[1.0, 2.0], [0.0, -1.0]])
    assert applied(shift_of("none"), queries) is queries
    assert applied(shift_of("additive", [1, -1], scale=0.5), queries).tolist() == [[1.5, 1.5], [0.5, -1.5]]
    assert applied(shift_of("additive", [1, -1], scale=0), queries).tolist() == queries.tolist()
    assert applied(shift_of("multiplicative", [2, 0]), queries).tolist() == [[2.0, 0.0], [0.0, 0.0]]
    single = applied(shift_of("additive", [0.1, 0.1]), queries.astype(np.float32))
    assert single.dtype == np.float32
    assert single.tolist() == (queries.astype(np.float32) + np.float32(0.1)).tolist()


def test_whole_numbers_are_shifted_by_fractions() -> None:
    """A shift is not rounded to the type of the queries."""
    assert applied(shift_of("additive", [0.5, -0.25]), np.array([[1, 2]])).tolist() == [[1.5, 1.75]]
    assert applied(shift_of("multiplicative", [0.5, 0.25]), np.array([[1, 2]])).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("kind", "vector", "scale"),
    [
        ("none", [1.0], 1.0),
        ("multiplicative", [1.0], 2.0),
        ("rotation", [1.0], 1.0),
        ("additive", None, 1.0),
        ("additive", [], 1.0),
        ("additive", [math.nan], 1.0),
        ("multiplicative", [math.inf], 1.0),
        ("additive", [[1.0]], 1.0),
        ("additive", [1.0], math.nan),
        ("additive", [1.0], math.inf),
    ],
)
def test_shifts_that_are_refused(kind: str, vector: Any, scale: float) -> None:
    with pytest.raises((UsageError, InputError)):
        shift_of(kind, vector, scale=scale)


def test_another_dimension_is_refused() -> None:
    for kind in ("additive", "multiplicative"):
        with pytest.raises(InputError, match="2 dimensions and the queries 3"):
            applied(shift_of(kind, [1.0, 1.0]), np.zeros((1, 3)))


# -- which shift is meant ----------------------------------------------------------------------------------------------


def test_names_and_files(tmp_path: Path) -> None:
    queries = np.array([[1.0, 1.0]])
    np.save(tmp_path / "delta.npy", np.array([0.5, 0.0]))
    np.savez(tmp_path / "delta.npz", anything=np.array([[0.5, 0.0]]))
    (tmp_path / "shift.json").write_text(json.dumps({"KIND": "additive", "Vector": [0.5, 0], "sCALE": 2, "note": "x"}))
    (tmp_path / "bare.json").write_text(json.dumps({"vector": [0.5, 0]}))
    (tmp_path / "times.json").write_text(json.dumps({"kind": "multiplicative", "vector": [0.5, 0]}))
    for text, scale, wanted in (
        ("none", None, [1.0, 1.0]),
        (f"{tmp_path}/delta.npy", None, [1.5, 1.0]),
        (f"{tmp_path}/delta.npz", -1.0, [0.5, 1.0]),
        (f"additive:{tmp_path}/delta.npy", None, [1.5, 1.0]),
        (f"multiplicative:{tmp_path}/delta.npy", None, [0.5, 0.0]),
        (f"{tmp_path}/shift.json", None, [2.0, 1.0]),
        (f"{tmp_path}/shift.json", 0.5, [1.25, 1.0]),
        (f"{tmp_path}/shift.json", 0.0, [1.0, 1.0]),
        (f"{tmp_path}/bare.json", None, [1.5, 1.0]),
        (f"{tmp_path}/times.json", None, [0.5, 0.0]),
    ):
        found = named_shift(text, scale=scale)
        assert applied(found.shift, queries).tolist() == [wanted], text
        assert found.notes == ()
        assert found.training is None


def test_a_kind_before_a_json_file_is_meant(tmp_path: Path) -> None:
    """`multiplicative:shift.json` must not be added: it is multiplied, or refused."""
    (tmp_path / "bare.json").write_text(json.dumps({"vector": [0.5, 0]}))
    (tmp_path / "plus.json").write_text(json.dumps({"kind": "additive", "vector": [0.5, 0]}))
    for name in ("bare.json", "plus.json"):
        try:
            found = named_shift(f"multiplicative:{tmp_path / name}")
        except (UsageError, InputError):
            continue
        assert found.shift.kind == "multiplicative", name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"vector": []}',
        b'{"vector": [NaN]}',
        b'{"vector": [1e999]}',
        b'{"vector": ["1"]}',
        b'{"vector": [1], "Vector": [2]}',
        b'{"vector": [1], "vector": [2]}',
        b'{"vector": [1], "kind": "none"}',
        b'{"vector": [1], "kind": "rotation"}',
        b'{"vector": [1], "scale": "2"}',
        b'{"vector": [1], "scale": 1e999}',
        b'{"vector": [' + b"9" * 400 + b"]}",
        b'{"DeltaVector": null, "WorkflowName": "w", "CreatedUtc": "", "DeltaNorm": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_shift_files_that_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_bytes(content)
    with pytest.raises((InputError, UsageError)):
        named_shift(str(tmp_path / "shift.json"))


REFUSED = ("nan.npy", "text.npy", "objects.npy", "two.npz", "broken.npy", "broken.npz", "damaged.npz", "missing.npy")


@pytest.mark.parametrize("name", REFUSED)
def test_numpy_files_that_are_refused(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "nan.npy", np.array([np.nan]))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    np.savez_compressed(tmp_path / "whole.npz", a=np.arange(100.0))
    whole = bytearray((tmp_path / "whole.npz").read_bytes())
    whole[80:120] = bytes(40)
    (tmp_path / "damaged.npz").write_bytes(whole)
    with pytest.raises(InputError):
        named_shift(str(tmp_path / name))


@pytest.mark.parametrize("text", ["", " ", "nothing", "../up", "best", "additive:", "multiplicative:"])
def test_names_that_mean_nothing(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        named_shift(text, scope=Scope(tmp_path))
    with pytest.raises(UsageError):
        named_shift(text)
