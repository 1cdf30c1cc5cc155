"""The insurance example: the same bytes again, one answer a query, and a shift that helps only where it can."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from steelyard.retrieval import gold_ranks, train_shift
from steelyard.retrieval.documents import read_documents
from steelyard.retrieval.queries import read_queries
from steelyard.retrieval.shifts.shift import applied
from steelyard.texts.embedders import embedder
from tests.support.places import EXAMPLES

SCRIPT = EXAMPLES / "insurance/make.py"
KINDS = ("drifted", "paraphrased", "shuffled")
SEEDS = (7, 1, 2)
FOLDS = 5


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("insurance_make", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = loaded()


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("insurance")
    subprocess.run([sys.executable, SCRIPT, "--out", folder], check=True, capture_output=True)
    return folder


# -- files -------------------------------------------------------------------------------------------------------------


def test_the_same_bytes_again_and_others_for_another_seed(written: Path, tmp_path: Path) -> None:
    make.write(make.corpus(seed=8), tmp_path)  # its policies must not stay behind
    other = digests(tmp_path)
    make.write(make.corpus(), tmp_path)
    assert digests(tmp_path) == digests(written) != other
    assert not any(b"\r" in path.read_bytes() for path in written.rglob("*.*"))


def test_sizes() -> None:
    made = make.corpus()
    assert len(made.documents) == 60 + len(make.CONFUSERS)
    assert list(made.documents) == sorted(made.documents)
    assert [len(getattr(made, kind)) for kind in KINDS] == [150] * 3
    assert len({id.split("-")[0] for id in made.documents if id not in make.CONFUSERS}) == 12
    few = make.corpus(policies=12, queries=2)
    assert len(few.documents) == 12 + len(make.CONFUSERS)
    assert len(few.drifted) == len(few.shuffled) == 2
    many = make.corpus(policies=144, queries=432)
    assert len(many.documents) == 144 + len(make.CONFUSERS)
    assert len({query["text"] for query in many.drifted}) == 432
    for policies, queries in ((11, 20), (145, 20), (60, 181), (60, 1)):
        with pytest.raises(ValueError, match="policies"):
            make.corpus(policies=policies, queries=queries)


def test_the_readers_take_it(written: Path) -> None:
    made = make.corpus()
    documents = read_documents(written / "policies")
    assert dict(zip(documents.ids, documents.texts, strict=True)) == made.documents
    assert documents.ignored == 0
    for kind in KINDS:
        queries = read_queries(written / f"queries-{kind}.json")
        expected = getattr(made, kind)
        assert queries.ids == tuple(query["id"] for query in expected)
        assert queries.texts == tuple(query["text"] for query in expected)
        assert queries.gold == tuple(query["relevantDocId"] for query in expected)


# -- queries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_ids_are_unique_and_gold_is_a_policy(seed: int) -> None:
    made = make.corpus(seed)
    queries = [query for kind in KINDS for query in getattr(made, kind)]
    assert len({query["id"].lower() for query in queries}) == len(queries)
    assert {query["relevantDocId"] for query in queries} == set(made.documents) - set(make.CONFUSERS)
    for kind in ("drifted", "paraphrased"):
        texts = [query["text"] for query in getattr(made, kind)]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_gold_document_states_what_a_drifted_query_asks_for(seed: int) -> None:
    facts = [
        f"{thing.formal} {circumstance.formal}"
        for product in make.PRODUCTS
        for thing in product.things
        for circumstance in product.circumstances
    ]
    made = make.corpus(seed)
    for query in made.drifted:
        asked = [fact for fact in facts if fact in query["text"]]
        assert len(asked) == 1
        assert [id for id, text in made.documents.items() if asked[0] in text] == [query["relevantDocId"]]


def test_a_corpus_in_which_two_policies_answer_is_refused() -> None:
    policy, other = make.draw_policies(7, 60)[:2]
    documents = {each.id: make.document(7, each) for each in (policy, other)}
    make.check(documents | make.CONFUSERS, [(policy, fact) for fact in policy.facts])
    documents[other.id] += f"Also {policy.facts[0].formal}."
    with pytest.raises(AssertionError, match=other.id):
        make.check(documents | make.CONFUSERS, [(policy, policy.facts[0])])


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffled_queries_have_the_answers_of_others(seed: int) -> None:
    made = make.corpus(seed)
    assert [query["text"] for query in made.shuffled] == [query["text"] for query in made.drifted]
    before, after = ([query["relevantDocId"] for query in queries] for queries in (made.drifted, made.shuffled))
    assert not any(a == b for a, b in zip(before, after, strict=True))
    assert Counter(before) == Counter(after)


# -- what a shift does to them -----------------------------------------------------------------------------------------


class Measured(NamedTuple):
    hits: float  # share of queries whose gold document is first
    gain: float  # of the reciprocal rank, held out
    low: float
    high: float


@cache
def measured(seed: int, kind: str) -> Measured:
    """Every fold is shifted by what the others teach; the interval is a paired t-interval."""
    made, hashed = make.corpus(seed), embedder("hash")
    ids, queries = list(made.documents), getattr(made, kind)
    docs = hashed.embed(ids, list(made.documents.values()), what="documents")
    vectors = hashed.embed([query["id"] for query in queries], [query["text"] for query in queries], what="queries")
    gold = np.array([ids.index(query["relevantDocId"]) for query in queries])
    before, after, fold = gold_ranks(vectors, docs, gold), np.zeros(len(gold)), np.arange(len(gold)) % FOLDS
    for held in (fold == number for number in range(FOLDS)):
        shift = train_shift(vectors[~held], docs, gold[~held]).shift
        after[held] = gold_ranks(applied(shift, vectors[held]), docs, gold[held])
    found = stats.ttest_1samp(1 / after - 1 / before, 0.0)
    interval = found.confidence_interval(0.95)
    return Measured(float((before == 1).mean()), float((1 / after - 1 / before).mean()), interval.low, interval.high)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shift_undoes_the_drift(seed: int) -> None:
    found = measured(seed, "drifted")
    assert 0.35 <= found.hits <= 0.75
    assert found.gain >= 0.1
    assert found.low >= 0.04


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shift_does_not_help_against_mistakes_of_many_kinds(seed: int) -> None:
    found = measured(seed, "paraphrased")
    assert 0.25 <= found.hits <= 0.75  # there are mistakes to learn from
    assert found.low < 0
    assert found.gain < 0.03


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shift_is_not_shown_to_help_where_there_is_nothing_to_learn(seed: int) -> None:
    found = measured(seed, "shuffled")
    assert found.hits < 0.05
    assert found.low < 0
    assert found.gain < 0.02
