"""How well documents are ranked, in plain loops (section 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from tests.support.naive.table import Oracle, Row, Table, Value, asked, mean, share


def ranking(row: Row) -> tuple[list[float | None], list[float]] | None:
    """Grades in ranked order (None: not judged) and all judged grades; None for a query without judgements."""
    if "judged" in row:
        return None if row["judged"] is None else (row["gains"] or [], row["judged"])
    if "gold_rank" in row:
        rank = row["gold_rank"]
        return None if rank is None else ([None] * (rank - 1) + [1] if rank else [], [1])
    if row["target"] is None:
        return None
    return [1 if name in row["target"] else None for name in row["prediction"] or []], [1] * len(row["target"])


def over_queries(table: Table, of: Callable[[list[float | None], list[float]], float]) -> Value:
    found = [lists for row in asked(table) if (lists := ranking(row)) is not None]
    return mean([of(ranked, judged) for ranked, judged in found])


def relevant_in(grades: Iterable[float | None], level: int) -> int:
    return sum(grade is not None and grade >= level for grade in grades)


def dcg(grades: Iterable[float | None], k: int | None, gain: Callable[[float], float] = float) -> float:
    terms = []
    for rank, grade in enumerate(grades, start=1):
        if grade is not None and grade > 0 and (k is None or rank <= k):
            terms.append(gain(grade) / math.log2(rank + 1))
    return math.fsum(terms)


def ndcg(table: Table, *, k: int | None = None, gain: Callable[[float], float] = float) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        best = dcg(sorted(judged, reverse=True), k, gain)
        return dcg(ranked, k, gain) / best if best else 0.0

    return over_queries(table, of)


def mrr(table: Table, *, k: int | None = None, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        for rank, grade in enumerate(ranked[:k], start=1):
            if grade is not None and grade >= level:
                return 1 / rank
        return 0.0

    return over_queries(table, of)


def average_precision(table: Table, *, k: int | None = None, level: int = 1) -> Value:
    """The sum is cut at k, the number of relevant documents is not."""

    def of(ranked: list[float | None], judged: list[float]) -> float:
        terms = [
            relevant_in(ranked[:rank], level) / rank
            for rank, grade in enumerate(ranked[:k], start=1)
            if relevant_in([grade], level)
        ]
        total = relevant_in(judged, level)
        return math.fsum(terms) / total if total else 0.0

    return over_queries(table, of)


def precision_at(table: Table, *, k: int, level: int = 1) -> Value:
    return over_queries(table, lambda ranked, _: relevant_in(ranked[:k], level) / k)


def recall_at(table: Table, *, k: int, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        return (share(relevant_in(ranked[:k], level), relevant_in(judged, level))) or 0.0

    return over_queries(table, of)


def hit(table: Table, *, k: int, level: int = 1) -> Value:
    return over_queries(table, lambda ranked, _: float(relevant_in(ranked[:k], level) > 0))


def rprec(table: Table, *, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        total = relevant_in(judged, level)
        return share(relevant_in(ranked[:total], level), total) or 0.0

    return over_queries(table, of)


def judged_at(table: Table, *, k: int | None = None) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        return share(sum(grade is not None for grade in ranked[:k]), len(ranked[:k])) or 0.0

    return over_queries(table, of)


def bpref(table: Table, *, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        total = relevant_in(judged, level)
        other = sum(0 <= grade < level for grade in judged)
        terms, above = [], 0
        for grade in ranked:
            if grade is None or grade < 0:
                continue
            if grade < level:
                above += 1
            else:
                terms.append(1 - min(above, total) / min(other, total) if above else 1.0)
        return math.fsum(terms) / total if total else 0.0

    return over_queries(table, of)


def rbp(table: Table, *, p: float = 0.8, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        reads_on, terms = 1.0, []
        for grade in ranked:
            terms.append((1 - p) * reads_on * relevant_in([grade], level))
            reads_on *= p
        return math.fsum(terms)

    return over_queries(table, of)


def err(table: Table, *, k: int | None = None, max_grade: int = 4) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        unsatisfied, terms = 1.0, []
        for rank, grade in enumerate(ranked[:k], start=1):
            satisfied = (2 ** max(grade or 0, 0) - 1) / 2**max_grade
            terms.append(unsatisfied * satisfied / rank)
            unsatisfied *= 1 - satisfied
        return math.fsum(terms)

    return over_queries(table, of)


def doubling(grade: float) -> float:
    return float(2**grade - 1)


# -- by name ---------------------------------------------------------------------------------------------------------

RANKINGS: dict[str, Oracle] = {
    "ndcg": ndcg,
    **{f"ndcg@{k}": partial(ndcg, k=k) for k in (1, 3, 10, 1000)},
    "ndcg(gain=exponential)": partial(ndcg, gain=doubling),
    "ndcg@3(gain=exponential)": partial(ndcg, k=3, gain=doubling),
    "judged": judged_at,
    **{f"judged@{k}": partial(judged_at, k=k) for k in (1, 3, 1000)},
    "bpref": bpref,
    "bpref(level=2)": partial(bpref, level=2),
    "rbp": rbp,
    "rbp(p=0.5)": partial(rbp, p=0.5),
    "rbp(level=2)": partial(rbp, level=2),
    "err": err,
    **{f"err@{k}": partial(err, k=k) for k in (1, 3, 1000)},
    "err@5(max_grade=3)": partial(err, k=5, max_grade=3),
    "mrr": mrr,
    "map": average_precision,
    "rprec": rprec,
    "mrr(level=2)": partial(mrr, level=2),
    "map(level=2)": partial(average_precision, level=2),
    "rprec(level=2)": partial(rprec, level=2),
    **{
        text: partial(of, k=k, level=level)
        for name, of in (
            ("mrr", mrr),
            ("map", average_precision),
            ("precision", precision_at),
            ("recall", recall_at),
            ("hit", hit),
        )
        for k in (1, 2, 5, 1000)
        for level, text in ((1, f"{name}@{k}"), (2, f"{name}@{k}(level=2)"), (3, f"{name}@{k}(level=3)"))
    },
}
