"""The clinical cases are complete, distinct and written so that answers to the wrong case cannot score."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import combinations, pairwise
from statistics import mean
from typing import Any

import pytest

from steelyard.ground.yaml import parse_yaml

SUITE = files("steelyard.suites") / "clinical"
TYPES = {"diagnostic_reasoning", "qa", "summarization", "communication"}
METRICS = {
    "clinical_accuracy",
    "diagnostic_accuracy",
    "exact_match",
    "token_f1",
    "rouge_l",
    "chrf",
    "clinical_relevance",
    "harm_avoidance",
    "reasoning_quality",
}
STEPS = ["first", "second", "then", "therefore", "finally", "next", "because", "thus", "in conclusion"]
EVIDENCE = [
    "shows",
    "elevated",
    "as evidenced by",
    "consistent with",
    "the finding",
    "suggests",
    "given",
    "based on",
    "supported by",
]
FALLACIES = [
    "always",
    "never",
    "everyone knows",
    "everyone",
    "obviously",
    "clearly",
    "certainly",
    "definitely",
    "proves",
]
NEGATIONS = {"no", "not", "avoid", "without", "negative", "nor", "neither", "none", "free", "absent"}
REFUSALS = {"no", "not", "avoid", "without"}
LONGEST_RUN = 12


def tokens(text: str) -> list[str]:
    """Lower-case runs of letters and digits."""
    return re.findall(r"[^\W_]+", text.lower())


# Words that several answers need and that name nothing.
PLAIN = frozenset(
    tokens("""
    a after also an and any are as at be because before both but by can do does for from further give had has have if
    in into is it its later may more my no not now of on once one only or our out over per plus so than that the their
    then there these they this to too under until up us was we when which who will with without you your
    daily day days week weeks month months year years hour hours mg g acute disease syndrome disorder avoid
    """)
)


def has(text: str, phrase: str) -> bool:
    """Whether the phrase stands in the text, in whole words."""
    return f" {phrase} " in f" {' '.join(tokens(text))} "


def overlap(first: list[str], second: list[str]) -> float:
    """F1 of two bags of words."""
    if not first or not second:
        return float(first == second)
    shared = sum((Counter(first) & Counter(second)).values())
    return 2 * shared / (len(first) + len(second))


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Every run of twelve words in a text."""
    words = tokens(text)
    return (tuple(words[start : start + LONGEST_RUN]) for start in range(len(words) - LONGEST_RUN + 1))


def is_refused(text: str, name: str) -> bool:
    """Whether a negation stands before the name in each clause that mentions it."""
    clauses = [clause for clause in re.split(r"[,;:.?!()]", text.lower()) if has(clause, " ".join(tokens(name)))]
    found = [" ".join(tokens(clause)).partition(" ".join(tokens(name)))[0].split() for clause in clauses]
    return all(REFUSALS & set(before) for before in found)


@cache
def tasks() -> dict[str, dict[str, Any]]:
    """The tasks of the suite by name."""
    document = parse_yaml((SUITE / "suite.yaml").read_text(encoding="utf-8"), source="suite.yaml")
    return {task["name"]: task for task in document["tasks"]}


@cache
def cases(task: str) -> list[dict[str, Any]]:
    """The cases of one task."""
    lines = (SUITE / tasks()[task]["data"]).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def everything() -> list[dict[str, Any]]:
    return [case for task in tasks() for case in cases(task)]


def asked(case: dict[str, Any]) -> str:
    return str(case.get("question") or case["note"])


NAMES = list(tasks())
LABELLED = [name for name in NAMES if "labels" in tasks()[name]["fields"]]
each_task = pytest.mark.parametrize("task", NAMES)


def test_there_are_enough_tasks_of_every_type() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 12
    assert {task["type"] for task in tasks().values()} == TYPES


def test_the_suite_lists_every_file_of_cases_once() -> None:
    present = sorted(path.name for path in SUITE.iterdir() if path.name.endswith(".jsonl"))
    assert sorted(task["data"] for task in tasks().values()) == present


@each_task
def test_a_task_says_what_it_is_and_how_it_is_scored(task: str) -> None:
    entry = tasks()[task]
    assert set(entry) == {"name", "type", "description", "data", "fields", "metrics", "primary"}
    assert set(entry["metrics"]) <= METRICS
    assert entry["primary"] in entry["metrics"]
    assert entry["primary"] not in ("harm_avoidance", "reasoning_quality")
    assert (entry["primary"] == "diagnostic_accuracy") == (task in LABELLED)


@each_task
def test_a_task_has_twenty_complete_cases(task: str) -> None:
    fields = set(tasks()[task]["fields"].values())
    assert len(cases(task)) >= 20
    for case in cases(task):
        assert set(case) == fields, case["id"]
        assert isinstance(case["contraindicated"], list)
        assert all(value.strip() == value != "" for value in case.values() if isinstance(value, str)), case["id"]


def test_ids_and_questions_are_unique() -> None:
    ids = [case["id"] for case in everything()]
    assert len(set(ids)) == len(ids) >= 240
    assert len({asked(case) for case in everything()}) == len(ids)


def test_there_are_eight_specialties_of_twenty_cases_each() -> None:
    counts = Counter(case["specialty"] for case in everything())
    assert len(counts) >= 8
    assert {name: count for name, count in counts.items() if count < 20} == {}
    assert all(re.fullmatch(r"[a-z_]+", name) for name in counts)


def test_no_two_cases_share_a_run_of_twelve_words() -> None:
    seen: dict[tuple[str, ...], str] = {}
    shared = [
        (seen[run], case["id"], " ".join(run))
        for case in everything()
        for part in ("note", "target", "rationale", "paraphrase")
        for run in runs(case.get(part, ""))
        if seen.setdefault(run, case["id"]) != case["id"]
    ]
    assert shared == []


@each_task
def test_a_rationale_goes_in_steps_and_names_its_evidence(task: str) -> None:
    for case in cases(task):
        assert sum(has(case["rationale"], marker) for marker in STEPS) >= 3, case["id"]
        assert sum(has(case["rationale"], marker) for marker in EVIDENCE) >= 3, case["id"]
        assert not [marker for marker in FALLACIES if has(case["rationale"], marker)], case["id"]


@each_task
def test_rationales_of_a_task_share_few_words(task: str) -> None:
    words = [tokens(case["rationale"]) for case in cases(task)]
    assert min(map(len, words)) >= 35
    assert mean(overlap(first, second) for first, second in combinations(words, 2)) <= 0.15
    assert max(overlap(first, second) for first, second in combinations(words, 2)) <= 0.3


@each_task
def test_shifted_rationales_share_few_words(task: str) -> None:
    words = [tokens(case["rationale"]) for case in cases(task)]
    for shift in range(1, len(words)):
        shifted = words[shift:] + words[:shift]
        assert mean(map(overlap, words, shifted)) <= 0.16, shift


@each_task
def test_answers_of_a_task_share_hardly_a_word(task: str) -> None:
    words = [[word for word in tokens(case["target"]) if word not in PLAIN] for case in cases(task)]
    assert min(map(len, words)) >= 1
    assert mean(overlap(first, second) for first, second in combinations(words, 2)) <= 0.05
    assert len({case["target"].lower() for case in cases(task)}) == len(words)


@pytest.mark.parametrize("task", LABELLED)
def test_a_label_is_one_of_four_and_of_no_other_case(task: str) -> None:
    for case in cases(task):
        assert case["target"] in case["labels"], case["id"]
        assert len(set(case["labels"])) == len(case["labels"]) == 4, case["id"]
    targets = sorted(case["target"].lower() for case in cases(task))
    assert not [(a, b) for a, b in pairwise(targets) if a == b or has(b, a)]


@each_task
def test_a_paraphrase_is_another_wording(task: str) -> None:
    for case in cases(task):
        assert tokens(case["paraphrase"]) != tokens(case["target"]), case["id"]
        assert overlap(tokens(case["paraphrase"]), tokens(case["target"])) < 0.85, case["id"]


@each_task
def test_findings_that_are_absent_are_said_to_be_absent(task: str) -> None:
    negated = [case for case in cases(task) if NEGATIONS & set(tokens(f"{asked(case)} {case['target']}"))]
    assert len(negated) >= len(cases(task)) // 2


def test_many_answers_deny_something() -> None:
    assert sum(bool(REFUSALS & set(tokens(case["target"]))) for case in everything()) >= 40


def test_what_must_not_be_given_is_named_where_it_matters() -> None:
    assert sum(bool(case["contraindicated"]) for case in everything()) >= 60
    assert all(case["contraindicated"] for case in cases("medication_safety"))


@each_task
def test_an_answer_recommends_nothing_that_is_contraindicated(task: str) -> None:
    recommended = [
        (case["id"], name, part)
        for case in cases(task)
        for name in case["contraindicated"]
        for part in ("target", "paraphrase")
        if not is_refused(case[part], name)
    ]
    assert recommended == []


def test_the_checks_would_notice() -> None:
    assert not is_refused("Naproxen for the knee", "naproxen")
    assert not is_refused("No rest; naproxen for the knee", "naproxen")
    assert is_refused("Avoid naproxen for the knee", "naproxen")
    assert overlap(["a", "b"], ["b", "c"]) == 0.5
    assert len(list(runs(" ".join("abcdefghijklm")))) == 2
    assert has("It then, in conclusion, ends", "in conclusion")
    assert not has("showsy", "shows")
