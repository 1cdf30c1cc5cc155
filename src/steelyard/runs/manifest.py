"""`run_manifest.json`: how a run came about: command, inputs, shift, settings, digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.ground.json import head, plain
from steelyard.study.wire import Tool

NAME = "run_manifest.json"
KIND = "run-manifest"


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """How a run came about, as whoever made it knows."""

    command: list[str]
    inputs: list[dict[str, Any]]
    shift: dict[str, Any]
    settings: dict[str, Any]


class ManifestFile(msgspec.Struct, kw_only=True):
    """`run_manifest.json`. `files` are the digests of the other files of the run; run.json has the manifest's own."""

    schema_version: str
    kind: str
    tool: Tool
    command: list[str]
    inputs: list[dict[str, Any]]
    shift: dict[str, Any]
    settings: dict[str, Any]
    files: dict[str, str]


def manifest_document(manifest: RunManifest, files: Mapping[str, str]) -> dict[str, Any]:
    """The document, with the digests of the files next to it."""
    return {**head(KIND), **plain(msgspec.to_builtins(manifest)), "files": dict(files)}
