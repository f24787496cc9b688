"""Documents of JSON schemas from the model to the reader, at temperature 1.3: each is valid under its schema by another
implementation (python3-jsonschema), is taken by a strict reader with 64-bit integers, and is written in one style.

documents_test.py PROGRAM MODEL SCHEMAS [COUNT]

SCHEMAS: a file with one schema a line, or a folder of files as JSONSchemaBench has them (maskbench/data: the schema is the
member "schema"), of which COUNT are drawn (TEST_SEED). A schema that is refused, with a JSON pointer, and a document that is
cut off at the limit of tokens are counted; half of the documents must be complete.
"""
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import sys

import jsonschema
from server import Server

MAX_TOKENS = 600
INTEGERS = range(-2**63, 2**63)


class Raw(str):
    """A number as it is written."""


def strict(text):
    """The value of a JSON text by a reader without tolerance; numbers are Raw."""
    def members(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"a name twice: {keys}"
        return dict(pairs)

    def refuse(name):
        raise AssertionError(name)

    def integer(digits):
        assert int(digits) in INTEGERS and digits != "-0", f"not an integer of 64 bits: {digits}"
        return Raw(digits)

    def number(digits):
        significant = re.sub(r"[eE].*|[-.]", "", digits).lstrip("0")
        assert math.isfinite(float(digits)) and len(significant) <= 17, f"a long number: {digits}"
        return Raw(digits)

    value = json.loads(text, object_pairs_hook=members, parse_constant=refuse, parse_int=integer, parse_float=number)
    text.encode()  # no half of a surrogate pair
    return value


def written(value, indent, spaced, level=0):
    """The JSON text of a value that strict() returned; indent: of a level, None: one line."""
    if isinstance(value, Raw):
        return value
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False)
    comma, colon = (", " if spaced else ","), (": " if spaced or indent else ":")
    if isinstance(value, dict):
        parts = [json.dumps(key, ensure_ascii=False) + colon + written(part, indent, spaced, level + 1)
                 for key, part in value.items()]
        brackets = "{}"
    else:
        parts = [written(part, indent, spaced, level + 1) for part in value]
        brackets = "[]"
    if indent is None:
        return brackets[0] + comma.join(parts) + brackets[1]
    line = "\n" + indent * level
    return brackets[0] + line + indent + ("," + line + indent).join(parts) + line + brackets[1]


STYLES = [(None, True), (None, False), ("\t", True), *((" " * n, True) for n in range(1, 9))]


def same(a, b):
    """Equality of JSON values: unlike in Python, false is not 0."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def enum(_validator, values, value, _schema):
    if not any(same(value, v) for v in values):
        yield jsonschema.ValidationError(f"{value} is none of {values}")


def const(validator, constant, value, schema):
    return enum(validator, [constant], value, schema)


def check(schema, text):
    value = strict(text)
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = jsonschema.validators.extend(draft, {"enum": enum, "const": const})
    errors = [e.message for e in validator(schema).iter_errors(json.loads(text))]
    assert not errors, f"invalid: {errors[0][:200]}"
    assert any(written(value, *style) == text for style in STYLES), "white space or escapes of several styles"


def schemas(path, count, seed):
    """(name, schema) of each line of a file, or of `count` files of a folder."""
    if path.is_file():
        return [(f"line {n}", json.loads(line)) for n, line in enumerate(path.read_text().splitlines(), 1)]
    files = random.Random(seed).sample(sorted(path.glob("*.json")), count)
    return [(file.name, json.loads(file.read_text())["schema"]) for file in files]


def outcome(server, name, schema, seed):
    """What became of one request, and the document of it."""
    status, _, body = server.call("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Fill in this form for a shop in Lyon."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}},
        "temperature": 1.3, "seed": seed, "max_tokens": MAX_TOKENS, "reasoning_effort": "none"})
    if status != 200:
        message = body["error"]["message"]
        assert status == 400 and re.search(r"schema|pointer|/", message), (name, status, body)
        return "refused", message
    choice = body["choices"][0]
    text = choice["message"]["content"]
    if choice["finish_reason"] == "length":
        return "cut off", text
    assert choice["finish_reason"] == "stop", (name, choice)
    try:
        check(schema, text)
    except (AssertionError, ValueError) as error:
        return "wrong", f"{error}: {text[:2000]}"
    return "complete", text


def main(program, model, source, count="0"):
    seed = int(os.environ.get("TEST_SEED", "1"))
    cases = schemas(pathlib.Path(source), int(count), seed)
    server = Server(program, model)
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda case: (case[0], *outcome(server, *case, seed)), cases))
    finally:
        server.close()
    for name, what, text in outcomes:
        if what in ("wrong", "refused"):
            print(f"{name}: {what}: {text}")
    counts = collections.Counter(what for _, what, _ in outcomes)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    assert not counts["wrong"], "documents that are wrong"
    assert counts["complete"] * 2 >= len(cases) - counts["refused"], "too few complete documents"
    if pathlib.Path(source).is_file():
        assert not counts["refused"], "a schema of the list is refused"


main(*sys.argv[1:])
