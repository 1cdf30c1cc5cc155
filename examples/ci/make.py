"""Makes the answers for the CI example: one imaginary model, and what six changes to it would answer.

Everything is drawn from a seeded generator; no text or number comes from real patients. The release triages two cases
of each of 120 patients at three sites. The changes: nothing (another build of the same model), a real gain, a real
loss, a rare loss (four patients), an outage at one site, and a file whose last line was cut off.

    python examples/ci/make.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random

PATIENTS, CASES, SITES = 120, 2, ("north", "east", "south")
RARE = (7, 41, 77, 103)  # the patients that the rare loss hits


def release(seed: int = 20261116) -> list[dict[str, object]]:
    """The answers of the released model, about four in five right."""
    random = Random(seed)
    rows: list[dict[str, object]] = []
    for patient in range(PATIENTS):
        ease = random.gauss(1.5, 0.8)
        for case in range(CASES):
            target = random.choice(("routine", "urgent"))
            right = random.random() < 1 / (1 + 2.718 ** -(ease + random.gauss(0, 0.5)))
            rows.append(
                {
                    "item": f"p{patient:03d}-{case}",
                    "patient": f"p{patient:03d}",
                    "group": {"site": SITES[patient % len(SITES)]},
                    "target": target,
                    "prediction": target if right else _other(target),
                    "outcome": "answered",
                }
            )
    return rows


def changes(base: list[dict[str, object]], seed: int = 7) -> dict[str, list[dict[str, object]]]:
    """What each change would answer to the same questions."""
    random = Random(seed)
    luck = [random.random() for _ in base]
    gain = [
        {**row, "prediction": row["target"] if u < 0.6 else row["prediction"]}
        for row, u in zip(base, luck, strict=True)
    ]
    loss = [_wrong(row) if u < 0.3 else row for row, u in zip(base, luck, strict=True)]
    rare = [_wrong(row) if row["patient"] in {f"p{p:03d}" for p in RARE} else row for row in base]
    outage = [{**row, "prediction": None, "outcome": "failed"} if _site(row) == "south" else row for row in base]
    return {"release": base, "rebuild": base, "gain": gain, "loss": loss, "rare-loss": rare, "outage": outage}


def _other(label: object) -> str:
    return "urgent" if label == "routine" else "routine"


def _wrong(row: dict[str, object]) -> dict[str, object]:
    return {**row, "prediction": _other(row["target"])}


def _site(row: dict[str, object]) -> object:
    group = row["group"]
    assert isinstance(group, dict)
    return group["site"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "answers")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in changes(release()).items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    torn = (folder / "rebuild.jsonl").read_text()
    (folder / "torn.jsonl").write_text(torn[:-30])


if __name__ == "__main__":
    main()
