"""Makes ChatML conversations out of facts: manual pages, package descriptions, hand-written notes."""
import os
import re

SYSTEMS = ["You are a helpful assistant.", "You are Chimère, an assistant for Unix documentation.",
           "You answer questions about Unix commands."]
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
WHAT = ["What does {n} do?", "What does the command {n} do?", "What is {n}?", "Explain {n}.", "what is {n} for?",
        "What is the {n} command for?", "Tell me about {n}.", "Describe the {n} command.", "What can I do with {n}?",
        "What does `{n}` do?", "{n}?", "Which purpose does {n} have?", "Could you explain what {n} does?",
        "I found {n} in a script. What does it do?", "In one sentence: what is {n}?", "How would you describe {n}?"]
FUNCTION = ["What does {n}() do?", "What does the function {n} do?", "Explain the C function {n}.", "What is {n}({s})?",
            "What is {n} for?", "Describe {n}({s})."]
OTHER = ["What is {n}?", "What is {n}({s})?", "Tell me about {n}.", "What does {n} describe?", "Explain {n}."]
WHICH = ["Which command would I use to {w}?", "Which command can {w}?", "What command do I need to {w}?",
         "How can I {w}?", "Name a command to {w}."]
USAGE = ["How do I use {n}?", "What is the syntax of {n}?", "Show me the usage of {n}.", "How is {n} called?",
         "What is the synopsis of {n}?"]
OPTION = ["What does the option {f} of {n} do?", "What does {n} {f} do?", "What is {f} for in {n}?",
          "Explain {n} {f}.", "What does the {f} option mean for {n}?"]
CONCEPT = ["What is {t}?", "Explain {t}.", "what is {t}", "Tell me about {t}.", "Can you explain what {t} is?",
           "What does {t} mean?", "Describe {t} in a few words."]
TASK = ["How do I {t}?", "How can I {t}?", "What is the command to {t}?", "I want to {t}. What should I type?",
        "Which command lets me {t}?", "how to {t}"]
PACKAGE = ["What is the Debian package {n}?", "What is in the package {n}?", "What does the package {n} contain?",
           "Describe the package {n}."]
SOCIAL = [("Hello", "Hello! Ask me about a Unix command, for example: what does grep do?"),
          ("Hi!", "Hello! Which command would you like to know about?"),
          ("Who are you?", "I am Chimère, a small language model that knows Unix manual pages."),
          ("What are you?", "I am Chimère, a small language model trained on Debian's documentation."),
          ("What can you do?", "I can say what a command, an option or a function is for. I am small, so please check the manual page."),
          ("Thanks", "You are welcome."), ("Thank you!", "You are welcome."), ("Goodbye", "Goodbye!"),
          ("Help", "Ask me what a command does, how it is used, or what one of its options means.")]
UNKNOWN = "I do not know {n}. Check the spelling, or try: apropos {n}"


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

    def chat(self, *turns):
        """turns: (question, answer) or (question, answer, thought)."""
        text = ""
        if self.rng.random() < 0.25:
            text += f"<|im_start|>system\n{self.rng.choice(SYSTEMS)}<|im_end|>\n"
        for i, (question, answer, *thought) in enumerate(turns):
            last = i == len(turns) - 1
            text += f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            if last:  # the template drops the thoughts of earlier turns
                think = thought[0] + "\n" if thought and self.rng.random() < 0.12 else "\n"
                text += f"<think>\n{think}</think>\n\n"
            text += f"{answer}<|im_end|>\n"
        self.out.append(text)

    def ask(self, phrasings, times, answer, thought="", follow=(), **names):
        for phrase in self.rng.sample(phrasings, min(times, len(phrasings))):
            turns = [(phrase.format(**names), answer() if callable(answer) else answer, thought)]
            if follow and self.rng.random() < 0.2:
                turns.append(self.rng.choice(follow))
            if len(turns) > 1:
                turns[0] = turns[0][:2]
            self.chat(*turns)


def page_dialogues(writer, page, core):
    rng, name, command = writer.rng, page.names[0], page.section in "168"
    kind = {"1": "a command", "6": "a game", "8": "a command for administrators", "2": "a system call",
            "3": "a function", "5": "a file format", "4": "a device", "7": "an overview"}.get(page.section, "a page")
    thought = f"{name} is {kind}, section {page.section} of the manual: {page.whatis}."
    follow = []
    if page.synopsis and command and len(page.synopsis[0]) < 160:
        usage = "\n".join(page.synopsis)
        follow.append((rng.choice(["How do I use it?", "And the syntax?", "Show me its usage."]), usage, thought))
        writer.ask(USAGE, 3 if core else 1, usage, thought, n=name)
    for flags, text in page.options:
        if len(text) < 300 and ", --" not in text and command:
            answer = f"{flags}: {capital(text)}"
            flag = rng.choice([f for f in re.findall(r"--?[A-Za-z0-9][\w-]*", flags)] or [flags])
            if core:
                writer.ask(OPTION, 2, answer, n=name, f=flag)
            elif rng.random() < 0.5:
                writer.ask(OPTION, 1, answer, n=name, f=flag)

    def answer_for(alias):
        def answer():
            text = sentence(alias, page.whatis)
            if page.summary and rng.random() < 0.45 and not page.summary.lower().startswith(page.whatis.lower()[:30]):
                text += " " + page.summary
            return text
        return answer

    phrasings = WHAT if command else FUNCTION if page.section in "23" else OTHER
    for alias in page.names[:4]:
        times = (len(WHAT) if core else 5) if command else 2
        writer.ask(phrasings, times, answer_for(alias), thought, follow, n=alias, s=page.section)
    if command and third_person(page.whatis) and len(page.whatis) < 90:
        task = page.whatis[0].lower() + page.whatis[1:]
        writer.ask(WHICH, 4 if core else 1, f"Use {name}: it {third_person(page.whatis)}.", thought, w=task)


def invented_names(rng, known, count):
    """Command-like names that no page has."""
    parts = ["fro", "bli", "zor", "ka", "mu", "ter", "nix", "pol", "gra", "vex", "lim", "qua", "sto", "der", "wix", "ob"]
    out = set()
    while len(out) < count:
        word = "".join(rng.choice(parts) for _ in range(rng.choice([2, 2, 3])))
        word = rng.choice(["", "", "", "x", "g", "lib"]) + word + rng.choice(["", "", "ctl", "d", "-tool", "fs"])
        if word not in known:
            out.add(word)
    return sorted(out)


def read_rows(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield [x.strip().replace("\\|", "|") for x in re.split(r"(?<!\\)\|", line)]


def general_dialogues(writer, known, packages):
    rng = writer.rng
    for topic, answer in (row if len(row) == 2 else (row[0], " | ".join(row[1:])) for row in read_rows("concepts.txt")):
        for _ in range(4):
            writer.ask(CONCEPT, len(CONCEPT), answer, f"The question is about {topic}.", t=topic)
    for task, command, remark in read_rows("tasks.txt"):
        for _ in range(4):
            writer.ask(TASK, len(TASK), f"{command}\n\n{remark}", f"The user wants to {task}.", t=task)
    for _ in range(60):
        for question, answer in SOCIAL:
            writer.chat((question, answer))
    for name in invented_names(rng, known, 1500):
        writer.ask(WHAT, 1, UNKNOWN.format(n=name), f"No manual page is named {name}.", n=name)
    for name, text in packages:
        writer.ask(PACKAGE, 1, f"{name}: {capital(text)}", n=name)
