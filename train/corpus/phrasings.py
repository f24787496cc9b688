"""The ways in which conversations ask. Evaluation asks in others (evaluation/questions.py)."""
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
MORE = ["Tell me more about {n}.", "Describe {n} in more detail.", "Explain {n} at length.", "Give me an overview of {n}.",
        "What should I know about {n}?", "Tell me about {n} in a few sentences."]
FUNCTION = ["What does {n}() do?", "What does the function {n} do?", "Explain the C function {n}.", "What is {n}({s})?",
            "What is {n} for?", "Describe {n}({s}).", "When would a program call {n}?", "What is the function {n} used for?"]
OTHER = ["What is {n}?", "What is {n}({s})?", "What does {n} describe?", "Explain {n}.", "What is the page {n}({s}) about?"]
WHICH = ["Which command would I use to {w}?", "Which command can {w}?", "What command do I need to {w}?",
         "How can I {w}?", "Name a command to {w}.", "I need a program to {w}.", "Is there a tool to {w}?"]
USAGE = ["How do I use {n}?", "What is the syntax of {n}?", "Show me the usage of {n}.", "How is {n} called?",
         "What is the synopsis of {n}?", "Which arguments does {n} take?"]
OPTION = ["What does the option {f} of {n} do?", "What does {n} {f} do?", "What is {f} for in {n}?",
          "Explain {n} {f}.", "What does the {f} option mean for {n}?", "What does {f} change in {n}?"]
FIND_OPTION = ["Which option of {n} does this: {w}?", "How do I tell {n} to do this: {w}?", "I use {n}. Which option means: {w}?"]
EXAMPLE = ["Give me an example of {n}.", "Show an example that uses {n}.", "How would I call {n}, for example?",
           "An example for {n}, please."]
SIMILAR = ["Which commands are related to {n}?", "What else should I look at besides {n}?", "Is there something similar to {n}?"]
SECTION = ["In which section of the manual is {n}?", "Where in the manual do I find {n}?"]
PROVIDES = ["Which Debian package contains {n}?", "Which package provides {n}?", "What must I install to get {n}?",
            "How do I install {n} on Debian?"]
AGAIN = {"usage": ["How do I use it?", "And the syntax?", "Show me its usage.", "How is it called?"],
         "example": ["Give me an example.", "Can you show an example?", "An example, please."],
         "similar": ["Is there something similar?", "What is related to it?"],
         "more": ["Tell me more.", "Can you say more about it?", "More detail, please."],
         "provides": ["Which package is it in?", "How do I install it?"]}
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
