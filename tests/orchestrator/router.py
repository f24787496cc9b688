#!/usr/bin/env python3
"""The router on questions with graders: every question runs in every mode.

  router.py CHIMERE MODEL EVALUATION [--count N] [--most N] [--seed S] [--log FILE] [--check]

EVALUATION is the folder models/evaluation. Each question is asked in the modes `fast`, `quality` and `ultra`, in `auto`, with a
probe of the first tokens, and `fast` with a gate. Cost: completion tokens and prompt tokens that were not cached; each request
has a prefix-cache scope of its own, so that the order does not matter. --count: questions of each kind; --most: of all kinds.
--log: a line of JSON for each question. Intervals are 95% bootstrap intervals over questions.

--check exits with 1 unless
  - auto's mode is the one that its complexity and the thresholds say, and its answer the one of that mode asked for;
  - the cost of thresholds never falls as they fall (1%: which forks of a prompt find it cached is a matter of time);
  - the program's complexity with learned weights is this script's, from the same log;
  - auto costs at most --most-cost times as much as `fast` (2.5), and is not less often right than `fast` by more than
    --most-loss (0.03).
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import sqlite3
import statistics
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from router_items import REFUSAL, items  # noqa: E402
from server import Server  # noqa: E402

CHAT = "/v1/chat/completions"
MODES = ("fast", "quality", "ultra")
PER_ROW = 5  # decisions that a question leaves in the log
FAST_BELOW, ULTRA_FROM, UNSURE = 0.5, 0.85, (0.35, 0.65)  # src/orchestrator/router.h
PRIOR = {"features": [1.0, 0.8, 1.2, 2.2, 0.8, 0.6, 0.8, 0.2], "entropy": 1.2, "history": 2.0, "bias": -2.6}
PIPELINES = {"probed": "name: probed\nmode: fast\nenrich: {when: auto, collections: [empty], confidence: 0}\n",
             "gated": "name: gated\nmode: fast\ntools: {allowed: [calculate, time, search]}\ngate: {when: always}\n"}


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def complexity(features, entropy, weights, fast_scores=()):
    """complexity_of() of src/orchestrator/router.cc. fast_scores: of earlier fast answers to the same intent."""
    x = weights["bias"] + sum(2 * w * f for w, f in zip(weights["features"], features))
    if entropy is not None:
        x += weights["entropy"] * (entropy - 1)
    if len(fast_scores) >= 5:
        x += weights["history"] * (0.5 - statistics.mean(fast_scores))
    return sigmoid(x)


def fit(outcomes, prior=PRIOR):
    """fit_weights() of src/orchestrator/router.cc. outcomes: (features, entropy, failed)"""
    failed = sum(o[2] for o in outcomes)
    if len(outcomes) < 40 or failed < 5 or len(outcomes) - failed < 5:
        return prior
    rows = [([2 * f for f in o[0]] + [0 if o[1] is None else o[1] - 1, 1], o[2]) for o in outcomes]
    before = [*prior["features"], prior["entropy"], prior["bias"]]
    w = list(before)
    for _ in range(300):
        slope = [0.0] * len(w)
        for x, wrong in rows:
            error = sigmoid(sum(a * b for a, b in zip(w, x))) - wrong
            for i, value in enumerate(x):
                slope[i] += error * value
        w = [v - 0.5 * (s / len(rows) + 0.02 * (v - b)) for v, s, b in zip(w, slope, before)]
    return {**prior, "features": w[:-2], "entropy": w[-2], "bias": w[-1]}


def mode_of(value, shift=0.0):
    """The mode of a complexity; shift lowers both thresholds, in logits."""
    x = math.log(max(value, 1e-9) / max(1 - value, 1e-9)) + shift
    return "fast" if x < 0 else "quality" if x < math.log(ULTRA_FROM / (1 - ULTRA_FROM)) else "ultra"


def auroc(scored):
    """scored: (value, whether it should be high)"""
    high = [v for v, h in scored if h]
    low = [v for v, h in scored if not h]
    if not high or not low:
        return float("nan")
    return sum((a > b) + 0.5 * (a == b) for a in high for b in low) / (len(high) * len(low))


def interval(rows, measure, draws=1000):
    """95% bootstrap interval of a measure of rows."""
    rng = random.Random(1)
    values = sorted(v for v in (measure(rng.choices(rows, k=len(rows))) for _ in range(draws)) if not math.isnan(v))
    return (values[int(0.025 * len(values))], values[int(0.975 * len(values))]) if values else (float("nan"),) * 2


def shown(rows, measure, digits=3, draws=1000):
    low, high = interval(rows, measure, draws)
    return f"{measure(rows):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def share(key):
    return lambda rows: statistics.mean(r[key]["right"] for r in rows)


def cost(key):
    return lambda rows: statistics.mean(r[key]["cost"] for r in rows)


class Runs:
    """Asks a server; each request's prefix-cache scope is its own."""

    def __init__(self, o, state):
        self.server = Server(o.program, o.model, "--state-folder", state, "--collections", state + "/collections", "--temp", "0",
                             "--seed", "7", "--threads", "1", "--prefix-disk", "0", "--embedding-model", pathlib.Path(o.model).with_name("chimere-embed.gguf"))
        self.asked = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()

    def ask(self, question, grade, mode=None, model="odo"):
        self.asked += 1
        reply = self.server.post(CHAT, {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 192,
                                        "prompt_cache_key": str(self.asked), **({"odo": {"mode": mode}} if mode else {})})
        about, choice = reply["odo"], reply["choices"][0]
        text = choice["message"]["content"] or ""
        return {"right": bool(grade(text)), "text": text, "cost": sum(t["prompt"] - t["cached"] + t["completion"] for t in about["tokens"].values()),
                "mode": about["mode"], "pipeline": about["pipeline"], "intent": about["route"]["intent"],
                "complexity": about["route"]["complexity"], "entropy": about["route"]["entropy"], "scores": about["scores"],
                "tools": about.get("tools", []), "finish": choice["finish_reason"],
                "kept": not any("second attempt" in r for r in about["route"]["reasons"]),
                "tokens": {k: t["completion"] for k, t in about["tokens"].items()}}


def decisions(state):
    """The logged decisions, oldest first."""
    with sqlite3.connect(state + "/odo.db") as database:
        names = ("id", "pipeline", "intent", "mode", "complexity", "entropy", "features", "score")
        rows = database.execute(f"SELECT {', '.join(names)} FROM decisions ORDER BY id").fetchall()
    return [{**dict(zip(names, row)), "features": json.loads(row[6])} for row in rows]


def collect(o, asked, home):
    """A row for each question, with what the log says about it. The gate has a server of its own: the router learns from scores."""
    for folder, names in (("state", ["probed"]), ("gated", ["gated"])):
        pipelines = pathlib.Path(home) / folder / "pipelines"
        pipelines.mkdir(parents=True)
        for name in names:
            (pipelines / (name + ".yaml")).write_text(PIPELINES[name])
    rows = []
    with Runs(o, home + "/state") as runs:
        runs.server.post("/v1/collections", {"name": "empty"})
        for kind, question, grade in asked:
            row = {"kind": kind, "question": question}
            for mode in MODES + ("auto",):
                row[mode] = runs.ask(question, grade, mode)
            row["probed"] = runs.ask(question, grade, model="odo:probed")
            rows.append(row)
    logged = decisions(home + "/state")
    assert len(logged) == PER_ROW * len(rows), (len(logged), len(rows))
    for i, row in enumerate(rows):
        row["features"] = logged[PER_ROW * i]["features"]
    with Runs(o, home + "/gated") as runs:
        for (_, question, grade), row in zip(asked, rows):
            row["gated"] = runs.ask(question, grade, model="odo:gated")
    for row, decision in zip(rows, decisions(home + "/gated")):
        row["gate"] = decision["score"]
    return rows


def relearned(o, asked, rows, state):
    """Sets the scores of fast answers in the log to what the graders say; returns the largest difference between complexities of a
    server that learned from this log and this script's."""
    with sqlite3.connect(state + "/odo.db") as database:
        database.execute("UPDATE decisions SET score = NULL")
        for i, row in enumerate(rows):
            database.execute("UPDATE decisions SET score = ? WHERE id = (SELECT id FROM decisions ORDER BY id LIMIT 1 OFFSET ?)",
                             (float(row["fast"]["right"]), PER_ROW * i))
    weights = fit([(r["features"], None, not r["fast"]["right"]) for r in rows])
    scores = collections.defaultdict(list)
    for r in rows:
        scores[r["fast"]["intent"]].append(float(r["fast"]["right"]))
    worst = 0.0
    with Runs(o, state) as runs:
        for (_, question, grade), row in list(zip(asked, rows))[:40]:
            got = runs.ask(question, grade, "fast")
            worst = max(worst, abs(got["complexity"] - complexity(row["features"], None, weights, scores[got["intent"]])))
    return worst


def swept(rows):
    """(shift, share of each mode, right, cost) for thresholds from above all complexities to below all."""
    out = []
    for tenth in range(-60, 61, 5):
        modes = [mode_of(r["fast"]["complexity"], tenth / 10) for r in rows]
        out.append((tenth / 10, collections.Counter(modes), statistics.mean(r[m]["right"] for r, m in zip(rows, modes)),
                    statistics.mean(r[m]["cost"] for r, m in zip(rows, modes))))
    return out


def at_equal_cost(rows, modes, draws):
    """Right and cost of random choices: each question gets a mode other than fast with the probability that makes the expected
    cost that of `modes`, quality or ultra in the proportion that `modes` has."""
    slow = [m for m in modes if m != "fast"]
    ultra = slow.count("ultra") / len(slow) if slow else 0
    wanted = statistics.mean(r[m]["cost"] for r, m in zip(rows, modes))
    fast = statistics.mean(r["fast"]["cost"] for r in rows)
    dear = statistics.mean((1 - ultra) * r["quality"]["cost"] + ultra * r["ultra"]["cost"] for r in rows)
    p = min(1.0, max(0.0, (wanted - fast) / (dear - fast)))
    rng = random.Random(2)
    triples = [tuple(r[m]["right"] for m in MODES) for r in rows]
    right = []
    for _ in range(draws):
        n = 0
        for t in triples:
            u = rng.random()
            n += t[0] if u >= p else t[2] if u < p * ultra else t[1]
        right.append(n / len(rows))
    return p, right


def cross_validated(rows, folds, failed, entropy=False):
    """Complexities of each question by weights that were learned from the other folds. failed: None for no outcome."""
    order = random.Random(3).sample(range(len(rows)), len(rows))
    of = lambda r: r["probed"]["entropy"] if entropy else None  # noqa: E731
    out = [0.0] * len(rows)
    for fold in range(folds):
        held = set(order[fold::folds])
        weights = fit([(r["features"], of(r), failed(r)) for i, r in enumerate(rows) if i not in held and failed(r) is not None])
        for i in held:
            out[i] = complexity(rows[i]["features"], of(rows[i]), weights)
    return out


def report(o, rows):
    few = min(o.draws, 300)
    some_draws = min(o.draws, 1000)
    print(f"{len(rows)} questions, seed {o.seed}\n")
    print("| kind | n | fast right | quality | ultra | auto | cost: fast | quality | ultra | auto |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind in dict.fromkeys(r["kind"] for r in rows):
        some = [r for r in rows if r["kind"] == kind]
        print(f"| {kind} | {len(some)} | " + " | ".join(f"{share(m)(some):.2f}" for m in MODES + ("auto",)) + " | "
              + " | ".join(f"{cost(m)(some):.0f}" for m in MODES + ("auto",)) + " |")
    print("\n| mode | right | cost | right, less fast |\n|---|---|---|---|")
    for m in MODES + ("auto",):
        print(f"| {m} | {shown(rows, share(m), draws=some_draws)} | {shown(rows, cost(m), 0, some_draws)} | "
              f"{shown(rows, lambda some, m=m: share(m)(some) - share('fast')(some), draws=some_draws)} |")
    modes = [r["auto"]["mode"] for r in rows]
    print(f"\nauto chose {dict(collections.Counter(modes))}, probed {sum(r['auto']['entropy'] is not None for r in rows)}; "
          f"cost {cost('auto')(rows) / cost('fast')(rows):.2f} of fast")
    best = max(MODES, key=lambda m: share(m)(rows))
    print(f"auto less the best fixed mode, {best}: {shown(rows, lambda some: share('auto')(some) - share(best)(some), draws=some_draws)}")
    p, right = at_equal_cost(rows, modes, o.draws)
    right.sort()
    real = statistics.mean(r[m]["right"] for r, m in zip(rows, modes))
    print(f"random modes at auto's cost: {p:.3f} not fast, {statistics.mean(right):.3f} right, 95% between {right[o.draws // 40]:.3f} and "
          f"{right[o.draws * 39 // 40]:.3f}; auto {real:.3f}; share of {o.draws} draws at least as good {statistics.mean(v >= real for v in right):.3f}")
    needed = sum(not r["fast"]["right"] and (r["quality"]["right"] or r["ultra"]["right"]) for r in rows)
    lost = sum(r["fast"]["right"] and not r["quality"]["right"] for r in rows)
    print(f"fast wrong and a dearer mode right: {needed}; fast right and quality wrong: {lost}")
    print("\n| thresholds lowered by | fast, quality, ultra | right | cost |\n|---:|---|---:|---:|")
    for shift, n, r, c in swept(rows):
        print(f"| {shift:+.1f} | {n['fast']}, {n['quality']}, {n['ultra']} | {r:.3f} | {c:.0f} |")
    print("\n| predicts that fast is wrong | AUROC |\n|---|---|")
    wrong = lambda r: not r["fast"]["right"]  # noqa: E731
    gain = lambda r: wrong(r) and (r["quality"]["right"] or r["ultra"]["right"])  # noqa: E731
    scores = {"complexity, shipped weights": [r["fast"]["complexity"] for r in rows],
              "entropy of the first tokens": [r["probed"]["entropy"] for r in rows],
              "complexity with it, shipped weights": [complexity(r["features"], r["probed"]["entropy"], PRIOR) for r in rows],
              "complexity, learned": cross_validated(rows, o.folds, wrong),
              "complexity with entropy, learned": cross_validated(rows, o.folds, wrong, True)}
    judged = [r for r in rows if r["gate"] is not None]
    if len(judged) >= 40:
        scores["complexity, learned from the gate's scores"] = cross_validated(
            rows, o.folds, lambda r: None if r["gate"] is None else r["gate"] < 0.5)
    for name, values in scores.items():
        print(f"| {name} | {shown(list(zip(values, map(wrong, rows))), auroc, draws=few)} |")
    print("\n| policy | fast, quality, ultra | right | cost |\n|---|---|---:|---:|")
    scores["complexity, learned where a dearer mode was right"] = cross_validated(rows, o.folds, gain)
    for name, values in scores.items():
        if "complexity" in name:
            chosen = [mode_of(v) for v in values]
            n = collections.Counter(chosen)
            print(f"| {name} | {n['fast']}, {n['quality']}, {n['ultra']} | {statistics.mean(r[m]['right'] for r, m in zip(rows, chosen)):.3f} | "
                  f"{statistics.mean(r[m]['cost'] for r, m in zip(rows, chosen)):.0f} |")
    confidence = [(r["probed"]["scores"]["confidence"], r["fast"]["right"], bool(REFUSAL.search(r["fast"]["text"]))) for r in rows]
    print(f"\nconfidence of the probe, for right answers of fast: AUROC {shown(confidence, lambda s: auroc([c[:2] for c in s]), draws=few)}; "
          f"without refusals (n = {sum(not c[2] for c in confidence)}) {shown([c for c in confidence if not c[2]], lambda s: auroc([c[:2] for c in s]), draws=few)}")
    print(f"gate: a score for {len(judged)} of {len(rows)} fast answers" + (
        f", AUROC {shown([(r['gate'], r['fast']['right']) for r in judged], auroc, draws=few)}" if judged else ""))
    for m in ("quality", "ultra"):
        again = [r for r in rows if "retry" in r[m]["scores"]]
        print(f"{m}: {len(again)} second attempts, {sum(not r[m]['kept'] for r in again)} of them sent; cut off by length {sum(r[m]['finish'] == 'length' for r in rows)}")


def checked(o, rows, worst):
    faults = []
    for r in rows:
        got = r["auto"]
        if got["mode"] != mode_of(got["complexity"]):
            faults.append(f"mode {got['mode']} at complexity {got['complexity']}: {r['question']}")
        probed = UNSURE[0] < r["fast"]["complexity"] < UNSURE[1]
        if probed != (got["entropy"] is not None):
            faults.append(f"complexity {r['fast']['complexity']}, entropy {got['entropy']}: {r['question']}")
        # An answer with a tag of reasoning in its text is not continued as it began.
        if got["text"] != r[got["mode"]]["text"] and "think>" not in r[got["mode"]]["text"]:
            faults.append(f"auto says {got['text']!r}, {got['mode']} {r[got['mode']]['text']!r}: {r['question']}")
    costs = [c for _, _, _, c in swept(rows)]
    faults += [f"a cost of {b:.1f} after {a:.1f} as thresholds fall" for a, b in zip(costs, costs[1:]) if b < 0.99 * a]
    if worst > 1e-5:
        faults.append(f"learned complexities differ by {worst}")
    if cost("auto")(rows) > o.most_cost * cost("fast")(rows):
        faults.append(f"auto costs {cost('auto')(rows):.1f}, fast {cost('fast')(rows):.1f}")
    if share("auto")(rows) < share("fast")(rows) - o.most_loss:
        faults.append(f"auto is right in {share('auto')(rows):.3f}, fast in {share('fast')(rows):.3f}")
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("evaluation")
    parser.add_argument("--count", type=int)
    parser.add_argument("--most", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=10000, help="random choices of modes; at most as many bootstrap samples")
    parser.add_argument("--log")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--most-cost", type=float, default=2.5)
    parser.add_argument("--most-loss", type=float, default=0.03)
    o = parser.parse_args()
    asked = items(o.evaluation, o.seed, o.count)[:o.most]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        rows = collect(o, asked, home)
        worst = relearned(o, asked, rows, home + "/state")
    if o.log:
        with open(o.log, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
    report(o, rows)
    print(f"largest difference between the program's learned complexities and this script's: {worst:.1e}")
    faults = checked(o, rows, worst) if o.check else []
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
