"""Make logs with the real lm-eval, of questions, answers and a model that we invented: make_lm_eval.py FOLDER

It runs in an environment that has lm-eval (`pip install lm-eval`), without the network. The small ones are kept in
tests/data/lm_eval. The model is no model: what it answers, and how likely it finds a text, follows from the question.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
os.environ.setdefault("HF_HOME", tempfile.mkdtemp())

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

LAMPS = ("red", "the green lamp", "été, a blue one")
REPLIES = (
    "The answer is red",
    "green, I believe",
    "",
    "I don't know.",
    "The answer is été, a blue one",
    "who can say?",
)


def docs() -> list[dict[str, Any]]:
    return [
        {
            "question": f"Which lamp shines in room {number}?",
            "choices": list(LAMPS),
            "gold": number % 3,
            "answer": LAMPS[number % 3],
            "lit": number % 2,
            "patient": f"p{number // 2}",
            "site": "north" if number % 4 < 2 else "south",
        }
        for number in range(9)
    ]


TASKS: dict[str, dict[str, Any]] = {
    "lamps": {
        "output_type": "multiple_choice",
        "doc_to_target": "gold",
        "doc_to_choice": "{{choices}}",
        "metric_list": [
            {"metric": name} for name in ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "brier_score")
        ],
    },
    "lamps_by_name": {
        "output_type": "multiple_choice",
        "doc_to_target": "answer",
        "doc_to_choice": "{{choices}}",
        "target_delimiter": "\n",
        "metric_list": [{"metric": "acc_norm"}, {"metric": "acc"}],
    },
    "lamps_lit": {
        "output_type": "multiple_choice",
        "doc_to_target": "lit",
        "doc_to_choice": ["no", "yes"],
        "metric_list": [{"metric": "f1"}, {"metric": "mcc"}, {"metric": "acc"}],
    },
    "lamps_written": {
        "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "do_sample": False, "temperature": 0.0},
        "repeats": 2,
        "metric_list": [
            {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}
        ],
        "filter_list": [
            {
                "name": "strict-match",
                "filter": [{"function": "regex", "regex_pattern": "answer is (.*)"}, {"function": "take_first"}],
            },
            {
                "name": "flexible-extract",
                "filter": [
                    {"function": "regex", "regex_pattern": "(red|green|blue|été.*)", "group_select": -1},
                    {"function": "take_first"},
                ],
            },
        ],
    },
    "lamps_likely": {
        "output_type": "loglikelihood",
        "doc_to_target": " {{answer}}",
        "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}],
    },
    "lamps_read": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{question}}",
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "byte_perplexity"}, {"metric": "bits_per_byte"}],
    },
}


def share(*texts: str) -> float:
    """A number above 0 and up to 1 that follows from the texts."""
    return (1 + int.from_bytes(hashlib.sha256("|".join(texts).encode()).digest()[:6], "big")) / 2**48


class Invented(LM):
    """Answers that follow from the question and the model's name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        pairs = [request.args[:2] for request in requests]
        shares = [share(self.name, *pair) for pair in pairs]
        return [(len(text) * math.log(part) / 2, part > 0.6) for (_, text), part in zip(pairs, shares, strict=True)]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        return [len(request.args[0]) * math.log(share(self.name, request.args[0])) for request in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [REPLIES[int(share(self.name, request.args[0]) * 997) % len(REPLIES)] for request in requests]


def made(folder: Path, tasks: tuple[str, ...], *, model: str, limit: int | None = None) -> None:
    """Run tasks and write what lm-eval writes."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place, "lamps.jsonl")
        data.write_text("".join(json.dumps(doc) + "\n" for doc in docs()))
        for name in tasks:
            shared = {
                "task": name,
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(data)}},
                "test_split": "test",
                "doc_to_text": "{{question}}\nAnswer:",
            }
            Path(place, f"{name}.yaml").write_text(json.dumps({**shared, **TASKS[name]}))  # JSON is YAML
        tracker = EvaluationTracker(output_path=str(folder))
        results = simple_evaluate(
            model=Invented(model),
            model_args={"pretrained": model},
            tasks=list(tasks),
            task_manager=TaskManager(include_path=place, include_defaults=False),
            limit=limit,
            log_samples=True,
            bootstrap_iters=100,
            evaluation_tracker=tracker,
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        for name in results["configs"]:
            tracker.save_results_samples(task_name=name, samples=samples[name])
    for path in folder.rglob("results_*.json"):  # where the run happened to be is nobody's business
        document = json.loads(path.read_text())
        for config in document["configs"].values():
            config["dataset_kwargs"] = {"data_files": {"test": "lamps.jsonl"}}
            config.get("metadata", {}).pop("config_source", None)
        for key in ("pretty_env_info", "git_hash", "upper_git_hash"):
            document[key] = None
        path.write_text(json.dumps(document, indent=2))


def main() -> None:
    folder = Path(sys.argv[1])
    made(folder / "all", tuple(TASKS), model="acme/tiny")
    made(folder / "limited", ("lamps",), model="acme/tiny", limit=4)
    made(folder / "other", ("lamps",), model="acme/small")
    made(folder / "written", ("lamps_written",), model="acme/tiny")


if __name__ == "__main__":
    main()
