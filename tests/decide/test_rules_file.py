"""Rules of a gate in a file: what is read, what is refused, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from steelyard.decide.gate import Gate
from steelyard.decide.rules_file import load_rules
from steelyard.errors import UsageError
from steelyard.report.schemas import schemas

GOOD = (
    "rules: [accuracy >= 0.8]",
    "rules:\n  - low(delta(accuracy)) >= -0.01\n  - accuracy{group.site=x} >= 0.5 for each cell\nbaseline: active\n",
    "profile: rank",
    "profile: rank+cosine\nrules: [failure_rate <= 0.02]\nbaseline: pinned:release-1",
    "# a comment\nrules:\n  - '!bias >= -0.1'  # another\n",
)
BAD = {
    "": "a mapping is expected",
    "{}": "rules or a profile are needed",
    "rules: []": "rules or a profile are needed",
    "rules:": "a list is expected",
    "rules: accuracy >= 0.8": "a list is expected",
    "rules: [0.8]": "is expected, this is",
    "rules: [true]": "is expected, this is",
    "rules: ['']": "at least 1 characters",
    "rules: [[accuracy >= 1]]": "is expected, this is",
    "rules: [{accuracy: 0.8}]": "is expected, this is",
    "profile: 3": "is expected, this is",
    "profile: [rank]": "is expected, this is",
    "rules: [accuracy >= 1]\nbaseline: 7": "is expected, this is",
    "rule: [accuracy >= 1]": "did you mean 'rules'?",
    "rules: [accuracy >= 1]\nbaselin: active": "did you mean 'baseline'?",
    "rules: [accuracy >= 1]\ncolour: red": "colour",
    "- accuracy >= 0.8": "a mapping is expected",
    "accuracy >= 0.8": "a mapping is expected",
}


@pytest.mark.parametrize("content", GOOD)
def test_good_rules_files_are_read_and_meet_the_schema(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    found = load_rules(path)
    assert found.rules or found.profile
    assert Gate.parse(found.rules or ["accuracy >= 0"])
    schema_of_rules().validate(yaml.safe_load(content))


@pytest.mark.parametrize(("content", "problem"), BAD.items())
def test_bad_rules_files_are_refused_and_told_why(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_rules(path)
    assert "gate.yaml" in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("content", BAD)
def test_bad_rules_files_do_not_meet_the_schema(content: str) -> None:
    assert list(schema_of_rules().iter_errors(yaml.safe_load(content)))


@pytest.mark.parametrize("content", ["profile: rank\nrules: []", "profile:\nrules: [accuracy >= 1]", "profile: null"])
def test_the_schema_and_the_reader_agree(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    valid = schema_of_rules().is_valid(yaml.safe_load(content))
    if valid:
        load_rules(path)
    else:
        with pytest.raises(UsageError):
            load_rules(path)


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("rules: [accuracy >= 1]\nrules: [accuracy >= 0]", 2, "a key appears twice"),
        ("rules: &r [accuracy >= 1]\nprofile: *r", 2, "aliases are not allowed"),
        ("rules: [accuracy >= 1]\nprofile: no", 2, "put it in quotes"),
        ("rules: [accuracy >= 1\n", 2, ""),
        ("rules:\n  - !bias >= 0\n", 2, ""),  # without quotes "!" is a tag of YAML
        ("rules: !!python/object/apply:os.system [ls]", 1, ""),
    ],
)
def test_what_yaml_would_take_otherwise_is_refused_at_its_line(
    tmp_path: Path, content: str, line: int, problem: str
) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_rules(path)
    assert f"gate.yaml:{line}: " in str(caught.value)
    assert problem in str(caught.value)


def test_a_rules_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules(tmp_path / "nowhere.yaml")
    (tmp_path / "gate.yaml").write_bytes("rules: [ä >= 1]".encode("latin-1"))
    with pytest.raises(UsageError, match="not UTF-8"):
        load_rules(tmp_path / "gate.yaml")


def schema_of_rules() -> Any:
    schema = schemas["gate-rules"]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
