"""Makes judgements and two runs in TREC's format: synthetic, seeded, the second run a little better than the first.

python examples/trec/make.py    writes qrels.txt, first.txt and second.txt beside this file
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

TOPICS, DEPTH, JUDGED = 60, 50, 20


def lines(seed: int = 11) -> dict[str, list[str]]:
    """The lines of each file."""
    rng = random.Random(seed)
    found: dict[str, list[str]] = {"qrels.txt": ["# topic iteration document grade"], "first.txt": [], "second.txt": []}
    for number in range(1, TOPICS + 1):
        topic = f"t{number:02d}"
        documents = [f"d{number:02d}-{i:02d}" for i in range(DEPTH)]
        grades = dict(zip(documents, rng.choices((2, 1, 0), (1, 3, 9), k=JUDGED), strict=False))
        found["qrels.txt"] += [f"{topic} 0 {document} {grade}" for document, grade in grades.items()]
        ease = rng.gauss(0, 0.5)  # of the topic: both runs share it
        for name, skill in (("first", 0.6), ("second", 0.9)):
            scored = [(rng.gauss(grades.get(d, 0) * (skill + ease), 1.0), d) for d in documents]
            ranked = enumerate(sorted(scored, reverse=True), 1)
            found[f"{name}.txt"] += [f"{topic} Q0 {d} {rank} {score:.4f} {name}" for rank, (score, d) in ranked]
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    folder = Path(__file__).parent
    for name, text in lines().items():
        (folder / name).write_text("\n".join(text) + "\n", newline="\n")


if __name__ == "__main__":
    main()
