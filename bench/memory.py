"""How much memory a large file takes, of which few columns are read, against the same rows with these columns alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BYTES = 2**30
GOAL = 1.5
_NOTE = "no acute distress, will call again tomorrow morning; " * 8
_READ = """
import resource, sys
from steelyard.records.readers import read
from steelyard.records.converting import convert
from pathlib import Path
source, target = sys.argv[1:]
convert(source, Path(target)) if target else read(source, columns=[])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak(source: Path, target: str = "") -> float:
    """Megabytes at most, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _READ, source, target], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured() -> Iterator[tuple[str, float, float]]:
    """What was done with which format, the peak of the large file, and that of its read columns alone."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("csv", "jsonl"):
            large, slim = Path(folder, f"large.{suffix}"), Path(folder, f"slim.{suffix}")
            _write(large, slim, suffix)
            alone = peak(slim)
            yield f"reading 1 GB of {suffix.upper()}", peak(large), alone
            yield f"converting 1 GB of {suffix.upper()} to Parquet", peak(large, str(Path(folder, "x.parquet"))), alone
            large.unlink()


def _write(large: Path, slim: Path, suffix: str) -> None:
    rng = random.Random(1)
    size = number = 0
    names = ("item", "target", "prediction", "confidence", "latency_ms")
    with large.open("w") as one, slim.open("w") as two:
        if suffix == "csv":
            one.write(",".join((*names, "note")) + "\n")
            two.write(",".join(names) + "\n")
        while size < BYTES:
            number += 1
            values = (f"item-{number:08d}", rng.choice("AB"), rng.choice("AB"), rng.random(), rng.random() * 1000)
            row = dict(zip(names, values, strict=True))
            if suffix == "csv":
                cells = ",".join(map(str, values))
                size += one.write(f'{cells},"{_NOTE}"\n')
                two.write(f"{cells}\n")
            else:
                size += one.write(json.dumps({**row, "messages": [{"role": "user", "content": _NOTE}]}) + "\n")
                two.write(json.dumps(row) + "\n")
