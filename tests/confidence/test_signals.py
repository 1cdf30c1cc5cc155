"""Confidence variants: what they need, where they look, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.confidence import signals
from steelyard.confidence.repeats import consistency
from steelyard.confidence.tokens import token_energy, token_msp, token_pe
from steelyard.errors import InputError, UsageError
from steelyard.records.table import Records

GOOD = {
    "llm_evidence_count": 2,
    "retrieval_similarity_mean": 0.4,
    "retrieval_similarity_max": 0.6,
    "verbalized_confidence": 4,
    "token_msp": 0.7,
    "token_pe": 0.5,
    "token_energy": -0.1,
    "consistency_modal_confidence": 0.6,
    "consistency_score_std": 0.4,
}


def table(rows: list[dict[str, Any]], predictions: list[Any] | None = None) -> Records:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {f"signal.{name}": [row.get(name) for row in rows] for name in names}
    size = len(rows)
    said = predictions or [1] * size
    return Records.from_columns(
        {"item": [f"q{i}" for i in range(size)], "cluster": list(range(300, 300 + size)), "target": [1] * size}
        | {"prediction": said}
        | columns
    )


@pytest.mark.parametrize("name", list(signals.variants))
def test_a_row_without_an_answer_needs_no_signal(name: str) -> None:
    records = table([GOOD, {}], [1, None])
    found = signals.uncalibrated(records, name)
    assert np.isfinite(found[0])
    assert np.isnan(found[1])


@pytest.mark.parametrize("name", list(signals.variants))
def test_a_missing_column_names_the_variant_and_what_else_there_is(name: str) -> None:
    needs = signals.variants[name].needs
    rest = {k: v for k, v in GOOD.items() if k not in needs}
    with pytest.raises(InputError, match=f"{name} needs the signal {', '.join(needs)}.*choose among"):
        signals.uncalibrated(table([rest]), name)


@pytest.mark.parametrize("name", list(signals.variants))
def test_a_null_where_an_answer_needs_it_names_row_key_and_variant_but_nobody(name: str) -> None:
    for need in signals.variants[name].needs:
        records = table([GOOD, {**GOOD, need: None}])
        if need in signals.variants[name].nullable:
            assert np.isfinite(signals.uncalibrated(records, name)).all()
            continue
        with pytest.raises(InputError) as caught:
            signals.uncalibrated(records, name)
        message = str(caught.value)
        for part in ("row 2", f"signal.{need}", name):
            assert part in message
        assert "301" not in message
        assert "q1" not in message


@pytest.mark.parametrize(
    ("name", "signal", "value"),
    [
        ("verbalized", "verbalized_confidence", 0),
        ("verbalized", "verbalized_confidence", 6),
        ("verbalized", "verbalized_confidence", 2.5),
        ("hybrid_verbalized", "verbalized_confidence", 0.75),
        ("token_pe", "token_pe", -0.5),
        ("consistency_inverse_std", "consistency_score_std", -1e-9),
        ("token_energy", "token_energy", 1e6),
    ],
)
def test_a_value_off_its_scale_is_refused_without_being_shown(name: str, signal: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        signals.uncalibrated(table([GOOD, {**GOOD, signal: value}]), name)
    assert "row 2" in str(caught.value)
    assert "expected" in str(caught.value)
    assert f"{value:g}" not in str(caught.value)
    assert "301" not in str(caught.value)


@pytest.mark.parametrize("signal", ["token_msp", "verbalized_confidence", "llm_evidence_count"])
@pytest.mark.parametrize("values", [[True, True], ["4", "5"]])
def test_signals_are_numbers(signal: str, values: list[Any]) -> None:
    records = table([{**GOOD, signal: v} for v in values])
    name = {"token_msp": "token_msp", "verbalized_confidence": "verbalized", "llm_evidence_count": "llm"}[signal]
    with pytest.raises(InputError, match="needs numbers"):
        signals.uncalibrated(records, name)


def test_combinations_and_columns_by_name() -> None:
    records = table([GOOD]).with_columns({"confidence": pa.array([0.25])})
    assert signals.uncalibrated(records, "confidence")[0] == 0.25
    assert signals.uncalibrated(records, "signal.token_pe")[0] == 0.5
    assert signals.uncalibrated(records, "secondary:token_msp+consistency:product")[0] == pytest.approx(0.42)
    for text in ("secondary:token_msp", "secondary:token_msp+consistency:min", "secondary:+llm:average", "secondary::"):
        with pytest.raises(UsageError, match="secondary:"):
            signals.uncalibrated(records, text)
    with pytest.raises(UsageError, match="did you mean 'token_msp'"):
        signals.uncalibrated(records, "secondary:token_mps+llm:average")
    with pytest.raises(UsageError, match="unknown confidence variant 'tokens'"):
        signals.uncalibrated(records, "tokens")


@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=12))
def test_consistency_by_counting(samples: list[int | None]) -> None:
    found = consistency(samples)
    counts = {s: samples.count(s) for s in samples}
    most = max(counts.values())
    ties = [s for s, n in counts.items() if n == most]
    assert found.modal_score == (None if None in ties else min(s for s in ties if s is not None))
    assert found.modal_count == most
    assert found.modal_confidence == most / len(samples)
    scores = [s for s in samples if s is not None]
    assert found.na_rate == (len(samples) - len(scores)) / len(samples)
    spread = (sum((s - sum(scores) / len(scores)) ** 2 for s in scores) / len(scores)) ** 0.5 if scores else 0.0
    assert found.score_std == pytest.approx(spread, abs=1e-12)


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12))
def test_consistency_of_labels_is_that_of_numbers_but_for_the_spread(samples: list[str | None]) -> None:
    number = {None: None, "a": 1, "b": 2, "c": 3}
    found, expected = consistency(samples).signals(), consistency([number[s] for s in samples]).signals()
    if any(samples):
        assert found.pop("consistency_score_std") is None
        expected.pop("consistency_score_std")
    assert {**found, "consistency_modal_score": number[found["consistency_modal_score"]]} == expected


def test_consistency_has_the_names_that_variants_need() -> None:
    found = consistency([2, 2, None, 1]).signals()
    assert found["consistency_modal_confidence"] == 0.5
    assert found.keys() == {
        f"consistency_{name}" for name in ("modal_score", "modal_count", "modal_confidence", "score_std", "na_rate")
    }
    needed = {need for variant in signals.variants.values() for need in variant.needs if need.startswith("consistency")}
    assert needed <= found.keys()


@pytest.mark.parametrize("samples", [[], [True], ["1", 1], [float("nan")], ["a", 2.0, None]])
def test_consistency_of_what_is_no_sample(samples: list[Any]) -> None:
    with pytest.raises(InputError, match="sample"):
        consistency(samples)


@given(st.lists(st.lists(st.floats(-30, 0), min_size=1, max_size=6), min_size=1, max_size=5))
def test_token_signals_stay_on_their_scales(tops: list[list[float]]) -> None:
    tokens = [{"logprob": top[0], "top_logprobs": [{"logprob": x} for x in top]} for top in tops]
    assert 0 < token_msp(tokens) <= 1
    assert 0 <= token_pe(tokens) <= np.log(6) + 1e-12
    naive = np.mean([np.log(sum(np.exp(x) for x in top)) for top in tops])
    assert token_energy(tokens) == pytest.approx(naive, abs=1e-12)


@pytest.mark.parametrize("tokens", [[], [{}], [{"logprob": None}], [{"logprob": "x"}], [{"logprob": float("nan")}]])
def test_tokens_without_logprobs_are_refused(tokens: list[Any]) -> None:
    for signal in (token_msp, token_pe, token_energy):
        with pytest.raises(InputError, match="logprobs"):
            signal(tokens)
