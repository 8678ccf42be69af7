#!/usr/bin/env python3
"""Reads over a wide link: many ranges of a file, two columns of a Parquet file, and a query of a ROOT file, beside
other servers and clients.

    bench/wan/run.py --emulator PROGRAM ranges [--rtts 0,2,22,72,240] [--out FIGURES.jsonl]
    bench/wan/run.py --emulator PROGRAM parquet --table FILE --columns NAME,NAME [--rtts 240] [--out FIGURES.jsonl]
    bench/wan/run.py --emulator PROGRAM query --tree FILE [--rtts 0,0.3,2,11,22,72,240] [--out FIGURES.jsonl]

README.md says what is needed. Each measurement is a process of its own over a link made for it; ways take turns.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import zlib

from link import ADDRESS, Link, Namespaces
from servers import GATEWAY, GATEWAY_HTTP, GATEWAY_ROOT, META, NGINX, XROOTD, Servers

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"))
FILE_LEN = 512_000_000
PIECE_LEN = 1_000_000
FILE = "ranges.bin"
COUNTS = (10, 100, 1000, 5000)
LENS = (1436, 64 << 10)
RANGE_WAYS = ("levada", "levada-gateway", "levada-root", "xrootd", "nginx", "hdfs-native", "tcp")
TOOLS = ("pyarrow", "pyarrow-file", "pandas", "polars", "duckdb", "duckdb-dataset")
# A read by itself takes turns of its own: thousands of them would take this run's time.
SLOW_WAYS = ("hdfs-native",)
SLOW_COUNT_MAX = 1000
READER_S_MAX = 120
PARQUET_WAYS = ("levada", "levada-profile", "levada-other", "levada-plain", "levada-http", "nginx")
QUERY_WAYS = (
    "levada-plain",
    "levada",
    "levada-profile",
    "levada-other",
    "levada-root",
    "xrootd",
    "nginx",
    "local",
)
# What the query selects, of any file with the table of the talk.
SELECTED_COUNT, SELECTED_SUM = 324_607, 25_965_821.10
RTTS = {"ranges": "0,2,22,72,240", "parquet": "240", "query": "0,0.3,2,11,22,72,240"}


def ranges_of(count: int, length: int) -> list[tuple[int, int]]:
    step = FILE_LEN // count
    return [(place * step, length) for place in range(count)]


def expected(file: pathlib.Path, count: int, length: int) -> int:
    crc = 0
    with file.open("rb") as source:
        for offset, _ in ranges_of(count, length):
            source.seek(offset)
            crc = zlib.crc32(source.read(length), crc)
    return crc


def range_words(way: str, arguments: argparse.Namespace, count: int, length: int) -> tuple[list, dict[str, str]]:
    if way.startswith("levada") and way != "levada-python":
        words = [arguments.ranges, f"hdfs://{ADDRESS}:{META}", f"/{FILE}", count, length]
        return words, {"LEVADA_GATEWAY": f"{ADDRESS}:{GATEWAY}"} if way.endswith("gateway") else {}
    return [sys.executable, HERE / "read_ranges.py", way, ADDRESS, FILE, FILE_LEN, count, length], {}


def measure(arguments: argparse.Namespace, rtt: float, words: list, environment: dict[str, str]) -> dict:
    with Link(arguments.emulator, rtt, arguments.mbit) as link:
        found = json.loads(link.reader(words, READER_S_MAX, environment))
    counted = {"bytes": link.bytes, "packets": link.packets, "connections": link.connections, "dropped": link.dropped}
    return {**found, **counted, "rtt_ms": rtt}


def note(arguments: argparse.Namespace, row: dict) -> None:
    with arguments.out.open("a") as out:
        out.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def run_ranges(arguments: argparse.Namespace, directory: pathlib.Path) -> None:
    files = directory / "files"
    files.mkdir()
    chance = random.Random(7)
    with (files / FILE).open("wb") as file:
        for _ in range(0, FILE_LEN, PIECE_LEN):
            file.write(chance.randbytes(PIECE_LEN))
    ways = arguments.ways.split(",") if arguments.ways else RANGE_WAYS
    with Servers(arguments.levada, directory, files, peers=True):
        for length in arguments.lens:
            for count in arguments.counts:
                crc = expected(files / FILE, count, length)
                for rtt in arguments.rtts:
                    for turn in range(arguments.turns):
                        for way in ways:
                            if way in SLOW_WAYS and count > SLOW_COUNT_MAX:
                                continue
                            row = measure(arguments, rtt, *range_words(way, arguments, count, length))
                            is_sound = way == "tcp" or row.get("crc") == crc
                            if "failed" not in row and not is_sound:
                                row["failed"] = "other bytes than the file has"
                            note(arguments, {"way": way, "count": count, "len": length, "turn": turn, **row})


def run_parquet(arguments: argparse.Namespace, directory: pathlib.Path) -> None:
    files = directory / "files"
    files.mkdir()
    shutil.copyfile(arguments.table, files / "table.parquet")
    payload = payload_of(arguments.table, arguments.columns.split(","))
    ways = arguments.ways.split(",") if arguments.ways else PARQUET_WAYS
    with Servers(arguments.levada, directory, files, peers=True) as servers:
        for rtt in arguments.rtts:
            for turn in range(arguments.turns):
                for tool in arguments.tools.split(","):
                    learned = f"learned-{rtt}-{turn}-{tool}"
                    path = servers.into_new_directory("table.parquet", learned)
                    others = {
                        "levada-http": f"http://{ADDRESS}:{GATEWAY_HTTP}/files{path}",
                        "nginx": f"http://{ADDRESS}:{NGINX}/table.parquet",
                    }
                    for way in ways:
                        url = others.get(way, f"levada://{ADDRESS}:{META}{path}")
                        words = [sys.executable, HERE / "read_parquet.py", tool, url, arguments.columns]
                        row = measure(arguments, rtt, words, environment_of(way, directory, learned))
                        note(arguments, {"tool": tool, "way": way, "turn": turn, "payload": payload, **row})


def environment_of(way: str, directory: pathlib.Path, learned: str) -> dict[str, str]:
    """What a run learns is there for the next one of its turn, but for another user, who has what the store keeps."""
    environment = {"XDG_CACHE_HOME": str(directory / (f"{learned}-other" if way == "levada-other" else learned))}
    return environment | ({"FSSPEC_LEVADA": '{"ahead": false}'} if way == "levada-plain" else {})


def run_query(arguments: argparse.Namespace, directory: pathlib.Path) -> None:
    files = directory / "files"
    files.mkdir()
    shutil.copyfile(arguments.tree, files / "tree.root")
    ways = arguments.ways.split(",") if arguments.ways else QUERY_WAYS
    has_peers = not set(ways).isdisjoint({"xrootd", "nginx"})
    with Servers(arguments.levada, directory, files, peers=has_peers) as servers:
        for rtt in arguments.rtts:
            for turn in range(arguments.turns):
                learned = f"learned-{rtt}-{turn}"
                path = servers.into_new_directory("tree.root", learned)
                others = {
                    "levada-root": f"root://{ADDRESS}:{GATEWAY_ROOT}/{path}",
                    "xrootd": f"root://{ADDRESS}:{XROOTD}//tree.root",
                    "nginx": f"http://{ADDRESS}:{NGINX}/tree.root",
                    "local": f"{files}/tree.root",
                }
                for way in ways:
                    url = others.get(way, f"levada://{ADDRESS}:{META}{path}")
                    environment = environment_of(way, directory, learned)
                    row = measure(arguments, rtt, [sys.executable, HERE / "read_query.py", way, url], environment)
                    is_sound = row.get("count") == SELECTED_COUNT and abs(row["sum"] - SELECTED_SUM) < 0.01
                    if "failed" not in row and not is_sound:
                        row["failed"] = "another selection than the table has"
                    note(arguments, {"query": way, "turn": turn, **row})


def payload_of(table: pathlib.Path, columns: list[str]) -> int:
    """Bytes that nobody gets around: the footer, and the columns' pieces."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(table)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    pieces = [group.column(number) for group in groups for number in range(found.num_columns)]
    return found.serialized_size + sum(
        piece.total_compressed_size for piece in pieces if piece.path_in_schema.split(".")[0] in columns
    )


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*RTTS])
    emulator = os.environ.get("LEVADA_WAN_EMULATOR")
    parser.add_argument("--emulator", type=pathlib.Path, default=emulator, required=not emulator)
    parser.add_argument("--levada", type=pathlib.Path, default=TARGET / "release" / "levada")
    parser.add_argument("--ranges", type=pathlib.Path, default=TARGET / "release" / "examples" / "ranges")
    parser.add_argument("--rtts", type=numbers)
    parser.add_argument("--mbit", type=int, default=1000, help="what the link carries in a second")
    parser.add_argument("--counts", type=lambda text: [int(word) for word in text.split(",")], default=COUNTS)
    parser.add_argument("--lens", type=lambda text: [int(word) for word in text.split(",")], default=LENS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--ways", help="of those that are there")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--columns", default="rawtr,E33")
    parser.add_argument("--tree", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("wan.jsonl"))
    arguments = parser.parse_args()
    if arguments.what == "parquet" and not arguments.table:
        parser.error("--table is needed")
    if arguments.what == "query" and not arguments.tree:
        parser.error("--tree is needed")
    arguments.rtts = arguments.rtts or numbers(RTTS[arguments.what])
    return arguments


def main() -> None:
    arguments = parsed()
    # XRootD's server, of another user, has to get at the files.
    with tempfile.TemporaryDirectory(prefix="levada-wan-") as name, Namespaces():
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        {"ranges": run_ranges, "parquet": run_parquet, "query": run_query}[arguments.what](arguments, directory)


if __name__ == "__main__":
    main()
