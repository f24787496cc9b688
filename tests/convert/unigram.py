#!/usr/bin/env python3
"""Makes tokenizers/unigram of a model that SentencePiece's spm_train made (README.md): unigram.py MODEL FOLDER. Needs spm_encode."""
import base64
import json
import pathlib
import random
import struct
import subprocess
import sys

LINES = [
    "What does the command ls do?", "  leading, trailing and   inner   spaces  ", "Ｆｕｌｌ　ｗｉｄｔｈ： ＡＢＣ１２３！", "ﬁne ﬂuff ﬀ ﬃ ﬄ ﬆ",
    "e\u0301te\u0301 A\u030a n\u0303 o\u0308", "ｶﾀｶﾅ ﾊﾟｿｺﾝ ﾊ\uff9e", "①②③ ⑩ ㍿ ㎏ ½ ¼ ² ³ ™ ℃ № ﷺ", "tabs\tand\u00a0no-break\u2003em\u3000wide spaces",
    "zero\u200bwidth\u200dand\ufeffmarks\u00ad", "emoji 😀👍🏽 flags 🇫🇷 family 👩‍👩‍👧", "서울 \u1112\u1161\u11ab\u1100\u1173\u11af 한글", "العربية ﻻ ﺍﻟﻌﺮﺑﻴﺔ",
    "नई दिल्ली क्ष", "Москва й \u0438\u0306", "東京 人工知能 龍 𠀀", "a▁b ▁ ▁▁c", "x" * 90, "don't 'quote' “curly” – — … · •", "<s> </s> <unk> <pad>", "\x01\x02 control\x7f \x85",
    "Ⅷ ⅷ ℌ ℍ ﹫ ﹖ ︰ ﬠ ʰ ᵃ", "Ω K Å ſ ẛ̣", "０．５％", "",
]


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = (4, at) if kind == 5 else varint(data, at)
            value = data[at:at + size]
            at += size
        yield tag >> 3, value


def varint(data, at):
    out = shift = 0
    while True:
        byte = data[at]
        at += 1
        out |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return out, at


def main():
    model, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    pieces, charsmap = [], b""
    for number, value in fields(model.read_bytes()):
        if number == 1:
            piece = dict(fields(value))
            pieces.append([piece[1].decode(), round(struct.unpack("<f", piece[2])[0], 8) if 2 in piece else 0.0])
        if number == 3:
            charsmap = dict(fields(value)).get(2, b"")
    draw = random.Random(20)
    ranges = [(0x20, 0x17f), (0x300, 0x36f), (0x370, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f), (0x1100, 0x11ff), (0x1e00, 0x20cf), (0x2100, 0x24ff),
              (0x3000, 0x33ff), (0x4e00, 0x4fff), (0xac00, 0xaeff), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe30, 0xffef), (0x1d400, 0x1d7ff)]
    lines = list(LINES)
    for _ in range(150):
        begin, end = draw.choice(ranges)
        alphabet = [c for c in map(chr, range(begin, end + 1)) if c not in "\x85\u2028\u2029\u2581"]
        lines.append("".join(draw.choice(alphabet + [" "] * (len(alphabet) // 6)) for _ in range(draw.randint(1, 30))))
    lines = [line for line in lines if "\n" not in line and "\r" not in line]
    text = "\n".join(lines) + "\n"
    ids = subprocess.run(["spm_encode", f"--model={model}", "--output_format=id"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
    ids = [[int(i) for i in line.split()] for line in ids.split("\n")[:len(lines)]]
    special = [{"id": i, "content": pieces[i][0], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
               for i in range(4)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
                 "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
                 "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                                                                        {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}]},
                 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                             {"Sequence": {"id": "A", "type_id": 0}},
                                                                             {"SpecialToken": {"id": "</s>", "type_id": 0}}]},
                 "decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
                 "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces}}
    folder.mkdir(exist_ok=True)
    dump = lambda name, value: (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    dump("tokenizer.json", tokenizer)
    dump("tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "tokenizer_class": "XLMRobertaTokenizer"})
    dump("config.json", {"architectures": ["XLMRobertaModel"], "vocab_size": len(pieces), "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2})
    dump("ids.json", {"lines": lines, "ids": ids})


if __name__ == "__main__":
    main()
