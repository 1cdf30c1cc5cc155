"""Makes recorded.jsonl: what a language model might have replied about the patients of spec.yaml, to be replayed.

The replies are invented by rules and chance, from what the prompt shows and never from the labels. They are as mixed as
real ones: JSON alone, in a fence, after thoughts; a line `Answer: …`; a polite refusal; and a few that end too early.

    python examples/ckd/make.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import random
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard.runner.tasks import tasks

HERE = Path(__file__).resolve().parent
PATIENTS, SEED = 200, 0  # as in spec.yaml


def reply(case: Mapping[str, Any], opinion: Any, rng: random.Random) -> str:
    """One reply: the rules' opinion, blurred where it is close, in one of several forms."""
    other = {"ckd": "notckd", "notckd": "ckd"}
    is_close = opinion.distance < 12
    answer = other[opinion.answer] if rng.random() < (0.3 if is_close else 0.03) else opinion.answer
    confidence = round(rng.uniform(0.55, 0.8) if is_close else rng.uniform(0.85, 0.99), 2)
    if rng.random() < (0.35 if opinion.distance < 4 or opinion.contradicted else 0.02):
        declined = json.dumps({"answer": None, "abstain": True, "confidence": confidence})
        return rng.choice([declined, "I cannot determine this.", "Answer: I don't know"])
    stated = json.dumps({"answer": answer, "abstain": False, "confidence": confidence})
    thought = f"Creatinine is {case['creatinine']} mg/dL at {case['age']} years; that speaks for {answer}."
    forms = [
        stated,
        f"```json\n{stated}\n```",
        f"<think>{thought} Or {other[answer]}? No.</think>\n{stated}",
        f"{thought}\n\nAnswer: {answer}\nConfidence: {confidence}",
        stated[: len(stated) // 2],
    ]
    (chosen,) = rng.choices(forms, weights=[50, 20, 15, 12, 3])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="where the file goes")
    folder = parser.parse_args().folder
    opinion = runpy.run_path(str(HERE / "models.py"))["_opinion"]
    task = tasks["ckd_detection"]
    lines = []
    for item in task.items(None, size=PATIENTS, seed=SEED).items:
        rng = random.Random(f"{SEED}-{item.id}")
        case = task.shown(item)
        text = reply(case, opinion(case), rng)
        tokens = {"input_tokens": 180 + rng.randrange(20), "output_tokens": len(text) // 4}
        lines.append(json.dumps({"item": item.id, "reply": text, **tokens}) + "\n")
    (folder / "recorded.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
