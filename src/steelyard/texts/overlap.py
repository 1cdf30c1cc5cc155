"""How much two texts have in common, whatever they are about: words, their order, and characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steelyard.texts.breakdown import Breakdown
from steelyard.texts.clinical import is_run
from steelyard.texts.normalise import words

ORDER, BETA = 6, 2  # of chrF, as sacrebleu takes them


def exact_match(reference: str, answer: str) -> Breakdown:
    """1 if the words are the same in the same order, after normalisation."""
    one, two = words(reference), words(answer)
    remarks = () if one == two or not (is_run(two, one) or is_run(one, two)) else ("one text is a part of the other",)
    return Breakdown(metric="exact_match", score=float(one == two), remarks=remarks)


def token_f1(reference: str, answer: str) -> Breakdown:
    """F1 of the words, each as often as it stands there; two empty texts agree."""
    one, two = Counter(words(reference)), Counter(words(answer))
    common = one & two
    precision, recall, f1 = f1_of(common.total(), two.total(), one.total())
    return Breakdown(
        metric="token_f1",
        score=f1,
        components={"precision": precision, "recall": recall},
        counts={"matched": common.total(), "missed": (one - two).total(), "extra": (two - one).total()},
        matched=tuple(sorted(common)),
        missed=tuple(sorted(one - two)),
        extra=tuple(sorted(two - one)),
    )


def rouge_l(reference: str, answer: str) -> Breakdown:
    """F1 of the longest common subsequence of words."""
    one, two = words(reference), words(answer)
    common = longest_common(one, two)
    precision, recall, f1 = f1_of(common, len(two), len(one))
    return Breakdown(
        metric="rouge_l",
        score=f1,
        components={"precision": precision, "recall": recall},
        counts={"matched": common, "missed": len(one) - common, "extra": len(two) - common},
    )


def f1_of(common: int, answered: int, wanted: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of counts; two empty sides agree, one empty side does not."""
    if not answered and not wanted:
        return 1.0, 1.0, 1.0
    precision = common / answered if answered else 0.0
    recall = common / wanted if wanted else 0.0
    return precision, recall, 2 * common / (answered + wanted)


def longest_common(one: Sequence[str], two: Sequence[str]) -> int:
    """The length of the longest common subsequence: a bit per place of the first, one step per word of the second.

    >>> longest_common("a b c d".split(), "b x d c".split())
    2
    """
    places: dict[str, int] = {}
    for i, word in enumerate(one):
        places[word] = places.get(word, 0) | (1 << i)
    full = (1 << len(one)) - 1
    rows = full
    for word in two:
        match = rows & places.get(word, 0)
        rows = ((rows + match) | (rows - match)) & full
    return len(one) - rows.bit_count()


def chrf(reference: str, answer: str) -> Breakdown:
    """chrF: F with beta 2 of the mean precision and recall over runs of one to six characters, without white space.

    Case and punctuation count. Orders for which one of the texts is too short are left out. Two texts without any
    character agree.
    """
    one, two = "".join(reference.split()), "".join(answer.split())
    precisions, recalls = [], []
    for n in range(1, ORDER + 1):
        wanted, said = (Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in (one, two))
        if wanted and said:
            common = (wanted & said).total()
            precisions.append(common / said.total())
            recalls.append(common / wanted.total())
    if not precisions:
        score = float(one == two)
        return Breakdown(metric="chrf", score=score, components={"precision": score, "recall": score})
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    below = BETA**2 * precision + recall
    score = (1 + BETA**2) * precision * recall / below if below else 0.0
    return Breakdown(metric="chrf", score=score, components={"precision": precision, "recall": recall})
