"""How much of the reference do the words of an answer say? Whatever the texts are about.

Texts are normalised first (`steelyard.texts.normalise`), but for chrf. Declining and unreadable replies score 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms
from steelyard.metrics.text_rows import scored
from steelyard.records.table import Records
from steelyard.records.texts import texts_of
from steelyard.texts import overlap

_COUNTED = ("matched", "missed", "extra")
_overlap = partial(metric, better="higher", bounds=(0, 1), reads=("target", "prediction"), texts=True)


@_overlap(
    title="Exact Match",
    aliases=("em",),
    also=("exact", "string match"),
    formula="1 if the words are the same in the same order",
)
def exact_match(records: Records) -> Terms:
    """Share of the answers that are the reference, after normalisation: case, punctuation and spelling do not matter.

    >>> value("exact_match", target=["Type-2 diabetes", "oedema"], prediction=["type 2 diabetes.", "rash"])
    0.5
    """
    return _of_texts(records, "exact_match")


@_overlap(
    title="Token F1",
    also=("word overlap", "squad", "f1"),
    formula="2·|common words| / (|words of the answer| + |words of the reference|)",
    reference="Rajpurkar et al. (2016), SQuAD",
)
def token_f1(records: Records) -> Terms:
    """F1 of the words of answer and reference, each as often as it stands there; two empty texts agree.

    >>> round(value("token_f1", target=["acute otitis media"], prediction=["otitis media"]), 6)
    0.8
    """
    return _of_texts(records, "token_f1", _COUNTED)


@_overlap(
    title="ROUGE-L",
    aliases=("rougel",),
    also=("rouge", "rouge1", "rouge2", "summary overlap"),
    formula="2·LCS / (|words of the answer| + |words of the reference|)",
    reference="Lin (2004), ROUGE",
)
def rouge_l(records: Records) -> Terms:
    """ROUGE-L: F1 of the longest common subsequence of words, so that their order counts.

    >>> round(value("rouge_l", target=["chest pain and fever"], prediction=["fever and chest pain"]), 6)
    0.5
    """
    return _of_texts(records, "rouge_l", _COUNTED)


@_overlap(
    title="chrF",
    also=("bleu", "meteor", "ter", "translation"),
    formula="F with beta 2 of mean precision and recall over runs of 1 to 6 characters",
    reference="Popović (2015), chrF; as sacrebleu computes it for a sentence, divided by 100",
)
def chrf(records: Records) -> Terms:
    """chrF: agreement of runs of characters, without white space; kind to inflected and compound words.

    Case and punctuation count here. Two texts without any character agree, which sacrebleu scores 0.

    >>> round(value("chrf", target=["pneumonia"], prediction=["pneumonias"]), 4)
    0.9682
    """
    return _of_texts(records, "chrf")


def _of_texts(records: Records, name: str, counted: tuple[str, ...] = ()) -> Terms:
    reference, answer = (texts_of(records, column, needed_by=name) for column in ("target", "prediction"))
    return scored(records, reference, answer, name, getattr(overlap, name), counted)


def _words(s: Cells) -> dict[str, Any]:
    """How many words matched, were missed, were extra."""
    return {name: int(getattr(s, name)[0]) for name in _COUNTED}


token_f1.detail(_words)
rouge_l.detail(_words)
