#!/usr/bin/env python3
"""Draws and tabulates what run.py has written: draw.py [FIGURES.jsonl…], those in figures/ if none are named.

Tables go to standard output as Markdown, pictures to docs/images: `wan-ranges.png`, seconds of a cold opening and 5,000
ranges of 1,436 bytes over round-trip times; `wan-parquet.png`, seconds of two columns by each tool; `wan-query.png`,
seconds of a query of a ROOT file over round-trip times. Needs matplotlib.
"""

import json
import pathlib
import statistics
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402: the line above says that there is no screen

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE.parents[1] / "docs/images"
# In inches, and dots to each.
SIZE, DPI = (8, 4.2), 110
COLOURS = {
    "levada": "#1b6ca8",
    "levada-gateway": "#5dade2",
    "levada-http": "#5dade2",
    "levada-profile": "#154360",
    "levada-other": "#b03a9c",
    "levada-plain": "#76d7c4",
    "local": "#7f8c8d",
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
    "levada-other": "Levada, another user",
    "levada-plain": "Levada, nothing read ahead",
    "local": "a local file",
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
            if not rows.of(**which):
                continue
            far = {**which, "rtt_ms": rtts[-1]}
            moved = rows.median("bytes", **far)
            cells = [seconds(rows.median("cold_s", rtt_ms=rtt, **which)) for rtt in rtts]
            connections = f"{rows.median('connections', **far) or 0:.0f}"
            row = [tool, NAMES.get(way, way), *cells, connections, ratio(moved and moved / payload)]
            out.append(f"| {' | '.join(row)} |")
    return "\n".join(out)


def query_table(rows: Rows) -> str:
    rtts = sorted(rows.distinct("rtt_ms"))
    out = ["\nSeconds cold / once more in the same process:\n"]
    out.append("| way | " + " | ".join(f"{rtt:g} ms" for rtt in rtts) + " | turn-arounds | connections | MB |")
    out.append("|" + "---|" * (len(rtts) + 4))
    for way in rows.distinct("query"):
        which = {"query": way}
        far = {**which, "rtt_ms": rtts[-1]}
        turns = [rows.median(f"{turn}_turn_arounds", **far) for turn in ("cold", "kept")]
        turns = " / ".join("–" if turn is None else f"{turn:.0f}" for turn in turns)
        connections, moved = rows.median("connections", **far), rows.median("bytes", **far)
        # Both readings went over the link.
        row = [NAMES.get(way, way), *(cell(rows, rtt, which) for rtt in rtts), turns]
        out.append(f"| {' | '.join(row)} | {connections or 0:.0f} | {ratio(moved and moved / 2e6)} |")
    return "\n".join(out)


def lines_picture(title: str, lines: dict[str, list[tuple[float, float]]], file: pathlib.Path) -> None:
    """Seconds by round-trip time, both axes logarithmic; each line with its name and last figure at its end."""
    figure, axes = pyplot.subplots(figsize=SIZE, dpi=DPI, layout="constrained")
    for way, points in lines.items():
        name, _, kept = way.partition(" ")
        colour, style = COLOURS.get(name, "black"), "--" if kept else "-"
        label = f"{NAMES.get(name, name)}{', again' if kept else ''}: {seconds(points[-1][1])} s"
        axes.plot(*zip(*points), style, color=colour, marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="round trip, ms", ylabel="s")
    axes.set_title(title, fontsize=10)
    ticks = sorted({rtt for points in lines.values() for rtt, _ in points})
    axes.set_xticks(ticks, [f"{rtt:g}" for rtt in ticks])
    axes.minorticks_off()
    axes.grid(color="#ddd")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(file)


def points_of(rows: Rows, key: str, **which: object) -> list[tuple[float, float]]:
    """Of each round trip that is one."""
    found = [(rtt, rows.median(key, rtt_ms=rtt, **which)) for rtt in sorted(rows.distinct("rtt_ms")) if rtt > 0]
    return [(rtt, value) for rtt, value in found if value]


def ranges_picture(rows: Rows) -> None:
    which = {"count": PICTURED_COUNT, "len": PICTURED_LEN}
    lines = {way: points_of(rows, "cold_s", way=way, **which) for way in rows.distinct("way")}
    title = f"A cold opening and {PICTURED_COUNT:,} ranges of {PICTURED_LEN:,} bytes"
    lines_picture(title, {way: points for way, points in lines.items() if points}, IMAGES / "wan-ranges.png")


def query_picture(rows: Rows) -> None:
    lines = {way: points_of(rows, "cold_s", query=way) for way in rows.distinct("query")}
    lines["levada-profile kept"] = points_of(rows, "kept_s", query="levada-profile")
    title = "Two of 152 branches of a ROOT file by uproot, cold"
    lines_picture(title, {way: points for way, points in lines.items() if points}, IMAGES / "wan-query.png")


def parquet_picture(rows: Rows) -> None:
    """A group of bars for each tool, at the longest round-trip time."""
    far = max(rows.distinct("rtt_ms"))
    tools, ways = rows.distinct("tool"), rows.distinct("way")
    figure, axes = pyplot.subplots(figsize=SIZE, dpi=DPI, layout="constrained")
    width = 0.8 / len(ways)
    for place, way in enumerate(ways):
        found = [rows.median("cold_s", tool=tool, way=way, rtt_ms=far) or 0 for tool in tools]
        lefts = [number - 0.4 + width * (place + 0.5) for number in range(len(tools))]
        bars = axes.bar(lefts, found, width * 0.95, color=COLOURS.get(way, "black"), label=NAMES.get(way, way))
        axes.bar_label(bars, [f"{value:.1f}" if value else "" for value in found], fontsize=6)
    axes.set_xticks(range(len(tools)), tools, fontsize=8)
    axes.set_ylabel("s")
    axes.set_title(f"Two columns of a Parquet file, cold, at a round-trip time of {far:g} ms", fontsize=10)
    axes.grid(axis="y", color="#ddd")
    axes.set_axisbelow(True)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(IMAGES / "wan-parquet.png")


def kind_of(row: dict) -> str:
    return "parquet" if "tool" in row else "query" if "query" in row else "ranges"


def main() -> None:
    figures = [pathlib.Path(word) for word in sys.argv[1:]] or sorted((HERE / "figures").glob("*.jsonl"))
    kinds = defaultdict(list)
    for file in figures:
        for row in map(json.loads, file.read_text().splitlines()):
            kinds[kind_of(row)].append(row)
    if ranges := Rows(kinds["ranges"]) if kinds["ranges"] else None:
        print(range_tables(ranges))
        ranges_picture(ranges)
    if parquet := Rows(kinds["parquet"]) if kinds["parquet"] else None:
        print(parquet_table(parquet, parquet.rows[0]["payload"]))
        parquet_picture(parquet)
    if query := Rows(kinds["query"]) if kinds["query"] else None:
        print(query_table(query))
        query_picture(query)


if __name__ == "__main__":
    main()
