"""Embedders: the same bits everywhere, servers that misbehave, and a cache that survives damage."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import BackendError, InputError, StorageError, UsageError
from steelyard.texts.embedders import Checked, embedder, embedders
from steelyard.texts.embedders.cache import Cached

SECRET = "SECRET-PATIENT"
KEY = "sk-SECRET-KEY"
Reply = tuple[int, dict[str, str], bytes]
TEXTS = ["alpha", "beta", "gamma", SECRET]
IDS = ["a", "b", "c", "d"]


def vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [1 / 3 + digest[place] for place in range(4)]


def good(request: dict[str, Any]) -> Reply:
    data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(request["input"])]
    return 200, {}, json.dumps({"object": "list", "data": data[::-1], "model": "m"}).encode()


class Server:
    """A server on this machine that answers as it is told, request by request; the last answer holds on."""

    def __init__(self, *replies: Callable[[dict[str, Any]], Reply]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
                outer.requests.append(body)
                reply = replies[min(len(outer.requests), len(replies)) - 1]
                status, headers, answer = reply(body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.handle_error = lambda *args: None  # type: ignore[method-assign]  # the client may be gone
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*replies: Callable[[dict[str, Any]], Reply]) -> Server:
        servers.append(Server(*replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def asking(server: Server, **settings: Any) -> Any:
    return embedder("openai:m", **{"base_url": server.url, "api_key": KEY, "longest_wait": 0.0, **settings})


def given_up(server: Server, **settings: Any) -> str:
    with pytest.raises(BackendError) as caught:
        asking(server, **settings).embed(IDS, TEXTS, what="documents")
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def fixed(status: int, body: bytes = SECRET.encode(), **headers: str) -> Callable[[dict[str, Any]], Reply]:
    return lambda _: (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


# -- specs and settings ------------------------------------------------------------------------------------------


def test_specs_that_are_refused() -> None:
    for spec, problem in (
        ("hsh", "did you mean 'hash'"),
        ("hash:0", "between 1 and"),
        ("hash:x", "between 1 and"),
        ("hash:9999999", "between 1 and"),
        ("openai", "names a model"),
        ("openai: ", "names a model"),
        ("npz", "npz file"),
        ("npz:a.npy", "npz file"),
        ("wordllama:512", "one model only"),
    ):
        with pytest.raises(UsageError, match=problem):
            embedder(spec)


def test_settings() -> None:
    assert embedder("hash", cache=None, base_url=None).model == "words-256"
    with pytest.raises(UsageError, match="no setting 'cache'; it takes no settings"):
        embedder("hash", cache="x")
    with pytest.raises(UsageError, match="no setting 'bach'; it takes base_url, api_key, batch"):
        embedder("openai:m", bach=3)
    for settings in (
        {"batch": 0}, {"dimensions": 0}, {"retries": -1}, {"timeout": 0}, {"timeout": float("nan")},
        {"longest_wait": -1}, {"base_url": "ftp://x"}, {"base_url": "nonsense"}, {"base_url": "http://"},
        {"base_url": "http://a\n"}, {"base_url": "http://x:port"}, {"base_url": "http://x/v1?a=b"},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            embedder("openai:m", **settings)
    for settings in ({"api_key": f"{KEY}\nx"}, {"api_key": f"{KEY}é"}, {"base_url": f"http://user:{KEY}@host/v1"}):
        with pytest.raises(UsageError) as caught:
            embedder("openai:m", **settings)
        assert KEY not in str(caught.value)


class Odd:
    """An embedder whose answer is not what it should be."""

    provider, model = "odd", "odd"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Any = None) -> Any:
        return np.array(self.answer)


def test_every_embedder_is_checked() -> None:
    embedders.add("odd", lambda argument: Odd(json.loads(argument)))
    try:
        assert embedder("odd:[[1], [2]]").embed(["a", "b"], ["x", "y"], what="queries").tolist() == [[1.0], [2.0]]
        for answer, problem in (
            ("[[1], [0]]", "zero vector in the vectors of queries, row 1"),
            ("[[1], [NaN]]", "NaN or infinite number in the vectors of queries, row 1"),
            ("[[1]]", "1 row came back for 2 texts"),
            ("[1, 2]", "one vector a row"),
        ):
            with pytest.raises(InputError, match=problem):
                embedder(f"odd:{answer}").embed(["a", "b"], ["x", "y"], what="queries")
    finally:
        embedders.remove("odd")
    checked = Checked(Odd([[1]]))
    for texts, kind in (([], UsageError), (["x", "y"], UsageError), ([" "], InputError)):
        with pytest.raises(kind):
            checked.embed(["a"], texts, what="queries")
    assert repr(checked) == "<embedder odd odd>"


# -- hash --------------------------------------------------------------------------------------------------------


def test_hashing_gives_the_same_bits_for_ever() -> None:
    found = embedder("hash:64").embed(
        ["a", "b"], ["Der Patient schläft schlecht.", "ﬁne ＦＩＮＥ fine 睡眠 4 4"], what="x"
    )
    assert found.dtype == np.float32
    assert hashlib.sha256(found.astype("<f4").tobytes()).hexdigest() == GOLDEN


GOLDEN = "15fa1a9a2b35aebe21f7fad2c2f81d188279d05cd72ae7cc25c9cd24b80377c0"


def test_near_texts_are_near() -> None:
    texts = ["sleeping badly at night", "sleeps badly, nights", "stock market crash", "SLEEPING BADLY  at night!"]
    found = embedder("hash").embed(list("abcd"), texts, what="x")
    like = found @ found.T
    assert like[0, 1] > 0.4 > like[0, 2]
    assert like[0, 3] == pytest.approx(1)
    assert np.allclose(np.diag(like), 1)


@given(st.text(min_size=1), st.sampled_from(["hash:1", "hash:2", "hash:3", "hash:64"]))
def test_every_text_with_a_word_has_a_direction(text: str, spec: str) -> None:
    found = embedder(spec)
    try:
        once = found.embed(["a"], [text], what="x")
    except InputError:
        assert not any(character.isascii() and character.isalnum() for character in text)
        return
    assert np.linalg.norm(once) == pytest.approx(1, abs=1e-6)
    other = found.embed(["b", "a"], ["other", text], what="x")
    assert once[0].tobytes() == other[1].tobytes()


def test_a_text_without_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="queries: the text of 'q2' has no words"):
        embedder("hash").embed(["q1", "q2"], ["a", "?!… __"], what="queries")


def test_long_words_and_progress() -> None:
    told: list[float] = []
    texts = ["x" * 5_000, *("word" for _ in range(600))]
    embedder("hash:8").embed([str(place) for place in range(601)], texts, what="x", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


# -- precomputed -------------------------------------------------------------------------------------------------


def test_vectors_by_id(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez(path, vectors=np.array([[1.0, 0], [0, 1], [1, 1]]), ids=np.array(["a", "B", "c"]))
    found = embedder(f"npz:{path}")
    assert (found.provider, found.model) == ("npz", str(path))
    assert found.embed(["C", "b"], ["x", "y"], what="queries").tolist() == [[1, 1], [0, 1]]
    with pytest.raises(InputError, match=r"v\.npz: has no vector for 'z' of the queries"):
        found.embed(["a", "z"], ["x", SECRET], what="queries")
    with pytest.raises(UsageError, match="none for their pieces"):
        found.embed(["a", "a"], ["x", "y"], what="documents")
    np.savez(path, vectors=np.eye(2))
    with pytest.raises(InputError, match=r"v\.npz has no array ids; it has: vectors"):
        embedder(f"npz:{path}")


def test_vectors_by_order(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    np.save(path, np.eye(2))
    told: list[float] = []
    found = embedder(f"npy:{path}").embed(["x", "y"], ["x", "y"], what="queries", progress=told.append)
    assert found.tolist() == np.eye(2).tolist()
    assert told == [1.0]
    with pytest.raises(InputError, match="has 2 vectors for 1 queries"):
        embedder(f"npy:{path}").embed(["x"], ["x"], what="queries")


# -- wordllama ---------------------------------------------------------------------------------------------------

needs_wordllama = pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra 'embeddings' is not installed")


@needs_wordllama
@pytest.mark.filterwarnings("default")  # of another package
def test_wordllama_agrees_with_itself() -> None:
    imported = "wordllama" in sys.modules
    mine = embedder("wordllama")
    assert (mine.provider, mine.model) == ("wordllama", "l2_supercat_256")
    texts = ["sleeping badly", "Schlafstörung, 睡眠 😀", "!", "a word " * 500, "one two three " * 9_000]
    told: list[float] = []
    found = mine.embed(list("abcde"), texts, what="x", progress=told.append)
    assert found.dtype == np.float32
    assert told[-1] == 1.0
    assert ("wordllama" in sys.modules) == imported
    import wordllama

    logging.getLogger().setLevel(logging.WARNING)  # its import asks for INFO
    # its loader looks for the tokenizer in a folder of another name, unless it is told that its files are a cache
    other = wordllama.WordLlama.load(disable_download=True, cache_dir=Path(wordllama.__file__).parent)
    theirs = np.concatenate([other.embed(text, norm=True) for text in texts])
    assert np.abs(found - theirs)[:4].max() < 1e-5
    # it adds up float32 numbers, which shows in very long texts: added up exactly, its own vectors give ours
    exact = other.embedding[other.tokenize(texts[4])[0].ids].astype(np.float64).mean(0)
    assert np.abs(found[4] - exact / np.linalg.norm(exact)).max() < 1e-7


def test_wordllama_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(UsageError, match=r'pip install "steelyard\[embeddings\]"'):
        embedder("wordllama")


@needs_wordllama
def test_wordllama_whose_parts_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from steelyard.texts.embedders.wordllama import WordLlama

    with pytest.raises(UsageError, match="install it again"):
        WordLlama(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match="pip install"):
        embedder("wordllama")


# -- openai ------------------------------------------------------------------------------------------------------


def test_answers_out_of_order_come_back_in_order(serving: Any) -> None:
    server = serving(good)
    told: list[float] = []
    found = asking(server, batch=3, dimensions=4).embed(IDS, TEXTS, what="documents", progress=told.append)
    assert found.tolist() == [vector(text) for text in TEXTS]
    assert told == [0.75, 1.0]
    assert server.requests == [
        {"model": "m", "input": part, "encoding_format": "float", "dimensions": 4} for part in (TEXTS[:3], TEXTS[3:])
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["path"] == "/v1/embeddings"


def test_no_key_is_sent_where_none_is_given(serving: Any) -> None:
    server = serving(good)
    embedder("openai:m", base_url=server.url + "/").embed(IDS, TEXTS, what="x")
    assert "authorization" not in server.headers[0]
    assert "dimensions" not in server.requests[0]


def test_it_asks_again_where_that_may_help(serving: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = serving(fixed(429, Retry_After="3600"), fixed(503), fixed(500, Retry_After="x"), good)
    assert asking(server).embed(IDS, TEXTS, what="x").tolist() == [vector(text) for text in TEXTS]
    assert len(server.requests) == 4
    assert SECRET not in caplog.text
    assert KEY not in caplog.text


def test_it_gives_up_in_the_end(serving: Any) -> None:
    server = serving(fixed(500))
    assert "status 500 (Internal Server Error); gave up after 6 attempts" in given_up(server)
    assert len(server.requests) == 6
    assert "status 599; gave up after 1 attempt" in given_up(serving(fixed(599)), retries=0)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (400, "cut them"), (401, "check the API key"), (403, "check the API key"), (404, "the model's name"),
        (413, "fewer at once"), (418, "status 418"), (204, "status 204"), (302, "redirects are not followed"),
        (307, "redirects are not followed"),
    ],
)  # fmt: skip
def test_it_does_not_ask_again_where_that_cannot_help(serving: Any, status: int, problem: str) -> None:
    elsewhere = serving(good)
    server = serving(fixed(status, b"" if status == 204 else SECRET.encode(), Location=f"{elsewhere.url}/embeddings"))
    assert problem in given_up(server)
    assert len(server.requests) == 1
    assert not elsewhere.requests


def answer(*items: Any) -> Callable[[dict[str, Any]], Reply]:
    return fixed(200, json.dumps({"data": items}).encode())


def item(index: int, *numbers: Any) -> dict[str, Any]:
    return {"index": index, "embedding": list(numbers)}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (fixed(200), "not the JSON of embeddings"),
        (fixed(200, b""), "not the JSON of embeddings"),
        (fixed(200, b'{"data": [{"index": 0, "embedding": [1'), "not the JSON of embeddings"),
        (fixed(200, b"[" * 100_000), "not the JSON of embeddings"),
        (fixed(200, b'{"data": "\xff"}'), "not the JSON of embeddings"),
        (fixed(200, b'{"error": "SECRET-PATIENT"}'), "not the JSON of embeddings"),
        (answer(*(item(place, "NaN") for place in range(4))), "not the JSON of embeddings"),
        (answer(*(item(place, float("nan")) for place in range(4))), "not the JSON of embeddings"),
        (answer(*(item(place, None) for place in range(4))), "not the JSON of embeddings"),
        (fixed(200, b'{"data": [{"index": 0, "embedding": [1e999]}]}'), "not the JSON of embeddings"),
        (answer(*({"embedding": [1]} for _ in range(4))), "not the JSON of embeddings"),
        (answer(*(item(place, 1) for place in range(3))), "one vector for each of 4 texts"),
        (answer(*(item(place, 1) for place in range(5))), "one vector for each of 4 texts"),
        (answer(*(item(place, 1) for place in (0, 1, 2, 2))), "one vector for each of 4 texts"),
        (answer(*(item(place, 1) for place in (1, 2, 3, 4))), "one vector for each of 4 texts"),
        (answer(item(0, 1), item(1, 1), item(2, 1, 2), item(3, 1)), "have 1, 2 numbers"),
        (answer(*(item(place) for place in range(4))), "the shape is 4 × 0"),
        (answer(item(0, 1), item(1, 1), item(2, 0), item(3, 1)), "zero vector in the answer for documents 'a'"),
        (fixed(200, b"not gzip", Content_Encoding="gzip"), "compressed, which was not asked for"),
    ],
)
def test_answers_that_are_refused(serving: Any, reply: Any, problem: str) -> None:
    server = serving(reply)
    assert problem in given_up(server)
    assert len(server.requests) == 1


def test_sizes_that_are_not_those_asked_for(serving: Any) -> None:
    assert "have 4 numbers, not the 3 numbers asked for" in given_up(serving(good), dimensions=3)
    server = serving(good, lambda request: (200, {}, json.dumps({"data": [item(0, 1, 2)]}).encode()))
    assert "from one answer to the next" in given_up(server, batch=3)


def test_an_answer_without_end(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.texts.embedders.openai.LARGEST_ANSWER", 2**20)
    assert "larger than 1 MB" in given_up(serving(fixed(200, b" " * 2**21)))


def test_no_answer_in_time(serving: Any) -> None:
    server: Server

    def late(request: dict[str, Any]) -> Reply:
        server.released.wait(600)
        return good(request)

    server = serving(late)
    assert "no answer within 0.05 s; gave up after 3 attempts" in given_up(server, timeout=0.05, retries=2)
    assert len(server.requests) <= 3


def test_nobody_there(serving: Any) -> None:
    server = serving(good)
    server._http.server_close()
    assert "cannot be reached" in given_up(server)


def test_the_key_is_in_no_repr(serving: Any) -> None:
    found = asking(serving(good), cache=None)
    assert KEY not in repr(found) + repr(found.inner)


# -- cache -------------------------------------------------------------------------------------------------------


def kept(folder: Path) -> Path:
    (path,) = folder.glob("*.vectors")
    return path


def test_what_was_asked_once_is_not_asked_again(serving: Any, tmp_path: Path) -> None:
    server = serving(good, fixed(500))
    found = asking(server, cache=tmp_path)
    first = found.embed(["a", "b", "c"], ["x", "y", "x"], what="documents")
    assert server.requests[0]["input"] == ["x", "y"]
    assert found.cached == 0
    again = asking(server, cache=tmp_path)
    told: list[float] = []
    second = again.embed(["p", "q", "r"], ["y", "x", "y"], what="queries", progress=told.append)
    assert again.cached == 3
    assert told == [1.0]
    assert second.tobytes() == first[[1, 0, 1]].tobytes()
    assert len(server.requests) == 1
    assert kept(tmp_path).stat().st_mode & 0o077 == 0


def test_other_models_servers_and_sizes_are_other_vectors(serving: Any, tmp_path: Path) -> None:
    server = serving(good)
    for settings in ({}, {"dimensions": 4}, {"base_url": server.url + "/../v1"}):
        asking(server, cache=tmp_path, **settings).embed(["a"], ["x"], what="x")
    embedder("openai:n", base_url=server.url, cache=tmp_path).embed(["a"], ["x"], what="x")
    assert len(server.requests) == len(list(tmp_path.glob("*.vectors"))) == 4


def test_no_text_is_kept(serving: Any, tmp_path: Path) -> None:
    asking(serving(good), cache=tmp_path).embed(IDS, TEXTS, what="x")
    content = kept(tmp_path).read_bytes()
    assert SECRET.encode() not in content
    assert KEY.encode() not in content


def test_what_was_made_before_a_failure_is_kept(serving: Any, tmp_path: Path) -> None:
    server = serving(good, fixed(400), good)
    given_up(server, cache=tmp_path, batch=3)
    again = asking(server, cache=tmp_path, batch=3)
    assert again.embed(IDS, TEXTS, what="x").tolist() == [vector(text) for text in TEXTS]
    assert (again.cached, [len(request["input"]) for request in server.requests]) == (3, [3, 1, 1])


@pytest.mark.parametrize("damage", ["flip", "cut", "garbage", "kind"])
def test_damaged_records_are_asked_for_again(serving: Any, tmp_path: Path, damage: str) -> None:
    server = serving(good)
    asking(server, cache=tmp_path).embed(IDS, TEXTS, what="x")
    path = kept(tmp_path)
    content = path.read_bytes()
    if damage == "flip":
        at = content.index(b" f8 ") + 10
        changed = content[:at] + (b"A" if content[at : at + 1] != b"A" else b"B") + content[at + 1 :]
    elif damage == "cut":
        changed = content[:-30]
    elif damage == "garbage":
        changed = content[: len(content) // 3] + b"\xff\x00 \n" * 3 + content[len(content) // 3 :]
    else:
        changed = content.replace(b" f8 ", b" O8 ", 1)
    path.write_bytes(changed)
    again = asking(server, cache=tmp_path)
    assert again.embed(IDS, TEXTS, what="x").tolist() == [vector(text) for text in TEXTS]
    assert again.cached == 3
    assert again.inner.damaged >= 1
    assert len(server.requests[1]["input"]) == 1
    assert path.read_bytes().startswith(changed)
    third = asking(server, cache=tmp_path)
    assert third.embed(IDS, TEXTS, what="x").tolist() == [vector(text) for text in TEXTS]
    assert (third.cached, len(server.requests)) == (4, 2)


def test_a_model_that_changed_under_its_name(serving: Any, tmp_path: Path) -> None:
    server = serving(good, lambda request: (200, {}, json.dumps({"data": [item(0, 1, 2)]}).encode()))
    asking(server, cache=tmp_path).embed(["a"], ["x"], what="x")
    with pytest.raises(BackendError, match="another cache folder"):
        asking(server, cache=tmp_path).embed(["a", "b"], ["x", "y"], what="x")


def test_caches_that_cannot_be_written_or_read(serving: Any, tmp_path: Path) -> None:
    server = serving(good)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write the cache|is a file; vectors are kept in a folder"):
        asking(server, cache=tmp_path / "file").embed(["a"], ["x"], what="x")
    asking(server, cache=tmp_path).embed(["a"], ["x"], what="x")
    path = kept(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match="cannot be read"):
        asking(server, cache=tmp_path).embed(["a"], ["x"], what="x")


class Local:
    """An embedder of this process, with numbers of either size."""

    provider, model = "local", "local"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Any = None) -> Any:
        raise AssertionError

    def batches(self, ids: Sequence[str], texts: Sequence[str], *, what: str) -> Iterator[Any]:
        for text in texts:
            yield np.array([vector(text)], self.kind)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_both_kinds_of_numbers_come_back_exactly(tmp_path: Path, kind: str) -> None:
    first = Cached(Local(kind), tmp_path, identity=("local",)).embed(IDS, TEXTS, what="x")
    second = Cached(Local(kind), tmp_path, identity=("local",)).embed(IDS, TEXTS, what="x")
    assert second.dtype == first.dtype == np.dtype(kind)
    assert second.tobytes() == first.tobytes()


def fill(folder: str, worker: int) -> None:
    texts = [f"{worker} {place}" for place in range(300)]
    Cached(Local("f8"), folder, identity=("local",)).embed(texts, texts, what="x")


def test_several_processes_add_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads of servers
    workers = [spawn.Process(target=fill, args=(str(tmp_path), worker)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
        assert worker.exitcode == 0
    texts = [f"{worker} {place}" for worker in range(2) for place in range(300)]
    found = Cached(Local("f8"), tmp_path, identity=("local",))
    assert found.embed(texts, texts, what="x").tolist() == [vector(text) for text in texts]
    assert (found.cached, found.damaged) == (600, 0)
