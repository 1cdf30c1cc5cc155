"""The JSON Schemas that are published, by the name of their document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.confidence.calibrators.wire import calibrator_schema
from steelyard.decide.rules_file import rules_schema
from steelyard.decide.wire import AcceptanceFile
from steelyard.ground.structs import schema
from steelyard.registry import Registry
from steelyard.retrieval.per_query import PerQueryEval
from steelyard.retrieval.shifts.kept import ShiftTrainingResult
from steelyard.retrieval.shifts.segments_wire import Segments
from steelyard.runner.spec import spec_schema
from steelyard.runner.tasks.from_file import task_schema
from steelyard.runs.manifest import ManifestFile
from steelyard.runs.run_json import RunFile
from steelyard.study.benchmark_wire import ReportFile
from steelyard.study.selective_wire import selective_schema
from steelyard.study.suite import suite_schema
from steelyard.study.wire import ComparisonFile, EvaluationFile

schemas: Registry[Callable[[], dict[str, Any]]] = Registry("schema")
schemas.add("selective", selective_schema)
schemas.add("calibrator", calibrator_schema)
schemas.add("gate-rules", rules_schema)
schemas.add("task", task_schema)
schemas.add("run-spec", spec_schema)
schemas.add("per-query", lambda: schema(PerQueryEval, "One entry of eval.perQuery.*.json"))
schemas.add("segments", lambda: schema(Segments, "Segments file"))
schemas.add("shift-training-result", lambda: schema(ShiftTrainingResult, "Shift training result"))
schemas.add("evaluation", lambda: schema(EvaluationFile, "evaluation.json"))
schemas.add("comparison", lambda: schema(ComparisonFile, "comparison.json"))
schemas.add("benchmark", lambda: schema(ReportFile, "Benchmark report"))
schemas.add("suite", suite_schema)
schemas.add("run", lambda: schema(RunFile, "run.json"))
schemas.add("run-manifest", lambda: schema(ManifestFile, "run_manifest.json"))
schemas.add("acceptance-gate", lambda: schema(AcceptanceFile, "acceptance_gate.json"))
