"""Folders and zip archives as a reader sees them: the same members, the same digest, and nothing that harms."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.cli.main import app
from steelyard.errors import InputError, UsageError
from steelyard.records.readers import Certainty, Head, Input, Table, read, reader, readers
from steelyard.records.readers.bundles import Bundle, Limits, folder_bundle, folder_head
from steelyard.records.readers.head import MOST_NAMES
from steelyard.records.readers.jsonl import load as load_lines
from steelyard.records.readers.zips import ZSTD, zip_bundle

FILES = {
    "header.json": b'{"model": "m"}',
    "parts/1.jsonl": b'{"id": 1, "target": "A", "prediction": "A"}\n',
    "parts/2.jsonl": b'{"id": 2, "target": "B", "prediction": "A"}\n{"id": 3, "target": "B", "prediction": "B"}\n',
    "notes.bin": bytes(range(256)),
}


def in_folder(folder: Path, files: Mapping[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def zipped(files: Mapping[str, bytes] = FILES, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def crafted(
    members: list[tuple[str, bytes, bytes]], *, method: int = ZSTD, size: int | None = None, flags: int = 0
) -> bytes:
    """A zip archive of (name, content, packed content), as zipfile would not write it."""
    local, central = b"", b""
    for name, content, packed in members:
        said = len(content) if size is None else size
        facts = struct.pack("<HHHHHIII", 20, flags, method, 0, 0, zlib.crc32(content), len(packed), said)
        length = len(name.encode())
        central += b"PK\x01\x02\x14\x00" + facts + struct.pack("<HHHHHII", length, 0, 0, 0, 0, 0, len(local))
        central += name.encode()
        local += b"PK\x03\x04" + facts + struct.pack("<HH", length, 0) + name.encode() + packed
    count = len(members)
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(central), len(local), 0)


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True))


def opened(content: bytes, limits: Limits | None = None) -> Bundle:
    return zip_bundle("a.zip", io.BytesIO(content), limits or Limits())


def refused(content: bytes, limits: Limits | None = None) -> str:
    """What is said of an archive, at the latest when its members are read."""
    with pytest.raises(InputError) as caught:
        opened(content, limits).sha256  # noqa: B018
    assert caught.value.exit_code == 3
    assert str(caught.value).startswith("a.zip")
    assert str(caught.value).isprintable()
    return str(caught.value)


# -- a reader of bundles, in this file alone ------------------------------------------------------------------------


def sniff(head: Head) -> Certainty:
    return "sure" if head.members is not None and "header.json" in head.members else "no"


def load(source: Input) -> Table:
    assert source.bundle is not None
    model = json.loads(source.bundle.read("header.json", 1_000))["model"]
    parts = [load_lines(source.member(name)) for name in source.bundle.names() if name.startswith("parts/")]
    columns = {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in parts[0].columns}
    rows = sum(part.rows for part in parts)
    warnings = tuple(warning for part in parts for warning in part.warnings)
    return Table({**columns, "model": pa.array([model] * rows)}, rows, warnings=warnings)


@pytest.fixture
def parts() -> Iterator[None]:
    reader("parts", about="header.json and parts", suffixes=(".parts",), sniff=sniff, takes="bundle")(load)
    yield
    readers.remove("parts")


@pytest.mark.usefixtures("parts")
def test_a_folder_and_its_zip_give_the_same_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_folder(tmp_path / "run")
    paths = [folder, tmp_path / "run.csv", tmp_path / "run.zip", tmp_path / "run"]
    paths[1].write_bytes(zipped())
    paths[2].write_bytes(crafted([(name, content, zstd(content)) for name, content in FILES.items()]))
    tables = [sy.read(path, map={"item": "id"}) for path in paths]
    for records, path in zip(tables, paths, strict=True):
        assert records.column("item").to_pylist() == [1, 2, 3]
        assert records.column("model").to_pylist() == ["m"] * 3
        assert records.sources[0].name == str(path)
        assert records.sources[0].sha256 == tables[0].sources[0].sha256
    for path in paths:
        arguments = [
            "evaluate",
            str(path),
            "-m",
            "accuracy",
            "--map",
            "item=id",
            "--resamples",
            "100",
            "--format",
            "json",
        ]
        app(arguments, standalone_mode=False)
        assert json.loads(capsys.readouterr().out)["estimates"][0]["value"] == pytest.approx(2 / 3)


@pytest.mark.usefixtures("parts")
def test_members_are_named_in_errors_and_salvaged_alike(tmp_path: Path) -> None:
    torn = {**FILES, "parts/1.jsonl": FILES["parts/1.jsonl"] + b'{"id": 4, "tar'}
    archive = tmp_path / "run.zip"
    archive.write_bytes(zipped(torn))
    for path in (archive, in_folder(tmp_path / "run", torn)):
        with pytest.raises(InputError) as caught:
            read(path, map={"item": "id"})
        assert (caught.value.file, caught.value.line) == (f"{path}/parts/1.jsonl", 2)
        records = read(path, map={"item": "id"}, salvage=True)
        assert (len(records), records.sources[0].torn) == (3, True)
        assert f"{path}/parts/1.jsonl:2: the last record is incomplete" in records.warnings[0]
        with pytest.raises(UsageError, match="cannot rename 'nothing'"):
            read(path, map={"item": "id", "model": "nothing"}, salvage=True)


@pytest.mark.usefixtures("parts")
def test_what_is_no_bundle_of_this_reader(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"item": 1}\n')
    with pytest.raises(InputError, match=r"a\.jsonl: a folder or a zip archive is expected"):
        read(tmp_path / "a.jsonl", format="parts")
    (tmp_path / "b.jsonl").write_bytes(b'{"item": 2}\n')
    with pytest.raises(
        InputError, match=r"a folder that no reader recognises; folders are read as .*parts: header.json"
    ):
        read(tmp_path)
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        read(tmp_path, format="jsonl")
    (tmp_path / "a.zip").write_bytes(zipped({"other": b""}))
    with pytest.raises(UsageError, match=r"a\.zip: looks like a zip archive, which no reader is sure of"):
        read(tmp_path / "a.zip")
    (tmp_path / "a.csv").write_bytes(zipped({"other": b""}))
    with pytest.raises(InputError, match=r"looks like a zip archive, which no reader of \.csv files recognises"):
        read(tmp_path / "a.csv")


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("name", ["a.zip", "a.parts", "a.csv"])
def test_a_zip_that_is_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    whole = zipped()
    for cut in (4, 40, len(whole) // 2, len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:cut])
        for format in (None, "parts"):
            with pytest.raises(InputError, match="not a readable zip archive: it is cut short or damaged"):
                read(tmp_path / name, format=format)


def test_a_reader_of_both_gets_a_file_or_a_bundle(tmp_path: Path) -> None:
    def either(source: Input) -> Table:
        assert len(source.siblings("*.jsonl")) == (source.name.endswith("1.jsonl"))
        lines = source if source.bundle is None else source.member("parts/1.jsonl")
        assert lines is source or lines.siblings("*") == []
        return load_lines(lines)

    reader("either", about="parts, or one of them", takes="both", sniff=lambda head: "sure")(either)
    try:
        paths = [in_folder(tmp_path / "run"), tmp_path / "run.zip", tmp_path / "run" / "parts" / "1.jsonl"]
        paths[1].write_bytes(zipped())
        for path in paths:
            for format in (None, "either"):
                assert read(path, format=format, map={"item": "id"}).column("item").to_pylist() == [1]
    finally:
        readers.remove("either")


def test_a_reader_of_files_gets_an_archive_from_its_first_byte(tmp_path: Path) -> None:
    def archive(source: Input) -> Table:
        size = sum(len(block.data) for block in source.blocks())
        return Table({"item": pa.array([size])}, 1)

    reader("archive", about="any archive", sniff=lambda head: "sure" if head.container == "zip" else "no")(archive)
    try:
        for content in (zipped(), zipped({"../a": b"x"}), zipped()[:100]):
            (tmp_path / "a.zip").write_bytes(content)
            records = read(tmp_path / "a.zip")
            assert records.column("item").to_pylist() == [len(content)]
            assert records.sources[0].sha256 == hashlib.sha256(content).hexdigest()
    finally:
        readers.remove("archive")


def test_a_zip_does_not_come_through_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InputError, match="a zip archive cannot be read from a pipe; save it as a file"):
        zip_bundle("<stdin>", Pipe(zipped()))


# -- names, contents and digests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD])
def test_members_and_digest(tmp_path: Path, method: int) -> None:
    packed = crafted([(name, c, zstd(c)) for name, c in FILES.items()]) if method == ZSTD else zipped(FILES, method)
    expected = hashlib.sha256(
        b"".join(hashlib.sha256(part).digest() for name in sorted(FILES) for part in (name.encode(), FILES[name]))
    ).hexdigest()
    for bundle in (opened(packed), folder_bundle(str(in_folder(tmp_path)))):
        assert bundle.names() == ("header.json", "notes.bin", "parts/1.jsonl", "parts/2.jsonl")
        assert bundle.read("notes.bin", 256) == FILES["notes.bin"]
        with pytest.raises(InputError, match=r"notes\.bin: more than 255 bytes"):
            bundle.read("notes.bin", 255)
        with pytest.raises(InputError, match="none: there is no such member"):
            bundle.open("none")
        with bundle.open("parts/1.jsonl") as one, bundle.open("parts/2.jsonl") as two:  # in turns
            halves = [stream.read(10) for stream in (one, two)]
            assert [half + stream.read() for half, stream in zip(halves, (one, two), strict=True)] == [
                FILES["parts/1.jsonl"],
                FILES["parts/2.jsonl"],
            ]
        assert bundle.sha256 == expected


def test_large_zstd_members_of_several_frames() -> None:
    content = os.urandom(2**20) + b"x" * 2**20
    packed = zstd(content[: 2**19]) + zstd(content[2**19 :])
    bundle = opened(crafted([("a", content, packed), ("b", b"", zstd(b""))]))
    assert bundle.read("a", 2**22) == content
    assert bundle.read("b", 1) == b""


@pytest.mark.parametrize("change", [{"a": b"1"}, {"a": b"", "b": b"2"}, {"c": b""}, {"a": b"", "b/": b""}])
def test_the_digest_tells_bundles_apart(change: dict[str, bytes]) -> None:
    one, other = opened(zipped({"a": b"", "b": b"1"})), opened(zipped(change))
    assert one.sha256 != other.sha256


def test_what_file_managers_leave_behind_is_no_member(tmp_path: Path) -> None:
    litter = {".DS_Store": b"1", "a/.hidden/x": b"2", "__MACOSX/a": b"3"}
    plain, with_litter = opened(zipped()), opened(zipped({**FILES, **litter}))
    folder = folder_bundle(str(in_folder(tmp_path, {**FILES, **litter})))
    assert plain.names() == with_litter.names() == folder.names()
    assert plain.sha256 == with_litter.sha256 == folder.sha256


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "absolute"),
        ("C:/a", "absolute"),
        ("../a", "leads out"),
        ("a/../../b", "leads out"),
        ("a//b", "not written plainly"),
        ("./a", "not written plainly"),
        ("", "not written plainly"),
        ("..\\a", "backslash"),
        ("a\x1bb", "control character"),
        ("a\x00b", "control character"),
    ],
)
def test_names_that_are_not_plain(name: str, why: str) -> None:
    assert why in refused(crafted([("good", b"", b""), (name, b"", b"")], method=zipfile.ZIP_STORED))


def test_duplicate_members_are_refused() -> None:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("a", b"first")
        archive.writestr("a", b"last")
    assert "the member 'a' occurs twice" in refused(buffer.getvalue())


def test_links_in_an_archive_are_refused() -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "a.zip/link: the member is a link" in refused(buffer.getvalue())


def test_encryption_and_other_methods_are_refused() -> None:
    assert "a.zip/a: the member is encrypted" in refused(crafted([("a", b"x", b"x")], method=0, flags=1))
    assert "a method that is not read (14)" in refused(zipped({"a": b"x"}, zipfile.ZIP_LZMA))


def test_bombs_are_refused_before_they_are_unpacked() -> None:
    assert "a.zip/a: unpacks to more than 200 times its size" in refused(zipped({"a": bytes(70 * 2**20)}))
    small = Limits(spared=1_000, ratio=10)
    assert "a.zip/a: unpacks to more than 10" in refused(zipped({"a": bytes(5_000)}), small)
    assert "a.zip/a: unpacks to more than 10" in refused(crafted([("a", bytes(5_000), zstd(bytes(5_000)))]), small)
    assert opened(zipped({"a": bytes(900)}), small).names() == ("a",)
    fine = zipped({"a": os.urandom(5_000)})
    assert opened(fine, small).sha256
    assert "a: more than 4,999 bytes" in refused(fine, Limits(member=4_999))
    assert "in all" in refused(zipped({"a": b"12", "b": b"34"}), Limits(total=3))
    assert "more than 1 members" in refused(zipped({"a": b"", "b": b""}), Limits(members=1))


def test_members_that_share_their_bytes_are_a_bomb() -> None:
    """Each member is plausible alone; together they unpack to far more than the archive holds."""
    content = os.urandom(2_000)
    whole = crafted([("a", content, content)], method=0)
    local, central = whole[: whole.index(b"PK\x01\x02")], whole[whole.index(b"PK\x01\x02") : whole.index(b"PK\x05\x06")]
    entries = b"".join(central[:-1] + bytes([ord("a") + n]) for n in range(26))
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 26, 26, len(entries), len(local), 0)
    assert "unpacks to more than 5 times" in refused(local + entries + end, Limits(spared=1_000, ratio=5))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD])
@pytest.mark.parametrize("said", [10, 99_999])
def test_a_member_that_is_not_as_large_as_it_says(method: int, said: int) -> None:
    content = bytes(50_000)
    deflate = zlib.compressobj(wbits=-15)
    packed = {0: content, 8: deflate.compress(content) + deflate.flush(), ZSTD: zstd(content)}[method]
    message = refused(crafted([("a", content, packed)], method=method, size=said))
    assert "a.zip/a: the member is" in message


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD])
def test_a_flipped_byte_is_noticed(method: int) -> None:
    content = os.urandom(3_000)
    whole = crafted([("a", content, zstd(content))]) if method == ZSTD else zipped({"a": content}, method)
    damaged = bytearray(whole)
    damaged[1_500] ^= 1
    assert "a.zip/a: the member is" in refused(bytes(damaged))


@given(st.data())
def test_no_archive_makes_a_traceback(data: st.DataObject) -> None:
    whole = bytearray(zipped() if data.draw(st.booleans()) else crafted([(n, c, zstd(c)) for n, c in FILES.items()]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        bundle = opened(bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole))
        assert bundle.sha256
    except InputError as error:
        assert str(error).isprintable()  # noqa: PT017


# -- folders --------------------------------------------------------------------------------------------------------


def test_links_in_a_folder(tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "run")
    (folder / "again.json").symlink_to("header.json")
    (folder / "loop").symlink_to(".")
    bundle = folder_bundle(str(folder))
    assert bundle.names() == ("again.json", *sorted(FILES))
    assert bundle.read("again.json", 100) == FILES["header.json"]
    (tmp_path / "outside").write_text("SECRET")
    (tmp_path / "run2").mkdir()
    for target in ("../outside", str(tmp_path / "outside"), "none", "..", "../run2", "self"):
        (folder / "self").symlink_to(target)
        with pytest.raises(InputError, match="the link 'self' leads out of the folder or nowhere"):
            folder_bundle(str(folder))
        (folder / "self").unlink()
    (tmp_path / "linked").symlink_to(folder)
    assert folder_bundle(str(tmp_path / "linked")).sha256 == bundle.sha256


def test_entries_of_a_folder_that_are_no_plain_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: cannot be read: it is no plain file"):
        folder_bundle(str(tmp_path))
    (tmp_path / "pipe").unlink()
    (tmp_path / "a\x1bb").touch()
    with pytest.raises(InputError, match=r"the member 'a\\x1bb' is refused: its name holds a control"):
        folder_bundle(str(tmp_path))


def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("SECRET")
    folder = in_folder(tmp_path / "run", {"a": b"1"})
    bundle = folder_bundle(str(folder))
    (folder / "a").unlink()
    (folder / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match=r"run/a: cannot be read: too many levels of symbolic links"):
        bundle.read("a", 100)


@pytest.mark.usefixtures("parts")
def test_what_the_system_refuses_while_a_folder_is_read(tmp_path: Path) -> None:
    def vanishing(source: Input) -> Table:
        (tmp_path / "run" / "header.json").unlink()
        return load(source)

    reader("vanishing", about="nothing", takes="bundle", sniff=lambda head: "no")(vanishing)
    try:
        with pytest.raises(InputError, match=r"run/header\.json: cannot be read: no such file or directory"):
            read(in_folder(tmp_path / "run"), format="vanishing")
    finally:
        readers.remove("vanishing")


def test_limits_of_folders(tmp_path: Path) -> None:
    folder = str(in_folder(tmp_path, {"a": b"12", "b": b"34"}))
    for limits, problem in ((Limits(total=3), "in all"), (Limits(members=1), "more than 1 members")):
        with pytest.raises(InputError, match=problem):
            folder_bundle(folder, limits)
    with pytest.raises(InputError, match="a: more than 1 bytes"):
        folder_bundle(folder, Limits(member=1)).open("a")


def test_the_head_of_a_folder_is_bounded(tmp_path: Path) -> None:
    for n in range(MOST_NAMES + 50):
        (tmp_path / f"file{n}").touch()
    in_folder(tmp_path / "few", {"b/c/deep": b"", "b/x": b"", "a": b"", ".hidden": b""})
    (tmp_path / "few" / "loop").symlink_to(".")
    assert len(folder_head(str(tmp_path)).members or ()) <= MOST_NAMES
    head = folder_head(str(tmp_path / "few"))
    assert (head.name, head.members, head.is_folder) == ("few", ("a", "loop", "b/x", "b/c/deep"), True)
    assert folder_head(str(tmp_path / "none")).members == ()


# -- archives without a list of their members -----------------------------------------------------------------------


class _Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False

    def seek(self, place: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation


def streamed(files: Mapping[str, bytes], *, wide: bool = False, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive as it is written to a pipe: the sizes of a member follow its bytes."""
    sink = _Pipe()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in files.items():
            with archive.open(name, "w", force_zip64=wide) as member:
                member.write(content)
    return sink.getvalue()


def without_list(whole: bytes) -> bytes:
    return whole[: whole.index(b"PK\x01\x02")]


TRICKY = {**FILES, "like a mark": b"PK\x07\x08" * 40 + b"PK\x03\x04", "empty": b"", "large": os.urandom(600_000)}


@pytest.mark.parametrize(
    "whole",
    [
        zipped(TRICKY),
        zipped(TRICKY, zipfile.ZIP_STORED),
        streamed(TRICKY),
        streamed(TRICKY, wide=True),
        streamed(TRICKY, method=zipfile.ZIP_STORED),
        crafted([(name, content, zstd(content)) for name, content in TRICKY.items()]),
    ],
)
def test_whole_members_of_a_cut_archive_are_salvaged(whole: bytes) -> None:
    listed = opened(whole)
    cut = without_list(whole)
    bundle = zip_bundle("a.zip", io.BytesIO(cut), salvage=True)
    assert bundle.names() == listed.names()
    assert bundle.sha256 == listed.sha256
    assert bundle.cut.endswith("7 whole members were kept")
    assert "`salvage=True` keeps the 7 whole members before the cut" in refused(cut)
    shorter = zip_bundle("a.zip", io.BytesIO(cut[:-700]), salvage=True)
    assert set(listed.names()) - set(shorter.names()) == {"large"}
    assert {name: shorter.read(name, 10_000) for name in shorter.names()} == {
        name: content for name, content in TRICKY.items() if name != "large"
    }


def test_a_cut_archive_is_salvaged_with_the_same_care() -> None:
    def salvaged(content: bytes, limits: Limits | None = None) -> str:
        with pytest.raises(InputError) as caught:
            zip_bundle("a.zip", io.BytesIO(content), limits or Limits(), salvage=True).sha256  # noqa: B018
        return str(caught.value)

    assert "no member is whole" in salvaged(without_list(zipped({"a": os.urandom(99)}))[:-1])
    assert "leads out of its folder" in salvaged(without_list(crafted([("../a", b"x", b"x")], method=0)))
    assert "is encrypted" in salvaged(without_list(crafted([("a", b"x", b"x")], method=0, flags=1)))
    assert "occurs twice" in salvaged(without_list(crafted([("a", b"x", b"x"), ("a", b"y", b"y")], method=0)))
    assert "unpacks to more than 200 times" in salvaged(without_list(zipped({"a": bytes(70 * 2**20)})))
    assert "more than 1 members" in salvaged(without_list(zipped({"a": b"", "b": b""})), Limits(members=1))
    damaged = bytearray(without_list(zipped({"a": os.urandom(3_000)}, zipfile.ZIP_STORED)))
    damaged[1_500] ^= 1
    assert "its checksum differs" in salvaged(bytes(damaged))


@pytest.mark.usefixtures("parts")
def test_a_cut_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = zipped()
    (tmp_path / "a.parts").write_bytes(without_list(whole)[:-5])  # inside notes.bin
    with pytest.raises(InputError, match="`salvage=True` keeps the 3 whole members"):
        read(tmp_path / "a.parts")
    records = read(tmp_path / "a.parts", salvage=True, map={"item": "id"})
    assert len(records) == 3
    assert not records.sources[0].is_whole
    assert any("3 whole members were kept" in warning for warning in records.warnings)
    (tmp_path / "whole.parts").write_bytes(whole)
    assert read(tmp_path / "whole.parts", salvage=True, map={"item": "id"}).sources[0].is_whole


@given(st.data())
def test_no_cut_archive_makes_a_traceback(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([zipped(), streamed(FILES), streamed(FILES, wide=True)])))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = io.BytesIO(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    try:
        assert zip_bundle("a.zip", cut, salvage=True, repeats=True).sha256
    except InputError as error:
        assert str(error).isprintable()  # noqa: PT017


# -- names that occur twice -----------------------------------------------------------------------------------------


def test_the_last_of_two_members_counts_for_a_reader_that_says_so(tmp_path: Path) -> None:
    newer = crafted(
        [
            ("header.json", b"{}", b"{}"),
            ("parts/1.jsonl", FILES["parts/1.jsonl"], FILES["parts/1.jsonl"]),
            ("header.json", FILES["header.json"], FILES["header.json"]),
        ],
        method=0,
    )
    (tmp_path / "a.parts").write_bytes(newer)
    for last_counts in (False, True):
        reader("parts", about="x", suffixes=(".parts",), sniff=sniff, takes="bundle", last_counts=last_counts)(load)
        try:
            if last_counts:
                assert read(tmp_path / "a.parts", map={"item": "id"}).column("model").to_pylist() == ["m"]
            else:
                with pytest.raises(InputError, match=r"the member 'header\.json' occurs twice"):
                    read(tmp_path / "a.parts", map={"item": "id"})
        finally:
            readers.remove("parts")


def test_a_folder_with_one_file_that_is_no_bundle_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.eval").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"no reader recognises; give the one file in it: run\.eval$"):
        sy.read(tmp_path / "logs")
