"""Compressed files: read as what is inside, digested as they lie on disk, bounded, and never half read in silence."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InputError, UsageError
from steelyard.records.readers import packed, read
from steelyard.records.readers.bundles import LIMITS
from steelyard.records.readers.packed import inner_name
from steelyard.records.readers.trec import read_rankings
from steelyard.records.task import Task

Compress = Callable[[bytes], bytes]
LINES = b'{"item": "q1", "target": "A"}\n{"item": "q2", "target": "B"}\n'
TEXTS = {
    "jsonl": LINES,
    "csv": b"item,target\nq1,A\nq2,B\n",
    "tsv": b"item\ttarget\nq1\tA\nq2\tB\n",
    "json": b'[{"item": "q1", "target": "A"}, {"item": "q2", "target": "B"}]',
}
SKIPPED = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"


def zstd(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, "zstd", asbytes=True)
    return compressed


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


METHODS: dict[str, Compress] = {".gz": gz, ".zst": zstd}
methods = pytest.mark.parametrize(("suffix", "compress"), METHODS.items(), ids=list(METHODS))


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def many(rows: int) -> bytes:
    rng = random.Random(7)
    return b"".join(b'{"item": %d, "x": "%d"}\n' % (n, rng.getrandbits(60)) for n in range(rows))


# -- what is inside -----------------------------------------------------------------------------------------------


@methods
@pytest.mark.parametrize("format", TEXTS)
def test_every_text_format_may_be_compressed(tmp_path: Path, suffix: str, compress: Compress, format: str) -> None:
    for name in (f"a.{format}{suffix}", f"a.{format}"):
        path = written(tmp_path, name, compress(TEXTS[format]))
        records = read(path)
        assert records.column("target").to_pylist() == ["A", "B"]
        assert records.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert records.sources[0].name == str(path)
    assert len(read(written(tmp_path, "anything", compress(TEXTS[format])), format=format)) == 2


@methods
def test_binary_formats_too(tmp_path: Path, suffix: str, compress: Compress) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"item": ["q1", "q2"]}), buffer)
    path = written(tmp_path, f"a.parquet{suffix}", compress(buffer.getvalue()))
    assert len(read(path)) == 2
    assert read(path).sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="the compressed file is cut short"):
        read(written(tmp_path, f"b.parquet{suffix}", path.read_bytes()[:-6]), salvage=True)


@methods
def test_what_is_inside_is_sniffed_and_its_errors_have_its_lines(
    tmp_path: Path, suffix: str, compress: Compress
) -> None:
    path = written(tmp_path, f"wrongly.csv{suffix}", compress(LINES + b'{"item": "q3", "confidence": 7}\n'))
    with pytest.raises(InputError, match=rf"wrongly\.csv{suffix}:3: confidence"):
        read(path)


@pytest.mark.parametrize(
    ("name", "inner"),
    [("a.csv.gz", "a.csv"), ("a.JSONL.ZST", "a.JSONL"), ("b/a.zstd", "b/a"), ("a.csv", "a.csv"), (".gz", ".gz")],
)
def test_the_name_of_what_is_inside(name: str, inner: str) -> None:
    assert inner_name(name) == inner


def test_the_task_file_is_that_of_the_name_inside(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl.gz", gz(LINES))
    (tmp_path / "a.task.yaml").write_text("labels: [A, B, C]\n")
    assert read(path).task == Task(labels=("A", "B", "C"))


@methods
def test_several_streams_follow_each_other(tmp_path: Path, suffix: str, compress: Compress) -> None:
    first, second = LINES.splitlines(keepends=True)
    assert len(read(written(tmp_path, f"a.jsonl{suffix}", compress(first) + compress(second)))) == 2
    halves = compress(LINES[:40]) + compress(b"") + compress(LINES[40:])
    assert len(read(written(tmp_path, f"b.jsonl{suffix}", halves))) == 2


def test_gzip_may_end_in_zeros_and_zstd_have_frames_to_skip(tmp_path: Path) -> None:
    for zeros in (1, 7, 10_000, 200_000):
        assert len(read(written(tmp_path, "a.jsonl.gz", gz(LINES) + b"\x00" * zeros))) == 2
        assert len(read(written(tmp_path, "b.jsonl.gz", gz(LINES[:40]) + b"\x00" * zeros + gz(LINES[40:])))) == 2
    for content in (SKIPPED + zstd(LINES), zstd(LINES[:40]) + SKIPPED + zstd(LINES[40:]) + SKIPPED):
        assert len(read(written(tmp_path, "a.jsonl.zst", content))) == 2


@methods
def test_a_pipe_and_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, compress: Compress
) -> None:
    content = compress(many(20_000))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    records = read(pipe)
    writer.join()
    assert (len(records), records.sources[0].sha256) == (20_000, hashlib.sha256(content).hexdigest())
    for text in (TEXTS["csv"], LINES, LINES.splitlines()[0]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(compress(text))))
        assert read("-").column("item").to_pylist()[0] == "q1"


@methods
def test_judgements_and_runs_too(tmp_path: Path, suffix: str, compress: Compress) -> None:
    qrels = written(tmp_path, f"qrels{suffix}", compress(b"q1 0 a 1\nq1 0 b 0\n"))
    run = written(tmp_path, f"run{suffix}", compress(b"q1 Q0 b 1 2.0 t\nq1 Q0 a 2 1.0 t\n"))
    (records,) = read_rankings(qrels, [run])
    assert records.column("gains").to_pylist() == [[0, 1]]
    assert {source.sha256 for source in records.sources} == {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (qrels, run)
    }


# -- what is refused ----------------------------------------------------------------------------------------------


@methods
def test_a_stream_that_is_cut_short_is_refused_or_salvaged(tmp_path: Path, suffix: str, compress: Compress) -> None:
    content = compress(many(30_000))
    for cut in (len(content) // 2, len(content) - 9, len(content) - 1):
        path = written(tmp_path, f"a.jsonl{suffix}", content[:cut])
        with pytest.raises(InputError, match=r"cut short.*; `salvage=True` keeps the whole records before the cut"):
            read(path)
        records = read(path, salvage=True)
        kept = records.column("item").to_pylist()
        assert kept == list(range(len(kept)))
        assert len(kept) > 10_000
        assert records.sources[0].torn
        assert records.sources[0].sha256 == hashlib.sha256(content[:cut]).hexdigest()
        assert [("cut short" in warning) for warning in records.warnings] == [True]


def test_salvage_drops_the_last_row_of_a_cut_table_even_if_it_looks_whole(tmp_path: Path) -> None:
    content = b"item,confidence\n" + b"".join(b"q%d,0.%04d\n" % (n, n) for n in range(1000, 4000))
    whole = gz(content)
    path = written(tmp_path, "a.csv.gz", whole[: len(whole) // 2])
    records = read(path, salvage=True)
    last = records.column("item").to_pylist()[-1]
    assert records.column("confidence").to_pylist()[-1] == float("0." + last[1:])


@methods
def test_a_cut_array_keeps_its_whole_objects(tmp_path: Path, suffix: str, compress: Compress) -> None:
    content = compress(b"[" + many(30_000).strip().replace(b"\n", b",\n") + b"]")
    path = written(tmp_path, f"a.json{suffix}", content[: len(content) // 2])
    with pytest.raises(InputError, match="cut short"):
        read(path)
    records = read(path, salvage=True)
    assert records.column("item").to_pylist() == list(range(len(records)))
    assert len(records) > 10_000
    assert len(records.warnings) == 1


def test_damage_and_what_follows_are_refused_even_if_salvaging(tmp_path: Path) -> None:
    flipped = bytearray(gz(many(1000)))
    flipped[-6] ^= 1  # the checksum
    for name, content in {
        "checksum.jsonl.gz": bytes(flipped),
        "garbage.jsonl.gz": gz(LINES) + b"garbage",
        "more.jsonl.gz": gz(LINES) + b"\x00" * 9 + b"xy",
        "garbage.jsonl.zst": zstd(LINES) + b"garbage!",
        "method.jsonl.gz": b"\x1f\x8b\x07" + gz(LINES)[3:],
    }.items():
        with pytest.raises(InputError, match=r"damaged, or something else follows"):
            read(written(tmp_path, name, content), salvage=True)


@methods
def test_bombs_are_refused_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, compress: Compress
) -> None:
    monkeypatch.setattr(packed.Packed.__init__, "__kwdefaults__", _limits(spared=2**20))
    path = written(tmp_path, f"a.jsonl{suffix}", compress(b" " * 2**22))
    for format in (None, "csv", "parquet"):
        with pytest.raises(InputError, match="unpacks to more than 200 times its size; this is no data"):
            read(path, format=format)
    ordinary = written(tmp_path, f"b.jsonl{suffix}", compress(many(50_000)))
    assert len(read(ordinary)) == 50_000
    monkeypatch.setattr(packed.Packed.__init__, "__kwdefaults__", _limits(total=2**20))
    with pytest.raises(InputError, match="unpacks to more than 0 GiB"):
        read(ordinary)


def _limits(**changed: int) -> dict[str, object]:
    return {"limits": replace(LIMITS, **changed), "small_steps": False}


def archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("a.jsonl")
        info.size = len(LINES)
        tar.addfile(info, io.BytesIO(LINES))
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.jsonl", LINES)
    return buffer.getvalue()


@methods
def test_archives_inside_and_twice_compressed_files_say_what_to_do(
    tmp_path: Path, suffix: str, compress: Compress
) -> None:
    for content, said in {
        archive(): r"looks like a tar archive \(unpack it first\)",
        compress(LINES): r"looks like data compressed with (gzip|zstd) \(unpack it first\)",
        zipped(): "a zip archive that is compressed once more cannot be read; unpack it first",
    }.items():
        for name in (f"a.tar{suffix}", f"a.jsonl{suffix}"):
            with pytest.raises((InputError, UsageError), match=said):
                read(written(tmp_path, name, compress(content)))


@methods
def test_no_cut_or_flipped_byte_raises_anything_else(tmp_path: Path, suffix: str, compress: Compress) -> None:
    content = compress(LINES)
    for cut in range(3 if suffix == ".gz" else 4, len(content)):
        with pytest.raises(InputError):
            read(written(tmp_path, f"a.jsonl{suffix}", content[:cut]))
    for place in range(4, len(content)):
        damaged = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        try:
            read(written(tmp_path, f"a.jsonl{suffix}", damaged), salvage=bool(place % 2))
        except (InputError, UsageError) as error:
            assert "q1" not in str(error)  # noqa: PT017
