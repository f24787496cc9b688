"""How bench/odo_*.py grade answers: by their content words."""
import re

STOP = set("a an and are as at be by for from in is it of on or that the this to with".split())


def words(text):
    """The content words of a text, without their commonest endings."""
    return {re.sub(r"(ing|es|s)$", "", w) for w in re.findall(r"[a-z0-9]+", text.lower())} - STOP


def f1(answer, purpose, name):
    """F1 of an answer's and a purpose's content words, those of the name left out."""
    got, wanted = words(answer) - words(name), words(purpose) - words(name)
    both = len(got & wanted)
    return 2 * both / (len(got) + len(wanted)) if both else 0.0
