#!/usr/bin/python3
"""Compares the rendering of chat templates with Jinja2's.

  compare_templates.py --renderer PROGRAM [--exhaustive 0] [--random 3000] [--conversations 40] [--seed N]

PROGRAM is tests/peer/render_templates. Compared are an exhaustive table of small templates (src/text/testdata/exhaustive_templates.py),
random templates (random_templates.py there), the templates of src/text/testdata/templates and, where the npm packages are installed, those that published models come with, over random conversations.
A template that fails in Jinja2 must fail here too. Left out are templates in which Python writes the address of an object or an integer
beyond 64 bits; and what the table names as left out must fail here.
"""
import argparse
import collections.abc
import copy
import json
import pathlib
import random
import re
import subprocess
import sys
import types

import jinja2.sandbox
import jinja2.utils
from peer import fresh_seed

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "text" / "testdata"
sys.path.insert(0, str(DATA))
from exhaustive_templates import LEFT_OUT, cases as exhaustive_cases  # noqa: E402  pylint: disable=wrong-import-position
from make_conversations import conversation  # noqa: E402  pylint: disable=wrong-import-position
from random_templates import VARIABLES, Grammar  # noqa: E402  pylint: disable=wrong-import-position
from render_with_jinja2 import environment, render  # noqa: E402  pylint: disable=wrong-import-position
LARGE_INTEGER = re.compile(r"(?<![\d.])[1-9]\d{18,}(?![\d.])")


class PrintsAddress(BaseException):
    """Ends a rendering in which Python would write the address of an object. No Exception, which render() would take for a failure."""


class Nameless:
    """Stands in for an object that Python prints as its address; everything else it does stays."""

    def __repr__(self):
        raise PrintsAddress


class Function(Nameless):
    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Generator(Nameless):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.items)


class Cycler(Nameless, jinja2.utils.Cycler):
    pass


class Joiner(Nameless, jinja2.utils.Joiner):
    pass


def nameless(value):
    if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinMethodType)):
        return Function(value)
    return Generator(value) if type(value).__module__ == "builtins" and isinstance(value, collections.abc.Iterator) else value


def nameless_results(function):
    """The filter `function` with results that do not print as addresses. Keeps what Jinja2 has noted on it (which context it wants)."""
    def filtered(*args, **kwargs):
        return nameless(function(*args, **kwargs))
    filtered.__dict__.update(function.__dict__ if hasattr(function, "__dict__") else {})
    return filtered


class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    def __init__(self, **options):
        super().__init__(**options)
        self.globals.update(cycler=Cycler, joiner=Joiner)
        for name in "batch", "items", "map", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "unique":
            self.filters[name] = nameless_results(self.filters[name])

    def getattr(self, obj, attribute):
        return nameless(super().getattr(obj, attribute))

    def getitem(self, obj, argument):
        return nameless(super().getitem(obj, argument))


def render_alone(env, template, variables):
    """With variables of its own (`list | indent` changes its list); None for a template that is left out."""
    try:
        result = render(env, template, copy.deepcopy(variables))
    except PrintsAddress:
        return None
    return None if LARGE_INTEGER.search(result.get("ok", "")) else result


def run(renderer, cases):
    """PROGRAM's rendering of templates with variables."""
    request = "".join(json.dumps([template, variables]) + "\n" for template, variables in cases)
    done = subprocess.run([renderer], input=request, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def accepted_left_outs(renderer):
    """Templates of the table's list that do not fail with an error that names what is left out."""
    cases = [(form % name, name) for form, names in LEFT_OUT.items() for name in names]
    answers = run(renderer, [(template, VARIABLES) for template, _ in cases])
    return [(template, answer) for (template, name), answer in zip(cases, answers, strict=True) if name not in answer.get("error", "")]


def published():
    """Templates in the tokenizer_config.json of npm packages, by name."""
    for path in sorted((ROOT / "tests" / "peer" / "node_modules" / "@lenml").glob("*/models/tokenizer_config.json")):
        template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
        for entry in template if isinstance(template, list) else [{"name": "default", "template": template}]:
            if entry["template"]:
                yield f"{path.parts[-3]} {entry['name']}", entry["template"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--random", type=int, default=3000)
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("--exhaustive", type=int, default=1, help="0: without the table")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--seed", type=int, default=fresh_seed(), help="fresh unless given")
    args = parser.parse_args()
    seed = args.seed
    print(f"seed {seed}")
    draw = random.Random(seed)
    cases = [("exhaustive", template, VARIABLES) for template in exhaustive_cases()] if args.exhaustive else []
    cases += [("random", Grammar(f"{seed}.{n}").template(), VARIABLES) for n in range(args.random)]
    files = [(path.name, path.read_text(encoding="utf-8")) for path in sorted((DATA / "templates").glob("*.jinja"))]
    for name, template in files + list(published()):
        cases += [(name, template, conversation(draw)) for _ in range(args.conversations)]
    answers = run(args.renderer, [(template, variables) for _, template, variables in cases])
    env = environment(Environment)
    env.globals = {name: nameless(value) for name, value in env.globals.items()}
    counts = {}
    shown = 0
    for (name, template, variables), ours in zip(cases, answers, strict=True):
        theirs = render_alone(env, template, variables)
        if theirs is None:
            continue
        count = counts.setdefault(name, [0, 0, 0])
        count[0] += 1
        count[1] += "ok" in theirs
        if ours.get("ok") != theirs.get("ok"):
            count[2] += 1
            if shown < args.show:
                shown += 1
                print(f"{name}: {template[:2000]!r}\n" + (f"  with {json.dumps(variables)[:3000]}\n" if variables is not VARIABLES else "") + f"  Jinja2  {theirs}\n  chimere {ours}")
    print(f"left out: {len(cases) - sum(all_cases for all_cases, _, _ in counts.values())}")
    for name, (all_cases, rendered, differ) in counts.items():
        print(f"{name:44} {all_cases:6} cases {rendered:6} rendered by Jinja2 {differ:6} differ")
    accepted = accepted_left_outs(args.renderer)
    for template, answer in accepted:
        print(f"left out, but {template} gives {answer}")
    return 0 if not accepted and not any(differ for _, _, differ in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
