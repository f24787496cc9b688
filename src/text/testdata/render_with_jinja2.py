#!/usr/bin/python3
"""Renders templates with Jinja2, configured as transformers does for chat templates.

Reads JSON lines [template, variables] and writes JSON lines {"ok": text} or {"error": message}.
strftime_now writes 2024-07-26, as the tests do. Needs python3-jinja2.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks the model's words for trainers; here it only renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment(base=jinja2.sandbox.ImmutableSandboxedEnvironment):
    env = base(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime(2024, 7, 26).strftime(form)
    return env


def render(env, template, variables):
    try:
        return {"ok": env.from_string(template).render(**variables)}
    except Exception as e:  # whatever it is, the template did not render
        return {"error": f"{type(e).__name__}: {e}"}


if __name__ == "__main__":
    env = environment()
    for line in sys.stdin:
        print(json.dumps(render(env, *json.loads(line))), flush=False)
