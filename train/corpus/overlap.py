"""How much of one text is copied from another: shared sequences of 13 words."""
import re

LENGTH = 13
SAMPLE = 8  # only sequences whose first word falls into one of so many classes are compared


def sequences(text):
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[i:i + LENGTH])) for i in range(len(words) - LENGTH + 1)
            if sum(words[i].encode()) % SAMPLE == 0}


def without_copies(texts, others, limit=0.1):
    """The texts of which less than `limit` is copied from `others`, and the share of their sequences that is."""
    mine = [sequences(t) for t in texts]
    wanted = set().union(*mine) if mine else set()
    copied = set()
    for text in others:
        copied |= wanted & sequences(text)
    kept = [(t, s) for t, s in zip(texts, mine) if len(s & copied) <= limit * max(1, len(s))]
    total, shared = sum(len(s) for _, s in kept), sum(len(s & copied) for _, s in kept)
    return [t for t, _ in kept], shared / max(1, total)


def not_copied(texts, others, limit=0.02, most=40):
    """For each text, whether it shares less than `limit` of its sequences, and at most `most`, with `others`."""
    theirs = set()
    for text in others:
        theirs |= sequences(text)
    out = []
    for text in texts:
        mine = sequences(text)
        shared = len(mine & theirs)
        out.append(shared <= most and shared <= limit * max(1, len(mine)))
    return out
