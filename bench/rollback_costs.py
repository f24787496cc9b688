#!/usr/bin/python3
"""What taking back rows costs in the recurrent state: the tables of docs/experiments/speculation-state-barrier.md.

  bench/rollback_costs.py            computed from shapes, the copy bandwidth and the step times below
  bench/rollback_costs.py --copies   measures copies of such states on this machine's CPU, with one and two threads

Designs: a copy of the state before each verification step and a second step after a rejection (copy); a slot for every row of a block
(slots); pending rows (rows). --copies needs numpy (Debian: python3-numpy, for /usr/bin/python3).
"""
import argparse, threading, time
from collections import namedtuple

COPY_GB_S = 4030  # H200, read and written together, as `chimere bench` prints it
HOST_GB_S = 50    # between GPU and pinned host memory, one direction (assumed: PCIe 5 x16)
# Milliseconds of a decode step of one sequence by its rows. 35B-A3B in the ramp mix on one H200; 16 rows are extrapolated from 4 and 8.
STEP_MS = {1: 2.00, 2: 3.10, 4: 3.43, 8: 4.27}
# A block drafter of 0.54 billion parameters in Q8_0 and an eighth of the output matrix, at half of the copy bandwidth; a pass of eight
# layers was measured later: 1.5 ms.
DRAFTER_MS = (0.57e9 + 248320 / 8 * 2048 * 210 / 256) / (COPY_GB_S * 1e9 / 2) * 1e3
# chimere-mini on one thread of an EPYC (Zen 2): `chimere bench -p 0 -n 16 -d 256 --rows 1,2,4,8,16 -t 1`; with rows that are kept and
# folded: speculation_bench; a pass of chimere-mini-dflash.
CPU_COPY_GB_S = 15.4
CPU_STEP_MS = {1: 2.11, 2: 2.77, 4: 4.24, 8: 6.18, 16: 10.20}
CPU_ROWS_MS = {1: 2.03, 2: 2.85, 4: 4.37, 8: 6.43, 16: 10.60}
CPU_DRAFTER_MS = 3.8
# Tokens a step on held-out texts: docs/experiments/speculation-dflash.md (greedy; documents, structured texts, prose), and low acceptance.
TRACES = [(16, 5.15), (16, 4.82), (16, 2), (8, 4.87), (8, 4.68), (8, 4.52), (8, 2), (4, 2)]
BLOCKS, SEQUENCES = (4, 8, 16), (1, 8, 32)


def padded(floats):
    """Bytes of a component: StateBuilder rounds up to 64."""
    return -(-4 * floats // 64) * 64


def delta_net(layers, v_heads, k_heads, head, taps, hidden=0):
    """(bytes of a state, bytes of a pending row); hidden: of the MTP head's last hidden state (GdnShape)."""
    conv = 2 * k_heads * head + v_heads * head
    state = layers * (padded(v_heads * head * head) + padded((taps - 1) * conv))
    row = layers * (padded(k_heads * head + v_heads * head + v_heads) + padded(conv))
    return state + padded(hidden), row + padded(hidden)


def mamba2(layers, heads, head, groups, state, taps):
    """The same for state-space duality (SsdShape)."""
    inner, conv = heads * head, heads * head + 2 * groups * state
    return (layers * (padded(inner * state) + padded((taps - 1) * conv)),
            layers * (padded(inner + groups * state + heads) + padded(conv)))


MODELS = {
    "Qwen3.5-35B-A3B": delta_net(30, 32, 16, 128, 4),
    "Nemotron-3-Nano": mamba2(23, 64, 64, 8, 128, 4),
    "chimere-mini": delta_net(6, 8, 4, 64, 4, hidden=512),
}
# Times that pending rows read and write a state on a GPU: gdn_fold is a launch of its own, ssd_scan folds by itself.
PASSES = {"Qwen3.5-35B-A3B": 3, "Nemotron-3-Nano": 2, "chimere-mini": 3}

# rows_ms: measured steps with pending rows, in place of a sum.
Setting = namedtuple("Setting", "model step_ms drafter_ms copy_gb_s rows_ms")
GPU = Setting("Qwen3.5-35B-A3B", STEP_MS, DRAFTER_MS, COPY_GB_S, None)
CPU = Setting("chimere-mini", CPU_STEP_MS, CPU_DRAFTER_MS, CPU_COPY_GB_S, CPU_ROWS_MS)


def kept(design, s, r, b):
    """Bytes of a sequence."""
    return {"copy": 2 * s, "slots": b * s, "rows": s + b * r}[design]


def moved(design, s, r, b, n, passes):
    """Bytes of states and rows read and written for a sequence in a round of b rows of which n are kept, after a rejection."""
    return {"copy": 8 * s, "slots": (1 + b) * s, "rows": passes * s + (b + n) * r}[design]


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |")
    print()


def interpolated(by_rows, rows):
    """By lines between the measured numbers of rows, and beyond them."""
    known = sorted(by_rows)
    high = next((k for k in known[1:] if k >= rows), known[-1])
    low = known[known.index(high) - 1]
    return by_rows[low] + (by_rows[high] - by_rows[low]) * (rows - low) / (high - low)


def acceptance(b, tau):
    """The probability of each draft, the same for all, with which a block of b rows gives tau tokens."""
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if sum(p**i for i in range(b)) < tau else (low, p)
    return low


def gain(of, design, b, tau):
    """Tokens a round times the time of a token without drafts, over the time of a round. The measured steps read and write a state once."""
    s, r = MODELS[of.model]
    ms = lambda size: size / (of.copy_gb_s * 1e9) * 1e3
    time_ms, tokens = interpolated(of.step_ms, b) + of.drafter_ms, tau
    if design == "slots":
        time_ms += ms((b - 1) * s)
    elif design == "rows" and of.rows_ms:
        time_ms = interpolated(of.rows_ms, b) + of.drafter_ms
    elif design == "rows":
        time_ms += ms((PASSES[of.model] - 2) * s + (b + tau) * r)
    elif design.startswith("copy"):
        one = ms(2 * s) if design == "copy" else s / (HOST_GB_S * 1e9) * 1e3
        whole = acceptance(b, tau)**(b - 1)
        rejected = (tau - whole * b) / (1 - whole)  # tokens of a round with a rejection
        time_ms += one + (1 - whole) * (one + interpolated(of.step_ms, rejected + 1))
        tokens += 1 - whole
    return tokens * of.step_ms[1] / time_ms


def break_even(of, design, b):
    found = [tau / 100 for tau in range(105, 100 * b, 5) if gain(of, design, b, tau / 100) >= 1]
    return f"{found[0]:.2f}" if found else "-"


def computed():
    print("Bytes of a state S and of a pending row R:\n")
    table(("", "S", "R", "S / R"), [(name, f"{s:,}", f"{r:,}", f"{s / r:.0f}") for name, (s, r) in MODELS.items()])
    kept_by = lambda name, d, b: kept(d, *MODELS[name], b)
    moved_by = lambda name, d, b: moved(d, *MODELS[name], b, b / 2, PASSES[name])
    for title, of in (("MB kept", kept_by), ("MB moved in a round, half of the rows kept", moved_by)):
        print(f"{title} (copy / slots / rows):\n")
        table(("", "rows", *(f"{n} sequences" for n in SEQUENCES)),
              [(name, b, *(" / ".join(number(n * of(name, d, b) / 1e6) for d in ("copy", "slots", "rows")) for n in SEQUENCES))
               for name in MODELS for b in BLOCKS])
    for of, designs in (GPU, ("copy over the host", "copy", "slots", "rows", "none")), (CPU, ("copy", "slots", "rows", "none")):
        steps = {n: round(interpolated(of.step_ms, n), 2) for n in (1, 2, 4, 8, 16)}
        print(f"Gain, {of.model}, steps {steps} ms, drafter {of.drafter_ms:.2f} ms:\n")
        table(("rows", "τ", *designs), [(b, f"{tau:.2f}", *(f"{gain(of, d, b, tau):.2f}" for d in designs)) for b, tau in TRACES])
        print("τ at which a round takes as long as its tokens without drafts:\n")
        table(("rows", *designs), [(b, *(break_even(of, d, b) for d in designs)) for b in BLOCKS])
    p = acceptance(16, 1.9)
    print(f"Blocks at the acceptance that gives 1.9 tokens with 16 rows ({p:.2f}), no cost of states:",
          {b: round(gain(GPU, "none", b, sum(p**i for i in range(b))), 2) for b in (2, 4, 8, 16)})


def copies():
    import numpy as np
    for name, (size, _) in MODELS.items():
        slots = max(2, int(256e6 / size))  # more than the caches hold
        source, target = (np.ones((slots, size // 4), np.float32) for _ in range(2))
        for threads in (1, 2):
            def part(slot, t):
                n = size // 4 // threads
                np.copyto(target[slot, t * n:(t + 1) * n], source[slot, t * n:(t + 1) * n])
            took = []
            for i in range(max(60, 8 * slots)):
                others = [threading.Thread(target=part, args=(i % slots, t)) for t in range(1, threads)]
                begun = time.perf_counter()
                for other in others: other.start()
                part(i % slots, 0)
                for other in others: other.join()
                took.append(time.perf_counter() - begun)
            took.sort()
            median = took[len(took) // 2]
            print(f"{name}: {threads} thread(s), median {1e3 * median:.2f} ms, fastest {1e3 * took[0]:.2f}, "
                  f"{2 * size / median / 1e9:.1f} GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", action="store_true", help="measure copies on this machine")
    copies() if parser.parse_args().copies else computed()


if __name__ == "__main__":
    main()
