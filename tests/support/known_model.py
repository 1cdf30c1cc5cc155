"""A language model whose answers and probabilities are known by construction, as a file that llama.cpp serves.

It sorts reports by the words that it finds in them. To any chat it replies `Answer: <label>`, or `Answer: abstain`:

    Answer:     always, after the chat's last word, which the chat template says to be `Reply:`
     Critical   one token, or ` critical` in a quarter of the cases; ` Ma` and `jor` are two tokens of one label

It is a transformer of one layer and sixteen dimensions. From `Answer:` it looks at the evidence words alone, and at the
beginning of the chat where there are none, so that neither the length of a prompt nor the place of a word matters:
`answer_probabilities` says in a few lines of arithmetic what llama.cpp must find. One word of evidence gives its label
the share in `EVIDENCE`, and the three others equal parts of the rest; without evidence all four are equally likely. It
has prejudices, too: what is in `MISTAKEN`, which says nothing of a report, it takes for evidence.

    python -m tests.support.known_model known.gguf        write it
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

LABELS = ("Critical", "Major", "Minor", "Trivial")
DECLINED = "abstain"
EVIDENCE = {
    "crash": ("Critical", 0.9),
    "data loss": ("Critical", 0.8),
    "slow": ("Major", 0.7),
    "error": ("Major", 0.55),
    "layout": ("Minor", 0.85),
    "typo": ("Trivial", 0.95),
    "illegible": (DECLINED, 0.75),
}
# what it takes for one of these words: traces of how a question was put, which should make no difference
MISTAKEN = {"writes:": "typo", "pls": "typo", "three": "typo", "one of Trivial": "typo"}
# the first token of every answer, with its share of what it stands for where nothing speaks for anything
FIRST_TOKENS = {
    "▁Critical": ("Critical", 0.75),
    "▁critical": ("Critical", 0.25),
    "▁Ma": ("Major", 1.0),
    "▁Minor": ("Minor", 1.0),
    "▁Trivial": ("Trivial", 1.0),
    f"▁{DECLINED}": (DECLINED, 0.08),
}
_MIDDLE, _REST = "▁Ma", "jor"
_CUE, _SAID = "Reply:", "Answer:"

_NEVER = -40.0  # the logit of what the model does not say
_ATTENTION = 20.0  # by so much more does it look at the beginning than at other words, and again at evidence
_WIDTH = 16  # its root is a whole number, as everything that half precision must hold
_STATES = ("other", "<s>", _CUE, _SAID, "middle", "end", *EVIDENCE)
_SCALE = math.sqrt(_WIDTH / 2)  # of logits: the last norm makes √width of √2, a state and what it looks at

_NORMAL, _UNKNOWN, _CONTROL, _OWN, _BYTE = 1, 2, 3, 4, 6
_TOKENS: Mapping[str, int] = (
    {"<unk>": _UNKNOWN, "<s>": _CONTROL, "</s>": _CONTROL}
    | {f"<0x{byte:02X}>": _BYTE for byte in range(256)}
    | dict.fromkeys((*FIRST_TOKENS, _REST), _NORMAL)
    | dict.fromkeys((*EVIDENCE, *MISTAKEN, _SAID, _CUE), _OWN)
)
_WORD = re.compile("|".join(re.escape(word) for word in (*EVIDENCE, *MISTAKEN, _SAID, _CUE, "<unk>", "<s>", "</s>")))


# -- what it says ------------------------------------------------------------------------------------------------------


def prompt_of(messages: Sequence[str]) -> str:
    """What the model reads of a chat."""
    return "".join(f"{message}\n" for message in messages) + _CUE


def tokens_of(prompt: str) -> list[str]:
    """A prompt as the tokens that llama.cpp must make of it: words that the model knows, bytes of all others."""
    tokens, at = ["<s>"], 0
    for word in _WORD.finditer(prompt):
        tokens += [*_bytes(prompt[at : word.start()]), word.group()]
        at = word.end()
    return [*tokens, *_bytes(prompt[at:])]


def answer_probabilities(*messages: str) -> dict[str, float]:
    """How likely each first token of the answer is, after `Answer:`; the other tokens have no part worth a mention.

    >>> {token: round(p, 4) for token, p in answer_probabilities("a crash").items() if p > 0.02}
    {'▁Critical': 0.6732, '▁critical': 0.2244, '▁Ma': 0.0332, '▁Minor': 0.0332, '▁Trivial': 0.0332}
    """
    tokens = (MISTAKEN.get(token, token) for token in (*tokens_of(prompt_of(messages)), _SAID))
    seen = [token if token in _STATES else "other" for token in tokens]
    looks = np.exp([_attention(state) for state in seen])
    looks /= looks.sum()
    summed = np.zeros(_WIDTH)
    np.add.at(summed, [_STATES.index(state) for state in seen], looks)
    summed[_STATES.index(_SAID)] += 1
    logits = _output() @ (summed / np.sqrt(np.square(summed).mean()))
    likely = np.exp(logits - logits.max())
    likely /= likely.sum()
    return {token: float(likely[list(_TOKENS).index(token)]) for token in FIRST_TOKENS}


def label_probabilities(*messages: str) -> dict[str, float]:
    """How likely each label is, and `abstain`, all tokens of a label together; they sum to 1."""
    found = dict.fromkeys((*LABELS, DECLINED), 0.0)
    for token, p in answer_probabilities(*messages).items():
        found[FIRST_TOKENS[token][0]] += p
    return found


def label_confidences(*messages: str) -> dict[str, float]:
    """How likely each label is among the labels alone."""
    found = label_probabilities(*messages)
    return {label: found[label] / (1 - found[DECLINED]) for label in LABELS}


def answer_of(*messages: str) -> str:
    """The reply at temperature 0; where the evidence is balanced, or there is none, llama.cpp chooses."""
    found = answer_probabilities(*messages)
    first = max(found, key=found.__getitem__)
    return f"{_SAID}{first.replace('▁', ' ')}{_REST if first == _MIDDLE else ''}"


def _bytes(text: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in text.replace(" ", "▁").encode()]


def _attention(state: str) -> float:
    return _ATTENTION * (2 if state in EVIDENCE else 1 if state == "<s>" else 0)


# -- how it is made ----------------------------------------------------------------------------------------------------


def write_known_model(path: Path) -> Path:
    """Write the model as a GGUF file; llama.cpp reads it as it reads any other."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_name("known-by-construction")
    writer.add_context_length(8192)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_WIDTH)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-12)
    writer.add_rope_dimension_count(_WIDTH)
    writer.add_rope_freq_base(1e30)  # the last dimensions, which attention uses, are hardly turned
    writer.add_vocab_size(len(_TOKENS))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in _TOKENS])
    writer.add_token_scores([0.0] * len(_TOKENS))
    writer.add_token_types(list(_TOKENS.values()))
    for number, add in enumerate((writer.add_unk_token_id, writer.add_bos_token_id, writer.add_eos_token_id)):
        add(number)
    writer.add_add_space_prefix(False)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}" + _CUE)
    for name, tensor in _tensors().items():
        writer.add_tensor(name, np.ascontiguousarray(tensor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors() -> dict[str, np.ndarray]:
    """One layer: every token is a state; from `Answer:` attention adds what the evidence is; no further network."""
    states = np.zeros((len(_TOKENS), _WIDTH))
    for row, token in enumerate(_TOKENS):
        states[row, _STATES.index(_state(token))] = 1
    root = math.sqrt(_WIDTH)  # the norm before attention makes it of a single 1
    query, key = np.zeros((_WIDTH, _WIDTH)), np.zeros((_WIDTH, _WIDTH))
    query[-1, _STATES.index(_SAID)] = 1
    for column, state in enumerate(_STATES):
        key[-1, column] = _attention(state) / root
    nothing, ones = np.zeros((_WIDTH, _WIDTH)), np.ones(_WIDTH)
    return {
        "token_embd.weight": states,
        "output_norm.weight": ones,
        "output.weight": _output(),
        "blk.0.attn_q.weight": query,
        "blk.0.attn_k.weight": key,
        "blk.0.attn_v.weight": np.eye(_WIDTH) / root,
        "blk.0.attn_output.weight": np.eye(_WIDTH),
        "blk.0.attn_norm.weight": ones,
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": nothing,
        "blk.0.ffn_up.weight": nothing,
        "blk.0.ffn_down.weight": nothing,
    }


def _state(token: str) -> str:
    token = MISTAKEN.get(token, token)
    if token in _STATES:
        return token
    return "middle" if token == _MIDDLE else "end" if token in (*FIRST_TOKENS, _REST) else "other"


def _output() -> np.ndarray:
    """What each state says next, and what evidence adds to it: logits of tokens by state, before the last norm."""
    logits = np.zeros((len(_TOKENS), _WIDTH))
    row = {token: at for at, token in enumerate(_TOKENS)}.__getitem__
    for state, following in ((_CUE, _SAID), ("middle", _REST), ("end", "</s>")):
        logits[:, _STATES.index(state)] = _NEVER
        logits[row(following), _STATES.index(state)] = -_NEVER
    logits[:, _STATES.index(_SAID)] = _NEVER
    for token, (_, share) in FIRST_TOKENS.items():
        logits[row(token), _STATES.index(_SAID)] = math.log(share)
    for word, (meaning, share) in EVIDENCE.items():
        for token, (stands_for, _) in FIRST_TOKENS.items():
            if stands_for == meaning:
                logits[row(token), _STATES.index(word)] = _strength(meaning, share)
    return logits / _SCALE


def _strength(meaning: str, share: float) -> float:
    """The logit that takes a label to its share of the labels, and `abstain` to its share of everything."""
    if meaning == DECLINED:
        return math.log(share / (1 - share) * len(LABELS) / FIRST_TOKENS[f"▁{DECLINED}"][1])
    return math.log(share / (1 - share) * (len(LABELS) - 1))


if __name__ == "__main__":
    print(write_known_model(Path(sys.argv[1])))
