"""Rules about metrics of screening, and what is said of rules that nothing answers."""

from __future__ import annotations

from random import Random

import pytest

import steelyard as sy
from steelyard.decide.gate import FAIL, PASS, Gate
from steelyard.decide.subject import NumberOptions, of_records
from steelyard.errors import UsageError
from steelyard.metrics.definition import metric_of
from steelyard.study.comparison import compare_kept
from steelyard.study.warnings import class_warnings

NAMES = (
    "sensitivity", "specificity", "ppv", "npv", "fpr", "fnr", "selection_rate", "net_benefit(pt=0.3, score=risk)",
    "mcc", "kappa", "auprc", "auprc(positive=sick, score=risk)", "krippendorff_alpha(raters=[target, prediction])",
    "gwet_ac1(raters=[target, prediction])", "fairness_ratio(sensitivity, by=group.site)",
    "equalized_odds(by=group.site)",
)  # fmt: skip


def run(seed: int) -> sy.Records:
    """160 patients, asked the same in every run."""
    random = Random(seed)
    target = ["sick" if i % 5 < 2 else "well" for i in range(160)]
    columns = {
        "item": list(range(160)),
        "target": target,
        "prediction": [t if random.random() < 0.8 else random.choice(["sick", "well", None]) for t in target],
        "confidence": [round(random.random(), 2) for _ in target],
        "risk": [round(random.random() / 2 + (t == "sick") / 2, 2) for t in target],
        "group.site": ["x", "y"] * 80,
    }
    return sy.Records.from_columns(columns)


@pytest.mark.parametrize("name", NAMES)
def test_point_confirming_and_delta_rules_are_decided(name: str) -> None:
    base, new = run(1), run(2)
    texts = [name, f"delta({name})"]
    sign = -1 if metric_of(name).better == "lower" else 1
    relation, bound = ("<=", "high") if sign < 0 else (">=", "low")
    for threshold, verdict in ((-5 * sign, PASS), (5 * sign, FAIL)):
        gate = Gate.parse([f"{t} {relation} {threshold}" for text in texts for t in (text, f"{bound}({text})")])
        decision = gate.check(of_records(gate, new, base, NumberOptions(resamples=100)))
        assert [v.verdict for v in decision.rules] == [verdict] * 4


def test_a_comparison_alone_says_what_a_rule_about_a_value_needs() -> None:
    compared = sy.compare(run(1), run(2), ["mcc"], resamples=100)
    gate = Gate.parse(["low(mcc) >= -1", "low(delta(mcc)) >= -2"])
    alone = gate.check(compared).rules
    assert [v.verdict for v in alone] == [FAIL, PASS]
    assert "check it together with an evaluation of the run, or write the rule about delta(mcc)" in alone[0].reason
    both = gate.check(compared, sy.evaluate(run(2), ["mcc"], resamples=100)).rules
    assert [v.verdict for v in both] == [PASS, PASS]


def test_only_metrics_of_confidence_in_the_answer_warn_of_a_class_probability() -> None:
    said = ["sick", "well"] * 40
    columns = {"target": said, "prediction": said, "confidence": [0.9, 0.1] * 40, "risk": [0.9, 0.1] * 40}
    records = sy.Records.from_columns({"item": list(range(80)), **columns})
    silent = (
        *(f"{name}(positive=sick)" for name in ("sensitivity", "selection_rate", "auroc")),
        *("net_benefit(pt=0.3, positive=sick)", "auroc(score=risk)"),
    )
    assert class_warnings(records, [metric_of(name) for name in silent]) == []
    (warning,) = class_warnings(
        records, [metric_of("sensitivity(positive=sick)"), metric_of("auprc"), metric_of("aurc")]
    )
    assert "auprc and aurc take it for confidence in the answer: ask for auprc(positive=sick)" in warning


def test_a_class_that_nobody_named_is_said() -> None:
    records = sy.Records.from_columns({"item": [1, 2, 3], "target": ["a", "b", "b"], "prediction": ["a", "b", "b"]})
    said = "a is taken for the positive label, because nobody said which it is: name it, as in"
    for result in (
        sy.evaluate(records, ["fairness_gap(sensitivity, by=item)", "ppv"], resamples=0),
        sy.compare(records, records, ["equalized_odds(by=item)"], resamples=0),
    ):
        assert [w for w in result.warnings if said in w]
    gate = Gate.parse("ppv >= 0.1")
    assert said in "".join(gate.check(of_records(gate, records, None, NumberOptions(resamples=100))).notes)
    declared = sy.Records.from_columns(
        {"item": [1, 2], "target": ["a", "b"], "prediction": ["a", "b"]}, task={"labels": ["a", "b"], "positive": "a"}
    )
    assert said not in "".join(sy.evaluate(declared, ["ppv"], resamples=0).warnings)


def test_net_benefit_says_that_a_confidence_in_the_answer_is_no_risk() -> None:
    said = ["sick", "well"] * 10
    columns = {"item": list(range(20)), "target": said, "prediction": said, "confidence": [0.95] * 20}
    result = sy.evaluate(sy.Records.from_columns(columns), ["net_benefit(pt=0.5, positive=sick)"], resamples=0)
    assert any("net_benefit(pt=0.1, score=risk)" in warning for warning in result.warnings)


@pytest.mark.parametrize(("rule", "said"), [("accuracy >= 85", "accuracy is at most 1"),
                                            ("high(delta(mae)) <= -0.1", ""), ("delta(ppv) <= -1.5", "at least -1"),
                                            ("accuracy >= 1", "")])  # fmt: skip
def test_a_threshold_that_nothing_meets_is_said(rule: str, said: str) -> None:
    gate = Gate.parse(f"!{rule}" if "ppv" in rule else rule)
    notes = " ".join(gate.check(sy.evaluate(run(1), ["accuracy"], resamples=0)).notes) if "delta" not in rule else ""
    compared = sy.compare(run(1), run(2), ["ppv"], resamples=100)
    notes = notes or " ".join(gate.check(compared).notes)
    assert ("is beyond what there is" in notes) == bool(said)
    assert said in notes


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("bleu >= 0.1", "'bleu >= 0.1': unknown metric 'bleu'; did you mean chrf? `steelyard metrics` lists all"),
        ("fairness_gap <= 0.1", "write it out, such as fairness_gap(accuracy, by=group.site)"),
        ("high(delta(fairness_gap)) <= 0.1", "write it out, such as fairness_gap(accuracy, by=group.site)"),
        ("worst_group(mcc) >= 0.1", "write it out, such as worst_group(mcc, by=group.site)"),
        ("mcc(bins=3) >= 0.1", "bins"),
    ],
)
def test_a_name_that_is_no_metric_is_answered_as_everywhere(rule: str, said: str) -> None:
    gate = Gate.parse(rule)
    with pytest.raises(UsageError) as problem:
        gate.check(of_records(gate, run(2), run(1), NumberOptions(resamples=100)))
    assert said in str(problem.value)


def test_kept_evidence_does_not_guess_what_a_metric_is_about() -> None:
    kept = sy.evaluate(run(1), ["fairness_gap"], resamples=100, keep_evidence=True).kept
    with pytest.raises(UsageError, match=r"such as fairness_gap\(accuracy, by=group\.site\)"):
        compare_kept(kept, kept, ["fairness_gap"])
