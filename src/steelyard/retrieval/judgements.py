"""Judgements of documents: which are relevant to which query, and how much; several may be.

    qrels   topic  iteration  document  grade

The file is TREC's or JSON, as `steelyard rank` reads it. Topics are ids of queries. Ids match as they are written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.records.rankings import gains_of
from steelyard.records.readers.trec_lines import LARGEST_GRADE, WHOLE, read_columns
from steelyard.records.table import Source
from steelyard.retrieval.search import Codes


@dataclass(frozen=True)
class Judgements:
    """The grade of every judged document, by query and document."""

    grades: Mapping[str, Mapping[str, int]]
    source: Source


@dataclass(frozen=True)
class Judged:
    """The judgements of some queries: their rows, the documents' indices (−1: not among the documents), the grades."""

    query: Codes
    document: Codes
    grade: Codes

    def columns(self, queries: int, docs: int, top: Codes) -> dict[str, pa.Array]:
        """`gains` and `judged` of every query, from the documents that were found first."""
        depth = top.shape[1]
        known = self.document >= 0
        ranked = np.arange(queries).repeat(depth) * docs + top.ravel()
        gains = gains_of(ranked, self.query[known] * docs + self.document[known], self.grade[known])
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.query, minlength=queries))))
        return {
            "gains": pa.LargeListArray.from_arrays(np.arange(queries + 1) * depth, gains),
            "judged": pa.LargeListArray.from_arrays(starts, pa.array(self.grade)),
        }


def read_judgements(path: str | os.PathLike[str]) -> Judgements:
    """The judgements in a file; grades are whole numbers, and those from 1 on mean relevant."""
    table = read_columns(path, ("topic", "iteration", "document", "grade"))
    number = np.ones(len(table.topic.codes)) if table.number is None else np.asarray(table.number)
    wrong = (number != np.round(number)) | (np.abs(number) > LARGEST_GRADE)
    if wrong.any():
        raise InputError(WHOLE, **table.place(int(np.argmax(wrong)), "grade"))
    topics, documents = table.topic.values.to_pylist(), table.document.values.to_pylist()
    grades: dict[str, dict[str, int]] = {}
    for topic, document, grade in zip(table.topic.codes, table.document.codes, number, strict=True):
        grades.setdefault(str(topics[topic]), {})[str(documents[document])] = int(grade)
    return Judgements(grades, table.source)


def judged(judgements: Judgements, queries: Sequence[str], docs: Sequence[str]) -> Judged:
    """The judgements of these queries, query by query, with the places of their documents."""
    places = {id: place for place, id in enumerate(docs)}
    rows = [
        (query, places.get(document, -1), grade)
        for query, id in enumerate(queries)
        for document, grade in judgements.grades.get(id, {}).items()
    ]
    if not any(document >= 0 for _, document, _ in rows):
        raise InputError("no judged document of these queries is among the documents", file=judgements.source.name)
    query, document, grade = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Judged(query, document, grade)
