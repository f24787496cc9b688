#!/usr/bin/python3
"""Writes expected.jsonl: what Jinja2 makes of snippets.txt and of each template with each conversation.

Lines are [template, case, text]; the text is null where Jinja2 fails. Template "" is a snippet, in which
the sign for a line end stands for one. conversations.jsonl comes from make_conversations.py.
"""
import json
import os

from render_with_jinja2 import environment, render

HERE = os.path.dirname(os.path.abspath(__file__))
SNIPPET_VARIABLES = {
    "d": {"a": None, "b": [1, "x"], "c": {"é": 1.5}},
    "ms": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi é"},
           {"role": "assistant", "content": "Hello", "tool": True}],
}


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read().split("\n")[:-1]


if __name__ == "__main__":
    env = environment()
    conversations = [json.loads(line) for line in lines("conversations.jsonl")]
    with open(os.path.join(HERE, "snippet_variables.json"), "w", encoding="utf-8") as out:
        json.dump(SNIPPET_VARIABLES, out, ensure_ascii=False)
        out.write("\n")
    with open(os.path.join(HERE, "expected.jsonl"), "w", encoding="utf-8") as out:
        for i, snippet in enumerate(lines("snippets.txt")):
            text = render(env, snippet.replace("\u2424", "\n"), SNIPPET_VARIABLES).get("ok")
            out.write(json.dumps(["", i, text], ensure_ascii=False) + "\n")
        for name in sorted(os.listdir(os.path.join(HERE, "templates"))):
            with open(os.path.join(HERE, "templates", name), encoding="utf-8") as f:
                source = f.read()
            for i, conversation in enumerate(conversations):
                text = render(env, source, conversation).get("ok")
                out.write(json.dumps([name, i, text], ensure_ascii=False) + "\n")
