"""What `auto` chooses among the drafters, with the step times of a GPU (speculation_bench --times), so that the figures are the same in
every run and on every machine.

  choice_test.py SPECULATION_BENCH MODELS TIMES [--prompts N] [--tokens N] [--of-best X]

--of-best: the least speed relative to the best drafter of each set of texts, over all sets. In a short run the first trials of each
drafter take a larger part of the time.
"""
import argparse, pathlib, subprocess, sys

parser = argparse.ArgumentParser()
parser.add_argument("bench")
parser.add_argument("models", type=pathlib.Path)
parser.add_argument("times")
parser.add_argument("--prompts", default="3")
parser.add_argument("--tokens", default="96")
parser.add_argument("--of-best", type=float, default=0.91)
args = parser.parse_args()

LEAST_OF_NONE = 1.10

done = subprocess.run(
    [args.bench, args.models / "chimere-mini.gguf", args.models / "evaluation", "--draft-model", args.models / "chimere-mini-dflash.gguf",
     "--times", args.times, "--prompts", args.prompts, "--runs", "1", "--tokens", args.tokens], stdout=subprocess.PIPE, text=True, check=True)
seconds = {}
for line in done.stdout.splitlines()[1:]:
    texts, kind, mode, tokens, per_second = line.split()[:5]
    seconds[texts, kind, mode] = int(tokens) / float(per_second)
print(done.stdout)
sets = sorted({key[:2] for key in seconds})
modes = {key[2] for key in seconds}
assert modes == {"off", "dflash", "mtp", "ngram", "auto"}, modes
auto, none = (sum(seconds[*s, mode] for s in sets) for mode in ("auto", "off"))
best = sum(min(seconds[*s, mode] for mode in modes - {"off", "auto"}) for s in sets)
of_best, of_none = best / auto, none / auto
print(f"auto over all sets: {of_best:.3f} of the best drafter of each, {of_none:.3f} of no drafts")
sys.exit(of_best < args.of_best or of_none < LEAST_OF_NONE)
