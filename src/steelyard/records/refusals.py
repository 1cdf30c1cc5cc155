"""When a reply in prose declines to answer, in the languages of `phrases/`; an answer with a caveat stays an answer.

A reply is cut into clauses, and what stands in quotation marks is passed over. A clause declines ("I cannot say"),
refers ("please see a doctor"), is filler ("Hello!"), or says something else. The reply declines if

* a clause declines, and no other clause gives an answer: names one label of the task, or holds words with which answers
  begin ("most likely", "my best guess", "take one"); or
* clauses refer, and all others are filler.

Clauses are short, and patterns are tried on clauses, so that a reply is read in time proportional to its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

PHRASES = Path(__file__).parent / "phrases"
LONGEST = 20_000  # characters; a longer reply says more than that somebody declines
_LONGEST_CLAUSE = 300  # characters; of a longer one its beginning is read
_TURN = re.compile(
    r"(?:but|however|though|although|yet|still|that said|nevertheless|nonetheless|on paper|aber|jedoch|trotzdem"
    r"|pero|sin embargo|aunque|dicho esto|mais|cependant|toutefois|cela dit|ma|tuttavia|però|mas|porém|no entanto"
    r"|但是?|不过|然而)"
)
_QUOTED = re.compile(r"[\"“„«「『][^\"“”„«»「」『』\n]{6,300}[\"”“»」』]")
_BRACES = re.compile(r"[{}\[\]\"`]")
_SENTENCE = re.compile(
    r"(?<=[.!?;:])(?<!\bvs\.)(?<!\bdr\.)(?<!\be\.g\.)(?<!\bz\.b\.)\s+|(?<=[。！？；：])|\n+|\s+[-–—→]+\s+",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,，]\s*|\s+(?=(?:but|aber|pero|mais|mas|sondern)\s)|(?=但是?|不过|然而)|\s*[()]\s*")
_OPEN = re.compile(r"\b(?:whether|if|how|ob|wie|falls|wenn|cuán|cómo|comment|combien|se|quanto)\b|^si\b|是否|多")
_AROUND = " .,!:;。，！：；\"'()[]"
_MASK = "〈label〉"
_SAYS = ("", "answer", "hint")  # kinds of clauses that may give an answer
_MARKS = re.compile(r"[*_`#>~|]+")
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*")
_SPACE = re.compile(r"\s+")
_HEADING = re.compile(
    r"^(?:the |final |my |your )*(?:answer|antwort|respuesta|réponse|risposta|resposta|答案|回答|conclusion|result)"
    r"\s*[:：]\s*",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"[\W_]*")
_NUMBER = re.compile(r"\d")
_NAME = re.compile(r"\{(\w+)\}")
Kind = str
KINDS = ("willing", "decline", "refer", "filler", "answer", "hint", "beside", "clinical", "speaker", "urgent")


@cache
def _patterns() -> dict[Kind, re.Pattern[str]]:
    """By kind of clause, the patterns of all languages as one."""
    found: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    for path in sorted(PHRASES.glob("*.tsv")):
        whole = path.read_text(encoding="utf-8").replace("ß", "ss")  # as it is folded
        lines = [line.split("\t", 1) for line in whole.splitlines() if line[:1] not in ("", "#")]
        names = {f"{{{kind[:-1]}}}": text for kind, text in lines if kind.endswith("=")}
        for kind, text in lines:
            if not kind.endswith("="):
                found[kind].append(_NAME.sub(partial(_named, names), text))
    return {kind: re.compile("|".join(f"(?:{text})" for text in texts)) for kind, texts in found.items()}


def _named(names: Mapping[str, str], match: re.Match[str]) -> str:
    return names[match[0]]


def sentences(text: str) -> Iterator[list[str]]:
    """The sentences of a reply, each as its clauses, without what it quotes."""
    plain = _LINES.sub("\n", _BLANKS.sub(" ", text.replace("\u2019", "'").replace("\u2018", "'")))
    plain = plain.strip().strip("\"“”'")
    is_json = plain.startswith(("{", "```"))
    plain = _BRACES.sub(" ", plain) if is_json else _QUOTED.sub(" ", plain)
    for sentence in _SENTENCE.split(_MARKS.sub("", plain)):
        parts = (_HEADING.sub("", _SPACE.sub(" ", part).strip()).strip(_AROUND) for part in _CLAUSE.split(sentence))
        found = [part[:_LONGEST_CLAUSE] for part in parts if part]
        if found:
            yield found


def refuses(
    text: str,
    labels: Callable[[str], int] | None = None,
    *,
    mask: re.Pattern[str] | None = None,
    numbers: bool = False,
    texts: bool = False,
) -> bool:
    """True if a reply declines to answer in prose.

    `labels` counts the labels of the task in a text; `mask` are those that read like declining themselves; `numbers`
    are answers where there are no labels. Of free `texts`, which may themselves advise against something, send somebody
    to a doctor or call the evidence insufficient, only what a speaker says of itself declines, and only a plain "please
    see a doctor" refers.

    >>> refuses("I'm sorry, but I cannot give medical advice."), refuses("I can't be sure, but it is most likely gout.")
    (True, False)
    """
    if len(text) > LONGEST:
        return False
    said: list[Kind] = []
    for clauses in sentences(text):
        kinds = _kinds([mask.sub(_MASK, clause) if mask else clause for clause in clauses])
        if texts:
            kinds = [_of_text(clause.casefold(), kind) for clause, kind in zip(clauses, kinds, strict=True)]
        if labels is not None and _names_one(clauses, kinds, labels, mask):
            return False
        if numbers and kinds[-1] in _SAYS and _NUMBER.search(clauses[-1]):
            return False
        said += kinds if labels is not None else _after(said, clauses, kinds)
    if "answer" in said:
        return False
    return "decline" in said or ("refer" in said and not {"", "hint"} & set(said))


def _names_one(
    clauses: Sequence[str], kinds: Sequence[Kind], labels: Callable[[str], int], mask: re.Pattern[str] | None
) -> bool:
    """True if a sentence names one label, where it may be the answer."""
    if labels(", ".join(clauses)) != 1:
        return False
    named = [(clause, kind) for clause, kind in zip(clauses, kinds, strict=True) if labels(clause)]
    return any(_states(clause.casefold(), kind) or (mask and mask.search(clause)) for clause, kind in named)


def _after(said: Sequence[Kind], clauses: Sequence[str], kinds: Sequence[Kind]) -> list[Kind]:
    """What a sentence is, after what was said: behind a refusal, a hint is an answer, and so is "that said, …"."""
    hints, is_turn = "decline" in (*said, *kinds), "decline" in said and _TURN.match(clauses[0].casefold())
    found = ["answer" if kind == "hint" and hints else kind for kind in kinds]
    return [*found, "answer"] if is_turn and not set(kinds) & {"decline", "refer", "filler"} else found


def _of_text(clause: str, kind: Kind) -> Kind:
    """What a clause of a free text is: advice against something declines nothing, and an emergency is an answer."""
    patterns = _patterns()
    if kind == "decline" and (patterns["clinical"].search(clause) or not patterns["speaker"].search(clause)):
        return ""
    return "" if kind == "refer" and patterns["urgent"].search(clause) else kind


def _states(clause: str, kind: Kind) -> bool:
    """True if a clause that names a label may give it as the answer."""
    return kind in _SAYS and _OPEN.search(clause) is None


def _kinds(clauses: Sequence[str]) -> list[Kind]:
    """What the clauses of a sentence are, each by itself, and as a part of the sentence."""
    kinds = [_kind(clause.casefold()) for clause in clauses]
    if "answer" in kinds:
        return kinds
    whole = ", ".join(clauses).casefold()
    kind = _kind(whole)
    if kind == "refer":  # "see a doctor today, because this may be a stroke" says what it may be
        kind = "answer" if _patterns()["beside"].search(whole) else "refer"
        return [kind] * len(clauses)
    if kind == "decline" and "decline" not in kinds:  # in two clauses
        return [kind] * len(clauses)
    return kinds


def _kind(clause: str) -> Kind:
    """What a clause is: the first kind that it matches."""
    patterns = _patterns()
    if patterns["willing"].search(clause):
        return ""
    if patterns["decline"].search(clause):
        return "decline"
    if patterns["refer"].search(clause):
        return "answer" if patterns["answer"].search(clause) else "refer"
    for kind in ("answer", "hint"):
        if patterns[kind].search(clause):
            return kind
    return "filler" if patterns["filler"].search(clause) or _NOTHING.fullmatch(clause) or clause.endswith("?") else ""
