"""The phrasings of questions in conversations. Evaluation uses others, see EVALUATION_WORDS.

A model that sees a few dozen fixed questions takes the first unknown word of any other for the name. Questions about the
purpose of a name are therefore put together from parts, most of them in ways that occur a few times each: those below and
those of questions.txt. Invented names are asked about in the same ways, as often: the form of a question must not say whether
its name exists.
"""
import collections
import os
import re

SYSTEMS = ["You are a helpful assistant.", "You are Chimère, an assistant for Unix documentation.",
           "You answer questions about Unix commands."]
# Asked for one sentence: the answer is the purpose alone.
WHAT = ["What does {n} do?", "What does the command {n} do?", "What is {n}?", "Explain {n}.", "What is {n} for?",
        "What is the {n} command for?", "Tell me what {n} does.", "Describe the {n} command.", "What can I do with {n}?",
        "What does `{n}` do?", "{n}?", "Which purpose does {n} have?", "Could you explain what {n} does?",
        "I found {n} in a script. What does it do?", "In one sentence: what is {n}?", "How would you describe {n}?",
        "What is {n} used for?", "I want to know what {n} is.", "Do you know {n}?", "What happens when I run {n}?",
        "Why would I use {n}?", "When do I need {n}?", "Give me a short description of {n}.", "Summarise {n}.",
        "{n}: what is that?", "Explain the purpose of {n}.", "What's {n}?", "Define {n}.", "What kind of program is {n}?",
        "Introduce me to {n}.", "Remind me what {n} is for.", "What does the program {n} do?"]
# {x}: the name, plain or with the kind of thing it is.
SUBJECTS = {"command": ["{n}", "{n}", "{n}", "{n}", "`{n}`", "the command {n}", "the {n} command", "the program {n}", "the tool {n}",
                        "the utility {n}", "the Unix command {n}", "the command `{n}`", "\"{n}\"", "the {n} program", "{n} on Debian",
                        "{n} on the command line", "the shell command {n}"],
            "function": ["{n}()", "the function {n}", "the function {n}()", "{n}({s})", "the C function {n}", "`{n}()`", "the library function {n}",
                         "the call {n}"],
            "module": ["{n}", "{n}", "the Perl module {n}", "the module {n}", "`{n}`", "{n}(3pm)", "the Perl class {n}"],
            "other": ["{n}({s})", "the page {n}({s})", "the manual page {n}({s})", "{n} in section {s} of the manual"]}
DIRECT = ["What does {x} do?", "What is {x}?", "What is {x} for?", "What use is {x}?", "What problem does {x} solve?", "In a nutshell, {x}?",
          "What's the point of {x}?", "What's {x} good for?", "{x} - what does it do?", "Purpose of {x}?", "Meaning of {x}?", "{x}, what is it?",
          "What do people use {x} for?", "For what is {x} used?", "What does one do with {x}?", "What is the use of {x}?",
          "Help me understand {x}.", "The purpose of {x}, please.", "How is {x} described in the manual?", "What does {x} accomplish?",
          "What would I do with {x}?", "What service does {x} provide?", "Which task does {x} perform?", "What is the aim of {x}?",
          "Why does {x} exist?", "Why would somebody want {x}?", "When is {x} useful?", "When would one reach for {x}?", "How can {x} help me?",
          "What can {x} do?", "What does {x} stand for and do?", "Is {x} useful for anything?", "I need to understand {x}.",
          "I would like to know what {x} does.", "I wonder what {x} is.", "I forgot what {x} does.", "I never understood {x}.",
          "Can {x} be explained in one sentence?", "So what is {x} about?", "What exactly is {x}?", "Just what does {x} do?",
          "And what about {x}?", "Anything about {x}?", "Do you know what {x} does?", "Can you tell me what {x} is?",
          "Would you explain {x} to me?", "May I ask what {x} is?", "whatis {n}", "man {n}", "{n}", "{n} purpose", "{n} meaning", "explain {n}",
          "what does {n} do", "what is {n}", "{n} does what?", "{n} is what?", "{n} = ?"]
VERBS_OF_ASKING = ["Describe", "Explain", "Outline", "Sketch", "Characterise", "Clarify", "Define", "State", "Give", "Give me", "Provide", "Recall", "Report",
                   "Tell me", "Show me", "Name", "Write down", "Put into words", "Formulate", "Paraphrase", "Teach me", "Specify", "Identify", "Mention",
                   "Present", "Spell out", "Illustrate", "Note", "Let me know", "I want to know", "I need", "Can you describe", "Could you state",
                   "Would you outline", "Do you remember", "In one line, describe", "Briefly explain", "Shortly state", "In plain words, explain",
                   "In a few words, describe", "Express in a sentence", "Quickly recall", "Please outline", "Please define", "Kindly explain"]
OBJECTS_OF_ASKING = ["what {x} does", "the purpose of {x}", "the function of {x}", "the task of {x}", "the use of {x}", "the meaning of {x}", "the aim of {x}",
                     "the point of {x}", "the idea behind {x}", "the duty of {x}", "the gist of {x}", "what {x} is", "what {x} is good for", "why {x} exists",
                     "the effect of {x}", "the benefit of {x}", "{x}", "what one does with {x}", "the intention of {x}", "what {x} is used for",
                     "the first line of the manual page of {x}", "the usual purpose of {x}", "the work that {x} does"]
OPENERS = ["I found {x} in a file.", "There is a line with {x} here.", "Somebody mentioned {x}.", "I read about {x}.", "The tutorial uses {x}.",
           "I saw {x} in a log.", "My teacher talks about {x}.", "A friend runs {x} every day.", "The documentation names {x}.",
           "I have never used {x}.", "{x} is installed here.", "In the shell history I see {x}.", "I must use {x} tomorrow.", "A cron entry starts {x}.",
           "The output says {x}.", "Our server has {x}.", "A makefile runs {x}.", "Someone told me about {x}.", "Yesterday I saw {x}.",
           "The book has a chapter on {x}.", "On this machine there is {x}.", "The administrator wants me to try {x}.", "I am looking at {x}.",
           "My boss asked about {x}.", "The answer on the forum was {x}.", "Now we come to {x}.", "The next word on my list is {x}.",
           "This program starts {x}.", "They say I should learn {x}.", "I typed {x} by accident.", "The exercise is about {x}.", "Let us talk about {x}.",
           "I have a question about {x}.", "About {x}:", "Regarding {x}:", "{x}:", "Consider {x}.", "Take {x}.", "Suppose I run {x}.", "Imagine I type {x}.",
           "The installer brought {x} along.", "There is something named {x}.", "My notes contain {x}.", "The guide recommends {x}.",
           "A student asked me about {x}.", "Our build depends on {x}.", "I stumbled over {x};", "We rely on {x};", "The process list shows {x};"]
THEN_ASK = ["What does it do?", "What is it for?", "What is it?", "What is its purpose?", "Why is it there?", "What is it good for?", "Can you explain it?",
            "Explain it.", "What would it do?", "What's that?", "What happens if I run it?", "Tell me what it does.", "Which purpose does it have?",
            "Describe it in one line.", "What can it do?", "What does that do?", "what is that for?", "what for?", "why?", "What should I know?",
            "What do I get from it?", "How would you describe it?", "Is it of use, and for what?", "What does it accomplish?", "Its purpose?",
            "In one sentence, please.", "Give me the short version.", "What is that thing?", "What should I expect of it?", "what does it mean?"]
BEFORE = ["I am new to Unix.", "I am reading a script.", "Short answer, please.", "Just one sentence.", "I am learning the shell.", "You know manuals.",
          "I cannot find the manual.", "No details, please.", "Next question.", "One more thing.", "Let me ask you something.", "I have a test tomorrow."]


# Words of the evaluation's phrasings: no conversation may have them in a question about a name.
EVALUATION_WORDS = re.compile(r"\b(say what|came across|its job|sum up|role|colleague|do for me|my script calls|to what end|"
                              r"one line for him|supposed to be doing|pls|which ability|takes care of|can u|written to do|new staff|doing what|fill in|"
                              r"intern|read out|man page lookup|chore|enlighten|friend or foe|people install|were gone|eli5|points at|uninstall|crossword|"
                              r"audit|sanity check|into plain words|earn its keep|dotfiles|pretend|so many tools|no more than that|motto)\b", re.I)


def read_questions():
    """The lists of questions.txt by their kind."""
    lists = collections.defaultdict(list)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "questions.txt"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                kind, question = line.split("|", 1)
                lists[kind.strip()].append(question.strip())
    return lists


QUESTIONS = read_questions()
WELL_KNOWN = "ls cat grep sed awk find sort cp mv rm tar ssh curl make git ps top df du chmod less head tail mount ping vim".split()
FOUND = {kind: QUESTIONS["found"] + (OPENERS if kind == "command" else []) for kind in SUBJECTS}
WHOLE = {kind: QUESTIONS["any"] + (QUESTIONS["command"] if kind == "command" else []) for kind in SUBJECTS}
THEN = THEN_ASK + QUESTIONS["then"]


def one_question(rng, kind):
    """A way to ask, with {x}, {n}, {s} and {o} still in it."""
    fixed = {"command": WHAT, "function": FUNCTION, "module": WHAT[:5], "other": OTHER}[kind]
    which = rng.random()
    if which < 0.1:
        return rng.choice(fixed)
    if which < 0.25:
        return rng.choice(VERBS_OF_ASKING) + " " + rng.choice(OBJECTS_OF_ASKING) + rng.choice([".", ".", ".", "", "?"])
    if which < 0.35:
        return rng.choice(DIRECT)
    if which < 0.7:
        return rng.choice(WHOLE[kind])
    return rng.choice(FOUND[kind]) + " " + rng.choice(THEN)


def careless(rng, question):
    """A careless spelling: small letters, no punctuation, two letters of a word swapped."""
    kind = rng.random()
    if kind < 0.45:
        question = question.lower()
    if 0.3 < kind < 0.75:
        question = re.sub(r"[.?!,;]+( |$)", r"\1", question)
    if kind > 0.7:
        words = question.split(" ")
        at = rng.randrange(len(words))
        if re.match(r"^[A-Za-z]{4,}$", words[at]):
            i = rng.randrange(1, len(words[at]) - 2)
            words[at] = words[at][:i] + words[at][i + 1] + words[at][i] + words[at][i + 2:]
        question = " ".join(words)
    return question


def purpose_questions(rng, times, kind, plain=True):
    """Ways to ask what something is for, with {n} (and {s}) still to be filled in; `kind` is a key of SUBJECTS. Not `plain`:
    the section comes with the name."""
    out = []
    while len(out) < times:
        question = one_question(rng, kind)
        if rng.random() < 0.12:
            question = rng.choice(BEFORE + QUESTIONS["before"]) + " " + question
        if rng.random() < 0.1:
            question += " " + rng.choice(QUESTIONS["after"])
        if rng.random() < 0.15:
            question = careless(rng, question)
        question = question.replace("{x}", rng.choice(SUBJECTS[kind])).replace("{o}", rng.choice(WELL_KNOWN))
        if EVALUATION_WORDS.search(question):
            continue
        if not plain and not re.search(r"\{n\}\(|\{s\}|function", question):
            question = question.replace("{n}", "{n}({s})")
        out.append(question[0].upper() + question[1:] if question[0] not in "{$" and rng.random() < 0.8 else question)
    return out


MORE = ["Tell me more about {n}.", "Describe {n} in more detail.", "Explain {n} at length.", "Give me an overview of {n}.",
        "What should I know about {n}?", "Tell me about {n} in a few sentences."]
FUNCTION = ["What does {n}() do?", "What does the function {n} do?", "Explain the C function {n}.", "What is {n}({s})?",
            "What is {n} for?", "Describe {n}({s}).", "When would a program call {n}?", "What is the function {n} used for?"]
OTHER = ["What is {n}?", "What is {n}({s})?", "What does {n} describe?", "Explain {n}.", "What is the page {n}({s}) about?"]
WHICH = ["Which command would I use to {w}?", "Which command can {w}?", "What command do I need to {w}?",
         "How can I {w}?", "Name a command to {w}.", "I need a program to {w}.", "Is there a tool to {w}?"]
USAGE = ["How do I use {n}?", "What is the syntax of {n}?", "Show me the usage of {n}.", "How is {n} called?",
         "What is the synopsis of {n}?", "Which arguments does {n} take?", "How do I call {n}?", "How must I write {n}?", "Usage of {n}?",
         "{n} usage", "{n} syntax", "How does one use {n}?", "Show me how {n} is used.", "What is the command line of {n}?",
         "What do I have to type to use {n}?", "I want to use {n}. How?", "Give me the synopsis of {n}.", "How is {n} invoked?"]
OPTION = ["What does the option {f} of {n} do?", "What does {n} {f} do?", "What is {f} for in {n}?",
          "Explain {n} {f}.", "What does the {f} option mean for {n}?", "What does {f} change in {n}?",
          "{n} {f}?", "What happens with {n} {f}?", "I saw {n} {f}. What is {f}?", "Why would I give {f} to {n}?", "{n}: what is {f}?",
          "Meaning of {f} in {n}?", "Tell me about {n}'s option {f}.", "When do I use {f} with {n}?"]
FIND_OPTION = ["Which option of {n} does this: {w}?", "How do I tell {n} to do this: {w}?", "I use {n}. Which option means: {w}?"]
EXAMPLE = ["Give me an example of {n}.", "Show an example that uses {n}.", "How would I call {n}, for example?",
           "An example for {n}, please.", "{n} example", "Example of {n}?", "Show me {n} in action.", "How does a typical call of {n} look?",
           "Can you show me an example of {n}?", "I learn best by examples: {n}?", "One example with {n}, please."]
SIMILAR = ["Which commands are related to {n}?", "What else should I look at besides {n}?", "Is there something similar to {n}?",
           "Which commands are like {n}?", "Alternatives to {n}?", "What else is there like {n}?", "See also for {n}?"]
SECTION = ["In which section of the manual is {n}?", "Where in the manual do I find {n}?"]
PROVIDES = ["Which Debian package contains {n}?", "Which package provides {n}?", "What must I install to get {n}?",
            "How do I install {n} on Debian?", "Where does {n} come from?", "apt install what, for {n}?", "{n}: which package?",
            "Which package is {n} in?", "{n} is not installed. How do I get it?", "How can I get {n}?", "I need {n} on my system. What do I install?"]
AGAIN = {"usage": ["How do I use it?", "And the syntax?", "Show me its usage.", "How is it called?"],
         "example": ["Give me an example.", "Can you show an example?", "An example, please."],
         "similar": ["Is there something similar?", "What is related to it?"],
         "more": ["Tell me more.", "Can you say more about it?", "More detail, please."],
         "provides": ["Which package is it in?", "How do I install it?"]}
# A further name in a conversation.
NEXT = ["And {n}?", "and {n}?", "and {n}", "{n}?", "{n}", "And what does {n} do?", "And what is {n}?", "And what about {n}?", "What about {n}?",
        "How about {n}?", "Then {n}?", "Now {n}.", "Next: {n}.", "Also {n}, please.", "The same for {n}.", "Same question for {n}.", "Same for {n}?",
        "And {n}, is it similar?", "Is {n} the same?", "Is {n} related to it? What does it do?", "Thanks. And {n}?", "OK, and {n}?", "Thank you. What is {n}?",
        "Good. Next {n}.", "I see. And what is {n} for?", "Then what is {n}?", "What then is {n}?", "Sorry, I meant {n}.", "I meant {n}.",
        "Actually I wanted to know about {n}.", "No, {n}!", "Do you know {n}, too?", "Do you also know {n}?", "There is {n} as well. What for?",
        "What is the difference to {n}? What does that do?", "One more: {n}.", "Last one: {n}."]
CONCEPT = ["What is {t}?", "Explain {t}.", "What does {t} mean?", "Tell me about {t}.", "Can you explain what {t} is?",
           "Describe {t} in a few words.", "Define {t}.", "What do people mean by {t}?"]
WORD = ["What does the word {t} mean?", "Define {t}.", "What is the meaning of {t}?", "What does {t} mean?"]
TASK = ["How do I {t}?", "How can I {t}?", "What is the command to {t}?", "I want to {t}. What should I type?",
        "Which command lets me {t}?", "How to {t}?"]
PACKAGE = ["What is the Debian package {n}?", "What is in the package {n}?", "What does the package {n} contain?",
           "Describe the package {n}.", "Why would I install the package {n}?"]
SOCIAL = [("Hello", "Hello! Ask me about a Unix command, for example: what does grep do?"),
          ("Hi!", "Hello! Which command would you like to know about?"),
          ("Who are you?", "I am Chimère, a small language model that knows Unix manual pages."),
          ("What are you?", "I am Chimère, a small language model trained on Debian's documentation."),
          ("What can you do?", "I can say what a command, an option or a function is for. I am small, so please check the manual page."),
          ("Thanks", "You are welcome."), ("Thank you!", "You are welcome."), ("Goodbye", "Goodbye!"),
          ("Help", "Ask me what a command does, how it is used, or what one of its options means.")]
OFF_TOPIC = ["Write a poem about {t}.", "What is the weather in {t}?", "Who won the match in {t}?", "Tell me a story about {t}.",
             "Translate {t} into French.", "What is the capital of {t}?", "Give me a recipe for {t}.", "Who is the president of {t}?"]
OFF_TOPIC_ANSWER = "I cannot help with that. I only know documentation of Unix and programming: ask me about a command or a file."
UNKNOWN = "I do not know {n}. Check the spelling, or try: apropos {n}"


def reword(rng, question):
    """Small changes of manner that must not change the answer."""
    kind = rng.random()
    if kind < 0.55:
        return question
    if kind < 0.65:
        return question[0].lower() + question[1:] if question[1:2].islower() else question
    if kind < 0.73:
        return question.rstrip("?.")
    if kind < 0.88:
        return rng.choice(["Please: ", "Hi! ", "Hello, ", "A question: ", "Quick question: ", "Please help me. ", "OK. "]) + question
    return question + rng.choice([" Thanks.", " Please be brief.", " Please."])
