#!/usr/bin/python3
"""Writes small templates as JSON lines [template, variables]: every filter, test, method, operator, subscript and statement with every kind
of value, in the place it works on and as an argument."""
import json

from random_templates import VARIABLES

HUGE = {"12345678901234", "1e300"}  # Python would take them for a width or a count
VALUES = ["s", "t", "u", "e", "n", "m", "f", "yes", "no", "nil", "missing", "d.zz", "l", "w", "d", "ms", "ms[0]", "[]", "{}", "(1, 2)", "()", "('a',)", "range(3)",
          "range(5, 0, -2)", "range(0)", "'12'", "'-4.5'", "'%s'", "'{}'", "[[1, 2], [3]]", "[['a', 1], ['b', 2]]", "l | map('string')", "l | select('none')", "l | reverse",
          "d.items()", "d.keys()", "d.values()", *sorted(HUGE), "0", "1", "0.0", "-0.0", "2.0", "[none]", "[missing]", "{1: 2}", "{'a': missing}", "(ms | groupby('role'))[0]",
          "range", "s.upper", "cycler('a')", "joiner('-')", "namespace(a=1)"]
# A value stands before each of these: filters, tests, methods and members, subscripts.
FILTERS = """upper;lower;title;capitalize;trim;trim('a');trim(none);replace('a','b');replace('a',missing);replace(1,2);replace('l','',1);replace('l');indent;indent(2,true);indent('>>')
    indent(width=-1);indent('x',blank=true);indent(none);string;string(1);default('q');default('q',true);default;d(missing);truncate;truncate(3);truncate(9,true,'!');truncate(5,leeway=0)
    truncate(2,true,'abc');truncate(5,leeway=none);center(9);center(-1);center;center(none);urlencode;first;last;int;int(5);int(3,16);int(base=2);int(base=0);int(zz=1);float;float(7)
    float('x');round;round(1);round(-1);round(1,'ceil');round(0,'floor');round(1,'zz');round(none);abs;abs(1);tojson;tojson(indent=2);tojson(indent='-');tojson(sort_keys=true);escape|string
    e|string;safe|string;forceescape|string;format(1);format(a=1);format;wordcount;attr('a');attr('role');attr('zz');attr(1);select|list;reject|list;select('string')|list;select('zz')|list
    select('eq',1)|list;selectattr('a')|list;rejectattr('a')|list;selectattr|list;selectattr('role','eq','user')|list;selectattr(0)|list;map('string')|list;map('upper')|list;map(attribute='a')|list
    map(attribute='role')|list;map(attribute=0)|list;map(attribute='a',default=3)|list;map(attribute='a',zz=3)|list;map|list;map('zz')|list;map('default','x')|list;join;join(',');join(1)
    join(missing);join(',','role');length;count;length(1);list;list(1);items|list;dictsort;dictsort(true);dictsort(by='value');dictsort(by='zz');dictsort(reverse=true);sort;sort(true)
    sort(case_sensitive=true);sort(attribute='role');sort(attribute='role,n');sort(attribute=0);unique|list;unique(true)|list;unique(attribute='role')|list;min;max;min(attribute='role');max(true)
    max(attribute=0);sum;sum(start=1);sum('a');sum(attribute='n');sum(start='a');sum(start=[]);reverse|list;batch(2)|list;batch(2,0)|list;batch(0)|list;batch(-1,1)|list;batch|list;slice(2)|list
    slice(2,'x')|list;slice(0)|list;slice(-1)|list;groupby('role')|list;groupby('role')|map('first')|list;groupby(0)|map('last')|list;groupby('n',default=0)|list;groupby|list;zz;filesizeformat
    filesizeformat(true);striptags;wordwrap(3);wordwrap(8,false);wordwrap(9,wrapstring='|');pprint;list|length;list|first;list|sort|string;select|first;map('string')|join;reverse is string
    select is sequence;map('string') is iterable;items is mapping;batch(2) is defined;unique|first;reverse|first"""
TESTS = """defined;undefined;none;boolean;integer;float;number;string;mapping;true;false;callable;iterable;sequence;eq(1);ne(1);eq;lt(3);lt('a');le(2.5);gt(missing);ge([1]);lt((2,));ge(l);even;odd
    divisibleby(3);divisibleby(0);divisibleby(1.5);in [1];in 'Hello';in missing;in d;in 3;in (1,2);in range(3);sameas(none);sameas(true);sameas(1);sameas;lower;upper;filter;test;zz;escaped;defined(1)
    string(1);eq(1,2);none()"""
MEMBERS = """strip();strip('H');strip(none);strip(1);lstrip();rstrip('o ');startswith('H');startswith(('H','x'));startswith(['H']);startswith(1);startswith('l',2);startswith('l',2,3);startswith()
    startswith(prefix='a');endswith('o');endswith('',0,0);endswith('l',none,-2);removeprefix('H');removesuffix('o');removeprefix(1);split();split(',');split('');split(none);split(',',1)
    split(maxsplit=1);split(sep='l');split('l',-1);split('l',none);split('l',1,2);rsplit('l',1);rsplit();partition('l');partition('');partition(1);rpartition('l');find('l');find('l',3);find('l',-3)
    find('l',0,2);find('',99);find('',3,2);find('l',none,none);find(1);find('l','a');rfind('l');rfind('l',0,3);rfind('');rfind('',1,2);index('l');index('zz');index('l',3);index(2,1);index(2,-1)
    index(1,5);rindex('l');isdigit();isdecimal();isnumeric();isalpha();isalnum();isspace();isupper();islower();istitle();isidentifier();isascii();isprintable();isascii(1);swapcase();center(9)
    center(9,'*');center(9,'**');center(9,1);center(width=9);ljust(9);rjust(9,'0');ljust('a');expandtabs();expandtabs(2);expandtabs(0);expandtabs(-1);expandtabs(tabsize=3);upper();upper(1);lower()
    casefold();capitalize();title();join(['a','b']);join('xy');join([1]);join(missing);join(d);join();format();format(1);format(1,2,a=3);format(*l);replace('l','L');replace('','-');replace('l','L',1)
    replace('l','L',-1);replace('l','L',none);replace('l','L',count=1);replace('l');replace(1,2);count('l');count('');count('l',3);count('l',0,3);count('',2);count(2);count();splitlines()
    splitlines(true);splitlines(keepends=true);splitlines(1,2);zfill(9);zfill(-1);zfill('a');items();keys();values();items()|list;keys()|list;values()|list;items(1);items()[0];keys()|first;values()|last
    keys()|length;items()|tojson;get('b');get('zz');get('zz',1);get(1);get([]);get();get('b',default=1);pop('b');update({});append(1);extend([1]);insert(0,1);remove(1);sort();reverse();copy();copy(1)
    setdefault('a',1);bit_length();is_integer();_x;a;upper;0;role;content;next();current;pos;reset();grouper;list;start;stop;step;index;count;length;first;x.y"""
SUBSCRIPTS = """0;-1;99;'a';'b';'upper';nil;missing;1.0;yes;[];d;(1,);'0';:;:2;1:;-1:;::-1;::0;::2;5:1:-2;:missing;'a':;nil:nil;none:2;:yes;:1.5;0, 1;-9:9;9:-9:-1;1::2"""
# These say themselves where the value goes.
STATEMENTS = """{% for x in v %}{{ x }},{% else %}none{% endfor %};{% for a, b in v %}{{ a }}{{ b }},{% endfor %};{% set a, b = v %}{{ a }}{{ b }};{% if v %}1{% else %}0{% endif %};{{ -v }};{{ +v }};{{ not v }}
    {{ v }};{{ v }}{{ v }};{{ v | string }};{{ v ~ '' }};{{ v() }};{{ v(1) }};{{ range(v) | list }};{{ range(1, v) | list }};{{ range(0, 4, v) | list }};{{ range(v) }};{{ range(1, v) }};{{ dict(v) }}
    {{ dict(v, a=1) }};{{ dict(a=v) }};{{ dict(**v) }};{{ dict([v]) }};{{ [v] }};{{ (v,) }};{{ {'a': v} }};{{ {v: 1} }};{{ {v: 1}[v] }};{{ {(v, 1): 1} }};{{ cycler(v).next() }}
    {{ cycler(*v).next() }};{% set j = joiner(v) %}{{ j() }}{{ j() }};{{ namespace(a=v).a }};{{ namespace(a=v) }};{{ namespace(v).a }};{{ namespace(v) }}
    {% set o = namespace(v, b=1) %}{% set o.a = v %}{{ o.a }}{{ o.b }};{% macro q(a, b=2) %}{{ a }}|{{ b }}{% endmacro %}{{ q(v) }}{{ q(*v) }}
    {% macro q(a, b=2) %}{{ a }}|{{ b }}{% endmacro %}{{ q(**v) }};{% macro q(a=v) %}{{ a }}{% endmacro %}{{ q() }};{% macro q() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ q(v, b=v) }}
    {% for x in [1] if v %}{{ x }}{% else %}no{% endfor %};{% filter upper %}{{ v }}{% endfilter %};{% set x %}{{ v }}{% endset %}{{ x | length }};{% with a = v %}{{ a is defined }}{% endwith %}
    {{ 'a' if v }};{{ v if v else 'b' }};{{ v or 'b' }};{{ v and 'b' }};{{ raise_exception(v) }};{{ strftime_now(v) }};{% for x in v %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% endfor %}
    {% for x in v if x %}{{ loop.revindex }}{{ x }}{% endfor %};{% for x in v recursive %}{{ x }}{% endfor %};{% for x in l %}{{ loop.cycle(v) }}{% endfor %}
    {% for x in [1, 1] %}{{ loop.changed(v) }}{% endfor %};{% for x in v %}{{ loop }}{% endfor %};{{ v | list }}{{ v | list }};{{ v | first }}{{ v | list }};{{ 1 in v }}{{ v | list }}
    {{ v == v }};{{ v != v }};{{ v is sameas v }};{{ v in [v] }};{{ v in (v, 1) }};{{ [v] == [v] }};{{ 1 < v < 5 }};{{ v | tojson }};{{ [v] | tojson }};{{ {'a': v} | tojson }};{{ {v: 1} | tojson }}
    {{ v.x.y }};{{ v['x']['y'] }};{{ v | default(1) }};{{ (v | default({})).a }};{{ [v, 1] | sort }};{{ [v, 'a'] | sort }};{{ [v, v] | sort }};{{ [v, v] | unique | list }};{{ [1, v] | max }};{{ [v] | sum }}
    {{ [v, v] | sum(start=v) }};{{ [v, 2] | join('-') }};{{ [[v, 1], [v, 2]] | groupby(0) }};{{ [{'a': v}] | map(attribute='a') | list }};{{ [{'a': v}] | map(attribute='a.0') | list }}
    {{ [{'a': v}] | selectattr('a') | list }};{{ [{'a': v}] | groupby('a', default=5) }};{{ [{'a': v}, {'a': 1}] | sort(attribute='a') }};{{ {'a': v} | dictsort(by='value') }};{{ {'a': v} | urlencode }}
    {{ {'a': v, 'b': 1} | dictsort(by='value') }};{{ [v] | pprint }};{{ {'k': v} | pprint }}"""
ARGUMENTS = """{{ s | replace(v, 'x') }};{{ s | replace('l', v) }};{{ s | replace('l', 'x', v) }};{{ s | trim(v) }};{{ s | indent(v) }};{{ t | indent(2, v) }};{{ t | indent(2, true, v) }};{{ nil | default(v, true) }}
    {{ e | default('x', v) }};{{ s | truncate(v) }};{{ s | truncate(9, v) }};{{ s | truncate(9, true, v) }};{{ s | truncate(9, true, '', v) }};{{ s | center(v) }};{{ 'x' | int(v) }};{{ '12' | int(0, v) }}
    {{ 'x' | float(v) }};{{ f | round(v) }};{{ 2.567 | round(v) }};{{ n | round(v) }};{{ f | round(1, v) }};{{ d | tojson(indent=v) }};{{ d | tojson(v) }};{{ d | tojson(separators=v) }};{{ d | tojson(sort_keys=v) }}
    {{ '%s' | format(v) }};{{ '%s %s' | format(v, 1) }};{{ d | attr(v) }};{{ l | select(v) | list }};{{ l | select('eq', v) | list }};{{ l | select('in', v) | list }};{{ ms | selectattr(v) | list }}
    {{ ms | selectattr('role', v) | list }};{{ ms | selectattr('role', 'eq', v) | list }};{{ ms | selectattr('role', 'in', v) | list }};{{ l | map(v) | list }};{{ ms | map(attribute=v) | list }}
    {{ ms | map(attribute='n', default=v) | list }};{{ l | map('default', v) | list }};{{ l | join(v) }};{{ ms | join(',', v) }};{{ d | dictsort(v) }};{{ d | dictsort(by=v) }};{{ d | dictsort(reverse=v) }}
    {{ l | sort(v) }};{{ w | sort(false, v) }};{{ ms | sort(attribute=v) }};{{ w | unique(v) | list }};{{ ms | unique(attribute=v) | list }};{{ w | min(v) }};{{ ms | max(attribute=v) }};{{ ms | sum(v) }}
    {{ l | sum(start=v) }};{{ l | batch(v) | list }};{{ l | batch(3, v) | list }};{{ l | slice(v) | list }};{{ l | slice(3, v) | list }};{{ ms | groupby(v) | list }};{{ ms | groupby('n', v) | list }}
    {{ 7 is divisibleby(v) }};{{ 7 is eq(v) }};{{ 7 is lt(v) }};{{ 'a' is in v }};{{ 1 is in v }};{{ none is sameas(v) }};{{ s.strip(v) }};{{ s.startswith(v) }};{{ s.startswith('l', v) }};{{ s.endswith(v) }}
    {{ s.removeprefix(v) }};{{ s.split(v) }};{{ s.split('l', v) }};{{ s.rsplit(v) }};{{ s.partition(v) }};{{ s.find(v) }};{{ s.find('l', v) }};{{ s.find('l', 0, v) }};{{ s.rfind('l', v) }};{{ s.center(v) }}
    {{ s.ljust(30, v) }};{{ t.expandtabs(v) }};{{ s.join(v) }};{{ s.replace(v, 'x') }};{{ s.replace('l', v) }};{{ s.replace('l', 'x', v) }};{{ s.count(v) }};{{ s.count('l', v) }};{{ t.splitlines(v) }}
    {{ s.zfill(v) }};{{ d.get(v) }};{{ d.get('zz', v) }};{{ l.count(v) }};{{ l.index(v) }};{{ l.index(2, v) }};{{ s[v] }};{{ l[v] }};{{ d[v] }};{{ s[v:] }};{{ s[:v] }};{{ s[::v] }};{{ l[v:] }};{{ l[:v] }};{{ l[::v] }}
    {{ range(9)[v] }};{{ range(9)[v:] }};{{ range(9)[::v] }};{{ s | wordwrap(v) }};{{ 2000 | filesizeformat(v) }}"""
PERCENT = ["%s|%r|%a", "%s", "%r", "%a", "%d", "%i", "%u", "%5.1f", "%f", "%e", "%.3g", "%G", "%c", "%x", "%#X", "%o", "%#o", "%5s|", "%-5s|", "%.2s", "%+d", "% d", "%05d", "%-5d|", "%.3d", "%08.2f", "%+.0e",
           "%%", "%", "%z", "%(a)s", "%(b)s", "%(b)5s|%(A)r", "%*d", "%.*f", "%ld", "a", ""]
FORMATS = ["{}", "{0}", "{1}", "{a}", "{:5}|", "{:<5}|", "{:>5}|", "{:^5}|", "{:*^7}|", "{:=+6}|", "{:05}|", "{:+}", "{: }", "{:,}", "{:_}", "{:d}", "{:5d}|", "{:x}", "{:#x}", "{:#b}", "{:o}", "{:c}", "{:e}", "{:.2e}",
           "{:f}", "{:.1f}", "{:8.3f}|", "{:g}", "{:.3g}", "{:n}", "{:%}", "{:.0%}", "{:s}", "{:.2}", "{:5.2}|", "{:10s}|", "{:.2s}", "{!r}", "{!s}", "{!a}", "{!r:>9}|", "{!z}", "{0[0]}", "{0[a]}", "{0[b]}", "{0.a}",
           "{0.upper}", "{0[0][1]}", "{:{}}|", "{:z}", "{{}}", "{{{}}}", "{", "}", "{}{}", "{0}{}", "{]}", "{:,.2f}", "{:,d}", "{:_x}", "{:é^5}", "{:010,}", "{:+.3}", "{:#.3g}", "{:-}", "{:<05}|", "{0[}"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
OPERANDS = ["s", "e", "'ab'", "n", "m", "f", "yes", "no", "nil", "missing", "l", "[]", "d", "{}", "(1, 2)", "()", "0", "2", "-1", "0.0", "'%s'", "'%d %s'", "'%(b)s'", "'%%'", "range(3)", "range(0)", "'12'",
            "(l | map('string'))", *sorted(HUGE), "ms[0]", "d.values()", "namespace(a=1)", "range"]
# What no chat template has any use for. It must fail here with an error that names it.
LEFT_OUT = {
    "{{ s | %s }}": ["random", "urlize", "xmlattr"], "{{ s.%s() }}": ["encode", "translate", "maketrans", "format_map"], "{{ f.%s() }}": ["hex", "conjugate", "as_integer_ratio"],
    "{{ n.%s }}": ["real", "imag", "numerator", "denominator", "to_bytes"], "{{ l.%s() }}": ["pop", "clear"], "{{ d.keys().%s }}": ["isdisjoint", "mapping"], "{{ missing.%s }}": ["__class__"], "{{ %s() }}": ["lipsum"]}


def several(text):
    return [part.strip() for line in text.split("\n") for part in line.split(";")]


def cases():
    forms = ["{{ v | " + text + " }}" for text in several(FILTERS)] + ["{{ v is " + text + " }}" for text in several(TESTS)] + ["{{ v." + text + " }}" for text in several(MEMBERS)]
    forms += ["{{ v[" + text + "] }}" for text in several(SUBSCRIPTS)] + several(STATEMENTS)
    forms += [f"{{{{ {text!r} % v }}}}" for text in PERCENT] + [f"{{{{ {text!r}.format(v) }}}}" for text in FORMATS]
    # A name, not the value itself: Jinja2 computes constant expressions when it compiles, with rules of its own.
    for value in VALUES:
        for form in forms + several(ARGUMENTS) * (value not in HUGE):
            yield f"{{% set v = {value} %}}{form}"
    for left in OPERANDS:
        for operator in OPERATORS:
            for right in OPERANDS:
                if operator != "**" or not {*HUGE, "f"} & {left, right}:  # a power may be a complex number
                    yield f"{{% set a, b = {left}, {right} %}}{{{{ a {operator} b }}}}"


if __name__ == "__main__":
    for template in cases():
        print(json.dumps([template, VARIABLES]))
