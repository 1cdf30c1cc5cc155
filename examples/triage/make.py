"""Makes the bundled example: two imaginary models triage the cases of sixty imaginary patients.

Everything is drawn from a seeded generator; no text or number comes from real patients. Each case was asked three
times as it is, three times with typing errors and three times paraphrased. Both models may decline; some replies cannot
be read and some never came. Confidences are informative but too high.

    python examples/triage/make.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random

LABELS = ("self-care", "routine", "urgent", "emergency")
PERTURBATIONS = (None, "typos", "paraphrase")
PATIENTS, CASES, REPEATS = 60, 3, 3


class Model:
    """How one imaginary model behaves."""

    def __init__(self, name: str, skill: float, caution: float, overconfidence: float, speed: float) -> None:
        self.name, self.skill, self.caution = name, skill, caution
        self.overconfidence, self.speed = overconfidence, speed


MODELS = (
    Model("alder-1", skill=1.05, caution=0.45, overconfidence=0.18, speed=620.0),
    Model("birch-2", skill=1.45, caution=0.75, overconfidence=0.12, speed=840.0),
)


def rows(seed: int = 20261115) -> list[dict[str, object]]:
    """Every answer, one mapping each."""
    found = []
    for number in range(1, PATIENTS + 1):
        person = Random(f"{seed}-patient-{number}")
        patient = f"p{number:02d}"
        site = "north" if person.random() < 0.55 else "south"
        fragility = person.gauss(0, 0.6)  # what makes the answers of one patient alike
        for case in range(1, CASES + 1):
            item = f"{patient}-c{case}"
            target = person.choices(LABELS, weights=(3, 4, 2, 1))[0]
            hardness = person.gauss(0, 0.8) + fragility + (0.35 if site == "south" else 0.0)
            ambiguous = hardness > 0.9
            for model in MODELS:
                for perturbation in PERTURBATIONS:
                    for repeat in range(1, REPEATS + 1):
                        draw = Random(f"{seed}-{item}-{model.name}-{perturbation}-{repeat}")
                        found.append(
                            {
                                "item": item,
                                "patient": patient,
                                "model": model.name,
                                "repeat": repeat,
                                "perturbation": perturbation,
                                "group": {"site": site},
                                "target": target,
                                "should_abstain": ambiguous,
                                **answer(draw, model, target, hardness, ambiguous, perturbation),
                            }
                        )
    return found


def answer(
    draw: Random, model: Model, target: str, hardness: float, ambiguous: bool, perturbation: str | None
) -> dict[str, object]:
    """One reply: outcome, prediction, confidence and cost."""
    strength = model.skill - hardness - (0.5 if perturbation == "typos" else 0.15 if perturbation else 0.0)
    chance = 1 / (1 + 2.718281828**-strength)
    latency = round(model.speed * (0.6 + draw.expovariate(2.5)), 1)
    tokens = {"input_tokens": draw.randint(280, 520), "output_tokens": draw.randint(12, 90)}
    if draw.random() < 0.012:
        return {"outcome": "failed", "prediction": None, "confidence": None}
    if draw.random() < 0.02:
        return {
            "outcome": "unparsed",
            "prediction": None,
            "confidence": None,
            "latency_ms": latency,
            **tokens,
        }
    if draw.random() < (model.caution if ambiguous else 0.06):
        return {
            "outcome": "abstained",
            "prediction": None,
            "confidence": None,
            "latency_ms": latency,
            **tokens,
        }
    right = draw.random() < chance
    near = LABELS.index(target)
    wrong = [label for label in LABELS if abs(LABELS.index(label) - near) == 1]
    stated = min(0.99, max(0.05, chance + model.overconfidence + draw.gauss(0, 0.12)))
    return {
        "outcome": "answered",
        "prediction": target if right else draw.choice(wrong),
        "confidence": round(stated, 2),
        "latency_ms": latency,
        **tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent, help="where the file goes")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in rows()]
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stderr.write(f"made {folder / 'answers.jsonl'}: {len(lines)} answers\n")


if __name__ == "__main__":
    main()
