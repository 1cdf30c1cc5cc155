"""Makes the answers of two invented models to the suite `clinical`: seeded, the second better than the first.

python examples/clinical/make.py    writes one file per task into alder/ and birch/ beside this file

An answer is the reference, a paraphrase of it, or the answer to another case; a rationale is the beginning of the
reference's. The first model left two cases of one task unanswered.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import steelyard

SUITE = Path(steelyard.__file__).parent / "suites" / "clinical"
# shares of references and of paraphrases, and how many sentences of reasons
MODELS = {"alder": (0.45, 0.25, 1), "birch": (0.65, 0.2, 2)}
UNANSWERED = {("alder", "medication_safety"): 2}


def answers(model: str, cases: list[dict[str, str]], seed: int = 7) -> list[dict[str, str]]:
    """A model's answers to the cases of a task."""
    right, paraphrased, sentences = MODELS[model]
    found = []
    for place, case in enumerate(cases):
        rng = random.Random(f"{seed} {case['id']}")  # what is hard for one model is hard for the other
        drawn = rng.random() * rng.choice((0.7, 1.3))
        other = cases[(place + rng.randrange(1, len(cases))) % len(cases)]
        kind = "target" if drawn < right else "paraphrase" if drawn < right + paraphrased else ""
        said = case if kind else other
        reason = ". ".join(said["rationale"].split(". ")[:sentences]).rstrip(".") + "."
        found.append({"id": case["id"], "model": model, "prediction": said[kind or "target"], "rationale": reason})
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    folder = Path(__file__).parent
    for model in MODELS:
        (folder / model).mkdir(exist_ok=True)
        for data in sorted(SUITE.glob("*.jsonl")):
            cases = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
            given = answers(model, cases)
            kept = given[: len(given) - UNANSWERED.get((model, data.stem), 0)]
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
            (folder / model / data.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
