"""Makes the PHQ-8 example: an imaginary model scores the eight items of a depression questionnaire from interviews.

Everything is synthetic: each score and signal is drawn from a seeded generator, none comes from a real interview or
person. The model works in two modes, without references (zero_shot) and with retrieved ones (few_shot), on the same
participants, and may decline an item, which it does more often where the interview holds no evidence. Its belief over
the four scores gives the token signals and five sampled answers; these give the consistency signals and, where at least
three of them agree, the prediction, else the first of them does. What the model says of its confidence is too high.

train.json, 60 participants, is for fitting calibrators; run.json, 41 others of whom one failed, is for evaluating.

    python examples/phq8/make.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

ITEMS = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")
OFFSETS = (0.0, 0.1, 0.4, 0.5, 0.0, 0.1, 0.0, -0.6)  # sleep and tiredness trouble people most, moving least
THRESHOLDS = (0.1, 0.8, 1.4)  # between the scores 0, 1, 2 and 3
SAMPLES = 5
FAILED = 317


class Mode:
    """How the imaginary model behaves in one mode."""

    def __init__(self, name: str, skill: float, caution: float, references: int) -> None:
        self.name, self.skill, self.caution, self.references = name, skill, caution, references


MODES = (
    Mode("zero_shot", skill=0.0, caution=-0.9, references=0),
    Mode("few_shot", skill=0.3, caution=-1.9, references=6),
)


def run(split: str, participants: range, seed: int) -> dict[str, object]:
    """One run: every participant in both modes."""
    people = [interview(Random(f"{seed}-participant-{number}")) for number in participants]
    experiments = []
    for mode in MODES:
        results = [
            result(Random(f"{seed}-{number}-{mode.name}"), mode, number, person)
            for number, person in zip(participants, people, strict=True)
        ]
        experiments.append(
            {
                "provenance": {"mode": mode.name, "split": split, "seed": seed, "consistency_samples": SAMPLES},
                "results": {"mode": mode.name, "model": "cedar-3", "results": results},
            }
        )
    stamp = {"timestamp": "2026-01-03T00:00:00Z", "git_commit": "0000000"}  # fixed, so that the files never change
    return {"run_metadata": {"run_id": f"phq8-{split}", **stamp, "synthetic": True}, "experiments": experiments}


def interview(draw: Random) -> dict[str, tuple[int, int, float]]:
    """What both modes are given: true score, pieces of evidence and hardness of each item."""
    severity, opacity = draw.gauss(0, 0.8), draw.gauss(0, 0.4)  # what makes the items of one participant alike
    found = {}
    for item, offset in zip(ITEMS, OFFSETS, strict=True):
        level = severity + offset + draw.gauss(0, 0.6)
        truth = sum(level > threshold for threshold in THRESHOLDS)
        evidence = sum(draw.random() < 0.22 + 0.03 * truth for _ in range(5))
        found[item] = truth, evidence, opacity + draw.gauss(0, 0.7)
    return found


def result(draw: Random, mode: Mode, number: int, person: dict[str, tuple[int, int, float]]) -> dict[str, object]:
    """One participant in one mode."""
    failed = number == FAILED
    answers = {} if failed else {item: answer(draw, mode, *given) for item, given in person.items()}
    return {
        "participant_id": number,
        "success": not failed,
        "error": "timeout" if failed else None,
        "ground_truth_items": {item: truth for item, (truth, _, _) in person.items()},
        "predicted_items": {item: prediction for item, (prediction, _) in answers.items()},
        "item_signals": {item: signals for item, (_, signals) in answers.items()},
    }


def answer(
    draw: Random, mode: Mode, truth: int, evidence: int, hardness: float
) -> tuple[int | None, dict[str, float | str | None]]:
    """The prediction for one item and its signals."""
    spread = 1.1 * math.exp(0.6 * hardness - mode.skill - 0.25 * evidence)
    belief = believe(truth + draw.gauss(0, spread), 0.25 + 0.6 * spread)
    reluctance = mode.caution + (2.4 if evidence == 0 else 0.0) + 0.6 * hardness + draw.gauss(0, 2.2)
    declines = 1 / (1 + math.exp(-reluctance))
    samples = [None if draw.random() < declines else draw.choices(range(4), belief)[0] for _ in range(SAMPLES)]
    consistency = agreement(samples)
    stated = round(4.1 + 2.2 * (max(belief) - 0.6) + draw.gauss(0, 0.8))
    signals = {
        "llm_evidence_count": evidence,
        "evidence_source": "llm" if evidence else None,
        **retrieval(draw, mode, evidence, hardness),
        "verbalized_confidence": None if draw.random() < 0.04 else min(5, max(1, stated)),
        **tokens(draw, belief),
        **consistency,
    }
    agreed = consistency["consistency_modal_count"] > SAMPLES / 2
    return consistency["consistency_modal_score"] if agreed else samples[0], signals


def believe(centre: float, width: float) -> list[float]:
    """How probable the model holds each of the four scores."""
    weights = [math.exp(-(((score - centre) / width) ** 2) / 2) for score in range(4)]
    return [weight / sum(weights) for weight in weights]


def retrieval(draw: Random, mode: Mode, evidence: int, hardness: float) -> dict[str, float | None]:
    """References are looked up by the evidence: without evidence there are none."""
    count = draw.randint(1, mode.references) if mode.references and evidence else 0
    likeness = [min(1.0, max(0.0, draw.gauss(0.66 - 0.03 * hardness, 0.08))) for _ in range(count)]
    return {
        "retrieval_reference_count": count,
        "retrieval_similarity_mean": round(fmean(likeness), 4) if likeness else None,
        "retrieval_similarity_max": round(max(likeness), 4) if likeness else None,
    }


def tokens(draw: Random, belief: list[float]) -> dict[str, float]:
    """Largest probability and entropy of the score token; energy is the log of what all four scores hold together."""
    elsewhere = 0.005 + 0.3 * (1 - max(belief)) * draw.random()
    return {
        "token_msp": round(max(belief) * (1 - elsewhere), 4),
        "token_pe": round(-sum(chance * math.log(chance) for chance in belief), 4),
        "token_energy": round(math.log(1 - elsewhere), 4),
    }


def agreement(samples: list[int | None]) -> dict[str, float | None]:
    """How far the sampled answers agree; of equally frequent ones null comes first, then the smallest score."""
    counts = Counter(samples)
    modal = min(counts, key=lambda score: (-counts[score], -1 if score is None else score))
    scores = [score for score in samples if score is not None]
    return {
        "consistency_modal_score": modal,
        "consistency_modal_count": counts[modal],
        "consistency_modal_confidence": round(counts[modal] / SAMPLES, 4),
        "consistency_score_std": round(pstdev(scores), 4) if scores else 0.0,
        "consistency_na_rate": round(counts[None] / SAMPLES, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent, help="where the files go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for split, participants, seed in (("train", range(400, 460), 20260102), ("run", range(300, 341), 20260103)):
        path = folder / f"{split}.json"
        path.write_text(json.dumps(run(split, participants, seed), indent=1) + "\n", encoding="utf-8")
        sys.stderr.write(f"made {path}: {len(participants)} participants in {len(MODES)} modes\n")


if __name__ == "__main__":
    main()
