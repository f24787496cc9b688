#!/usr/bin/env python3
"""How well the orchestrator knows what requests are about: each stage of the intent cascade on labelled requests.

  intents.py CHIMERE MODEL [--requests FILE] [--rows N] [--without-neighbours] [--least-f1 X] [--most-error X]

Sends the requests of intents.tsv (label, trap or not, text; written by others than the examples of src/orchestrator/intents) to
`chimere serve` and reads `odo.route` of the answers: once without the model's stage and once with it. Prints macro-F1, accuracy and
the expected calibration error (ten bins), all rows and traps; for each stage how many rows it was asked, how many it decided and
how many of these are right; for the rows that reach the model what the words alone would have guessed; and the time of the stages
without an embedder or a model. --rows takes N rows, evenly drawn. --least-f1 and --most-error are the verdict.
"""
import argparse
import collections
import pathlib
import statistics
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from server import Server  # noqa: E402

BINS = 10
STAGES = ("rules", "files", "words", "examples", "model")
# A route makes the later stages worth their time; it leads back to the same pipeline. An answer of one token suffices.
PIPELINE = "name: {name}\nmode: fast\nroutes: {{none: {name}}}\nread_intent: {model}\nenrich: {{probe_tokens: 0}}\n"


def read(path):
    rows = []
    lines = [line for line in pathlib.Path(path).read_text().split("\n") if line and not line.startswith("#")]
    for line in lines[1:]:  # after the names of the columns
        label, trap, text = line.split("\t")
        rows.append((label, trap.lower() not in ("", "0", "no", "false", "-"), text.replace("\\n", "\n")))
    return rows


def f1(pairs):
    """Mean over the labels of 2 * right / (said + wanted)."""
    said, wanted = collections.Counter(s for _, s in pairs), collections.Counter(w for w, _ in pairs)
    right = collections.Counter(w for w, s in pairs if w == s)
    return {label: 2 * right[label] / (said[label] + wanted[label]) for label in wanted}


def calibration_error(judged):
    """Of pairs (confidence, right)."""
    bins = collections.defaultdict(list)
    for confidence, right in judged:
        bins[min(BINS - 1, int(confidence * BINS))].append((confidence, right))
    return sum(abs(sum(c for c, _ in b) - sum(r for _, r in b)) for b in bins.values()) / max(1, len(judged))


def share(right, all_of):
    return f"{right}/{all_of} = {right / all_of:.3f}" if all_of else "0"


def report(name, rows, routes):
    pairs = [(label, route["intent"]) for (label, _, _), route in zip(rows, routes)]
    judged = [(route["confidence"], label == route["intent"]) for (label, _, _), route in zip(rows, routes)]
    by_label = f1(pairs)
    macro, error = statistics.mean(by_label.values()), calibration_error(judged)
    traps = [right for (_, right), (_, trap, _) in zip(judged, rows) if trap]
    print(f"{name}: macro-F1 {macro:.3f}, right {share(sum(r for _, r in judged), len(judged))}, "
          f"of traps {share(sum(traps), len(traps))}, calibration error {error:.3f}")
    print("  F1: " + ", ".join(f"{label} {value:.2f}" for label, value in sorted(by_label.items())))
    asked = len(routes)
    for stage in STAGES:
        decided = [right for (_, right), route in zip(judged, routes) if route["stage"] == stage]
        mean = [route["confidence"] for route in routes if route["stage"] == stage]
        print(f"  {stage}: asked {asked}, decided {len(decided)}, right {share(sum(decided), len(decided))}"
              + (f", mean confidence {statistics.mean(mean):.3f}" if mean else ""))
        asked -= len(decided)
    guessed = [right for (_, right), route in zip(judged, routes) if route["stage"] is None]
    print(f"  no stage is sure: {len(guessed)}, the guess is right {share(sum(guessed), len(guessed))}")
    return macro, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--requests", default=pathlib.Path(__file__).with_name("intents.tsv"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--without-neighbours", action="store_true")
    parser.add_argument("--least-f1", type=float, default=0)
    parser.add_argument("--most-error", type=float, default=1)
    args = parser.parse_args()
    rows = read(args.requests)
    if args.rows and args.rows < len(rows):
        rows = [rows[i * len(rows) // args.rows] for i in range(args.rows)]
    with tempfile.TemporaryDirectory() as state:
        pipelines = pathlib.Path(state) / "pipelines"
        pipelines.mkdir()
        for name, model in (("plain", "false"), ("asking", "true")):
            (pipelines / f"{name}.yaml").write_text(PIPELINE.format(name=name, model=model))
        flags = ["--embedding-model", "none"] if args.without_neighbours else []
        server = Server(args.program, args.model, "--state-folder", state, *flags)
        try:
            def ask(pipeline, text):
                return server.post("/v1/chat/completions", {"model": "odo:" + pipeline, "max_tokens": 1, "temperature": 0,
                                                            "messages": [{"role": "user", "content": text}]})["odo"]
            ask("plain", "a")  # fits the classifier
            answers = [ask("plain", text) for _, _, text in rows]
            routes = [answer["route"] for answer in answers]
            # The other rows are decided before the model is asked.
            asked = [route if route["stage"] else ask("asking", text)["route"] for route, (_, _, text) in zip(routes, rows)]
        finally:
            server.close()
    macro, error = report("without the model", rows, routes)
    report("with the model", rows, asked)
    reached = [(label, plain, with_model) for (label, _, _), plain, with_model in zip(rows, routes, asked) if not plain["stage"]]
    decided = [row for row in reached if row[2]["stage"] == "model"]
    print(f"where the model decides: it is right {share(sum(l == m['intent'] for l, _, m in decided), len(decided))}, "
          f"the guess by words {share(sum(l == p['intent'] for l, p, _ in decided), len(decided))}")
    times = sorted(answer["seconds"]["intent"] * 1e6 for answer in answers)
    print(f"rules, files and words: median {statistics.median(times):.0f} us, "
          f"95 percent below {times[len(times) * 95 // 100]:.0f} us")
    if macro < args.least_f1 or error > args.most_error:
        sys.exit(f"FAILED: macro-F1 {macro:.3f} (at least {args.least_f1}), calibration error {error:.3f} (at most {args.most_error})")


if __name__ == "__main__":
    main()
