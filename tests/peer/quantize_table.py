#!/usr/bin/env python3
"""Divergence at equal bytes: `chimere quantize` beside llama.cpp's presets, both with one importance matrix.

  quantize_table.py --chimere PROGRAM --model FILE.gguf --calibrate TEXT --heldout TEXT --folder FOLDER [--unround]
                    [--presets Q2_K_S,IQ3_S,...] [--ways importance,calibrate,data-free] [--bytes N] [--threads N] [--context N]
                    [--free-embeddings] [--at-most 0.9]

For each preset llama.cpp (its library from npm, through ctypes) quantises MODEL; then `chimere quantize --size` makes files of
at most the same bytes, by the importance matrix alone, by measured single changes, and data-free, with embeddings and output in
llama.cpp's formats (unless --free-embeddings). Prints one row for each file: bytes, bits of the file by its weights, mean and
99.9 % KL divergence from MODEL on the held-out text, both also divided by llama.cpp's, and how often the most likely token is
the same. Fails if ours diverges more than --at-most of llama.cpp's in the mean or, with --at-most, has MODEL's most likely
token less often.
"""
import argparse
import ctypes
import json
import math
import mmap
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
LIBRARIES = HERE / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
# llama_ftype of llama.h.
PRESETS = {"Q4_0": 2, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "IQ2_XXS": 19,
           "IQ2_XS": 20, "Q2_K_S": 21, "IQ3_XS": 22, "IQ3_XXS": 23, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30}


# Names by number, ggml.h: the formats that the presets give embeddings and output.
TYPES = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_K", 11: "q3_K", 12: "q4_K", 13: "q5_K",
         14: "q6_K", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs",
         29: "iq1_m", 30: "bf16"}
EMBEDDINGS = ("token_embd.weight", "output.weight")


class Importance(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


class Parameters(ctypes.Structure):
    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int), ("output_tensor_type", ctypes.c_int),
                ("token_embedding_type", ctypes.c_int), ("allow_requantize", ctypes.c_bool), ("quantize_output_tensor", ctypes.c_bool),
                ("only_copy", ctypes.c_bool), ("pure", ctypes.c_bool), ("keep_split", ctypes.c_bool), ("dry_run", ctypes.c_bool),
                ("imatrix", ctypes.POINTER(Importance)), ("kv_overrides", ctypes.c_void_p), ("tt_overrides", ctypes.c_void_p),
                ("prune_layers", ctypes.c_void_p)]


def read_tensors(path):
    """By name: dimensions, offset of the data in the mapped file, number of the type; and the map."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    at = 8

    def take(kind):
        nonlocal at
        value = struct.unpack_from("<" + kind, data, at)[0]
        at += struct.calcsize(kind)
        return value

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, count = take("I"), take("Q")
            for _ in range(count):
                skip(inner)
        else:
            at += {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]

    tensors, keys = take("Q"), take("Q")
    for _ in range(keys):
        text()
        skip(take("I"))
    entries = {}
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        kind = take("I")
        entries[name] = (dims, take("Q"), kind)
    start = (at + 31) // 32 * 32
    return {name: (dims, start + offset, kind) for name, (dims, offset, kind) in entries.items()}, data


def read_importance(path, model):
    """Mean squares by tensor: the sums of each matrix by its count. Matrices without samples, and tensors of `model` that the file
    lacks (the MTP head does not run over a text), get ones: llama.cpp refuses formats of few bits otherwise."""
    tensors, data = read_tensors(path)

    def floats(name):
        dims, offset, _ = tensors[name]
        return struct.unpack_from(f"<{math.prod(dims)}f", data, offset)

    out = {}
    for name, (dims, _, _) in tensors.items():
        if name.endswith(".in_sum2"):
            counts = floats(name.removesuffix(".in_sum2") + ".counts")
            out[name.removesuffix(".in_sum2")] = [s / counts[i // dims[0]] if counts[i // dims[0]] > 0 else 1.0
                                                  for i, s in enumerate(floats(name))]
    for name, (dims, _, _) in read_tensors(model)[0].items():
        if len(dims) > 1 and name not in out:
            out[name] = [1.0] * (dims[0] * math.prod(dims[2:]))
    return out


class LlamaCpp:
    def __init__(self):
        for name in ("libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so"):
            self.library = ctypes.CDLL(str(next(LIBRARIES.glob(name.split(".")[0] + ".*"))), mode=ctypes.RTLD_GLOBAL)
        self.library.llama_model_quantize_default_params.restype = Parameters
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.library.llama_log_set(self.quiet, None)
        self.library.llama_backend_init()

    def quantize(self, source, target, preset, importance, threads):
        entries = (Importance * (len(importance) + 1))()
        for i, (name, values) in enumerate(sorted(importance.items())):
            entries[i] = Importance(name.encode(), (ctypes.c_float * len(values))(*values), len(values))
        parameters = self.library.llama_model_quantize_default_params()
        parameters.nthread = threads
        parameters.ftype = PRESETS[preset]
        parameters.allow_requantize = True
        parameters.imatrix = entries if importance else None
        if self.library.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) != 0:
            raise RuntimeError(f"llama.cpp cannot write {target}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("chimere", "model", "calibrate", "heldout", "folder"):
        parser.add_argument("--" + name, required=True, type=pathlib.Path)
    parser.add_argument("--presets", default="Q2_K_S,IQ2_M,Q2_K,IQ3_XXS,Q3_K_S,IQ3_S,Q3_K_M,IQ4_XS,Q4_K_S,Q4_K_M")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--ways", default="importance,calibrate,data-free")
    parser.add_argument("--unround", action="store_true", help="the weights are in q4_0; measure on what unround.py makes of them")
    parser.add_argument("--bytes", type=int, help="of the texts, from their begin")
    parser.add_argument("--at-most", type=float, default=math.inf)
    parser.add_argument("--free-embeddings", action="store_true", help="let ours choose the formats of embeddings and output")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.unround:
        from unround import unround  # imports this file
        source, arguments.model = arguments.model, folder / "unrounded.gguf"
        unround(arguments.chimere, source, arguments.model)
    for name in ("calibrate", "heldout") if arguments.bytes else ():
        text = folder / f"{name}.txt"
        text.write_bytes(getattr(arguments, name).read_bytes()[:arguments.bytes])
        setattr(arguments, name, text)

    def chimere(*words):
        done = subprocess.run([arguments.chimere, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
        return json.loads(done.stdout)

    def row(name, path, theirs=None):
        """Prints it; returns mean and 99.9 % KL divergence, and how often the most likely token is the same."""
        result = chimere("eval", "divergence", "-m", path, "--base", arguments.model, "-f", arguments.heldout, "--ctx", arguments.context,
                         "-t", arguments.threads, "--json", "-q")
        size = path.stat().st_size
        mean, high = result["kld"], result["p999"]
        ratios = f"{mean / theirs[0]:6.3f} {high / theirs[1]:6.3f}" if theirs else " " * 13
        print(f"{name:22} {size:10} {8 * size / weights:6.3f}  {mean:.5f}  {high:.4f}  {ratios}  {100 * result['top1']:.2f}", flush=True)
        return mean, high, result["top1"]

    matrix = folder / "imatrix.gguf"
    matrix.unlink(missing_ok=True)
    chimere("imatrix", arguments.model, "-f", arguments.calibrate, "-o", matrix, "-t", arguments.threads, "--json", "-q")
    importance = read_importance(matrix, arguments.model)
    peer = LlamaCpp()
    weights = sum(math.prod(dims) for dims, _, _ in read_tensors(arguments.model)[0].values())
    print(f"{'file':22} {'bytes':>10} {'bits':>6}  {'KL':7}  {'99.9 %':6}  {'of theirs':13}  same top")
    worse = False
    for preset in arguments.presets.split(","):
        theirs = folder / f"llama.cpp-{preset}.gguf"
        peer.quantize(arguments.model, theirs, preset, importance, arguments.threads)
        size = theirs.stat().st_size
        figures = row(f"llama.cpp {preset}", theirs)
        ways = {"importance": ["--imatrix", matrix], "calibrate": ["--imatrix", matrix, "--calibrate", arguments.calibrate],
                "data-free": ["--data-free"]}
        kinds = {name: TYPES[kind] for name, (_, _, kind) in read_tensors(theirs)[0].items() if name in EMBEDDINGS}
        pinned = [] if arguments.free_embeddings else [word for name, kind in kinds.items() for word in ("--tensor-type", f"{name}={kind}")]
        for name in arguments.ways.split(","):
            ours = folder / f"chimere-{preset}-{name}.gguf"
            chimere("quantize", arguments.model, "-o", ours, "--size", f"{size}B", *ways[name], *pinned, "-t", arguments.threads, "--json",
                    "-q")
            mean, _, top = row(f"  ours, {name}", ours, figures)
            worse = worse or not mean <= arguments.at_most * figures[0] or (top < figures[2] and arguments.at_most < math.inf)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
