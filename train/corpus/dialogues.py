"""Makes ChatML conversations out of facts: manual pages, package descriptions, glossaries, hand-written notes."""
import os
import re

import names
import tools
from phrasings import *  # noqa: F403  the lists of questions

VERBS = set("""add allow analyze append apply archive attach boot browse build calculate call change check clean clear
clone close combine compare compile compress compute concatenate configure connect control convert copy count create
debug decode decompress decrypt define delete describe detect determine disable display download dump edit emit enable
encode encrypt estimate evaluate examine execute expand export extract fetch filter find fix flush fold follow format
generate get give import initialize inspect install interpret join kill limit link list load locate lock look maintain
make manage manipulate map match measure merge modify monitor mount move open output pack parse partition paste perform
poll print process produce provide put query read rebuild receive record recover reformat register release remove rename
repair replace report reset resize resolve restore resume retrieve return run save scan search select send set show
shuffle shut sign sort split start stop store strip summarize suspend switch synchronize tell test trace transfer
translate truncate turn unlink unlock unmount unpack update upload verify view wait warn wrap write""".split())


def conjugate(verb):
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|x|ch|sh)$", verb) else "s")


def third_person(whatis):
    """'print or copy lines' becomes 'prints or copies lines' where the first word is a known verb; else None."""
    words = whatis.split(" ")
    if words[0].lower() not in VERBS or len(words) < 2 or words[1] in ("to", "for", "of", "utility", "program"):
        return None
    words[0] = conjugate(words[0].lower())
    for i in range(1, len(words)):
        if re.search(r"(,|^or|^and|^and/or)$", words[i - 1]) and words[i].rstrip(",") in VERBS:
            words[i] = conjugate(words[i].rstrip(",")) + ("," if words[i].endswith(",") else "")
    return " ".join(words)


def sentence(name, whatis):
    verb = third_person(whatis)
    if verb:
        return f"{name} {verb}."
    return f"{name}: {whatis[0].lower() + whatis[1:] if whatis[1:2].islower() else whatis}."


def capital(text):
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", ":", ")")) else ".")


class Writer:
    """Formats turns exactly as the chat template does; `rng` decides system prompts and thoughts."""

    def __init__(self, rng):
        self.rng, self.out = rng, []
        self.claimed = set()  # (name, kind of question) whose purpose was told: another page of the name needs its section
        self.commands = []  # (name, purpose, thought) of commands, those of core packages several times
        self.options = []  # (flag, text)

    def chat(self, *turns, system=None):
        """turns: (question, answer) or (question, answer, thought); a question may be a tool's result."""
        text = ""
        if system is None and self.rng.random() < 0.2:
            system = self.rng.choice(SYSTEMS)
        if system:
            text += f"<|im_start|>system\n{system}<|im_end|>\n"
        for i, (question, answer, *thought) in enumerate(turns):
            text += f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            if i == len(turns) - 1:  # the template drops the thoughts of earlier turns
                think = thought[0] + "\n" if thought and thought[0] and self.rng.random() < 0.2 else "\n"
                text += f"<think>\n{think}</think>\n\n"
            text += f"{answer}<|im_end|>\n"
        self.out.append(text)

    def ask(self, phrasings, times, answer, thought="", follow=(), **names):
        """`times` conversations; phrasings repeat only once all were used. `follow`: turns that may come next."""
        rounds = [self.rng.sample(phrasings, len(phrasings)) for _ in range(-(-times // len(phrasings)))]
        for phrase in sum(rounds, [])[:times]:
            turns = [(reword(self.rng, phrase.format(**names)), answer, thought)]
            while follow and len(turns) < 4 and self.rng.random() < 0.3:
                turns.append(self.rng.choice(follow))
            self.chat(*turns)


KINDS = {"1": "a command", "6": "a game", "8": "a command for administrators", "2": "a system call", "3": "a function",
         "5": "a file format", "4": "a device", "7": "an overview"}


def answers_about(page):
    """Answers about a page besides its purpose: {kind: answer}."""
    name, found = page.names[0], {}
    if page.synopsis and page.section in "168" and len(page.synopsis[0]) < 160:
        found["usage"] = "\n".join(page.synopsis)
    if page.examples:
        command, about = page.examples[0]
        found["example"] = f"{command}\n\n{about}"
    if len(page.see_also) > 1:
        found["similar"] = "See " + ", ".join(page.see_also[:4]) + "."
    if page.summary and not page.summary.lower().startswith(page.whatis.lower()[:30]):
        found["more"] = page.summary
    if page.section in "168":
        found["provides"] = f"{name} is in the package {page.package}. Install it with: apt install {page.package}"
    return found


def page_dialogues(writer, page, core):
    rng, name, command = writer.rng, page.names[0], page.section in "168"
    thought = f"{name} is {KINDS.get(page.section, 'a page')}, section {page.section} of the manual: {page.whatis}."
    about = answers_about(page)
    follow = [(question, answer) for kind, answer in about.items() for question in AGAIN[kind]]
    questions = {"usage": USAGE, "example": EXAMPLE, "similar": SIMILAR, "more": MORE, "provides": PROVIDES}
    for kind, answer in about.items():
        if kind == "more":
            answer = sentence(name, page.whatis) + " " + answer
        writer.ask(questions[kind], 4 if core else 1, answer, thought, n=name)
    for command_line, text in page.examples[1:]:
        writer.ask(EXAMPLE, 1, f"{command_line}\n\n{text}", thought, n=name)
    for flags, text in page.options:
        if len(text) < 300 and ", --" not in text and command and (core or rng.random() < 0.2):
            flag = rng.choice(re.findall(r"--?[A-Za-z0-9][\w-]*", flags) or [flags])
            writer.options.append((flag, text.rstrip(".")))
            writer.ask(OPTION, 2 if core else 1, f"{flags}: {capital(text)}", f"{flag} is an option of {name}.", n=name, f=flag)
            if core and len(text) < 90:
                writer.ask(FIND_OPTION, 1, f"{flags}: {capital(text)}", n=name, w=text.rstrip("."))
    for i, alias in enumerate(page.names[:4]):
        kind = "command" if command else "module" if "::" in alias else "function" if page.section in "23" else "other"
        if (alias, kind) in writer.claimed:
            if kind != "other":
                continue  # the same name in the same kind of section, from another package
        elif kind == "other" and (alias, "command") not in writer.claimed and rng.random() < 0.5:
            kind = "command"  # a file or a device that no command shares its name with can be asked for by name alone
        writer.claimed.add((alias, kind))
        if kind == "command" and command:
            writer.commands += [(alias, sentence(alias, page.whatis), thought)] * (12 if core else 1)
        times = ((48 if core else 8) if command else 4 if core else 2) // (1 if i == 0 else 2)
        plain = kind in ("command", "module") or (alias, "command") not in writer.claimed
        writer.ask(purpose_questions(rng, times, kind, plain), times, sentence(alias, page.whatis), thought, follow, n=alias, s=page.section)
    if command and third_person(page.whatis) and len(page.whatis) < 90:
        task = page.whatis[0].lower() + page.whatis[1:]
        writer.ask(WHICH, 5 if core else 2, f"Use {name}: it {third_person(page.whatis)}.", thought, w=task)
    if command and rng.random() < (1 if core else 0.15):
        writer.ask(SECTION, 1, f"{name}({page.section}): section {page.section} has {KINDS[page.section][2:]}s.", n=name)
        tools.page_calls(writer, page, sentence(name, page.whatis))


def read_rows(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield [x.strip().replace("\\|", "|") for x in re.split(r"(?<!\\)\|", line)]


def glossary_dialogues(writer, text, share):
    """Questions about the words of a WordNet file (render.wordnet) or a dictionary of computing."""
    for entry in text.split("\n\n"):
        m = re.match(r"^([a-z][a-z -]{3,24})[^\n]* \((noun|verb|adjective)\): ([^;\n]{20,160})", entry)
        if m and writer.rng.random() < share:
            writer.ask(WORD, 1, f"{m.group(1)} ({m.group(2)}): {capital(m.group(3))}", t=m.group(1))


# Conversations about invented names: about as many as there are about known ones in the same forms.
KINDS_OF_INVENTED = {"command": 120_000, "function": 16_000, "module": 5_000, "other": 14_000}
FORMS_OF_INVENTED = [(USAGE, 9000), (OPTION, 9000), (FIND_OPTION, 2500), (EXAMPLE, 7000), (SIMILAR, 7000), (MORE, 9000), (PROVIDES, 9000), (SECTION, 1500),
                     (PACKAGE, 3000)]
CONVERSATIONS_OF_NAMES = 40_000


def inventor(writer, known):
    evaluated = {row["name"] for row in names.evaluated()}
    return names.Inventor(writer.rng, known | evaluated, {name for name, *_ in writer.commands} - evaluated)


def refuse(writer, known):
    """Questions about invented names, in all forms used for known ones."""
    rng, invent = writer.rng, inventor(writer, known)
    again = [question for questions in AGAIN.values() for question in questions]
    for kind, count in KINDS_OF_INVENTED.items():
        for _ in range(count):
            name = invent()
            if kind == "module":
                name = "::".join(part.capitalize() for part in re.findall(r"[A-Za-z][a-z0-9]*", name))
            answer = UNKNOWN.format(n=name)
            follow = [(rng.choice(again), answer)] if rng.random() < 0.3 else ()
            writer.ask(purpose_questions(rng, 1, kind, kind != "other" or rng.random() < 0.4), 1, answer, f"No manual page is named {name}.",
                       follow, n=name, s=rng.randint(1, 8))
    for phrasings, count in FORMS_OF_INVENTED:
        for _ in range(count):
            name, (flag, text) = invent(), rng.choice(writer.options)
            writer.ask(phrasings, 1, UNKNOWN.format(n=name), f"No manual page is named {name}.", n=name, f=flag, w=text)
    for _ in range(1500):
        tools.failed_call(writer, invent())
        name = invent()
        writer.chat((f"What does {name} do?", UNKNOWN.format(n=name)), system=tools.system_with(writer, rng.choice(tools.OTHERS)))


def conversations_of_names(writer, known):
    """Several names one after the other, known and invented ones in any order."""
    rng, invent = writer.rng, inventor(writer, known)
    for _ in range(CONVERSATIONS_OF_NAMES):
        turns, last = [], None
        for i in range(rng.choice([2, 2, 3, 4])):
            if rng.random() < 0.5:
                name, answer, thought = rng.choice(writer.commands)
                last = name
            else:
                name = invent.slip(last) if last and rng.random() < 0.3 else invent()
                answer, thought = UNKNOWN.format(n=name), f"No manual page is named {name}."
            forms = NEXT if i > 0 and rng.random() < 0.6 else purpose_questions(rng, 1, "command")
            turns.append((rng.choice(forms).format(n=name), answer, thought))
        writer.chat(*turns)


def general_dialogues(writer, known, packages):
    rng = writer.rng
    for topic, answer in (row if len(row) == 2 else (row[0], " | ".join(row[1:])) for row in read_rows("concepts.txt")):
        writer.ask(CONCEPT, 6 * len(CONCEPT), answer, f"The question is about {topic}.", t=topic)
    for task, command, remark in read_rows("tasks.txt"):
        writer.ask(TASK, 6 * len(TASK), f"{command}\n\n{remark}", f"The user wants to {task}.", t=task)
    for _ in range(60):
        for question, answer in SOCIAL:
            writer.chat((question, answer))
    topics = [name for name, _ in packages]
    for _ in range(600):
        writer.ask(OFF_TOPIC, 1, OFF_TOPIC_ANSWER, "This is not about documentation.", t=rng.choice(topics))
    refuse(writer, known)
    conversations_of_names(writer, known)
    for name, text in packages:
        writer.ask(PACKAGE, 1, f"{name}: {capital(text)}", n=name)
