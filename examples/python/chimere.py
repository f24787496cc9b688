"""libchimere by ctypes: generation, embeddings and log-probabilities with the standard library alone.

    python3 chimere.py MODEL TEXT        MODEL "" is the shipped model
"""
import ctypes as c
import os
import sys

OK = 0


class Option(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class Message(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p)]


class Token(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("id", c.c_int32), ("logprob", c.c_float),
                ("text", c.POINTER(c.c_char)), ("text_size", c.c_size_t), ("reasoning", c.POINTER(c.c_char)),
                ("reasoning_size", c.c_size_t)]


class Generation(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("finish", c.c_int32), ("prompt_tokens", c.c_int32),
                ("reused_tokens", c.c_int32), ("new_tokens", c.c_int32), ("prompt_seconds", c.c_double),
                ("decode_seconds", c.c_double), ("seed", c.c_uint64)]


class Info(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("context", c.c_int64), ("vocabulary", c.c_int64),
                ("dimensions", c.c_int64), ("bos", c.c_int32), ("eos", c.c_int32), ("on_gpu", c.c_int32),
                ("has_chat_template", c.c_int32)]


TokenCallback = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Token))
P, N, S, I32 = c.c_void_p, c.c_size_t, c.POINTER(c.c_size_t), c.POINTER(c.c_int32)
OPTIONS = (c.POINTER(Option), N)
SIGNATURES = {
    "runtime_create": (*OPTIONS, c.POINTER(P)),
    "model_load": (P, c.c_char_p, *OPTIONS, P, P, c.POINTER(P)),
    "model_get_info": (P, c.POINTER(Info)),
    "tokenize": (P, c.c_char_p, N, c.c_uint32, I32, N, S),
    "detokenize": (P, I32, N, c.c_uint32, c.c_char_p, N, S),
    "apply_chat_template": (P, c.POINTER(Message), N, *OPTIONS, I32, N, S),
    "sequence_create": (P, I32, N, c.POINTER(P)),
    "generate": (P, *OPTIONS, TokenCallback, P, c.POINTER(Generation)),
    "sequence_get_tokens": (P, I32, N, S, S),
    "sequence_save": (P, P, N, S),
    "sequence_save_file": (P, c.c_char_p),
    "sequence_restore": (P, c.c_char_p, N, c.POINTER(P)),
    "sequence_restore_file": (P, c.c_char_p, c.POINTER(P)),
    "log_probabilities": (P, I32, N, c.POINTER(c.c_float)),
    "embed": (P, c.c_char_p, N, c.POINTER(c.c_float), N, S),
}

lib = c.CDLL(os.environ.get("CHIMERE_SHARED_LIBRARY", "libchimere.so.1"))
lib.chimere_last_error.restype = c.c_char_p
lib.chimere_version.restype = c.c_char_p
for name, arguments in SIGNATURES.items():
    getattr(lib, "chimere_" + name).argtypes = arguments
for name in ("runtime_free", "model_free", "sequence_free"):
    getattr(lib, "chimere_" + name).argtypes = (P,)
    getattr(lib, "chimere_" + name).restype = None


class Error(Exception):
    def __init__(self, status):
        super().__init__(lib.chimere_last_error().decode())
        self.status = status


def call(name, *arguments):
    status = getattr(lib, "chimere_" + name)(*arguments)
    if status != OK:
        raise Error(status)


def options(settings):
    """Keyword arguments as options: max_tokens=4 is the option max-tokens with the value 4."""
    pairs = [(k.replace("_", "-"), v) for k, vs in settings.items() for v in (vs if isinstance(vs, list) else [vs])]
    return (Option * len(pairs))(*(Option(k.encode(), str(v).encode()) for k, v in pairs)), len(pairs)


def filled(kind, name, *arguments, after=()):
    """Asks for the size of the result, then for the result."""
    size = N()
    call(name, *arguments, None, 0, c.byref(size), *after)
    out = (kind * size.value)()
    call(name, *arguments, out, size.value, c.byref(size), *after)
    return out


class Handle:
    def __init__(self, name, *arguments):
        self.handle = P()
        call(name, *arguments, c.byref(self.handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            getattr(lib, self.FREE)(handle)


class Runtime(Handle):
    FREE = "chimere_runtime_free"

    def __init__(self, **settings):
        super().__init__("runtime_create", *options(settings))


class Model(Handle):
    FREE = "chimere_model_free"

    def __init__(self, runtime, name="", **settings):
        path = os.fsencode(name) or None
        super().__init__("model_load", runtime.handle, path, *options(settings), None, None)

    def info(self):
        out = Info(struct_size=c.sizeof(Info))
        call("model_get_info", self.handle, c.byref(out))
        return out

    def tokenize(self, text, flags=1):
        data = text.encode() if isinstance(text, str) else text
        return list(filled(c.c_int32, "tokenize", self.handle, data, len(data), flags))

    def detokenize(self, tokens, flags=0):
        ids = (c.c_int32 * len(tokens))(*tokens)
        return bytes(filled(c.c_char, "detokenize", self.handle, ids, len(ids), flags)).decode(errors="replace")

    def chat(self, messages, **settings):
        """messages: pairs of role and content."""
        rows = (Message * len(messages))(*(Message(r.encode(), t.encode()) for r, t in messages))
        return list(filled(c.c_int32, "apply_chat_template", self.handle, rows, len(rows), *options(settings)))

    def log_probabilities(self, tokens):
        ids, out = (c.c_int32 * len(tokens))(*tokens), (c.c_float * len(tokens))()
        call("log_probabilities", self.handle, ids, len(ids), out)
        return list(out)

    def embed(self, text):
        data = text.encode()
        return list(filled(c.c_float, "embed", self.handle, data, len(data)))


class Sequence(Handle):
    FREE = "chimere_sequence_free"

    def __init__(self, model, tokens=None, saved=None):
        if saved is not None:
            super().__init__("sequence_restore", model.handle, saved, len(saved))
        else:
            super().__init__("sequence_create", model.handle, (c.c_int32 * len(tokens))(*tokens), len(tokens))

    def generate(self, on_text=None, **settings):
        """on_text receives each piece of text and ends the generation by returning False."""
        result = Generation(struct_size=c.sizeof(Generation))
        text = []

        def take(_, token):
            piece = token.contents.text[:token.contents.text_size].decode()
            text.append(piece)
            return 1 if on_text is not None and on_text(piece) is False else 0

        call("generate", self.handle, *options(settings), TokenCallback(take), None, c.byref(result))
        return "".join(text), result

    def tokens(self):
        return list(filled(c.c_int32, "sequence_get_tokens", self.handle, after=(None,)))

    def save(self):
        return bytes(filled(c.c_ubyte, "sequence_save", self.handle))


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: chimere.py MODEL TEXT")
    with Runtime() as runtime, Model(runtime, sys.argv[1], backend="cpu") as model:
        tokens = model.tokenize(sys.argv[2])
        with Sequence(model, tokens) as sequence:
            sequence.generate(lambda piece: print(piece, end="", flush=True), max_tokens=24, temp=0)
        print(f"\nlog-probability of the prompt: {sum(model.log_probabilities(tokens)):.3f}")


if __name__ == "__main__":
    main()
