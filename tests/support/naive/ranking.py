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


def dcg(grades: Iterable[float | None], k: int | None) -> float:
    terms = []
    for rank, grade in enumerate(grades, start=1):
        if grade is not None and grade > 0 and (k is None or rank <= k):
            terms.append(grade / math.log2(rank + 1))
    return math.fsum(terms)


def ndcg(table: Table, *, k: int | None = None) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        best = dcg(sorted(judged, reverse=True), k)
        return dcg(ranked, k) / best if best else 0.0

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


# -- by name ---------------------------------------------------------------------------------------------------------

RANKINGS: dict[str, Oracle] = {
    "ndcg": ndcg,
    **{f"ndcg@{k}": partial(ndcg, k=k) for k in (1, 3, 10, 1000)},
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
