#!/usr/bin/env python3
"""Draws memory over time from what listings.py --json has written: draw.py FIGURES.json PICTURE.svg [SERVER…]"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 64, 40, 150, 44
COLOURS = {"levada": "#1b6ca8", "hdfs": "#c0392b", "hdfs-whole": "#7f8c8d"}
MB = 1e6


def axis(rows: list) -> tuple[float, float, float]:
    """Seconds, and the powers of ten of megabytes below and above all."""
    megabytes = [value / MB for row in rows for _, value in row["memory"]]
    end = max(at for row in rows for at, _ in row["memory"])
    return end, math.floor(math.log10(min(megabytes))), math.ceil(math.log10(max(megabytes)))


def draw(rows: list) -> str:
    end, low, high = axis(rows)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(at: float, megabytes: float) -> tuple[float, float]:
        return LEFT + across * at / end, TOP + down * (high - math.log10(megabytes)) / (high - low)

    first = rows[0]
    title = f"{first['clients']} clients list {first['entries']:,} entries: private memory of the server"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]
    for power in range(low, high + 1):
        y = place(0, 10**power)[1]
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + across}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:,} MB</text>')
    for second in range(0, int(end) + 1, 5):
        x = place(second, 10**low)[0]
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{second} s</text>')
    for row in rows:
        colour = COLOURS.get(row["server"], "black")
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(at, value / MB) for at, value in row["memory"]))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = place(row["memory"][-1][0], row["memory"][-1][1] / MB)
        label = f"{row['server']}, {row['memory'][-1][1] / MB:,.0f} MB"
        out.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{colour}">{label}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    figures, picture, *servers = sys.argv[1:]
    rows = [json.loads(line) for line in pathlib.Path(figures).read_text().splitlines()]
    rows = [row for row in rows if not servers or row["server"] in servers]
    pathlib.Path(picture).write_text(draw(rows))


if __name__ == "__main__":
    main()
