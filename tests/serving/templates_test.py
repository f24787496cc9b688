#!/usr/bin/env python3
"""Conversations that a chat template refuses or leaves out, continued messages, and models without a template.

  templates_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment

CHIMERE, WRITE_TINY_MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
KEY = b"tokenizer.chat_template"
NO_REASONING = "<|im_start|>assistant\n<think>\n\n</think>\n\n"

# In the manner of Qwen 3.5: one system message, which comes first, and a question.
STRICT = """\
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('a system message may only come first') }}{%- endif %}
{%- endfor %}
{%- if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}{{ raise_exception('no question') }}{%- endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}
{{- (c.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{%- endif %}"""

# In the manner of Mistral 7B and Gemma 2: no system message, strictly by turns.
ALTERNATING = """\
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) or m.role not in ['user', 'assistant'] %}
{{- raise_exception('user and assistant must alternate') }}{%- endif %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""

GO = "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"


def said(role, text):
    return {"role": role, "content": text}


CALL = {"role": "assistant", "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "seen"}

CONVERSATIONS = (
    [said("system", "Be brief."), said("system", "In English."), said("user", "Why?")],
    [said("system", "Be brief."), said("developer", "In English."), said("user", "Why?")],
    [said("system", "Be brief."), said("user", "Hello"), said("assistant", "Yes."), said("system", "It is noon."),
     said("user", "Why?")],
    [said("system", "Be brief."), CALL, RESULT],
    [said("system", "Be brief.")],
    [said("user", "Why?"), RESULT],
    [said("user", "Hello"), said("user", "Why?")],
    [said("assistant", "Yes."), said("user", "Why?")],
)


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)
        cls.model = cls.home / "tiny.gguf"
        subprocess.run([WRITE_TINY_MODEL, cls.model, "300"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, model=None, **settings):
        server = Server(CHIMERE, str(model or self.model), **settings)
        self.addCleanup(server.close)
        return server

    def prompt(self, server, messages):
        return server.post("/apply-template", {"messages": messages})["prompt"]

    def check_conversations(self, server):
        for messages in CONVERSATIONS:
            with self.subTest(messages=messages):
                server.post(CHAT, {"messages": messages, "max_tokens": 2})
                prompt = self.prompt(server, messages)
                for message in messages:
                    self.assertIn(message["content"] or "look", prompt)

    def test_a_template_that_refuses_system_messages_in_other_places(self):
        path = self.home / "strict.jinja"
        path.write_text(STRICT)
        server = self.serve(chat_template=path)
        self.check_conversations(server)
        self.assertEqual(self.prompt(server, CONVERSATIONS[0]),
                         "<|im_start|>system\nBe brief.\n\nIn English.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n" + NO_REASONING)
        self.check_continued(server)

    def test_a_template_without_system_messages(self):
        server = self.serve(chat_template=ALTERNATING)
        self.check_conversations(server)
        self.assertEqual(self.prompt(server, CONVERSATIONS[0]),
                         "<|im_start|>user\nBe brief.\n\nIn English.\n\nWhy?<|im_end|>\n<|im_start|>assistant\n")

    def check_continued(self, server):
        """A last message of the assistant, with the strict template."""
        question = [said("user", "What does ls do?")]
        plain = self.prompt(server, question)
        for last, end in (("ls lists", "</think>\n\nls lists"), ("", NO_REASONING),
                          ("<think>\nIt lists.\n</think>\n\n", "assistant\n<think>\nIt lists.\n</think>\n\n"),
                          ("<think>\nIt lists.\n</think>\n\nIt", "assistant\n<think>\nIt lists.\n</think>\n\nIt"),
                          ("<think>\nIt li", "assistant\n<think>\nIt li")):
            with self.subTest(last=last):
                messages = [*question, said("assistant", last)]
                prompt = self.prompt(server, messages)
                self.assertTrue(prompt.endswith(end), prompt)
                self.assertEqual(prompt.count("<think>"), 1, prompt)
                tools = [{"type": "function", "function": {"name": "look"}}]
                for more in ({}, {"tools": tools}):
                    server.post(CHAT, {"messages": messages, "max_tokens": 2, **more})
        self.assertEqual(self.prompt(server, [*question, said("assistant", "")]), plain)
        self.assertIn("user\n<|im_end|>", self.prompt(server, [said("assistant", "alone")]))

    def run_program(self, *arguments):
        return subprocess.run([CHIMERE, "run", "-p", "Hello", "-n", "2", *map(str, arguments)], capture_output=True,
                              text=True, env=environment(self.home))

    def test_chatml_is_in_place_of_a_missing_or_bad_template(self):
        whole = self.model.read_bytes()
        at = whole.index(KEY) + len(KEY) + 4
        size = int.from_bytes(whole[at:at + 8], "little")
        own = whole[at + 8:at + 8 + size]
        self.assertIn(b"im_start", own)
        for name, changed in (("missing", whole.replace(KEY, b"tokenizer.chat_templatE")),
                              ("empty", whole.replace(own, b" " * size)),
                              ("go", whole.replace(own, GO.encode().ljust(size)))):
            with self.subTest(name=name):
                path = self.home / (name + ".gguf")
                path.write_bytes(changed)
                server = self.serve(path)
                self.assertIn("ChatML", server.log())
                self.assertEqual(self.prompt(server, [said("user", "Hi")]),
                                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
                server.post(CHAT, {"messages": [said("user", "Hi")], "max_tokens": 2})
                ran = self.run_program("-m", path)
                self.assertEqual((ran.returncode, ran.stderr.count("ChatML")), (0, 1), ran.stderr)
                chosen = self.run_program("-m", path, "--chat-template", "llama3")
                self.assertEqual((chosen.returncode, chosen.stderr.count("ChatML")), (0, 0), chosen.stderr)

    def test_an_unknown_template_is_an_error(self):
        ran = self.run_program("-m", self.model, "--chat-template", "lama3")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("'lama3' is neither built in nor a file", ran.stderr)
        self.assertIn("chatml", ran.stderr)
        with self.assertRaises(AssertionError) as refused:
            Server(CHIMERE, str(self.model), chat_template="lama3")
        self.assertIn("lama3", str(refused.exception))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
