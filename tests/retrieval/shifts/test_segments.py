"""For which queries a shift is applied: rules against loops, honesty of the learned one, and what decisions come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.records.table import Source
from steelyard.retrieval.per_query import PerQuery, PerQueryEval, ap1, ndcg3
from steelyard.retrieval.shifts.segments import compared, propose
from steelyard.retrieval.shifts.segments_wire import Segments
from steelyard.uncertainty.folds import held_out_folds


def entry(id: str, rank: int, gap: float | None = 0.1, cluster: str | None = None, doc: str = "d") -> PerQueryEval:
    """A query whose first two documents are `gap` apart; None: there is one document only."""
    second = {} if gap is None else {"top2_doc_id": "u", "top2_score": 1.0 - gap}
    return PerQueryEval(
        query_id=id,
        relevant_doc_id=doc,
        rank=rank,
        ap1=ap1(rank),
        ndcg3=ndcg3(rank),
        top_doc_id="t",
        top_score=1.0,
        cluster=cluster,
        **second,
    )


def file(entries: Sequence[PerQueryEval], name: str = "file.json") -> PerQuery:
    found = PerQuery(entries)
    found.source = Source(name, f"{len(found):064d}", len(found))
    return found


def naive_value(rank: int, metric: str) -> float:
    if metric == "map@1":
        return 1 / rank if rank else 0.0
    return {1: 1.0, 2: 1 / math.log2(3), 3: 0.5}.get(rank, 0.0)


def exact(rank: int, metric: str) -> tuple[Fraction, Fraction]:
    """A value without rounding: a fraction, and how often 1/log2(3), which no fraction is."""
    if metric == "map@1":
        return Fraction(1, rank) if rank else Fraction(0), Fraction(0)
    return {1: Fraction(1), 3: Fraction(1, 2)}.get(rank, Fraction(0)), Fraction(rank == 2)


def naive_threshold(rows: list[tuple[float, tuple[Fraction, Fraction]]]) -> float:
    """The tau under which applying gains most in all; the smallest such, 0 where nothing is gained. Sums are exact."""
    best, chosen = (Fraction(0), Fraction(0)), 0.0
    gaps = sorted({gap for gap, _ in rows})
    for place, gap in enumerate(gaps):
        if gap == math.inf:
            break
        total = tuple(sum((gain[k] for g, gain in rows if g <= gap), Fraction(0)) for k in (0, 1))
        lead = float(total[0] - best[0]) + float(total[1] - best[1]) / math.log2(3)
        if total != best and lead > 0:
            best = (total[0], total[1])
            after = gaps[place + 1] if place + 1 < len(gaps) else math.inf
            chosen = (gap + after) / 2 if after < math.inf else math.nextafter(gap, math.inf)
    return chosen


@st.composite
def files(draw: Any, *, clustered: bool | None = None) -> tuple[list[PerQueryEval], list[PerQueryEval]]:
    """Two sides of the same queries; gaps repeat, and some queries have one document only."""
    size = draw(st.integers(2, 14))
    ranks = st.integers(0, 6)
    gaps = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, None])
    with_clusters = draw(st.booleans()) if clustered is None else clustered
    base, new = [], []
    for i in range(size):
        cluster = draw(st.sampled_from(["a", "b", "c", "e"])) if with_clusters else None
        base.append(entry(f"q{i}", draw(ranks), draw(gaps), cluster))
        new.append(entry(f"Q{i}", draw(ranks), draw(gaps), cluster))
    if with_clusters:
        base[0] = msgspec.structs.replace(base[0], cluster="f")
        new[0] = msgspec.structs.replace(new[0], cluster="f")
    return base, new


def gap_of(one: PerQueryEval) -> float:
    if one.top2_score is None or one.top_score is None:
        return math.inf
    return one.top_score - one.top2_score


def applied_in(segments: Segments) -> list[bool]:
    return [decision == "ApplyShift" for decision in segments.decisions.values()]


metrics = st.sampled_from(["map@1", "ndcg@3"])


@given(files(), metrics, st.sampled_from([0.0, 0.1, -0.5, 0.5]))
def test_oracle_against_loops(sides: Any, metric: str, eps: float) -> None:
    base, new = sides
    found = propose(file(base), file(new), rule="oracle", metric=metric, eps=eps)
    gains = [naive_value(b.rank, metric) - naive_value(a.rank, metric) for a, b in zip(base, new, strict=True)]
    assert applied_in(found) == [gain > eps for gain in gains]
    assert list(found.decisions) == [one.query_id for one in base]
    assert (found.metric, found.eps, found.rule, found.tau, found.folds, found.seed) == (
        metric,
        eps,
        "oracle",
        None,
        None,
        None,
    )
    assert "upper bound" in (found.note or "")


@given(files(), st.sampled_from([0.0, 0.125, 0.2, 0.5, 2.0, -1.0]))
def test_gap_against_loops(sides: Any, tau: float) -> None:
    base, new = sides
    found = propose(file(base), file(new), rule="gap", tau=tau)
    assert applied_in(found) == [gap_of(one) < tau for one in base]
    assert found.tau == tau
    assert "judged on them" in (found.note or ""), "a tau that was chosen on these queries is labelled so"


@given(files(), metrics, st.integers(2, 6), st.integers(0, 50))
def test_learned_against_loops(sides: Any, metric: str, folds: int, seed: int) -> None:
    base, new = sides
    found = propose(file(base), file(new), rule="learned", metric=metric, folds=folds, seed=seed)
    assigned = held_out_folds([one.cluster or one.query_id for one in base], folds, seed)
    rows = []
    for a, b in zip(base, new, strict=True):
        before, after = exact(a.rank, metric), exact(b.rank, metric)
        rows.append((gap_of(a), (after[0] - before[0], after[1] - before[1])))
    for i, decision in enumerate(applied_in(found)):
        others = [row for row, fold in zip(rows, assigned, strict=True) if fold != assigned[i]]
        assert decision == (rows[i][0] < naive_threshold(others)), i
    assert found.tau == pytest.approx(naive_threshold(rows), abs=1e-12)
    assert (found.rule, found.folds, found.seed) == ("learned", folds, seed)


@given(files(), metrics, st.integers(2, 6), st.data())
def test_a_learned_decision_does_not_know_its_own_outcome(sides: Any, metric: str, folds: int, data: Any) -> None:
    """Whatever becomes of a query (and of those in its cluster) under the shift, its decision stays."""
    base, new = sides
    place = data.draw(st.integers(0, len(base) - 1))
    before = propose(file(base), file(new), rule="learned", metric=metric, folds=folds)
    own = base[place].cluster
    for i, one in enumerate(base):
        if i == place or (own is not None and one.cluster == own):
            a, b = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))
            base[i] = msgspec.structs.replace(one, rank=a, ap1=ap1(a), ndcg3=ndcg3(a))
            new[i] = msgspec.structs.replace(new[i], rank=b, ap1=ap1(b), ndcg3=ndcg3(b))
    after = propose(file(base), file(new), rule="learned", metric=metric, folds=folds)
    id = base[place].query_id
    assert before.decisions[id] == after.decisions[id]


@given(files(), metrics, st.randoms(use_true_random=False))
def test_decisions_do_not_depend_on_the_order_of_queries(sides: Any, metric: str, random: Any) -> None:
    base, new = sides
    found = propose(file(base), file(new), rule="learned", metric=metric)
    order = list(range(len(base)))
    random.shuffle(order)
    mixed = propose(file([base[i] for i in order]), file(list(reversed(new))), rule="learned", metric=metric)
    assert mixed.decisions == found.decisions
    assert mixed.tau == pytest.approx(found.tau, abs=1e-12)


def test_gains_that_add_up_to_nothing_apply_nothing() -> None:
    """½ lost and three times 1/6 won: the sum is 0, and rounding must not make a gain of it."""
    ranks = [(1, 2), (3, 2), (3, 2), (3, 2)]
    for order in ([0, 1, 2, 3], [1, 2, 3, 0], [1, 0, 2, 3]):
        base = [entry(f"q{i}", ranks[i][0], 0.5) for i in order]
        new = [entry(f"q{i}", ranks[i][1], 0.5) for i in order]
        assert propose(file(base), file(new), rule="learned", metric="map@1", folds=2).tau == 0, order


def test_rounding_does_not_let_the_order_of_queries_decide() -> None:
    ranks = [(6, 5), (4, 3), (2, 6), (1, 6), (4, 3), (1, 1), (5, 6), (6, 1)]
    gaps = [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5]
    found = []
    for order in ([3, 1, 0, 5, 4, 7, 2, 6], [7, 5, 3, 1, 4, 2, 0, 6]):
        base = [entry(f"q{i}", ranks[i][0], gaps[i]) for i in order]
        new = [entry(f"q{i}", ranks[i][1], gaps[i]) for i in order]
        found.append(propose(file(base), file(new), rule="learned", metric="map@1", folds=2).decisions)
    assert found[0] == found[1]


def test_a_cluster_without_a_name_is_a_cluster_too() -> None:
    """Queries of one patient never decide for each other, whatever the patient is called."""
    for name in ("p", ""):
        clusters = [name] * 6 + ["x"] * 6
        base = [entry(f"q{i}", 2, 0.1, cluster) for i, cluster in enumerate(clusters)]
        new = [entry(f"q{i}", 1 if cluster == name else 3, 0.1, cluster) for i, cluster in enumerate(clusters)]
        found = propose(file(base), file(new), rule="learned", folds=2)
        assert not any(applied_in(found)[:6]), "only the other cluster decides, and there the shift loses"


def test_a_useful_gap_is_learned() -> None:
    """The shift helps where the first two documents are close and harms where they are not."""
    rng = np.random.default_rng(0)
    base, new = [], []
    for i in range(80):
        close = bool(rng.random() < 0.5)
        gap = float(rng.uniform(0, 0.2) if close else rng.uniform(0.3, 0.9))
        base.append(entry(f"q{i}", 2 if close else 1, gap))
        new.append(entry(f"q{i}", 1 if close else 2, gap))
    found = propose(file(base), file(new), rule="learned")
    assert applied_in(found) == [one.rank == 2 for one in base]
    assert 0.2 < (found.tau or 0) < 0.3
    judged = compared(found, file(base), file(new), "s", resamples=300)
    assert judged.values["segmented"]["map@1"] == 1.0
    for title in ("segmented - baseline", "segmented - posneg"):
        assert all(d.verdict == "better" for d in judged.deltas[title])


# -- what decisions come to --------------------------------------------------------------------------------------------


@given(files(), st.data())
def test_compared_against_loops(sides: Any, data: Any) -> None:
    base, new = sides
    lost = data.draw(st.sets(st.integers(1, len(base) - 1), max_size=3)) if len(base) > 2 else set()
    extra = [entry("only-new", 1, 0.1, "g" if base[0].cluster else None)] if data.draw(st.booleans()) else []
    kept = [one for i, one in enumerate(new) if i not in lost]
    words = st.sampled_from(["ApplyShift", "SkipShift"])
    decisions = data.draw(st.dictionaries(st.sampled_from([f"q{i}" for i in range(16)]), words))
    segments = Segments(metric="ndcg@3", baseline_path="b", pos_neg_path="p", decisions=decisions)
    found = compared(segments, file(base), file([*extra, *reversed(kept)]), "s", resamples=100)
    pairs = [(one, new[i]) for i, one in enumerate(base) if i not in lost]
    yes = [decisions.get(one.query_id) == "ApplyShift" for one, _ in pairs]
    assert (found.used, found.apply, found.skip) == (len(pairs), sum(yes), len(pairs) - sum(yes))
    assert list(found.missing) == [base[i].query_id for i in sorted(lost)]
    assert list(found.extra) == [one.query_id for one in extra]
    assert found.undecided == sum(one.query_id not in decisions for one, _ in pairs)
    assert found.unknown == len(set(decisions) - {one.query_id for one, _ in pairs})
    for metric in ("map@1", "ndcg@3"):
        baseline = [naive_value(a.rank, metric) for a, _ in pairs]
        posneg = [naive_value(b.rank, metric) for _, b in pairs]
        segmented = [b if apply else a for a, b, apply in zip(baseline, posneg, yes, strict=True)]
        means = {"baseline": baseline, "posneg": posneg, "segmented": segmented}
        for side, each in means.items():
            assert found.values[side][metric] == pytest.approx(np.mean(each), abs=1e-12)
        for title, deltas in found.deltas.items():
            left, _, right = title.partition(" - ")
            (delta,) = (d for d in deltas if d.metric == metric)
            assert delta.delta == pytest.approx(np.mean(means[left]) - np.mean(means[right]), abs=1e-12)
    assert list(found.deltas) == ["posneg - baseline", "segmented - baseline", "segmented - posneg"]


@given(files(), metrics)
def test_the_oracle_is_an_upper_bound(sides: Any, metric: str) -> None:
    base, new = sides
    oracle = compared(propose(file(base), file(new), rule="oracle", metric=metric), file(base), file(new), "s")
    for rule, tau in (("gap", 0.3), ("learned", None)):
        decided = propose(file(base), file(new), rule=rule, metric=metric, tau=tau, folds=2)
        found = compared(decided, file(base), file(new), "s", resamples=100)
        assert found.values["segmented"][metric] <= oracle.values["segmented"][metric] + 1e-12
    best = max(oracle.values["baseline"][metric], oracle.values["posneg"][metric])
    assert oracle.values["segmented"][metric] >= best - 1e-12


def test_means_and_differences_agree_where_scores_are_rounded() -> None:
    """Files of other tools may round Ap1: the paired delta is still the difference of the means shown beside it."""
    base = [msgspec.structs.replace(entry(f"q{i}", 3), ap1=0.333) for i in range(8)]
    new = [entry(f"q{i}", 1) for i in range(8)]
    segments = Segments(metric="map@1", baseline_path="b", pos_neg_path="p", decisions={})
    found = compared(segments, file(base), file(new), "s", resamples=100)
    (delta,) = (d for d in found.deltas["posneg - baseline"] if d.metric == "map@1")
    shown = found.values["posneg"]["map@1"] - found.values["baseline"]["map@1"]
    assert delta.delta == pytest.approx(shown, abs=1e-9)


def test_files_that_changed_are_said() -> None:
    base, new = [entry("a", 1), entry("b", 2)], [entry("a", 2), entry("b", 1)]
    segments = propose(file(base, "b.json"), file(new, "n.json"), rule="oracle")
    same = compared(segments, file(base), file(new), "s", resamples=100)
    assert not any("changed" in note for note in same.notes)
    more = [*new, entry("c", 1)]
    changed = compared(segments, file(base), file(more, "n.json"), "s", resamples=100)
    assert any("n.json has changed" in note for note in changed.notes)
    assert changed.extra == ("c",)


# -- what is refused ---------------------------------------------------------------------------------------------------

TWO = [entry("a", 1), entry("b", 2)]


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "magic"},
        {"rule": "gap"},
        {"rule": "oracle", "tau": 0.1},
        {"rule": "learned", "tau": 0.1},
        {"rule": "gap", "tau": math.nan},
        {"rule": "gap", "tau": math.inf},
        {"rule": "oracle", "eps": math.nan},
        {"rule": "oracle", "metric": "mrr"},
        {"rule": "learned", "folds": 1},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        propose(file(TWO), file(TWO), **options)


def test_wrong_files() -> None:
    with pytest.raises(InputError, match="no query stands in both"):
        propose(file(TWO), file([entry("c", 1)]), rule="oracle")
    with pytest.raises(InputError, match="another relevant document"):
        propose(file(TWO), file([entry("a", 1, doc="e"), entry("b", 1)]), rule="oracle")
    with pytest.raises(InputError, match="at least 2"):
        propose(file(TWO[:1]), file(TWO[:1]), rule="learned")
    scoreless = [msgspec.structs.replace(one, top_score=None) for one in TWO]
    with pytest.raises(InputError, match="TopScore"):
        propose(file(scoreless), file(TWO), rule="gap", tau=0.1)
    assert applied_in(propose(file(scoreless), file(TWO), rule="oracle")) == [False, False]
    halved = [msgspec.structs.replace(one, top2_score=None) for one in TWO]
    with pytest.raises(InputError, match="Top2Score"):
        propose(file(halved), file(TWO), rule="learned")


def test_without_a_second_document_there_is_nothing_to_be_unsure_of() -> None:
    alone = [entry(f"q{i}", 2, None) for i in range(4)]
    first = [entry(f"q{i}", 1, None) for i in range(4)]
    assert not any(applied_in(propose(file(alone), file(first), rule="gap", tau=1e300)))
    learned = propose(file(alone), file(first), rule="learned", folds=2)
    assert not any(applied_in(learned))
    assert learned.tau == 0.0
