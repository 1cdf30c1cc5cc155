"""PHQ-8 runs: every item of a participant is a row; what breaks a rule is refused with line, field and participant."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.halves import whole_text
from steelyard.records.readers import contract, phq8, read
from steelyard.records.table import Records

ITEMS = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")
FIXED = ("strategy", "item", "cluster", "group.item", "target", "prediction", "outcome")
TARGET, PREDICTION, SIGNALS = "ground_truth_items", "predicted_items", "item_signals"
SECRET, NUMBER = "SECRET-PATIENT", 777123  # values that no message may show
GONE, NAN = object(), float("nan")


def scores(score: Any = 1, **changed: Any) -> dict[str, Any]:
    return {item: value for item in ITEMS if (value := changed.get(item, score)) is not GONE}


def person(who: Any = 1, **changed: Any) -> dict[str, Any]:
    found = {"participant_id": who, "success": True, "error": SECRET, TARGET: scores(1), PREDICTION: scores(2)}
    found |= {SIGNALS: {item: {"token_msp": 0.5} for item in ITEMS}} | changed
    return {key: value for key, value in found.items() if value is not GONE}


def signal(who: int, **signals: Any) -> dict[str, Any]:
    return person(who, item_signals={"Sleep": signals})


def experiment(mode: str, *people: Any, **more: Any) -> dict[str, Any]:
    return {"provenance": {"mode": mode}, "results": {"mode": mode, **more, "results": list(people)}}


def run(*experiments: Any) -> dict[str, Any]:
    return {"run_metadata": {"run_id": "r-1", "git_commit": "abc", "seed": NUMBER}, "experiments": list(experiments)}


def among(bad: Any, *more: Any) -> dict[str, Any]:
    return run(experiment("zero_shot", person(1)), experiment("few_shot", person(1), bad, person(3)), *more)


def begins(text: str) -> list[int]:
    return [line for line, after in enumerate(text.split("\n")) if '"participant_id"' in after]  # the id comes first


def written(folder: Path, content: Any, name: str = "run.json") -> Path:
    text = content if isinstance(content, str | bytes) else json.dumps(content, indent=1)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def values(records: Records, name: str) -> list[Any]:
    return list(records.column(name).to_pylist())


def lines(records: Records) -> list[int]:
    return [records.where(row)[1] for row in range(0, len(records), 8)]


def refused(folder: Path, content: Any, **options: Any) -> InputError:
    path = written(folder, content)
    with pytest.raises(InputError) as caught:
        read(path, format="phq8", **options)
    error = caught.value
    assert (error.file, error.exit_code, error.__cause__) == (str(path), 3, None)
    assert str(error).startswith(f"{path}: " if error.line is None else f"{path}:{error.line}: ")
    assert (str(error).isprintable(), SECRET in str(error), str(NUMBER) in str(error)) == (True, False, False)
    return error


def test_a_run_of_two_modes(tmp_path: Path) -> None:
    declined, failed = person(302, predicted_items=scores(3, Sleep=None, Moving=0)), person(303, success=False)
    both = experiment("zero_shot", person(301), declined), experiment("few_shot", failed, person(301))
    records = read(path := written(tmp_path, run(*both)))
    assert records.stated == (*FIXED, "signal.token_msp")
    assert values(records, "strategy") == ["zero_shot"] * 16 + ["few_shot"] * 16
    assert values(records, "cluster") == [301] * 8 + [302] * 8 + [303] * 8 + [301] * 8
    assert (values(records, "group.item"), values(records, "target")) == ([*ITEMS] * 4, [1] * 32)
    assert values(records, "prediction") == [2] * 8 + [3, 3, None, 3, 3, 3, 3, 0] + [None] * 8 + [2] * 8
    assert records.counts() == {"answered": 23, "abstained": 1, "unparsed": 0, "failed": 8}
    assert (records.cluster_columns, records.cluster[0]) == (("cluster",), ((301,), (302,), (303,)))
    assert (records.task.range, records.warnings) == (3, ())
    assert records.sources[0].about == {"run_id": "r-1", "git_commit": "abc"}
    assert records.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    kept = read(path, where={"strategy": "few_shot"})
    assert (values(kept, "strategy"), lines(kept)) == (["few_shot"] * 16, begins(path.read_text())[2:])


def test_columns_are_renamed(tmp_path: Path) -> None:
    path = written(tmp_path, run(experiment("m", person(7), model="cedar")), "run.txt")
    renamed = {"confidence": "signal.token_msp", "patient": "cluster"}
    records = read(path, format="phq8", map=renamed, cluster="patient", task={"range": 10})
    assert records.stated == ("strategy", "model", "item", "patient", *FIXED[3:], "confidence")
    assert (records.cluster[0], records.task.range) == (((7,),), 10)
    with pytest.raises(UsageError, match=r"'signal.token_msp' to 'item': .*run.txt has a column of that name already"):
        read(path, format="phq8", map={"item": "signal.token_msp"})


@pytest.mark.parametrize("stated", [({"mode": "a"}, {}), ({}, {"mode": "a"}), ({"mode": None}, {"mode": "a"})])
def test_the_mode_stands_in_provenance_or_results(tmp_path: Path, stated: tuple[Any, Any]) -> None:
    document = run({"provenance": stated[0], "results": {**stated[1], "results": [person(1)]}})
    assert values(read(written(tmp_path, document)), "strategy") == ["a"] * 8


@pytest.mark.parametrize("target", [GONE, None, scores(None), scores(3)])
def test_a_failed_participant_has_eight_failed_rows(tmp_path: Path, target: Any) -> None:
    failed = person(1, success=False, ground_truth_items=target, predicted_items=target, item_signals=None)
    records = read(written(tmp_path, run(experiment("m", failed))))
    assert (records.counts()["failed"], values(records, "prediction")) == (8, [None] * 8)
    assert values(records, "target") == [3 if target == scores(3) else None] * 8


@pytest.mark.parametrize("given_signals", [GONE, None, {"Sleep": None}, {"Sleep": {"token_msp": None}}])
def test_signals_may_be_missing(tmp_path: Path, given_signals: Any) -> None:
    bare = person(2, item_signals=given_signals)
    records = read(written(tmp_path, run(experiment("m", signal(1, token_msp=1, new=True), bare))))
    assert records.stated == (*FIXED, "signal.token_msp", "signal.new")
    assert values(records, "signal.token_msp") == [None, None, 1, *[None] * 13]


@pytest.mark.parametrize("other", [{}, {"x": None}, {"x": 2}])
@pytest.mark.parametrize("value", [[1, SECRET], {"a": NUMBER}])
def test_an_unknown_signal_that_is_no_value_is_left_out_with_a_warning(tmp_path: Path, value: Any, other: Any) -> None:
    records = read(written(tmp_path, run(experiment("m", signal(1, x=value, y=1), signal(2, **other)))))
    assert records.warnings == ("signal 'x' holds lists or objects and is left out",)
    assert records.stated == (*FIXED, "signal.y")


def test_odd_characters_are_kept_and_escaped_in_messages(tmp_path: Path) -> None:
    odd = ["\ud800", "a\x00b", "\x1b[31m", "\u2028", "a b", "é", "\U0001f600", "1/Sleep"]
    records = read(written(tmp_path, run(experiment("\x1b\udfff", *map(person, odd)))))
    assert (values(records, "cluster")[::8], values(records, "strategy")[0]) == (
        [whole_text(each) for each in odd],
        whole_text("\x1b\udfff"),
    )
    error = refused(tmp_path, run(experiment("\x1b", person("\ud800\x00"), person("\ud800\x00"))))
    assert r"participant \ud800\x00 appears twice in mode '\x1b'" in error.problem


@pytest.mark.parametrize(("start", "end"), [("", "\n"), ("", "\r\n"), ("\ufeff\n\n", "\n")])
def test_a_row_knows_the_line_on_which_its_participant_begins(tmp_path: Path, start: str, end: str) -> None:
    same = [person(1), person(2, item_signals=GONE), person(3, success=False)]
    document = run(experiment("a", *same), experiment("b", *same))
    text = start + json.dumps(document, indent=1).replace("\n", end)
    assert lines(read(written(tmp_path, text))) == begins(text)
    assert lines(read(written(tmp_path, json.dumps(document)))) == [1] * 6


UNREAD = [
    ('"error": 0', '"error": "\\ud800"'),
    ('"mode": "m"', f'"mode": "m", "example": {json.dumps(person(1, error=0))}'),
]


@pytest.mark.parametrize(("old", "new"), UNREAD, ids=["a lone surrogate", "a copy"])
def test_lines_hold_whatever_stands_elsewhere(tmp_path: Path, old: str, new: str) -> None:
    people = ",\n\n".join(json.dumps(person(n, error=0)) for n in (1, 2))
    text = f'{{"experiments": [{{"provenance": {{"mode": "m"}},\n"results": {{"results": [\n{people}]}}}}]}}'
    assert lines(read(written(tmp_path, text.replace(old, new)))) == [3, 5]
    assert refused(tmp_path, among(person(2, success=None), {"results": None})).line == BEGIN


# -- what is refused in a participant ---------------------------------------------------------------------------

PERSON, BEGIN = "experiments[1].results.results[1]", begins(json.dumps(among(person(2)), indent=1))[2]
MOVING, MSP = f"{PREDICTION}.Moving", f"{SIGNALS}.Moving.token_msp"
FLAWED = [
    ('"Moving": 2', '"Moving": NaN', MOVING, "finite"),
    ('"token_msp": 0.5', '"token_msp": -Infinity', MSP, "finite"),
    ('"participant_id": 2', '"participant_id": NaN', "participant_id", "expected"),
    ('"token_msp": 0.5', '"x": 1e999', f"{SIGNALS}.Moving.x", "finite"),
    ('"Moving": 2', f'"Moving": {NUMBER}{10**30}', MOVING, "this large"),
    ('"participant_id": 2', f'"participant_id": {"7" * 10_000}', "participant_id", "whole number"),
    ('"success"', '"success": true, "success"', "success", "appears twice"),
    ('"Moving": 2', '"Moving": 2, "M\\u006fving": 2', MOVING, "appears twice"),
    ('"token_msp"', '"token_msp": 1, "token_msp"', MSP, "appears twice"),
    ('"token_msp": 0.5', '"x": {"a": 1, "a": 2}', f"{SIGNALS}.Moving.x.a", "appears twice"),
    (f'"error": "{SECRET}"', '"error": {"a": NaN}', "error.a", "finite"),
]


@pytest.mark.parametrize(("old", "new", "field", "reason"), FLAWED, ids=[flaw[1][:40] for flaw in FLAWED])
def test_what_parsers_let_pass_is_refused(tmp_path: Path, old: str, new: str, field: str, reason: str) -> None:
    head, next_id, tail = json.dumps(among(person(2)), indent=1).partition('"participant_id": 3')
    error = refused(tmp_path, new.join(head.rsplit(old, 1)) + next_id + tail)
    assert (error.line, error.field) == (BEGIN, f"{PERSON}.{field}")
    assert reason in error.problem


OBJECT, SCORE = "an object is expected", "participant 2, item Sleep: a whole number from 0 to 3"
NEAR = "participant 2 has an unknown item 'Slep'; did you mean 'Sleep'?"
WRONG: list[tuple[Any, str, str]] = [
    *((bad, "", reason) for bad, reason in ((None, OBJECT), (NUMBER, OBJECT), ([SECRET], OBJECT), (NAN, "finite"))),
    *(({"participant_id": id}, ".participant_id", "or a text is expected") for id in (True, 1.5, None, "", GONE)),
    *(({"success": value}, ".success", "true or false is expected") for value in ("true", 1)),
    *(({"success": value}, ".success", "is missing: true or false is expected") for value in (GONE, None)),
    *(({TARGET: scores(1, Sleep=score)}, f".{TARGET}.Sleep", SCORE) for score in (4, -1, "2", True, 2.0, None)),
    *(({PREDICTION: scores(1, Sleep=score)}, f".{PREDICTION}.Sleep", SCORE) for score in (NUMBER, SECRET, [2])),
    ({"success": False, TARGET: scores(1, Sleep=4)}, f".{TARGET}.Sleep", SCORE),
    *(
        ({key: value}, f".{key}", "participant 2 has no scores here")
        for key, value in ((TARGET, GONE), (PREDICTION, None))
    ),
    *(({key: scores(1, Tired=GONE)}, f".{key}", "participant 2 lacks the item Tired") for key in (TARGET, PREDICTION)),
    *(({key: value}, f".{key}", OBJECT) for key, value in ((TARGET, []), (PREDICTION, SECRET), (SIGNALS, [1]))),
    *(({key: {"Slep": {}}}, f".{key}", NEAR) for key in (TARGET, PREDICTION, SIGNALS)),
    ({SIGNALS: {"\x1b": {}}}, f".{SIGNALS}", r"unknown item '\x1b'; the items are NoInterest, Depressed, Sleep"),
    ({SIGNALS: {"Sleep": [SECRET]}}, f".{SIGNALS}.Sleep", OBJECT),
    *(({SIGNALS: {"Sleep": {"token_pe": v}}}, f".{SIGNALS}.Sleep.token_pe", "a single value") for v in ([NUMBER], {})),
]


@pytest.mark.parametrize(("change", "field", "reason"), WRONG)
def test_a_participant_of_another_form_is_refused(tmp_path: Path, change: Any, field: str, reason: str) -> None:
    bad = among(person(**{"who": 2} | change) if isinstance(change, dict) else change)
    error = refused(tmp_path, bad)
    assert (error.line, error.field) == (BEGIN, PERSON + field)
    assert reason in error.problem
    assert refused(tmp_path, json.dumps(bad)).line == 1


def test_a_participant_twice_in_a_mode_is_refused_with_both_lines(tmp_path: Path) -> None:
    bad = run(experiment("a", person(1), person(2)), experiment("b", person(2), person(1), person(2)))
    error, found = refused(tmp_path, bad), begins(json.dumps(bad, indent=1))
    assert (error.line, error.field) == (found[4], "experiments[1].results.results[2]")
    assert error.problem == f"participant 2 appears twice in mode 'b', first at line {found[2]}"
    error = refused(tmp_path, among(person("1")))  # one kind of id: "1" and 1 are not to be told apart
    assert (error.line, "this is text" in error.problem) == (BEGIN, True)


MIXED = [
    (0.5, SECRET, "a number is expected as in the rows before, this is text"),
    (1, str(NUMBER), "a whole number is expected as in the rows before, this is text"),
    (0.5, True, "a number is expected as in the rows before, this is true or false"),
    (0.5, 2**53 + 1, "this large"),
    (1, 2**53 + 1, "this large"),
]


@pytest.mark.parametrize(("first", "second", "reason"), MIXED)
def test_a_signal_has_one_kind(tmp_path: Path, first: Any, second: Any, reason: str) -> None:
    one, two, three = signal(1, token_pe=first), signal(2, token_pe=None), signal(3, token_pe=second)
    for bad in (run(experiment("a", one, two, three)), run(experiment("a", one, two), experiment("b", three))):
        error = refused(tmp_path, bad, columns=["signal.token_pe"])
        assert (error.line, error.field) == (begins(json.dumps(bad, indent=1))[2], "signal.token_pe")
        assert reason in error.problem


# -- what is refused in the file --------------------------------------------------------------------------------

ONE, SECOND = experiment("a", person(1)), "experiments[1].results"
DOCUMENTS: list[tuple[Any, str | None, str]] = [
    *((text, None, OBJECT) for text in ("[]", "12", f'"{SECRET}"')),
    ({"experiments": None}, "experiments", "is missing: a list is expected; the output of a run has run_metadata and"),
    ({"experiments": {"a": SECRET}}, "experiments", "a list is expected"),
    ({"experiments": [NUMBER]}, "experiments[0]", OBJECT),
    *((empty, "experiments", "no participants") for empty in (run(), run(experiment("a"), experiment("b")))),
    (run(ONE, {"results": [SECRET]}), SECOND, OBJECT),
    (run(ONE, {"results": {"mode": "b"}}), f"{SECOND}.results", "is missing: a list is expected"),
    (run(ONE, {"results": {"results": []}}), f"{SECOND}.mode", "the mode is missing"),
    (run(ONE, {"results": {"mode": "b"}, "provenance": {"mode": "c"}}), f"{SECOND}.mode", "differs from the mode in"),
    (run(ONE, ONE), SECOND, "a second experiment of the mode 'a', first at experiments[0]"),
    (among(person(2)) | {"run_metadata": {"run_id": NUMBER}}, "run_metadata.run_id", "text is expected"),
    ('{"experiments": [], "experiments": []}', "experiments", "appears twice"),
    *((a * 100_000 + "1" + b * 100_000, None, "nested too deeply") for a, b in (("[", "]"), ('{"x":', "}"))),
    *((text, None, "not valid JSON (column") for text in (f"{{'run_id': '{SECRET}'}}", "{} {}", '{"a": "\x1b"}')),
    *((blank, None, "the file is empty") for blank in ("", " \r\n\t\n", "\ufeff")),
    *((json.dumps(run()).encode(other), None, "not UTF-8") for other in ("utf-16", "utf-16-le", "utf-16-be")),
    (b'\xef\xbb\xbf{"\xe9": 1}', None, "not UTF-8 text (byte 5)"),
]


@pytest.mark.parametrize(("content", "field", "reason"), DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: Any, field: str | None, reason: str) -> None:
    error = refused(tmp_path, content)
    assert (error.field, reason in error.problem) == (field, True), error.problem


def test_a_torn_file_is_refused_at_its_last_line_and_not_salvaged(tmp_path: Path) -> None:
    text = json.dumps(run(experiment("m", person(1))), indent=1)
    for cut in range(1, len(text), 11):
        error = refused(tmp_path, text[:cut], salvage=True)
        assert (error.line, error.field) == (text.count("\n", 0, cut) + 1, None)


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = signal(1, **{f"s{n}": 1 for n in range(contract.MOST_COLUMNS + 1)})
    assert f"more than {contract.MOST_COLUMNS:,}" in refused(tmp_path, run(experiment("m", many))).problem
    monkeypatch.setattr(phq8, "LARGEST", 2**10)
    assert "JSON lines" in refused(tmp_path, run(experiment("m", person(1)))).problem


# -- round trip -------------------------------------------------------------------------------------------------

any_text = st.text(st.characters(), max_size=6)
kinds = {"token_msp": st.floats(allow_nan=False, allow_infinity=False), "note": any_text, "flag": st.booleans()}
signals = st.fixed_dictionaries({}, optional={name: st.none() | kind for name, kind in kinds.items()})
targets = st.fixed_dictionaries(dict.fromkeys(ITEMS, st.integers(0, 3)))
answers = st.fixed_dictionaries(dict.fromkeys(reversed(ITEMS), st.none() | st.integers(0, 3)))
by_item = st.none() | st.dictionaries(st.sampled_from(ITEMS), signals)
people = st.fixed_dictionaries({"success": st.booleans(), TARGET: targets, PREDICTION: answers, SIGNALS: by_item})
seen = st.characters(categories=("L", "N", "P", "S"))  # ids that people can tell apart
ids = st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text(seen, min_size=1, max_size=6)])
runs = ids.flatmap(
    lambda kind: st.dictionaries(any_text.filter(bool), st.dictionaries(kind, people, max_size=4), max_size=3)
)


def test_flaws_outside_participants_have_no_line_and_deep_lists_are_no_fault(tmp_path: Path) -> None:
    tags = among(person(2))
    tags["experiments"][0]["provenance"]["tags"] = [1, float("nan")]
    error = refused(tmp_path, tags)
    assert (error.line, error.field) == (None, "experiments[0].provenance.tags[1]")
    for depth in (200, 600):
        text = json.dumps(run(experiment("a", person(1)))).removesuffix("}")
        path = written(tmp_path, f'{text}, "more": {"[" * depth}{"]" * depth}}}')
        assert len(read(path)) == 8


@given(modes=runs.filter(lambda modes: any(modes.values())), indent=st.sampled_from([None, 0, 1, 4]))
def test_any_run_is_read_in_full(tmp_path: Path, modes: dict[str, Any], indent: int | None) -> None:
    listed = {mode: [{"participant_id": who} | found for who, found in modes[mode].items()] for mode in modes}
    text = json.dumps(run(*(experiment(mode, *listed[mode]) for mode in modes)), indent=indent)
    records = read(written(tmp_path, text), labels="exact")
    expected, held = [], []
    for mode, found, item in ((m, one, item) for m in modes for one in listed[m] for item in ITEMS):
        who, success, answer = found["participant_id"], found["success"], found[PREDICTION][item]
        outcome = "failed" if not success else "abstained" if answer is None else "answered"
        expected.append((mode, f"{who}/{item}", who, item, found[TARGET][item], answer if success else None, outcome))
        held.append((found[SIGNALS] or {}).get(item, {}))
    assert list(zip(*(values(records, name) for name in FIXED), strict=True)) == expected
    assert {outcome: n for outcome, n in records.counts().items() if n} == Counter(row[-1] for row in expected)
    assert set(records.stated) == {*FIXED, *(f"signal.{name}" for one in held for name in one)}
    for name in records.stated[len(FIXED) :]:
        assert [*map(repr, values(records, name))] == [repr(one.get(name[7:])) for one in held]  # 1 is not true
    assert lines(records) == (begins(text) if indent is not None else [1] * (len(records) // 8))
