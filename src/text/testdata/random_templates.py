#!/usr/bin/python3
"""Writes random templates as JSON lines [template, variables], by a grammar of what chat templates are made of.

  random_templates.py SEED COUNT

Most are valid; some fail when they run, where both engines must fail. Markup (escape, safe), filter blocks that give no string and
integers beyond 64 bits are left out.
"""
import json
import random
import sys

VARIABLES = {
    "s": "Hello, <World> & co", "t": "  two\nlines\n", "u": "àÉß ǆ日本 ΑΣ", "e": "", "n": 7, "m": -3, "f": 2.5, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2, 2], "w": ["b", "A", "c", "a", "B"], "d": {"b": 1, "A": "x", "c": [1, {"k": None}]},
    "ms": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi é", "n": 2}, {"role": "assistant", "content": None, "n": 1},
           {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}], "n": 2}],
    "tree": [{"v": 1, "sub": [{"v": 2, "sub": []}, {"v": 3, "sub": [{"v": 4, "sub": []}]}]}, {"v": 5, "sub": []}],
}
STRINGS = ["''", "'a'", "' b '", "\"it's\"", "'x-y_z'", "'%s|%d'", "'été'", "'a,b,,c'", "'\\n'", "'12'", "'-4.5'", "'A b\\tC'", "'</think>'", "'{} {}'", "'<b>a well-known--end</b> x-ray-like 42-3'"]
TEXTS = ["x", " ", "\n", "  \n  ", "a b", "} ", " % ", " # ", "<|im_end|>", "é"]


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = []
        self.macros = []
        self.budget = 0

    def pick(self, *options):
        return self.r.choice(options)

    def string(self, depth):
        if depth <= 0:
            return self.pick(*STRINGS, "s", "t", "u", "e")
        a, b = (lambda: self.string(depth - 1)), (lambda: self.integer(depth - 1))
        return self.pick(
            lambda: f"({a()} ~ {self.any(depth - 1)})", lambda: f"({a()} + {a()})", lambda: f"{self.atom(a)}[{self.small()}:{self.small()}]",
            lambda: f"{self.atom(a)}[::{self.pick(-1, 2, -2)}]", lambda: f"{self.atom(a)} | {self.text_filter(depth - 1)}",
            lambda: f"{self.atom(a)}.{self.string_method(depth - 1)}", lambda: f"({a()} if {self.condition(depth - 1)} else {a()})",
            lambda: f"({self.any(depth - 1)}) | {self.pick('string', 'string', 'pprint')}", lambda: f"({a()}) | {self.pick('wordwrap(6)', 'wordwrap(9, false)', 'wordwrap(4, wrapstring=chr, break_on_hyphens=false)'.replace('chr', repr('|')))}", lambda: f"({self.data(depth - 1)}) | tojson{self.json_style()}",
            lambda: f"({self.sequence(depth - 1)}) | join({a()})", lambda: f"({a()}).join(['p', {a()}])", lambda: f"('%s=%s' % ({self.any(depth - 1)}, {b()}))",
            lambda: f"('%5.2f|%-4d|%+d|%03d|%x' % ({self.number(0)}, {b()}, {b()}, {b()}, 255))", lambda: f"({a()} or {a()})",
            lambda: f"'{{}}:{{0}}'.replace('{{0}}', {a()})", lambda: f"'{{0}}-{{1}}-{{k}}'.format({a()}, {b()}, k={a()})",
            lambda: f"'{self.brace_field()}|{self.brace_field()}'.format({self.any(depth - 1)}, {self.any(depth - 1)})", lambda: f"'{{:{self.number_layout()}}}'.format({self.number(0)})",
            lambda: f"('%-6s|%5r|%.3s|%e|%+.1f|%#x' % ({a()}, {self.any(0)}, {a()}, {self.number(0)}, {self.number(0)}, {b()}))", lambda: f"('%(a)s %(b)05d' % {{'a': {self.any(0)}, 'b': {b()} }})",
            lambda: f"({self.number(depth - 1)}) | filesizeformat{self.pick('', '(true)')}")()

    def brace_field(self):
        return self.pick("{}", "{!r}", "{:>7}", "{!s:^9}", "{!r:*<12.5}", "{!a}")

    def number_layout(self):
        return self.pick("", "<", ">", "^", "=", "*^") + self.pick("", "+", " ") + self.pick("", "#") + self.pick("", "0") + self.pick("", "3", "9", "14") + self.pick("", ",") + self.pick("", "", ".0", ".2", ".5") + self.pick("", "", "d", "f", "e", "g", "x", "%")

    def text_filter(self, depth):
        return self.pick("upper", "lower", "title", "capitalize", "trim", "trim('ax ')", "replace('a', 'bb')", "replace('l', '', 1)", "indent", "indent(2, true)",
                         "indent(width=3, blank=true)", "reverse", "string", "default('q', true)", "truncate(7)", "truncate(9, true, '!')",
                         "truncate(5, leeway=0)", "center(20)", "urlencode", f"replace({self.string(0)}, {self.string(0)})",
                         "first", "last", "format(1, 2)" if self.r.random() < 0.05 else "lower")

    def string_method(self, depth):
        x = self.string(0)
        return self.pick("upper()", "lower()", "strip()", "lstrip()", "rstrip('o ')", "title()", "capitalize()", "swapcase()", f"replace({x}, 'Z')", "replace('l', 'L', 1)",
                         "zfill(9)", "center(15, '*')", "ljust(12, '.')", "rjust(12)", "split(',')[0]", "split()[-1]" if self.r.random() < 0.3 else "strip()",
                         "rsplit('o', 1)[0]", "partition('o')[2]", "rpartition('l')[0]", "removeprefix('He')", "removesuffix('co')", "expandtabs(4)", "casefold()",
                         "splitlines()[0]" if self.r.random() < 0.3 else "lower()", f"replace({x}, 'Z', {self.pick(-1, 0, 2)})",
                         f"rsplit(sep={x or 'none'}, maxsplit=1)[-1]" if self.r.random() < 0.3 else "upper()", "splitlines(true)[0]" if self.r.random() < 0.2 else "strip()", "join('xyz')", "join(w | reverse)")

    def number(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "2.5", "n", "m", "f", "10", "0.1", "1e3", "42")
        a, b = (lambda: self.number(depth - 1)), (lambda: self.integer(depth - 1))
        return self.pick(b, lambda: f"({a()} + {a()})", lambda: f"({a()} - {a()})", lambda: f"({a()} * {self.pick(2, 0.5, -1)})", lambda: f"({a()} / {self.pick(2, 3, 0.25, 0)})",
                         lambda: f"({a()}) | round({self.pick('', 1, 2, -1)}{self.pick('', '')})", lambda: f"({a()}) | round(1, '{self.pick('ceil', 'floor', 'common')}')",
                         lambda: f"({a()}) | abs", lambda: f"({self.string(depth - 1)}) | float", lambda: f"({a()}) | float", lambda: f"(l | sum) + {a()}",
                         lambda: f"({a()} // {self.pick(2, -2, 1.5)})", lambda: f"({a()} % {self.pick(3, -3, 2.5)})", lambda: f"({self.pick(2, 3, 'm')} ** {self.pick(0, 1, 2, 3, -1)})", lambda: f"({self.pick(2, 3, 'f')} ** {self.pick(0.5, 'f', -2)})")()

    def integer(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "2", "n", "m", "12", "-1", "l | length", "ms | length")
        a = lambda: self.integer(depth - 1)
        return self.pick(lambda: f"({a()} + {a()})", lambda: f"({a()} * {self.pick(2, 3, -1)})", lambda: f"({a()} // {self.pick(2, 3, -2)})", lambda: f"({a()} % {self.pick(2, 5, -3)})",
                         lambda: f"({self.string(depth - 1)}) | length", lambda: f"({self.sequence(depth - 1)}) | count", lambda: f"({self.string(depth - 1)}) | int",
                         lambda: f"({self.string(0)}) | int(9, 16)", lambda: f"({self.number(depth - 1)}) | int", lambda: f"({self.string(depth - 1)}).find({self.string(0)})",
                         lambda: f"({self.string(depth - 1)}).count({self.string(0)})", lambda: f"({self.string(depth - 1)}).{self.pick('find', 'rfind', 'count')}({self.string(0)}, {self.pick(0, 1, -3, 'n', 'none')}{self.pick('', ', 4', ', -1')})",
                         lambda: f"({a()}).bit_length()", lambda: f"l.index(2, {self.pick(1, 2, -1)})", lambda: f"range(9).index({self.pick(1, 4)}) + range(3) | length", lambda: f"({a()}) | round({self.pick(-1, -2, 1)})", lambda: f"({self.string(depth - 1)}) | wordcount", lambda: f"(l | {self.pick('max', 'min', 'sum', 'first', 'last')})",
                         lambda: f"-{a()}", lambda: f"({self.string(0)}).rfind('l')", lambda: f"l.count(2) + l.index({self.pick(1, 2, 3)})")()

    def condition(self, depth):
        if depth <= 0:
            return self.pick("yes", "no", "nil", "n > 3", "s", "e", "missing", "missing is defined", "d.zz", "l")
        a, b, c = (lambda: self.condition(depth - 1)), (lambda: self.number(depth - 1)), (lambda: self.string(depth - 1))
        return self.pick(lambda: f"({a()} and {a()})", lambda: f"({a()} or {a()})", lambda: f"not {a()}", lambda: f"({b()} {self.pick('<', '<=', '>', '>=', '==', '!=')} {b()})",
                         lambda: f"({c()} {self.pick('<', '==', '!=', '>=', 'in', 'not in')} {c()})", lambda: f"({self.any(depth - 1)} in {self.sequence(depth - 1)})",
                         lambda: f"({self.any(depth - 1)} is {self.pick('', 'not ')}{self.test()})", lambda: f"({self.integer(depth - 1)} is {self.pick('even', 'odd', 'divisibleby(3)')})",
                         lambda: f"({self.atom(self.string, depth - 1)}.{self.pick('startswith', 'endswith')}({c()}, {self.pick(0, 1, -2)}{self.pick('', ', 5', ', -1')}))", lambda: f"({self.generator()})", lambda: f"({self.any(0)} in {self.generator()})", lambda: f"(1 < {b()} <= 8)", lambda: f"({self.any(depth - 1)} == {self.any(depth - 1)})",
                         lambda: f"({self.atom(self.string, depth - 1)}.{self.pick('startswith', 'endswith')}({self.pick(c(), chr(40) + c() + ', ' + c() + ')')}))",
                         lambda: f"({self.atom(self.string, depth - 1)}.{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isascii', 'isidentifier', 'isnumeric', 'isdecimal', 'isprintable')}())")()

    def test(self):
        return self.pick("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false", "callable",
                         "sameas none", "sameas(true)", "eq 7", "ne('a')", "equalto(none)", "in [1, 7, 'a']", "in l", "filter", "test")

    def generator(self):
        """What can be gone through once, and what is no list for other reasons."""
        return self.pick("(l | map('string'))", "(w | select('in', ['a', 'b']))", "(ms | selectattr('n'))", "(ms | map(attribute='role'))", "(l | reverse)", "(l | unique)", "(w | batch(2))", "(d | items)", "d.items()",
                         "d.keys()", "d.values()", "range(4)", "range(7, 0, -3)", "(l | select('none'))", "([1, 'a', 2] | map('abs'))")

    def sequence(self, depth):
        if self.r.random() < 0.03:
            return self.generator()
        if depth <= 0:
            return self.pick("l", "w", "ms", "[1, 'a', none]", "(1, 2)", "[]", "range(4)|list", "d|list", "'abc'|list", "[[1, 2], [3]]")
        a = lambda: self.sequence(depth - 1)
        return self.pick(
            lambda: f"({a()}) | list", lambda: f"({a()}) | reverse | list", lambda: "l | sort" + self.pick("", "(reverse=true)"), lambda: "w | sort" + self.pick("", "(case_sensitive=true)", "(true)"),
            lambda: "(l | unique | list)", lambda: "(w | unique" + self.pick("", "(case_sensitive=true)") + " | list)", lambda: f"({a()})[{self.small()}:{self.small()}]", lambda: f"({a()})[::-1]",
            lambda: f"({a()}) | batch({self.pick(1, 2, 3)}{self.pick('', ', 0', ', none')}) | list", lambda: f"({a()}) | slice({self.pick(1, 2, 3)}{self.pick('', ', 0')}) | list",
            lambda: "ms | map(attribute='role') | list", lambda: f"ms | map(attribute='n', default={self.any(0)}) | list", lambda: "ms | selectattr('n') | map(attribute='n') | list",
            lambda: f"ms | {self.pick('selectattr', 'rejectattr')}('role', '{self.pick('eq', 'equalto', 'ne', '==', 'in')}', {self.string(0)}) | list", lambda: "ms | rejectattr('n', 'defined') | list",
            lambda: f"({a()}) | {self.pick('select', 'reject')}('{self.pick('string', 'number', 'none', 'defined', 'mapping', 'sequence', 'integer', 'iterable')}') | list", lambda: f"({a()}) | select | list",
            lambda: f"l | map('{self.pick('string', 'abs', 'float', 'int', 'default')}') | list", lambda: f"w | map('{self.pick('upper', 'lower', 'title', 'trim', 'length')}') | list",
            lambda: "w | map('replace', 'a', 'X') | list", lambda: f"({a()} + {a()})" if self.r.random() < 0.6 else f"({a()}) | list", lambda: f"(l * {self.pick(0, 1, 2)})",
            lambda: f"{self.generator()} | list", lambda: f"{self.generator()} | sort", lambda: f"[{self.generator()} | first]", lambda: "ms | sort(attribute='role,content')" if self.r.random() < 0.2 else "ms | sort(attribute='role')",
            lambda: f"dict([['a', {self.any(0)}], ['b', 1]]) | items | list", lambda: f"range(9)[{self.small()}:{self.small()}] | list", lambda: "d.items() | list", lambda: "d.keys() | list", lambda: "d.values() | list", lambda: "d | items | list", lambda: "d | dictsort", lambda: "d | dictsort(true)", lambda: "d | dictsort(reverse=true)",
            lambda: "ms | groupby('role') | map('list') | list", lambda: "ms | sort(attribute='role') | map(attribute='role') | list", lambda: "(ms | groupby('n', default=0) | list)[0][0] | list" if self.r.random() < 0.2 else "w",
            lambda: f"({self.string(depth - 1)}).split({self.pick('', ',', 'o', ' ') and repr(self.pick(',', 'o', ' '))})", lambda: f"({self.string(depth - 1)}).splitlines()", lambda: f"range({self.pick('5', '1, 7, 2', '3, 0, -1', '0')}) | list",
            lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", lambda: f"({self.any(depth - 1)}, {self.any(depth - 1)})", lambda: f"({self.string(depth - 1)}) | list", lambda: "[1, 2.5, 3] | sum(start=1) | string | list",
            lambda: "ms | map(attribute='content.0.type') | list", lambda: "ms | unique(attribute='role') | map(attribute='role') | list", lambda: "[ms | min(attribute='role'), ms | max(attribute='role')]")()

    def mapping(self, depth):
        return self.pick("d", "ms[0]", "{}", f"{{'k': {self.any(depth - 1)}, 'j': {self.any(depth - 1)} }}", f"dict(a={self.any(depth - 1)})", f"dict(d, z={self.any(depth - 1)})",
                         f"dict([('a', {self.any(depth - 1)})])", f"{{1: {self.any(depth - 1)}, (1, 2): 3}}")

    def data(self, depth):
        """What JSON can say."""
        return self.pick(self.string, self.number, self.sequence, self.mapping, lambda _: self.pick("none", "true", "ms", "tree"))(max(depth, 0))

    def any(self, depth):
        options = [self.string, self.number, self.integer, self.condition, self.sequence, self.mapping, lambda _: self.pick("none", "missing", "d.c", "d['A']", "ms[1].content", "ms[-1]['content'][0].text", "d.get('q', 3)", "d.c[1].k")]
        if self.names:
            options.append(lambda _: self.r.choice(self.names))
        if self.macros:
            options.append(lambda _: self.macro_call())
        return self.r.choice(options)(depth) if depth > 0 else options[self.r.randrange(4)](0)

    def atom(self, make, *args):
        return f"({make(*args)})"

    def small(self):
        return self.pick("", "", "0", "1", "2", "-1", "-3", "n")

    def json_style(self):
        return self.pick("", "", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)" if self.r.random() < 0.5 else "", "(separators=(',', ':'))", "(indent=4, ensure_ascii=false)")

    def macro_call(self):
        name, parameters = self.r.choice(self.macros)
        given = self.r.randrange(parameters + 2) if self.r.random() < 0.95 else parameters + 2
        args = [self.any(0) for _ in range(given)]
        if given <= parameters and self.r.random() < 0.3:
            args.append(f"c={self.any(0)}")
        elif self.r.random() < 0.15:
            args.append(self.pick("*l", "**{'b': 1}", "*[1]"))
        return f"{name}({', '.join(args)})"

    def target(self):
        name = self.pick("x", "y", "z", "item")
        if name not in self.names:
            self.names.append(name)
        return name

    def tag(self, inside):
        return "{%" + self.pick("", "", "", "-", "+" if self.r.random() < 0.3 else "") + f" {inside} " + self.pick("", "", "", "-", "+" if self.r.random() < 0.2 else "") + "%}"

    def output(self, inside):
        return "{{" + self.pick("", "", "-") + f" {inside} " + self.pick("", "", "-") + "}}"

    def block(self, depth):
        names, macros = list(self.names), list(self.macros)
        text = "".join(self.statement(depth) for _ in range(self.r.randrange(1, 4)))
        self.names, self.macros = names, macros
        return text

    def statement(self, depth):
        self.budget += 1
        if depth <= 0 or self.budget > 40:
            return self.pick(lambda: self.r.choice(TEXTS), lambda: self.output(self.any(2)))()
        return self.pick(
            lambda: self.r.choice(TEXTS), lambda: self.output(self.any(3)), lambda: self.output(self.string(3)), lambda: self.output(self.sequence(2)),
            lambda: self.tag(f"if {self.condition(2)}") + self.block(depth - 1) + (self.tag(f"elif {self.condition(1)}") + self.block(depth - 1) if self.r.random() < 0.3 else "")
            + (self.tag("else") + self.block(depth - 1) if self.r.random() < 0.5 else "") + self.tag("endif"),
            lambda: self.for_loop(depth), lambda: self.for_loop(depth), lambda: self.assignment(), lambda: self.assignment(),
            lambda: self.tag(f"set {self.target()}" + self.pick("", " | trim", " | upper | replace('A', 'b')")) + self.block(depth - 1) + self.tag("endset"),
            lambda: self.macro(depth), lambda: self.tag("filter " + self.text_filter(0).replace("first", "upper").replace("last", "lower")) + self.block(depth - 1) + self.tag("endfilter"),
            lambda: self.tag(f"with q = {self.any(1)}") + self.output("q") + self.block(depth - 1) + self.tag("endwith"), lambda: "{#" + self.pick("", "-") + " note " + self.pick("", "-") + "#}",
            lambda: "{%" + self.pick("", "-") + " raw " + self.pick("", "-") + "%}" + self.pick("{{ x }}", "{% if %}", " a ") + "{% endraw %}", lambda: self.tag("generation") + self.block(depth - 1) + self.tag("endgeneration"),
            lambda: self.helpers(), lambda: self.recursive())()

    def for_loop(self, depth):
        use = self.pick("loop.index", "loop.index0 ~ loop.revindex", "loop.first", "loop.last", "loop.length", "loop.cycle('a', 'b', 'c')", "loop.previtem", "loop.nextitem is defined", "loop.changed(loop.index // 2)", "loop.depth", "loop.revindex0")
        kind = self.r.randrange(4)
        if kind == 0:
            head, item = f"for k, v in {self.pick('d.items()', 'd | dictsort', 'd | items', '[[1, 2], (3, 4)]', 'ms | groupby(chr)'.replace('chr', repr('role')))}", "k ~ v"
        else:
            head, item = f"for i in {self.sequence(2)}", "i"
        if self.r.random() < 0.3:
            head += f" if {item.split(' ')[0]}{self.pick('', ' is string', ' is not none', ' != 2')}"
        body = self.output(self.pick(item, use)) + self.block(depth - 1)
        if self.r.random() < 0.25:
            body += self.tag(f"if {self.pick('loop.index == 2', 'loop.last', self.condition(1))}") + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.output(item)
        tail = self.tag("else") + self.block(depth - 1) if self.r.random() < 0.3 else ""
        return self.tag(head) + body + tail + self.tag("endfor")

    def assignment(self):
        kind = self.r.randrange(5)
        if kind == 0:
            self.names = list({*self.names, "x", "y"})
            return self.tag(f"set x, y = {self.any(1)}, {self.any(1)}")
        if kind == 2 and self.r.random() < 0.3:
            self.names = list({*self.names, "g"})
            return self.tag(f"set g = {self.generator()}")
        if kind == 1:
            self.names = list({*self.names, "ns.a", "ns.b"})
            return self.tag(f"set ns = namespace(a={self.any(1)}, b=0)") + self.tag("for i in l") + self.tag("set ns.b = ns.b + i") + self.tag("endfor") + self.output("ns.b")
        return self.tag(f"set {self.target()} = {self.any(2)}")

    def macro(self, depth):
        name = f"m{len(self.macros)}"
        names, macros = list(self.names), list(self.macros)
        parameters = self.r.randrange(3)
        header = ", ".join(["a", "b"][:parameters] + ["c='C'"])
        self.names = ["a", "b"][:parameters] + ["c"] + names
        body = self.pick("", self.output("varargs"), self.output("kwargs"), self.output("caller() if caller else 'none'")) + self.block(depth - 1)
        self.names, self.macros = names, macros + [(name, parameters)]
        call = self.output(self.macro_call())
        if "caller" in body and "call " not in body:
            call += self.tag(f"call {name}({', '.join(['1'] * parameters)})") + self.r.choice(TEXTS) + self.tag("endcall")
        return self.tag(f"macro {name}({header})") + body + self.tag("endmacro") + call

    def helpers(self):
        return self.pick("{% set cy = cycler('p', 'q') %}{% for i in l %}{{ cy.next() }}{{ cy.current }}{% endfor %}{% set _ = cy.reset() %}{{ cy.current }}",
                         "{% set jo = joiner(' | ') %}{% for i in w %}{{ jo() }}{{ i }}{% endfor %}", "{% set g = ms | groupby('role') %}{% for x in g %}{{ x.grouper }}={{ x.list | length }};{% endfor %}",
                         "{{ {'a': 1, 'b c': 'd&e'} | urlencode }}{{ [('x', 'é/ü')] | urlencode }}",
                         "{{ strftime_now('%Y-%m-%d %H:%M') }}", "{{ (ms | groupby('role'))[0].list | length }}")

    def recursive(self):
        return ("{% for x in tree recursive %}" + self.pick("{{ x.v }}@{{ loop.depth }}", "[{{ loop.depth0 }}{{ x.v }}", "{{ loop.index }}.{{ x.v }} ")
                + self.pick("{{ loop(x.sub) }}", "{% if x.sub %}({{ loop(x.sub) }}){% endif %}") + self.pick("", "]{{ loop.last }}") + "{% endfor %}")

    def template(self):
        self.names, self.macros, self.budget = [], [], 0
        return "".join(self.statement(3) for _ in range(self.r.randrange(1, 6)))


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        print(json.dumps([Grammar(f"{sys.argv[1]}.{number}").template(), VARIABLES]))
