"""Makes recorded.csv: what a language model might have replied to every question of spec.yaml, to be replayed.

The replies are invented by rules and chance, from what the prompt shows and never from the labels. This model reads
what is meant, is helped by the team's rules and by examples like the case, and answers in several forms, a few of which
end too early. Capitals do not disturb it; a text that ends early, or has words too many, does.

    python examples/triage_jira/make.py [FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import runpy
from pathlib import Path
from typing import Any

from steelyard.runner.plan import Place, planned
from steelyard.runner.spec import load_spec

HERE = Path(__file__).resolve().parent
PRIORITIES = ("Critical", "Major", "Minor", "Trivial")
COLUMNS = ("strategy", "perturbation", "item", "repeat", "sample", "reply", "input_tokens", "output_tokens")
SLIPS = {"zero-shot": 0.12, "contextual": 0.03, "few-shot-similar-3": 0.06, "self-consistency-3": 0.14}
DISTURBED = {"truncation": 0.10, "noise_words": 0.05, "typos": 0.03}


def reply(place: Place, opinion: str, rng: random.Random) -> str:
    """One reply: the rules' opinion or a slip, in one of several forms."""
    slips = SLIPS[place.strategy.name] + DISTURBED.get(place.perturbation or "", 0.0)
    near = PRIORITIES[max(0, min(3, PRIORITIES.index(opinion) + rng.choice((-1, 1))))]
    answer = near if rng.random() < slips else opinion
    confidence = round(rng.uniform(0.6, 0.99), 2)
    stated = json.dumps({"answer": answer, "confidence": confidence})
    forms = [f"Answer: {answer}", f"{answer}.", stated, f"I would say {answer}.", stated[:16]]
    (chosen,) = rng.choices(forms, weights=[60, 20, 10, 8, 2])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="where the file goes")
    folder = parser.parse_args().folder
    rules = runpy.run_path(str(HERE / "models.py"))
    plan = planned(load_spec(HERE / "spec.yaml"))
    model = next(each for each in plan.spec.models if each.name == "recorded")
    with open(folder / "recorded.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number in plan.numbers(model):
            writer.writerow(row(plan, plan.place(number), rules))


def row(plan: Any, place: Place, rules: dict[str, Any]) -> list[Any]:
    asked = plan.request(place)
    rng = random.Random(f"{place.strategy.name} {place.perturbation} {place.item.id} {place.repeat} {place.sample}")
    opinion = rules["_priority"](rules["_forgiven"](rules["_text"](asked.item).lower()))
    text = reply(place, opinion, rng)
    tokens = len(asked.prompt) // 4, len(text) // 4 + (40 if place.strategy.samples > 1 else 0)
    return [place.strategy.name, place.perturbation or "", place.item.id, place.repeat, place.sample, text, *tokens]


if __name__ == "__main__":
    main()
