#!/usr/bin/python3
"""Compares Chimère with llama.cpp on the same files: next-token distributions and token ids.

  compare.py logits --chimere PROGRAM --decoder PROGRAM --model SHIPPED [--seeds 5] [--tokens 64] [--folder TMP]
  compare.py tokens --chimere PROGRAM --model SHIPPED [--texts 300]
  compare.py families --chimere PROGRAM --writer WRITE_TINY_MODEL [--seeds 3] [--tokens 150] [--folder TMP]
  compare.py adapters --chimere PROGRAM --writer WRITE_TINY_MODEL --adapter-writer WRITE_TINY_ADAPTER [--seeds 3] [--folder TMP]
  compare.py embeddings --chimere PROGRAM [--model EMBEDDER] [--folder TMP]
  compare.py encoders --chimere PROGRAM --writer WRITE_TINY_MODEL [--seeds 3] [--folder TMP]

`logits` runs the shipped model and fresh synthetic files of every architecture and mix (bench/synth_gguf.py), keys and values in f32, and
prints mean Kullback-Leibler divergences in nats over all positions. With f32 weights only the order of sums differs between the programs, and
KL(llama.cpp || chimere) of the median file must be at most 1e-6 (in a single one a near tie of two experts may be decided differently: 1e-3). With quantised weights both round activations, in different ways (docs/quality.md), and how
much that matters depends on the model: some synthetic files amplify any rounding a thousandfold. So each file is also decoded to f32
(tests/peer/decode_weights.cc), where llama.cpp rounds nothing; its answer there is the exact one, and both programs are measured against
it. Chimère passes when, over the files of a mix, it is on average at most as far from exact as llama.cpp is (half as much again is allowed for
chance), or within the target of the mix, and on no single file ten times as far.

The column "itself" is llama.cpp's divergence from itself when it gets the tokens one by one instead of as one batch: what a change in the
order of f32 sums alone does once activations are rounded. No other program can be expected to come nearer to it than that.

`families` does the same for small files with f32 weights of the architectures of tests/support/family_model.h. Chimère may be as far from
llama.cpp as llama.cpp is from itself, token by token, or 1e-6.

`adapters` does it with two random LoRA adapters of different ranks and scales, which change every matrix of the file.

`embeddings` compares the vectors of texts with fresh synthetic embedding models, and with EMBEDDER: 1 - cosine.

`encoders` compares those of small files with f32 weights of BERT and its relatives, and the scores of rerankers. llama.cpp computes GELU in its
tanh form from a table of f16 numbers where these models have the exact one; the limits allow for it.
"""
import argparse
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import unicodedata

from peer import Peer, chimere, fresh_seed

ROOT = pathlib.Path(__file__).resolve().parents[2]
F32_LIMIT = 1e-6  # nats, mean over positions, of the median file
F32_TIE = 1e-3    # of any file: two experts of nearly equal logits may change places
TARGETS = {"q8_0": 1e-3, "q4_k": 3e-3, "ramp": 3e-3, "shipped": 3e-3}
CHANCE = 1.5   # of the mean over the files of a mix
OUTLIER = 10.0  # of a single file, where one near tie of two experts decides: 3.1 seen
# Most files of an architecture, which share nearly all arithmetic.
ARCHITECTURES = {"qwen35moe": 100, "qwen35": 2, "qwen3next": 2, "qwen3moe": 1, "qwen3": 1}
# 1 - cosine, of a file's median text. Both programs keep keys and values in f16, and in a single text a near tie of two experts may be
# decided differently.
EMBEDDING_LIMITS = {"f32": 1e-5, "q8_0": 1e-3}
EMBEDDING_LIMIT_OF_ONE = 0.1


def divergence(p, q):
    """KL(p || q) of two lists of log-probabilities."""
    return sum(math.exp(a) * (a - b) for a, b in zip(p, q))


def our_logits(program, model, tokens, vocabulary, *flags):
    document = chimere(program, "eval", "logits", "-m", model, "--tokens", ",".join(map(str, tokens)), "--all",
                       "--top", vocabulary, "--cache-k", "f32", "--cache-v", "f32", *flags)
    positions = []
    for position in document["positions"]:
        values = [None] * vocabulary
        for entry in position["top"]:
            values[entry["id"]] = entry["logprob"]
        if any(value is None for value in values):
            raise RuntimeError(f"position {position['pos']} lacks tokens: --top {vocabulary} must give all")
        positions.append(values)
    return positions


def mean_divergence(p, q):
    assert len(p) == len(q), (len(p), len(q))
    return sum(map(divergence, p, q)) / len(p)


def compare_file(args, peer, name, model, tokens):
    """One row of the table. Whether the file passes by itself, and the errors of both to judge the mix by (None for f32); between them
    its divergence where weights are f32."""
    job = {"tokens": tokens, "kv": "F32"}
    theirs = peer.ask({"model": str(model), **job})["positions"]
    itself = mean_divergence(theirs, peer.ask({"model": str(model), **job, "one_by_one": True})["positions"])
    ours = our_logits(args.chimere, model, tokens, len(theirs[0]))
    between = mean_divergence(theirs, ours)
    agree = sum(p.index(max(p)) == q.index(max(q)) for p, q in zip(theirs, ours))
    mix = name.split(" ")[0]
    if mix == "f32":
        ok, exact_error, errors, columns = abs(between) <= F32_TIE, between, None, f"{'':12} {'':12} {'':12} {F32_LIMIT:8.0e}"
    else:
        decoded = pathlib.Path(args.folder) / f"decoded-{pathlib.Path(model).name}"
        subprocess.run([args.decoder, model, decoded], check=True)
        exact = peer.ask({"model": str(decoded), **job})["positions"]
        ours_decoded = our_logits(args.chimere, decoded, tokens, len(exact[0]))
        decoded.unlink()
        same, their_error, our_error = (mean_divergence(exact, x) for x in (ours_decoded, theirs, ours))
        exact_error = same
        ok = abs(same) <= F32_TIE and our_error <= max(TARGETS[mix], OUTLIER * their_error)
        errors = (their_error, our_error)
        columns = f"{same:12.2e} {their_error:12.2e} {our_error:12.2e} {TARGETS[mix]:8.0e}"
    print(f"{name:18} {between:12.2e} {itself:9.1e} {agree:6}/{len(tokens)} {columns}  {'ok' if ok else 'FAILED'}", flush=True)
    return ok, abs(exact_error), errors


def judge_mix(mix, errors):
    """Whether the mean of our errors is small enough; says so."""
    theirs, ours = (sum(column) / len(errors) for column in zip(*errors))
    ok = ours <= max(TARGETS[mix], CHANCE * theirs)
    print(f"mean of {len(errors):2} {mix:8} llama.cpp {theirs:.2e}, us {ours:.2e}  {'ok' if ok else 'FAILED'}", flush=True)
    return ok


def logits(args):
    seed = args.seed
    print(f"seed {seed}\n{'':50}  {'exact (decoded weights) against':^38}\n{'file':18} {'KL(l.c||us)':>12} {'itself':>9} {'same top':>9} "
          f"{'us, decoded':>12} {'llama.cpp':>12} {'us':>12} {'target':>8}")
    draw = random.Random(seed)
    ok = True
    errors_of = {}  # mix -> [(llama.cpp's, ours)]
    exact = []

    def add(name, model, ids):
        nonlocal ok
        passed, exact_error, errors = compare_file(args, peer, name, model, ids)
        ok &= passed
        exact.append(exact_error)
        if errors:
            errors_of.setdefault(name.split(" ")[0], []).append(errors)

    with tempfile.TemporaryDirectory(dir=args.folder) as folder, Peer("logits.mjs") as peer:
        args.folder = folder
        if args.model:
            text = ("The command ls lists the files in a directory. To copy a file, use cp. A process can be stopped "
                    "with the kill command, which sends a signal to it; the shell waits for its children to end, and "
                    "prints their status when they are done. See the manual page for all of the options.")
            ids = chimere(args.chimere, "tokenize", "-m", args.model, text)["tokens"][:args.tokens]
            add("shipped", args.model, ids)
        jobs = [(arch, mix, min(args.seeds, most))
                for arch, most in ARCHITECTURES.items() for mix in ("f32", "q8_0", "q4_k", "ramp")]
        for arch, mix, seeds in jobs:
            for i in range(seeds):
                file_seed = draw.randrange(1 << 30)
                # Every file has its own name, or the peer would not load it anew.
                model = pathlib.Path(folder) / f"{mix}-{file_seed}.gguf"
                subprocess.run([ROOT / "bench" / "synth_gguf.py", model, "--arch", arch, "--size", "mini", "--mix", mix,
                                "--seed", str(file_seed)], check=True, capture_output=True)
                ids = [draw.randrange(2048) for _ in range(args.tokens)]
                add(f"{mix} {i + 1} {arch}", model, ids)
                model.unlink()
    median = sorted(exact)[len(exact) // 2]
    print(f"median of {len(exact)} files with f32 weights {median:.2e}  {'ok' if median <= F32_LIMIT else 'FAILED'}")
    ok &= median <= F32_LIMIT
    for mix, errors in errors_of.items():
        ok &= judge_mix(mix, errors)
    return ok


TEXTS = [
    "", " ", "  ", "\n", "\n\n\n", "\t\tx", " leading", "trailing ", "a  b   c    d", "Hello, world!", "don't can't I'LL we'Ve",
    "x=1;y+=2;\r\nif(a<b){c();}\r\n", "1234567890 3.14159 1,000,000 0xFF", "naïve façade Zürich", "日本語のテキスト",
    "русский текст, ещё", "עברית", "العربية ١٢٣", "हिन्दी में", "🙂🙃👩‍👩‍👧‍👦🏳️‍🌈", "a\u0301e\u0308 \u00e9", "\u200b\ufeff\u00a0\u2003",
    "ls -la | grep '^d' > out.txt 2>&1", "/usr/share/doc/bash/README.Debian.gz", "<b>bold</b> &amp; &lt;", "___---***===",
    "...!!!???", "'s 't 're 've 'm 'll 'd", "A" * 200, "ab" * 100, " " * 40 + "x", "\n \n  \n   x", "Ⅷ ½ ² ①", "ﬁﬂ ſ İ ı ß ẞ",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_start", "<|endoftext|>x<|endoftext|>",
]


def random_text(draw):
    """Words, numbers, space and characters of any script, in random runs."""
    pieces = []
    for _ in range(draw.randrange(1, 12)):
        kind = draw.randrange(6)
        n = draw.randrange(1, 9)
        if kind == 0:
            pieces.append("".join(draw.choice("etaoinshrdlucmETAOIN'") for _ in range(n)))
        elif kind == 1:
            pieces.append("".join(draw.choice(" \t\n\r\u00a0") for _ in range(n)))
        elif kind == 2:
            pieces.append("".join(draw.choice("0123456789.,") for _ in range(n)))
        elif kind == 3:
            pieces.append("".join(draw.choice("!\"#$%&()*+-/:;<=>?@[]^_`{|}~") for _ in range(n)))
        elif kind == 4:
            start = draw.choice([0xC0, 0x100, 0x370, 0x400, 0x5D0, 0x620, 0x900, 0xE00, 0x1100, 0x3040, 0x4E00, 0xAC00])
            pieces.append("".join(chr(start + draw.randrange(24)) for _ in range(n)))
        else:
            point = draw.randrange(0x20, 0x30000)
            pieces.append("" if 0xD800 <= point < 0xE000 else chr(point))
    return " ".join(pieces) if draw.randrange(2) else "".join(pieces)


def tokens(args):
    seed = args.seed
    draw = random.Random(seed)
    texts = TEXTS + [random_text(draw) for _ in range(args.texts)]
    # llama.cpp does not normalise; Hugging Face's library does, and so do we.
    texts = [unicodedata.normalize("NFC", text) for text in texts if "\0" not in text]
    wrong = 0
    with Peer("tokenize.mjs", args.model) as peer:
        for number, text in enumerate(texts):
            for special in (False, True):
                theirs = peer.ask({"text": text, "special": special})
                flags = ["--special"] if special else []
                ours = chimere(args.chimere, "tokenize", "-m", args.model, *flags, "--", text)["tokens"]
                if ours != theirs:
                    wrong += 1
                    print(f"text {number} {text!r} special={special}\n  llama.cpp {theirs}\n  chimere   {ours}")
    print(f"seed {seed}: {2 * len(texts)} tokenizations compared, {wrong} differ")
    return wrong == 0


def compare_vectors(args, peer, draw, model, name, limit):
    """Whether the vectors of fresh texts are those of llama.cpp."""
    texts = [text for text in (random_text(draw).strip().replace("\n", " ") for _ in range(12)) if text and "\0" not in text]
    ours = chimere(args.chimere, "embed", "-m", model, "--", *texts)["embeddings"]
    distances = []
    for text, vector in zip(texts, ours, strict=True):
        ids = chimere(args.chimere, "tokenize", "-m", model, "--", text)["tokens"]
        theirs = peer.ask({"model": str(model), "tokens": ids})["vector"]
        norms = math.sqrt(sum(x * x for x in theirs) * sum(x * x for x in vector))
        distances.append(1 - sum(x * y for x, y in zip(theirs, vector, strict=True)) / norms)
    median = statistics.median(distances)
    good = median <= limit and max(distances) <= EMBEDDING_LIMIT_OF_ONE
    print(f"{name:22} {len(texts):3} texts, 1 - cosine: median {median:9.1e} "
          f"(at most {limit:.0e}), worst {max(distances):9.1e}  {'ok' if good else 'FAILED'}", flush=True)
    return good


def embeddings(args):
    seed = args.seed
    print(f"seed {seed}")
    draw = random.Random(seed)
    ok = True
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, Peer("embeddings.mjs") as peer:
        for arch in ("qwen3", "qwen3moe"):
            for pooling in ("last", "mean"):
                for mix, limit in EMBEDDING_LIMITS.items():
                    model = pathlib.Path(folder) / f"{arch}-{pooling}-{mix}.gguf"
                    subprocess.run([ROOT / "bench" / "synth_gguf.py", model, "--arch", arch, "--size", "mini", "--mix", mix, "--pooling",
                                    pooling, "--seed", str(draw.randrange(1 << 30))], check=True, capture_output=True)
                    ok &= compare_vectors(args, peer, draw, model, f"{arch} {pooling} {mix}", limit)
                    model.unlink()
        if args.model:
            ok &= compare_vectors(args, peer, draw, pathlib.Path(args.model), pathlib.Path(args.model).stem, EMBEDDING_LIMITS["q8_0"])
    return ok


# 1 - cosine of a vector; difference of a score from 0 to 1.
ENCODERS = {"nomic-bert": 1e-6, "bert": 1e-4, "jina-bert-v2": 1e-4, "modern-bert": 1e-4}
RERANKERS = {"bert-rank": 5e-3, "modern-bert-rank": 5e-3}


def encoder_words(draw, longest):
    words = ["the", "moth", "lamp", "list", "file", "what", "is", "a", "b", "xyz", "q", "lamps"]
    return " ".join(draw.choice(words) for _ in range(draw.randint(1, longest)))


def encoders(args):
    print(f"seed {args.seed}")
    draw = random.Random(args.seed)
    ok = True
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, Peer("encoders.mjs") as peer:
        for arch, limit in (ENCODERS | RERANKERS).items():
            for _ in range(args.seeds):
                seed = draw.randrange(1 << 30)
                model = pathlib.Path(folder) / f"{arch}-{seed}.gguf"
                subprocess.run([args.writer, model, arch, str(seed)], check=True)
                texts = [encoder_words(draw, longest) for longest in (1, 3, 10, 40, 120, 120)]
                if arch in RERANKERS:
                    theirs = peer.ask({"model": str(model), "query": texts[1], "documents": texts})["scores"]
                    document = chimere(args.chimere, "rerank", "-m", model, "--", texts[1], *texts)
                    ours = [r["relevance_score"] for r in sorted(document["results"], key=lambda r: r["index"])]
                    worst = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
                else:
                    vectors = chimere(args.chimere, "embed", "-m", model, "--", *texts)["embeddings"]
                    worst = 0
                    for text, vector in zip(texts, vectors, strict=True):
                        other = peer.ask({"model": str(model), "text": text})["vector"]
                        norms = math.sqrt(sum(x * x for x in other) * sum(x * x for x in vector))
                        worst = max(worst, 1 - sum(x * y for x, y in zip(other, vector, strict=True)) / norms)
                ok &= worst <= limit
                print(f"{arch:18} {len(texts)} texts, worst {worst:9.1e} (at most {limit:.0e}) seed {seed}  "
                      f"{'ok' if worst <= limit else 'FAILED'}", flush=True)
    return ok


# Dense, experts, recurrent layers with experts and without.
ADAPTED = ["llama", "qwen2", "qwen2moe", "granitehybrid", "nemotron_h_moe", "falcon-h1", "lfm2", "gpt-oss"]
FAMILIES = ("llama", "qwen2", "qwen2moe", "granite", "granitemoe", "granitehybrid", "mamba", "mamba2", "nemotron_h", "nemotron_h_moe", "falcon-h1",
            "jamba", "lfm2", "lfm2moe", "gpt-oss")


def families(args):
    print(f"seed {args.seed}\n{'architecture':16} {'KL(l.c||us)':>12} {'itself':>9} {'largest':>9} {'same top':>9}")
    draw = random.Random(args.seed)
    ok = True
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, Peer("logits.mjs") as peer:
        for arch in args.architectures.split(",") if args.architectures else FAMILIES:
            for _ in range(args.seeds):
                seed = draw.randrange(1 << 30)
                model = pathlib.Path(folder) / f"{arch}-{seed}.gguf"  # a name of its own: the peer keeps models by name
                subprocess.run([args.writer, model, arch, str(seed)], check=True)
                job = {"model": str(model), "tokens": [draw.randrange(96) for _ in range(args.tokens)], "kv": "F32"}
                theirs = peer.ask(job)["positions"]
                itself = mean_divergence(theirs, peer.ask({**job, "one_by_one": True})["positions"])
                ours = our_logits(args.chimere, model, job["tokens"], len(theirs[0]))
                between = mean_divergence(theirs, ours)
                largest = max(abs(a - b) for p, q in zip(theirs, ours) for a, b in zip(p, q))
                agree = sum(p.index(max(p)) == q.index(max(q)) for p, q in zip(theirs, ours))
                good = abs(between) <= max(F32_LIMIT, 2 * itself)
                ok &= good
                print(f"{arch:16} {between:12.2e} {itself:9.1e} {largest:9.1e} {agree:5}/{args.tokens} seed {seed}  {'ok' if good else 'FAILED'}",
                      flush=True)
    return ok


def adapters(args):
    print(f"seed {args.seed}\n{'architecture':16} {'KL(l.c||us)':>12} {'itself':>9} {'KL(base||l.c)':>14} {'same top':>9}")
    draw = random.Random(args.seed)
    ok = True
    # One thread: those of llama.cpp spin at each of the many small operations of adapters.
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, Peer("logits.mjs", 1) as peer:
        for arch in args.architectures.split(",") if args.architectures else ADAPTED:
            for _ in range(args.seeds):
                seed = draw.randrange(1 << 30)
                model = pathlib.Path(folder) / f"{arch}-{seed}.gguf"
                subprocess.run([args.writer, model, arch, str(seed)], check=True)
                lora = []
                for scale, rank in ((1, 4), (0.5, 19)):
                    path = pathlib.Path(folder) / f"{arch}-{seed}-{rank}.gguf"
                    subprocess.run([args.adapter_writer, model, path, str(seed + rank), str(rank)], check=True)
                    lora.append({"filePath": str(path), "scale": scale})
                job = {"model": str(model), "tokens": [draw.randrange(96) for _ in range(args.tokens)], "kv": "F32"}
                base = peer.ask(job)["positions"]
                theirs = peer.ask({**job, "lora": lora})["positions"]
                itself = mean_divergence(theirs, peer.ask({**job, "lora": lora, "one_by_one": True})["positions"])
                ours = our_logits(args.chimere, model, job["tokens"], len(theirs[0]),
                                  "--lora", ",".join(f"{a['filePath']}={a['scale']}" for a in lora))
                between, effect = mean_divergence(theirs, ours), mean_divergence(base, theirs)
                agree = sum(p.index(max(p)) == q.index(max(q)) for p, q in zip(theirs, ours))
                good = abs(between) <= max(F32_LIMIT, 2 * itself) and effect > 1e-3
                ok &= good
                print(f"{arch:16} {between:12.2e} {itself:9.1e} {effect:14.2e} {agree:5}/{args.tokens} seed {seed}  {'ok' if good else 'FAILED'}",
                      flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["logits", "tokens", "embeddings", "encoders", "families", "adapters"])
    parser.add_argument("--chimere", required=True)
    parser.add_argument("--model")
    parser.add_argument("--writer", help="the program write_tiny_model")
    parser.add_argument("--adapter-writer", help="the program write_tiny_adapter")
    parser.add_argument("--architectures", help="of families, separated by commas: only these")
    parser.add_argument("--decoder", help="the program decode_weights")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=fresh_seed(), help="of the random choices; fresh unless given")
    parser.add_argument("--folder", help="for the synthetic files")
    args = parser.parse_args()
    return 0 if {"logits": logits, "tokens": tokens, "embeddings": embeddings, "encoders": encoders, "families": families,
                 "adapters": adapters}[args.what](args) else 1


if __name__ == "__main__":
    sys.exit(main())
