"""One sample of an Inspect log: what of it becomes rows, taken out of a text that may be hundreds of megabytes long.

What a row is depends on all samples (whether a scorer extracts answers, whether its scores are right or wrong). So
the little that is needed of each sample is held, compressed, until all were seen.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa

from steelyard.errors import InputError
from steelyard.halves import mended
from steelyard.records.readers.inspect_scores import SCORER, number, parts
from steelyard.records.readers.log_values import real
from steelyard.records.token_signals import token_energy, token_msp, token_pe

Refuse = Callable[[str, str | None], InputError]  # from a problem and a field to an error at the sample's place
Attached = Callable[[str], str | None]  # from the name of an attachment to its text

_ABSENT = msgspec.Raw(b"null")
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BLOCK = 200  # samples that are compressed together
_PIECE = 2**20
_NOT_FINITE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN', re.DOTALL)
_ATTACHMENT = re.compile(r"(?:attachment|tc)://([0-9a-f]+)")
_LEAST, _MOST = -1e9, 1e-3  # a log-probability, with what rounding may add


class _Text(msgspec.Struct):
    """The parts of a sample that are read; the others are skipped without being looked into."""

    id: msgspec.Raw = _ABSENT
    epoch: msgspec.Raw = _ABSENT
    target: msgspec.Raw = _ABSENT
    output: msgspec.Raw = _ABSENT
    scores: msgspec.Raw = _ABSENT
    metadata: msgspec.Raw = _ABSENT
    attachments: msgspec.Raw = _ABSENT
    model_usage: msgspec.Raw = _ABSENT
    working_time: msgspec.Raw = _ABSENT
    total_time: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT
    limit: msgspec.Raw = _ABSENT
    invalidation: msgspec.Raw = _ABSENT


class Score(msgspec.Struct, array_like=True):
    """What a scorer said of a sample: the value, None if it gave none, the answer that it found, and why it is so."""

    value: str | bool | int | float | None
    answer: str | None
    reason: str | None = None

    @property
    def judged_right(self) -> bool:
        return (number(self.value) or 0.0) > 0


class Sample(msgspec.Struct, array_like=True):
    """What of a sample becomes rows. `completion` is left out where every scorer found an answer in it."""

    id: int | str
    epoch: int
    targets: list[str]
    scores: dict[str, Score]
    completion: str
    metadata: dict[str, Any]
    usage: dict[str, tuple[int | None, int | None]]
    latency_ms: float | None
    signals: dict[str, float]
    failed: str  # why there is no reply that counts; empty where there is
    missing: int  # texts that are kept apart and are not there


_TEXT = msgspec.json.Decoder(_Text)
_SAMPLE = msgspec.json.Decoder(Sample)


def sample_of(
    raw: bytes | bytearray, refuse: Refuse, *, metadata: bytes | None = None, attached: Attached | None = None
) -> Sample:
    """A sample from its JSON text; `metadata` and `attached` where they are not in it."""
    _check_encoding(raw, refuse)
    text = _parsed(raw, refuse)
    attachments = attached or _attachments(text, refuse)
    resolved = _Resolved(attachments)
    output = _object(text.output, "output", refuse)
    scores = _scores(text, refuse, resolved)
    completion = resolved(_completion(output)) or ""
    targets = [resolved(target) for target in _targets(text, refuse)]
    found = bool(scores) and all((score.answer or "").strip() for score in scores.values())
    return Sample(
        id=_id(text, refuse),
        epoch=_epoch(text, refuse),
        targets=[] if None in targets else [target for target in targets if target is not None],
        scores=scores,
        completion="" if found else completion,
        metadata=_object(msgspec.Raw(metadata) if metadata is not None else text.metadata, "metadata", refuse),
        usage=_usage(_object(text.model_usage, "model_usage", refuse)),
        latency_ms=_milliseconds(value(text.working_time, refuse), value(text.total_time, refuse)),
        signals=_signals(output),
        failed=_failed(text, refuse),
        missing=resolved.missing,
    )


# -- parsing -----------------------------------------------------------------------------------------------------------


def _check_encoding(raw: bytes | bytearray, refuse: Refuse) -> None:
    """Refuse bytes that are not UTF-8, also in parts that nobody reads."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(raw), _PIECE):
            decoder.decode(raw[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise refuse("not UTF-8 text; convert the file to UTF-8", None) from None


def _parsed(raw: bytes | bytearray, refuse: Refuse) -> _Text:
    """The parts of a sample; NaN, which stands for a score that was not made, is no fault."""
    text = mended(raw)
    with suppress(*_REFUSED):
        return _TEXT.decode(text)
    try:
        return _TEXT.decode(_finite(text))
    except msgspec.ValidationError:
        raise refuse("an object is expected", None) from None
    except _REFUSED:
        raise refuse("not valid JSON", None) from None


def _finite(raw: bytes | bytearray) -> bytes:
    """A JSON text with null for numbers that are not finite."""
    pieces, done = [], 0
    for match in _NOT_FINITE.finditer(raw):
        if match[0][:1] != b'"':
            pieces += [raw[done : match.start()], b"null"]
            done = match.end()
    return b"".join((*pieces, raw[done:]))


def _loaded(raw: bytes, refuse: Refuse) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise refuse("not valid JSON", None) from None


def value(raw: bytes | msgspec.Raw, refuse: Refuse) -> Any:
    """The value of a JSON text, NaN included."""
    text = mended(bytes(raw))
    try:
        return msgspec.json.decode(text)
    except _REFUSED:
        return _loaded(text, refuse)


def _object(raw: msgspec.Raw, field: str, refuse: Refuse) -> dict[str, Any]:
    part = value(raw, refuse)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise refuse("an object is expected", field)
    return part


# -- parts -------------------------------------------------------------------------------------------------------------


def _id(text: _Text, refuse: Refuse) -> int | str:
    part = value(text.id, refuse)
    if isinstance(part, bool) or not isinstance(part, int | str) or part == "":
        raise refuse("a whole number or a text is expected", "id")
    return part


def _epoch(text: _Text, refuse: Refuse) -> int:
    part = value(text.epoch, refuse)
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part < 2**31:
        raise refuse("a whole number is expected", "epoch")
    return part


def _targets(text: _Text, refuse: Refuse) -> list[str]:
    part = value(text.target, refuse)
    targets = part if isinstance(part, list) else [] if part is None else [part]
    if not all(isinstance(target, str) for target in targets):
        raise refuse("a text or a list of texts is expected", "target")
    return targets


def _scores(text: _Text, refuse: Refuse, resolved: _Resolved) -> dict[str, Score]:
    """The scores of all scorers, those in an object or a list apart."""
    scores: dict[str, Score] = {}
    for scorer, said in _object(text.scores, "scores", refuse).items():
        answer = said.get("answer") if isinstance(said, dict) else None
        if not isinstance(said, dict) or not (answer is None or isinstance(answer, str)):
            raise refuse("an object with value and answer, a text, is expected", f"scores.{scorer}")
        answer = None if answer is None else resolved(answer)
        reason = said.get("reason")
        reason = reason if scorer == SCORER and isinstance(reason, str) else None
        scores |= {name: Score(part, answer, reason) for name, part in parts(scorer, said.get("value"))}
    return scores


def _completion(output: Mapping[str, Any]) -> str:
    """What the model replied: as stated, else the text of the first choice's message."""
    completion = output.get("completion")
    if isinstance(completion, str) and completion:
        return completion
    message = _first_choice(output).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _first_choice(output: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = output.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _signals(output: Mapping[str, Any]) -> dict[str, float]:
    """Signals of the tokens of the first choice; those that its log-probabilities do not give are left out."""
    logprobs = _first_choice(output).get("logprobs")
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(tokens, list) or not tokens or not all(map(_has_logprob, tokens)):
        return {}
    tops = [token.get("top_logprobs") for token in tokens]
    if not all(isinstance(top, list) and top and all(map(_has_logprob, top)) for top in tops):
        return {"token_msp": token_msp(tokens)}
    return {"token_msp": token_msp(tokens), "token_pe": token_pe(tokens), "token_energy": token_energy(tokens)}


def _has_logprob(token: Any) -> bool:
    logprob = token.get("logprob") if isinstance(token, dict) else None
    return isinstance(logprob, int | float) and not isinstance(logprob, bool) and _LEAST < logprob <= _MOST


def _usage(usage: Mapping[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    """Tokens that each model read and wrote."""
    return {
        model: (_count(used.get("input_tokens")), _count(used.get("output_tokens")))
        for model, used in usage.items()
        if isinstance(used, dict)
    }


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 2**53 else None


def _milliseconds(*seconds: Any) -> float | None:
    known = (real(each) for each in seconds if not isinstance(each, bool))
    return next((1000.0 * each for each in known if each is not None and 0 <= each < 2**53), None)


def _failed(text: _Text, refuse: Refuse) -> str:
    """Why a sample has no reply that counts."""
    if value(text.error, refuse) is not None:
        return "the sample ended with an error"
    limit = value(text.limit, refuse)
    if limit is not None:
        kind = limit.get("type") if isinstance(limit, dict) else None
        known = kind if kind in ("context", "time", "working", "message", "token", "turn", "cost", "operator") else ""
        return f"the sample ran into a limit{known and f' ({known})'}"
    return "the sample was declared invalid" if value(text.invalidation, refuse) is not None else ""


def _attachments(text: _Text, refuse: Refuse) -> Attached:
    """The texts that a sample keeps apart, decoded when one is asked for."""

    def attached(name: str) -> str | None:
        try:
            texts: dict[str, msgspec.Raw] = (
                msgspec.json.decode(text.attachments, type=dict[str, msgspec.Raw] | None) or {}
            )
        except _REFUSED:
            return None
        part = value(texts[name], refuse) if name in texts else None
        return part if isinstance(part, str) else None

    return attached


class _Resolved:
    """From a text to what it stands for: itself, or that of an attachment; None, counted, if that is missing."""

    def __init__(self, attached: Attached) -> None:
        self._attached, self.missing = attached, 0

    def __call__(self, text: str) -> str | None:
        reference = _ATTACHMENT.fullmatch(text)
        if reference is None:
            return text
        content = self._attached(reference[1])
        self.missing += content is None
        return content


# -- holding -----------------------------------------------------------------------------------------------------------


class Held:
    """Samples that are held, compressed, until all were seen."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, bytes]] = []  # size and compressed text
        self._open: list[bytes] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sample: Sample) -> None:
        try:
            self._open.append(msgspec.json.encode(sample))
        except OverflowError:  # a whole number beyond 64 bits
            self._open.append(json.dumps(msgspec.to_builtins(sample)).encode())
        self._count += 1
        if len(self._open) == _BLOCK:
            self._pack()

    def _pack(self) -> None:
        text = b"\n".join(self._open)
        self._blocks.append((len(text), pa.compress(text, "zstd", asbytes=True)))
        self._open = []

    def __iter__(self) -> Iterator[Sample]:
        for size, block in self._blocks:
            yield from map(_restored, pa.decompress(block, size, "zstd", asbytes=True).split(b"\n"))
        yield from map(_restored, self._open)


def _restored(line: bytes) -> Sample:
    try:
        return _SAMPLE.decode(line)
    except _REFUSED:
        return msgspec.convert(json.loads(line), Sample)
