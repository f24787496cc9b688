#!/usr/bin/python3
"""Draws the logs of a run's phases as an SVG: training loss (mean of 20 reports) and held-out bits per byte.

  curve.py LOG... > curve.svg      a LOG that begins at step 1 is appended to the one before; others continue its schedule
"""
import re
import sys

WIDTH, HEIGHT, MARGIN = 760, 320, 45
LOSS, HELDOUT = (1.0, 3.0), (0.6, 1.0)  # the axes


def read(paths):
    losses, heldout, offset, last = [], [], 0, 0
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if int(re.search(r"step (\d+)/", text).group(1)) <= 20:
            offset, last = offset + last, 0
        for line in text.split("\n"):
            step = re.match(r"step (\d+)/\d+ +loss ([\d.]+)", line)
            if step:
                last = int(step.group(1))
                losses.append((offset + last, float(step.group(2))))
            bits = re.search(r"([\d.]+) bits per byte.* (\d+) tokens", line)
            if bits and int(bits.group(2)) < 500_000:  # the evaluations on the way, all of the same text
                heldout.append((offset + last, float(bits.group(1))))
    return losses, heldout


def smooth(points, n=20):
    return [(points[i + n - 1][0], sum(y for _, y in points[i:i + n]) / n) for i in range(0, len(points) - n + 1, n // 2)]


def path(points, x_max, low, high, colour):
    at = [(MARGIN + (WIDTH - 2 * MARGIN) * x / x_max, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (min(y, high) - low) / (high - low))
          for x, y in points]
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in at) + '"/>'


def main():
    losses, heldout = read(sys.argv[1:])
    x_max = losses[-1][0]
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for i in range(5):
        y = MARGIN + i * (HEIGHT - 2 * MARGIN) / 4
        print(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        print(f'<text x="5" y="{y + 4}" fill="#1f5fa8">{LOSS[1] - i * (LOSS[1] - LOSS[0]) / 4:.1f}</text>')
        print(f'<text x="{WIDTH - MARGIN + 5}" y="{y + 4}" fill="#b3441e">{HELDOUT[1] - i * (HELDOUT[1] - HELDOUT[0]) / 4:.2f}</text>')
        print(f'<text x="{MARGIN + i * (WIDTH - 2 * MARGIN) / 4 - 10}" y="{HEIGHT - 20}">{x_max * i // 4}</text>')
    print(path(smooth(losses), x_max, *LOSS, "#1f5fa8"))
    print(path(heldout, x_max, *HELDOUT, "#b3441e"))
    print(f'<text x="{MARGIN}" y="20" fill="#1f5fa8">training loss, nats a token</text>')
    print(f'<text x="{WIDTH - 290}" y="20" fill="#b3441e">held out, first 200,000 tokens: bits per byte</text>')
    print(f'<text x="{WIDTH / 2 - 20}" y="{HEIGHT - 5}">step</text></svg>')


if __name__ == "__main__":
    main()
