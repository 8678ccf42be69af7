#!/usr/bin/env python3
"""Draws and tabulates what run.py has written: draw.py FIGURES.jsonl [FIGURES.jsonl…] DIRECTORY

Tables go to standard output as Markdown, pictures to DIRECTORY: `wan-ranges.svg`, seconds of a cold opening and 5,000
ranges of 1,436 bytes over round-trip times; `wan-parquet.svg`, seconds of two columns by each tool.
"""

import json
import math
import pathlib
import statistics
import sys
from collections import defaultdict

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 380, 64, 40, 170, 48
COLOURS = {
    "levada": "#1b6ca8",
    "levada-gateway": "#5dade2",
    "levada-http": "#5dade2",
    "levada-profile": "#154360",
    "levada-root": "#e59866",
    "xrootd": "#c0392b",
    "nginx": "#27ae60",
    "hdfs-native": "#8e44ad",
    "tcp": "#7f8c8d",
}
NAMES = {
    "levada": "Levada",
    "levada-gateway": "Levada, by its gateway",
    "levada-http": "Levada over HTTP",
    "levada-profile": "Levada, with a profile",
    "levada-root": "Levada over XRootD",
    "levada-python": "Levada, Python",
    "xrootd": "XRootD",
    "nginx": "nginx",
    "hdfs-native": "hdfs-native, 16 at a time",
    "tcp": "TCP alone, 1 connection",
}
# The one picture of ranges is of these.
PICTURED_COUNT, PICTURED_LEN = 5000, 1436


class Rows:
    """Medians of the turns that did not fail."""

    def __init__(self, rows: list[dict]):
        self.rows = rows

    def of(self, **wanted: object) -> list[dict]:
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]

    def distinct(self, key: str) -> list:
        return list(dict.fromkeys(row[key] for row in self.rows if key in row))

    def median(self, key: str, **wanted: object) -> float | None:
        values = [row[key] for row in self.of(**wanted) if key in row and "failed" not in row]
        return statistics.median(values) if values else None


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def range_tables(rows: Rows) -> str:
    out = []
    rtts = sorted(rows.distinct("rtt_ms"))
    for length in rows.distinct("len"):
        out.append(f"\n{length:,} bytes a range; seconds cold / kept:\n")
        columns = " | ".join(f"{rtt:g} ms" for rtt in rtts)
        out.append(f"| ranges | way | {columns} | turn-arounds | connections | bytes |")
        out.append("|" + "---|" * (len(rtts) + 5))
        for count in rows.distinct("count"):
            for way in rows.distinct("way"):
                which = {"way": way, "count": count, "len": length}
                if not rows.of(**which):
                    continue
                cells = [cell(rows, rtt, which) for rtt in rtts]
                far = {**which, "rtt_ms": rtts[-1]}
                cold, kept = rows.median("cold_s", **far), rows.median("kept_s", **far)
                turns = [ratio(value and value * 1000 / rtts[-1]) for value in (cold, kept)] if rtts[-1] else []
                moved = rows.median("bytes", **far)
                out.append(
                    f"| {count:,} | {NAMES.get(way, way)} | {' | '.join(cells)} | {' / '.join(turns)} | "
                    f"{rows.median('connections', **far) or 0:.0f} | {ratio(moved and moved / (2 * count * length))} |"
                )
    return "\n".join(out)


def cell(rows: Rows, rtt: float, which: dict) -> str:
    return " / ".join(seconds(rows.median(key, rtt_ms=rtt, **which)) for key in ("cold_s", "kept_s"))


def parquet_table(rows: Rows, payload: int) -> str:
    rtts, ways = sorted(rows.distinct("rtt_ms")), rows.distinct("way")
    out = ["\n| tool | from | " + " | ".join(f"{rtt:g} ms, s" for rtt in rtts) + " | connections | bytes ÷ needed |"]
    out.append("|" + "---|" * (len(rtts) + 4))
    for tool in rows.distinct("tool"):
        for way in ways:
            which = {"tool": tool, "way": way}
            far = {**which, "rtt_ms": rtts[-1]}
            moved = rows.median("bytes", **far)
            cells = [seconds(rows.median("cold_s", rtt_ms=rtt, **which)) for rtt in rtts]
            connections = f"{rows.median('connections', **far) or 0:.0f}"
            row = [tool, NAMES.get(way, way), *cells, connections, ratio(moved and moved / payload)]
            out.append(f"| {' | '.join(row)} |")
    return "\n".join(out)


def frame(title: str) -> list[str]:
    font = 'font-family="sans-serif" font-size="12"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]


def ranges_picture(rows: Rows) -> str:
    """Lines, both axes logarithmic."""
    which = {"count": PICTURED_COUNT, "len": PICTURED_LEN}
    rtts = [rtt for rtt in sorted(rows.distinct("rtt_ms")) if rtt > 0]
    lines = {}
    for way in rows.distinct("way"):
        points = [(rtt, rows.median("cold_s", way=way, rtt_ms=rtt, **which)) for rtt in rtts]
        if any(value for _, value in points):
            lines[way] = [(rtt, value) for rtt, value in points if value]
    values = [value for points in lines.values() for _, value in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    span = math.log10(rtts[-1] / rtts[0]) or 1

    def place(rtt: float, value: float) -> tuple[float, float]:
        x = LEFT + across * math.log10(rtt / rtts[0]) / span
        return x, TOP + down * (high - math.log10(value)) / (high - low)

    out = frame(f"A cold opening and {PICTURED_COUNT:,} ranges of {PICTURED_LEN:,} bytes: seconds by round-trip time")
    for power in range(low, high + 1):
        y = place(rtts[0], 10**power)[1]
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + across}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:g} s</text>')
    for rtt in rtts:
        x = place(rtt, 10**low)[0]
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{rtt:g} ms</text>')
    ends = []
    for way, points in lines.items():
        colour = COLOURS.get(way, "black")
        places = [place(*point) for point in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append([places[-1][1] + 4, colour, f"{NAMES.get(way, way)}, {seconds(points[-1][1])} s"])
    ends.sort()
    for one, following in zip(ends, ends[1:]):
        following[0] = max(following[0], one[0] + 14)  # labels do not cover each other
    for y, colour, label in ends:
        out.append(f'<text x="{LEFT + across + 6}" y="{y:.1f}" fill="{colour}">{label}</text>')
    return "\n".join([*out, "</svg>", ""])


def parquet_picture(rows: Rows) -> str:
    """A group of bars for each tool, at the longest round-trip time."""
    far = max(rows.distinct("rtt_ms"))
    tools, ways = rows.distinct("tool"), rows.distinct("way")
    found = {(tool, way): rows.median("cold_s", tool=tool, way=way, rtt_ms=far) for tool in tools for way in ways}
    most = math.ceil(max(value for value in found.values() if value))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    group = across / len(tools)
    bar = 0.8 * group / len(ways)
    out = frame(f"Two columns of a Parquet file, cold, at a round-trip time of {far:g} ms: seconds")
    step = max(1, round(most / 8))
    for tick in range(0, most + 1, step):
        y = TOP + down * (1 - tick / most)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + across}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick} s</text>')
    for number, tool in enumerate(tools):
        left = LEFT + group * number
        for place, way in enumerate(ways):
            value = found[tool, way]
            if not value:
                continue
            x, height = left + 0.1 * group + bar * place, down * value / most
            colour = COLOURS.get(way, "black")
            top, size = TOP + down - height, f'width="{bar - 2:.1f}" height="{height:.1f}"'
            out.append(f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{colour}"/>')
            label = f'<text x="{x + bar / 2:.1f}" y="{top - 3:.1f}" text-anchor="middle" font-size="10">'
            out.append(f"{label}{value:.1f}</text>")
        out.append(f'<text x="{left + group / 2:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tool}</text>')
    for place, way in enumerate(ways):
        y = TOP + 14 * place
        colour, name = COLOURS.get(way, "black"), NAMES.get(way, way)
        out.append(f'<text x="{LEFT + across + 8}" y="{y + 10}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *figures, directory = map(pathlib.Path, sys.argv[1:])
    kinds = defaultdict(list)
    for file in figures:
        for row in map(json.loads, file.read_text().splitlines()):
            kinds["parquet" if "tool" in row else "ranges"].append(row)
    if ranges := Rows(kinds["ranges"]) if kinds["ranges"] else None:
        print(range_tables(ranges))
        (directory / "wan-ranges.svg").write_text(ranges_picture(ranges))
    if parquet := Rows(kinds["parquet"]) if kinds["parquet"] else None:
        print(parquet_table(parquet, parquet.rows[0]["payload"]))
        (directory / "wan-parquet.svg").write_text(parquet_picture(parquet))


if __name__ == "__main__":
    main()
