"""JSON Lines: every rule under Records in the fault list, at its exact place, and never a value in a message."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.halves import whole, whole_text
from steelyard.records.readers import contract, inputs, jsonl, read
from steelyard.records.table import Records

SECRET = "SECRET-PATIENT"
GOOD = '{"item": "q1", "target": "A", "prediction": "B", "confidence": 0.5}\n'


def written(folder: Path, content: str | bytes, name: str = "answers.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def values(records: Records, name: str) -> list[Any]:
    return list(records.column(name).to_pylist())


def refused(folder: Path, content: str | bytes, **options: Any) -> InputError:
    path = written(folder, content)
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.file == str(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def test_a_line_of_the_documentation(tmp_path: Path) -> None:
    line = (
        '{"item": "q1", "target": "A", "prediction": "B", "confidence": 0.8, "outcome": "answered", "cluster": "p7", '
        '"group": {"site": "x"}, "signal": {"entropy": 0.1, "deep": {"er": true}}, "latency_ms": 12, '
        '"words": ["a", null]}\n'
    )
    path = written(tmp_path, line)
    records = read(path)
    assert records.stated == (
        "item", "target", "prediction", "confidence", "outcome", "cluster", "group.site", "signal.entropy",
        "signal.deep.er", "latency_ms", "words",
    )  # fmt: skip
    assert values(records, "words") == [["a", None]]
    assert values(records, "latency_ms") == [12.0]
    assert records.sources[0].sha256 == hashlib.sha256(line.encode()).hexdigest()
    assert records.where(0) == (str(path), 1)


BAD = {
    "NaN": ('"confidence": NaN', "confidence", "finite"),
    "Infinity": ('"latency_ms": -Infinity', "latency_ms", "finite"),
    "1e999": ('"confidence": 1e999', "confidence", "finite"),
    "NaN in extra data": ('"extra": NaN', "extra", "finite"),
    "1e999 in extra data": ('"extra": {"deep": [1e999]}', "extra.deep", "finite"),
    "quoted number": ('"confidence": "0.8"', "confidence", "without quotes"),
    "text as number": (f'"confidence": "{SECRET}"', "confidence", "a number is expected, this is text"),
    "boolean as number": ('"confidence": true', "confidence", "this is true or false"),
    "number as boolean": ('"should_abstain": 1', "should_abstain", "true or false is expected"),
    "fraction as count": ('"input_tokens": 1.5', "input_tokens", "a whole number is expected"),
    "number as outcome": ('"outcome": 1', "outcome", "text is expected"),
    "unknown outcome": (f'"outcome": "{SECRET}"', "outcome", "one of answered"),
    "list as model": ('"model": ["a"]', "model", "text or a whole number"),
    "object as model": (f'"model": {{"name": "{SECRET}"}}', "model", "this is an object"),
    "confidence as percentage": ('"confidence": 80', "confidence", "divide percentages by 100"),
    "negative confidence": ('"confidence": -0.1', "confidence", "in [0, 1]"),
    "negative latency": ('"latency_ms": -1', "latency_ms", "at least 0"),
    "duplicate key": (f'"target": "{SECRET}", "target": "B"', "target", "appears twice"),
    "duplicate key, nested": ('"group": {"site": 1, "site": 1}', "group.site", "appears twice"),
    "duplicate key, deep in extra data": ('"x": {"y": {"z": 1, "z": 2}}', "x.y.z", "appears twice"),
    "duplicate key, spaced": ('"a" : 1, "b": ":", "a"  : 1', "a", "appears twice"),
    "duplicate key, escaped": ('"a": 1, "\\u0061": 1', "a", "appears twice"),
    "dotted and nested": ('"group": {"site": "x"}, "group.site": "y"', "group.site", "appears twice"),
    "huge whole number": (f'"extra": {10**30}', "extra", "this large"),
    "huge count": (f'"input_tokens": {2**63}', "input_tokens", "this large"),
    "huge id": (f'"model": -{2**63 + 1}', "model", "this large"),
    "ten thousand digits": (f'"extra": {"1" * 10_000}', "extra", "this large"),
    "whole number that a float rounds": (f'"latency_ms": {2**53 + 1}', "latency_ms", "this large"),
    "mixed list": (f'"words": ["{SECRET}", 1]', "words", "one kind"),
    "list of lists": ('"words": [[1]]', "words", "plain values"),
    "list of objects": ('"words": [{"a": 1}]', "words", "plain values"),
}
UNASKED = ("extra", "extra.deep", "words")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_bad_field_is_refused_with_line_and_field(tmp_path: Path, bad: str, before: int) -> None:
    fragment, field, reason = BAD[bad]
    lines = [json.dumps({"item": f"q{i}"}) for i in range(before)]
    content = "\n".join([*lines, f'{{"item": "bad", {fragment}}}', '{"item": "after"}', ""])
    error = refused(tmp_path, content, columns=[field])
    assert (error.line, error.field) == (before + 1, field)
    assert reason in error.problem
    if field in UNASKED:
        assert len(read(written(tmp_path, content))) == len(read(written(tmp_path, content), columns=[])) == before + 2
    else:
        assert str(refused(tmp_path, content)) == str(refused(tmp_path, content, columns=[])) == str(error)


@pytest.mark.parametrize("odd", [None, 5, 40])
def test_long_files_are_put_together_from_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: int | None
) -> None:
    monkeypatch.setattr(jsonl, "_BATCHES", 4)
    monkeypatch.setattr(inputs, "_BLOCK", 64)
    rows = [{"item": i, "x": 0.5 + i if i != odd else "text", "n": f"t{i}"} for i in range(60)]
    records = read(written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)))
    assert values(records, "n") == [row["n"] for row in rows]
    assert [held(records, "x", i) for i in range(60)] == [row["x"] for row in rows]


def test_objects_are_taken_apart_eight_levels_deep(tmp_path: Path) -> None:
    nested = '{"x": ' * 9 + "1" + "}" * 9
    records = read(written(tmp_path, f'{{"item": 1, "x": {nested}}}\n'))
    assert records.extras == ("x.x.x.x.x.x.x.x",)
    assert json.loads(records.extra("x.x.x.x.x.x.x.x").column[0].as_py()) == {"x": {"x": 1}}


NOT_JSON = {
    "two objects": ('{"item": "a"} {"item": "b"}', "more follows"),
    "array": (f'[{{"item": "{SECRET}"}}]', "this is an array"),
    "scalar": ("12", "a single value"),
    "null": ("null", "a single value"),
    "no quotes": (f"{{item: {SECRET}}}", "not valid JSON (column 2)"),
    "comma at the end": ('{"item": "a",}', "not valid JSON"),
    "single quotes": (f"{{'item': '{SECRET}'}}", "not valid JSON"),
    "raw control character": ('{"item": "a\x1bb"}', "not valid JSON"),
    "deep nesting": ('{"item": "a", "x": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
    "deep nesting of objects": ('{"x":' * 200_000 + "1" + "}" * 200_000, "nested too deeply"),
    "cut in the middle of the file": ('{"item": "a", "target": "', "not valid JSON"),
}


@pytest.mark.parametrize("bad", NOT_JSON)
@pytest.mark.parametrize("salvage", [False, True])
def test_a_line_that_is_no_object_is_refused_with_its_line(tmp_path: Path, bad: str, salvage: bool) -> None:
    line, reason = NOT_JSON[bad]
    error = refused(tmp_path, GOOD + line + '\n{"item": "after"}\n', salvage=salvage)
    assert error.line == 2
    assert reason in error.problem


def test_objects_that_share_and_span_lines_are_not_mistaken_for_one_a_line(tmp_path: Path) -> None:
    content = '{"item": "a"}\n{"item": "b"} {"item": "c"}\n{"item":\n"d"}\n'
    assert refused(tmp_path, content).line == 2
    content = '{"item": "a"}\n{"item": "b"}\n{"item":\n"d"} {"item": "e"}\n'
    assert refused(tmp_path, content).line == 3


MIXED = {
    "text then number": ('"a"', "1", "text is expected as in the rows before, this is a whole number"),
    "number then text": ("1", f'"{SECRET}"', "a whole number is expected as in the rows before, this is text"),
    "number then quoted number": ("1", '"2"', "without quotes"),
    "boolean then number": ("true", "1", "true or false is expected as in the rows before"),
    "number then boolean": ("1.5", "false", "a number is expected as in the rows before"),
    "list then text": ("[1]", '"a"', "a list is expected"),
    "list then other list": ("[1]", '["a"]', "one kind"),
}


@pytest.mark.parametrize("mixed", MIXED)
@pytest.mark.parametrize("field", ["target", "extra"])
def test_one_column_has_one_kind(tmp_path: Path, mixed: str, field: str) -> None:
    first, second, reason = MIXED[mixed]
    content = f'{{"item": 1}}\n{{"item": 2, "{field}": {first}}}\n{{"item": 3, "{field}": {second}}}\n'
    error = refused(tmp_path, content, columns=["extra"])
    assert (error.line, error.field) == (3, field)
    assert reason in error.problem
    if field == "extra":
        kept = read(written(tmp_path, content))  # nobody asked for it
        assert kept.extras == ("extra",)
        assert [None, json.loads(first), json.loads(second)] == [
            None if text is None else json.loads(text) for text in kept.extra("extra").column.to_pylist()
        ]
        with pytest.raises(InputError) as caught:
            kept.column("extra")
        assert str(caught.value) == str(error)
    assert len(read(written(tmp_path, content), columns=[], drop=[field])) == 3


def test_mixed_ids_are_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, '{"item": 1}\n{"item": "2"}\n')
    assert (error.line, error.field) == (2, "item")


@pytest.mark.parametrize(("first", "second"), [('{"a": 1}', "2"), ("2", '{"a": 1}')])
def test_an_object_and_a_value_do_not_share_a_field(tmp_path: Path, first: str, second: str) -> None:
    content = f'{{"item": 1, "x": {first}}}\n{{"item": 2, "x": {second}}}\n'
    error = refused(tmp_path, content, columns=["x"])
    assert (error.line, error.field) == (2, "x")
    kept = read(written(tmp_path, content)).extra("x").column.to_pylist()
    assert list(map(json.loads, kept)) == [json.loads(first), json.loads(second)]


def test_a_null_tells_nothing_about_a_field(tmp_path: Path) -> None:
    content = (
        '{"item": 1, "x": null, "y": [], "z": null}\n{"item": 2, "x": {"a": 1}, "y": ["b"]}\n{"item": 3, "x": null}\n'
    )
    records = read(written(tmp_path, content))
    assert records.stated == ("item", "x.a", "y", "z")
    assert values(records, "x.a") == [None, 1, None]
    assert values(records, "y") == [[], ["b"], None]
    assert values(records, "z") == [None, None, None]


def test_whole_numbers_and_fractions_are_numbers(tmp_path: Path) -> None:
    records = read(
        written(tmp_path, '{"item": 1, "x": 1, "y": [1]}\n{"item": 2, "x": 0.5, "y": [0.5]}\n{"item": 3, "x": 2}\n')
    )
    assert values(records, "x") == [1.0, 0.5, 2.0]
    assert values(records, "y") == [[1.0], [0.5], None]
    error = refused(
        tmp_path, f'{{"item": 1}}\n\n{{"item": 2, "x": {2**53 + 1}}}\n{{"item": 3, "x": 0.5}}\n', columns=["x"]
    )
    assert (error.line, error.field) == (3, "x")
    error = refused(tmp_path, f'{{"item": 1, "x": [{2**53 + 1}]}}\n{{"item": 2, "x": [0.5]}}\n', columns=["x"])
    assert (error.line, error.field) == (1, "x")
    for large in (2**53 + 1, -(2**60) - 1):
        content = "".join(f'{{"item": {i}, "x": 0.5}}\n' for i in range(9)) + f'{{"item": 9, "x": {large}}}\n'
        error = refused(tmp_path, content, columns=["x"])
        assert (error.line, error.field) == (10, "x")
    large = read(written(tmp_path, '{"item": 1, "x": 1e300}\n{"item": 2, "x": 1}\n'))
    assert values(large, "x") == [1e300, 1.0]


# -- the whole file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2, 10, 20, 40, 60, 66])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\x00\x00\x00"])
def test_a_torn_last_line_is_an_error_at_its_line_or_salvaged(tmp_path: Path, cut: int, end: str) -> None:
    whole = "".join(json.dumps({"item": f"q{i}", "target": "é"}) + "\n" for i in range(3))
    content = (whole + GOOD[:cut] + end).encode()
    error = refused(tmp_path, content)
    assert error.line == 4
    assert "`salvage=True` keeps the 3 whole records" in error.problem
    kept = read(written(tmp_path, content), salvage=True)
    assert len(kept) == 3
    assert any(":4: " in warning and "3 whole records were kept" in warning for warning in kept.warnings)


def test_a_line_torn_inside_a_character(tmp_path: Path) -> None:
    content = (GOOD + '{"item": "é').encode()[:-1]
    assert refused(tmp_path, content).line == 2
    assert len(read(written(tmp_path, content), salvage=True)) == 1


def test_salvage_keeps_no_line_that_breaks_a_rule(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD + '{"item": "q2", "confidence": 7}', salvage=True)
    assert (error.line, error.field) == (2, "confidence")
    assert refused(tmp_path, GOOD[:30], salvage=True).problem.startswith("there are no records")
    assert refused(tmp_path, GOOD + '{"item": q2}\n', salvage=True).line == 2


@pytest.mark.parametrize("content", ["", "\n", " \r\n\t\n", "\ufeff", "\ufeff\n"])
def test_an_empty_or_blank_file_is_refused(tmp_path: Path, content: str) -> None:
    assert "no records" in refused(tmp_path, content).problem


def test_missing_item(tmp_path: Path) -> None:
    assert "'item' is required" in refused(tmp_path, '{"target": "A"}\n').problem
    error = refused(tmp_path, '{"item": 1}\n\n{"target": "A"}\n')
    assert (error.line, error.field) == (3, "item")
    refused(tmp_path, "{}\n")


def test_duplicate_records_name_both_lines(tmp_path: Path) -> None:
    error = refused(tmp_path, f'{{"item": "{SECRET}"}}\n\n{{"item": "q2"}}\n{{"item": "{SECRET}"}}\n')
    assert error.line == 4
    assert "first at line 1" in error.problem


def test_unknown_columns_are_kept_with_a_hint(tmp_path: Path) -> None:
    records = read(written(tmp_path, '{"item": "q1", "confidense": 0.5, "note": "x", "groups": {"site": 1}}\n'))
    assert values(records, "note") == ["x"]
    assert [w for w in records.warnings if "confidense" in w and "'confidence'" in w]
    assert [w for w in records.warnings if "groups.site" in w and "'group'" in w]


def test_blank_lines_count_as_lines(tmp_path: Path) -> None:
    records = read(written(tmp_path, '\n{"item": 1}\r\n  \n\r\n{"item": 2}\n{"item": 3}'))
    assert [records.where(row)[1] for row in range(3)] == [2, 5, 6]


def test_byte_order_mark(tmp_path: Path) -> None:
    assert values(read(written(tmp_path, "\ufeff" + GOOD)), "item") == ["q1"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_other_encodings_are_named_with_the_offset(tmp_path: Path, encoding: str) -> None:
    error = refused(tmp_path, GOOD.encode(encoding))
    assert "not UTF-8" in error.problem
    assert "(byte " in error.problem


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("before", [0, 5])
def test_latin_1_is_named_with_the_offset(tmp_path: Path, mark: str, before: int) -> None:
    lines = "".join(json.dumps({"item": i, "target": "ä"}, ensure_ascii=False) + "\n" for i in range(before))
    content = (mark + lines + '{"item": 99, "target": "').encode() + f'é {SECRET}"}}\n'.encode("latin-1")
    error = refused(tmp_path, content)
    assert error.line == before + 1
    assert f"(byte {content.index(bytes([0xE9]))})" in error.problem


def test_odd_characters_are_kept(tmp_path: Path) -> None:
    odd = [
        "\ud800",
        "a\udfffb",
        "\u2028",
        "\x00",
        "\x1b[31m",
        "\x7f\x85",
        "a\tb",
        " a ",
        "",
        "\U0001f600",
        "NA",
        "None",
    ]
    lines = "".join(json.dumps({"item": i, "prediction": text, "x": [text]}) + "\n" for i, text in enumerate(odd))
    records = read(written(tmp_path, lines), labels="exact")
    odd = [whole_text(text) for text in odd]
    assert values(records, "prediction") == odd
    assert values(records, "x") == [[text] for text in odd]
    assert records.labels("prediction").values == tuple(sorted(odd))
    stripped = [text if text != " a " else "a" for text in odd]
    assert values(read(written(tmp_path, lines)), "prediction") == stripped
    raw = read(written(tmp_path, '{"item": 1, "prediction": "\u2028\x7f\U0001f600"}\n'))
    assert values(raw, "prediction") == ["\u2028\x7f\U0001f600"]


@pytest.mark.parametrize(
    "key", ['a"b', "a\\b", "a\nb", "\x00", "", ".", "a.b", "f0", "é\u2028", "class", "\ud800", "`"]
)
def test_odd_names_of_fields(tmp_path: Path, key: str) -> None:
    content = "".join(json.dumps({"item": i, key: i, "deep": {key: i}}) + "\n" for i in range(3))
    records = read(written(tmp_path, content))
    name = whole_text(key)
    assert records.stated == ("item", name, f"deep.{name}")
    assert values(records, name) == [0, 1, 2]
    twice = f'{{"item": 9, {json.dumps(key)}: 1, {json.dumps(key)}: 2}}\n'
    assert refused(tmp_path, content + twice).line == 4


def test_a_very_long_line_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    long = json.dumps({"item": "q2", "prediction": SECRET + "x" * 6_000_000})
    for content in (GOOD + long, GOOD + long + "\n" + GOOD, long, GOOD + long[:-2]):
        error = refused(tmp_path, content, salvage=True)
        assert error.line == (1 if content is long else 2)
        assert "4 MiB" in error.problem
    for size, before in itertools.product((inputs.LONGEST_LINE, inputs.LONGEST_LINE + 1), ("", GOOD)):
        line = '{"item": "q2", "x": "' + "x" * (size - 23) + '"}'
        assert len(line) == size
        if size == inputs.LONGEST_LINE:
            assert len(read(written(tmp_path, before + line + "\n" + '{"item": "q3"}\n'))) == (3 if before else 2)
        else:
            assert "4 MiB" in refused(tmp_path, before + line + "\n" + '{"item": "q3"}\n').problem


def test_too_many_fields(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"item": i, f"x{i}": 1}) + "\n" for i in range(contract.MOST_COLUMNS + 5))
    error = refused(tmp_path, lines)
    assert (error.line, error.field) == (contract.MOST_COLUMNS, f"x{contract.MOST_COLUMNS - 1}")


# -- blocks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_lines_and_offsets_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(inputs, "_BLOCK", block)
    rows = [{"item": i, "x": "é:" * (i % 3), "y": None if i % 2 else i / 2} for i in range(50)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    records = read(written(tmp_path, "\n\n".join(lines)))
    assert values(records, "x") == [row["x"] for row in rows]
    assert values(records, "y") == [row["y"] for row in rows]
    assert [records.where(row)[1] for row in range(50)] == list(range(1, 100, 2))
    lines[30] = lines[30].replace('"x"', '"x": "", "x"')
    assert refused(tmp_path, "\n".join(lines)).line == 31
    content = "\n".join([*lines[:30], '{"item": "']).encode() + b"\xff"
    assert f"byte {len(content) - 1}" in refused(tmp_path, content + b'"}\n{}\n').problem


def test_keys_are_counted_in_texts_full_of_colons(tmp_path: Path) -> None:
    texts = ['{"answer": "B"}', ":", "a : b", '": "', "x\\", '\\":', "12:30", '{\\"a\\": 1}']
    rows = [{"item": i, "prediction": text, **({"z": 1} if i % 3 else {})} for i, text in enumerate(texts * 4)]
    lines = [json.dumps(row) for row in rows]
    assert values(read(written(tmp_path, "\n".join(lines))), "prediction") == texts * 4
    for at in range(len(lines)):
        broken = [*lines[:at], lines[at][:-1] + ', "item": 7}', *lines[at + 1 :]]
        error = refused(tmp_path, "\n".join(broken) + "\n")
        assert (error.line, error.field) == (at + 1, "item")


# -- round trips ------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
any_text = st.text(st.characters(), max_size=8)
columns_of_one_kind = st.one_of(
    st.lists(st.none() | any_text, min_size=4, max_size=4),
    st.lists(st.none() | st.booleans(), min_size=4, max_size=4),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.lists(st.none() | st.lists(any_text, max_size=3), min_size=4, max_size=4),
)


@given(
    columns=st.dictionaries(
        st.text(st.characters(exclude_characters="."), max_size=5), columns_of_one_kind, max_size=4
    ),
    spaced=st.booleans(),
    ascii=st.booleans(),
)
@example(columns={"f0": ["\ud800", None, "", ":"]}, spaced=True, ascii=True)
def test_what_is_written_is_read(tmp_path: Path, columns: dict[str, list[Any]], spaced: bool, ascii: bool) -> None:
    columns = {f"x{name}": column for name, column in columns.items()}
    rows = [{"item": i, **{name: column[i] for name, column in columns.items()}} for i in range(4)]
    separators = (" , ", " : ") if spaced else (",", ":")
    content = "".join(json.dumps(row, separators=separators) + "\n" for row in rows)
    if not ascii:
        plain = "".join(json.dumps(row, separators=separators, ensure_ascii=False) + "\n" for row in rows)
        content = content if any(0xD800 <= ord(c) < 0xE000 for c in plain) else plain
    records = read(written(tmp_path, content))
    columns = whole(columns)
    assert records.stated == ("item", *columns)
    for name, column in columns.items():
        assert values(records, name) == column
        assert [str(v) for v in values(records, name)] == [str(v) for v in column]  # 1 is not true, -0.0 is not 0.0


json_values = st.recursive(
    scalars | any_text | st.integers(-(2**63), 2**63 - 1),  # larger ones become null, and a remark says so
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "confidence", "group"]), json_values), min_size=1, max_size=5
    )
)
@example(rows=[{}, {}, {"a": [None, None]}])
def test_anything_is_read_in_full_or_refused_with_its_line(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = written(tmp_path, "".join(json.dumps({"item": i, **row}) + "\n" for i, row in enumerate(rows)))
    try:
        records = read(path, labels="exact")
    except InputError as error:
        assert 1 <= (error.line or 0) <= len(rows)  # noqa: PT017
        return
    for place, row in enumerate(rows):
        for name, value in flat(row).items():
            if value is not None and not isinstance(value, list):
                assert held(records, name, place) == value


def held(records: Records, name: str, place: int) -> Any:
    """What a table holds of a field, whether it can be read or is kept as JSON."""
    if name in records.stated:
        return values(records, name)[place]
    owner = next(each for each in records.extras if f"{name}.".startswith(f"{each}."))
    value = json.loads(records.extra(owner).column[place].as_py())
    for key in [key for key in name[len(owner) :].split(".") if key]:
        value = value[key]
    return value


def flat(row: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


@given(data=st.binary(max_size=60) | st.text(st.sampled_from('{}[]":,\\ \n\tnul1e.-item\x00'), max_size=60))
def test_no_input_makes_a_traceback(tmp_path: Path, data: bytes | str) -> None:
    for salvage in (False, True):
        try:
            read(written(tmp_path, data), salvage=salvage)
        except InputError as error:
            assert error.file is not None  # noqa: PT017


def test_an_earlier_problem_is_found_where_it_is_before_a_broken_line(tmp_path: Path) -> None:
    told = ['{"item": 1}', '{"item": 2}', *(f'{{"item": {n}, "x": 1}}' for n in range(3, 12))]
    error = refused(tmp_path, "\n".join([*told, '{"item": 12, "x": 2, "x": 3}', '{"item": 13, "x": 1}', "not json"]))
    assert (error.line, error.field, "appears twice" in error.problem) == (12, "x", True)
