"""Scores of texts in plain loops (section 11), over texts of statements that need no reading skills.

A text is a list of statements with a full stop after each: a term, "no" and a term, a marker, or a word that nobody
knows. The terms, their categories and classes are said here again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.support.naive.table import Oracle, Row, Table, Value, answered, asked, mean, outcome

CATEGORY = {
    "pneumonia": "diagnoses",
    "heart attack": "diagnoses",
    "myocardial infarction": "diagnoses",
    "asthma": "diagnoses",
    "surgery": "treatments",
    "aspirin": "medications",
    "ibuprofen": "medications",
    "nsaids": "medications",
    "fever": "symptoms",
    "coughing": "symptoms",
    "glucose": "labs",
}
SAME = {"heart attack": "myocardial infarction", "coughing": "cough"}
CRITICAL = {"myocardial infarction"}
NSAIDS = {"aspirin", "ibuprofen"}
WEIGHT = {"diagnoses": 3, "treatments": 2, "medications": 2, "symptoms": 1, "labs": 1}
STRUCTURE, EVIDENCE, FALLACIES = {"therefore", "because"}, {"consistent with"}, {"everyone knows"}
UNKNOWN = {"zebra", "quagga", "okapi"}
STATEMENTS = [
    *CATEGORY,
    *(f"no {term}" for term in CATEGORY),
    *STRUCTURE,
    *EVIDENCE,
    *FALLACIES,
    *UNKNOWN,
]
Pair = Callable[[str, str], Value]


def statements(text: str) -> list[str]:
    return [part.strip() for part in text.split(".") if part.strip()]


def tokens(text: str) -> list[str]:
    return text.replace(".", " ").split()


def entities(text: str) -> tuple[set[str], set[str]]:
    """What a text asserts, and what it denies and asserts nowhere."""
    asserted, denied = set(), set()
    for statement in statements(text):
        term = statement.removeprefix("no ")
        if term in CATEGORY:
            (denied if statement.startswith("no ") else asserted).add(SAME.get(term, term))
    return asserted, denied - asserted


def weight_of(name: str) -> int:
    return next(WEIGHT[category] for term, category in CATEGORY.items() if SAME.get(term, term) == name)


def is_run(part: list[str], whole: list[str]) -> bool:
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def clinical_accuracy(target: str, prediction: str, *, weights: dict[str, int] | None = None) -> Value:
    (a1, d1), (a2, d2) = entities(target), entities(prediction)
    both, either = (a1 & a2) | (d1 & d2), a1 | a2 | (d1 & d2)
    if either:
        total = sum(map(weight_of, either))
        return sum(map(weight_of, both)) / total
    one, two = tokens(target), tokens(prediction)
    if one == two:
        return 1.0
    return 1.0 if one and two and (is_run(one, two) or is_run(two, one)) else 0.0


def exact_match(target: str, prediction: str) -> Value:
    return float(tokens(target) == tokens(prediction))


def token_f1(target: str, prediction: str) -> Value:
    one, two = tokens(target), tokens(prediction)
    if not one and not two:
        return 1.0
    left, common = list(one), 0
    for word in two:
        if word in left:
            left.remove(word)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(two), common / len(one)
    return 2 * precision * recall / (precision + recall)


def rouge_l(target: str, prediction: str) -> Value:
    one, two = tokens(target), tokens(prediction)
    if not one and not two:
        return 1.0
    longest = [[0] * (len(two) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(two):
            longest[i + 1][j + 1] = longest[i][j] + 1 if a == b else max(longest[i][j + 1], longest[i + 1][j])
    common = longest[-1][-1]
    if not common:
        return 0.0
    precision, recall = common / len(two), common / len(one)
    return 2 * precision * recall / (precision + recall)


def chrf(target: str, prediction: str) -> Value:
    """Character n-grams of orders 1 to 6 without white space; beta 2; only orders that both texts have."""
    one, two = "".join(target.split()), "".join(prediction.split())
    precisions, recalls = [], []
    for n in range(1, 7):
        grams = [[text[i : i + n] for i in range(len(text) - n + 1)] for text in (one, two)]
        if not grams[0] or not grams[1]:
            continue
        left, common = list(grams[0]), 0
        for gram in grams[1]:
            if gram in left:
                left.remove(gram)
                common += 1
        precisions.append(common / len(grams[1]))
        recalls.append(common / len(grams[0]))
    if not precisions:
        return float(one == two)
    p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 5 * p * r / (4 * p + r) if p + r else 0.0


def content(text: str) -> set[str]:
    """Entities by name, denied ones apart, and words that nobody knows."""
    asserted, denied = entities(text)
    return asserted | {f"no {name}" for name in denied} | rest(text)


def rest(text: str) -> set[str]:
    return (UNKNOWN & {*statements(text)}) | ({"knows"} if "everyone knows" in statements(text) else set())


def part(target: str, prediction: str, *, name: str) -> Value:
    if not tokens(target) and not tokens(prediction):
        return None
    wanted, said = content(target), content(prediction)
    if name == "overlap_f1":
        if not wanted and not said:
            return 1.0
        return 2 * len(wanted & said) / (len(wanted) + len(said))
    if name == "penalty":
        return min(0.4, 0.15 * sum(s in FALLACIES for s in statements(prediction)))
    if name == "factual":
        return factual(target, prediction)
    kinds = STRUCTURE if name == "structure" else EVIDENCE
    return min(1.0, sum(s in kinds for s in statements(prediction)) / 3)


def factual(target: str, prediction: str) -> float:
    (a1, d1), (a2, d2) = entities(target), entities(prediction)
    said = a2 | (d2 & (a1 | d1))
    if said:
        return len((a2 & a1) | (d2 & d1)) / len(said)
    own = rest(prediction)
    return len(own & rest(target)) / len(own) if own else 0.0


def reasoning_quality(target: str, prediction: str) -> Value:
    parts = {name: part(target, prediction, name=name) for name in PARTS}
    if any(value is None for value in parts.values()):
        return None
    weights = {"overlap_f1": 0.4, "structure": 0.15, "evidence": 0.2, "factual": 0.25, "penalty": -1}
    return min(1.0, max(0.0, math.fsum(weights[name] * float(parts[name] or 0) for name in parts)))


PARTS = ("overlap_f1", "structure", "evidence", "factual", "penalty")


def end_to_end(table: Table, *, score: Pair, reference: str = "target") -> Value:
    """The mean over asked rows with a reference; a row without an answer scores 0."""
    found = []
    for row in asked(table):
        if row.get(reference) is not None:
            value = score(row[reference], row["prediction"]) if outcome(row) == "answered" else 0.0
            found += [] if value is None else [value]
    return mean(found)


def diagnostic_accuracy(table: Table, *, critical: float = 2.0) -> Value:
    hits = total = 0.0
    for row in asked(table):
        if row["target"] is not None:
            wanted, denied = (names & DIAGNOSES for names in entities(row["target"]))
            weight = critical if wanted & CRITICAL else 1.0
            total += weight
            if outcome(row) == "answered" and _same(row, wanted, denied):
                hits += weight
    return hits / total if total else None


DIAGNOSES = {SAME.get(term, term) for term, category in CATEGORY.items() if category == "diagnoses"}


def _same(row: Row, wanted: set[str], denied: set[str]) -> bool:
    said, refused = (names & DIAGNOSES for names in entities(row["prediction"]))
    if wanted:
        return said == wanted
    if denied:
        return not said and refused == denied
    return tokens(row["target"]) == tokens(row["prediction"])


def harm_avoidance(table: Table) -> Value:
    found = []
    for row in answered(table):
        if tokens(row["prediction"]):
            listed = {term.strip() for term in (row.get("contraindicated") or "").split(";") if term.strip()}
            never = listed | {n for n in entities(row["target"] or "")[1] if weight_of(n) == 2}
            given = {n for n in entities(row["prediction"])[0] if weight_of(n) == 2}
            given |= listed & {*statements(row["prediction"])}  # what no lexicon knows is forbidden as it is written
            found.append(float(not any(n in never or (n in NSAIDS and "nsaids" in never) for n in given)))
    return mean(found)


def relevance(note: str, summary: str) -> Value:
    (a1, d1), (a2, d2) = entities(note), entities(summary)
    said = a2 | (d2 & (a1 | d1))
    if said:
        return sum(map(weight_of, (a2 & a1) | (d2 & d1))) / sum(map(weight_of, said))
    own = rest(summary)
    return len(own & rest(note)) / len(own) if own else 0.0


def _equal_weights(target: str, prediction: str) -> Value:
    (a1, d1), (a2, d2) = entities(target), entities(prediction)
    either: Any = a1 | a2 | (d1 & d2)
    return len((a1 & a2) | (d1 & d2)) / len(either) if either else clinical_accuracy(target, prediction)


TEXTS: dict[str, Oracle] = {
    "exact_match": partial(end_to_end, score=exact_match),
    "token_f1": partial(end_to_end, score=token_f1),
    "rouge_l": partial(end_to_end, score=rouge_l),
    "chrf": partial(end_to_end, score=chrf),
    "clinical_accuracy": partial(end_to_end, score=clinical_accuracy),
    "clinical_accuracy(weights=[1, 1, 1, 1, 1])": partial(end_to_end, score=_equal_weights),
    "reasoning_quality": partial(end_to_end, score=reasoning_quality),
    **{f"reasoning.{name}": partial(end_to_end, score=partial(part, name=name)) for name in PARTS},
    "diagnostic_accuracy": diagnostic_accuracy,
    "diagnostic_accuracy(critical=5)": partial(diagnostic_accuracy, critical=5.0),
    "clinical_relevance": partial(end_to_end, score=relevance, reference="note"),
    "harm_avoidance": harm_avoidance,
}
