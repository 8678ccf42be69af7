"""Runs the script of commands against any HDFS, in one JVM, and writes what it says in a form that can be compared."""

import base64
import gzip
import json
import pathlib
import re
import shlex
import subprocess
import time

import paths
from store import SUPERUSER

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "script.txt"
# What Apache HDFS said, written by record.py.
GOLDEN = HERE / "apache-3.5.0.json"
# Where Levada says something else, and why: a command a line, under the reason.
DIFFERENT = HERE / "different.txt"

SERVER_LIB = paths.SERVER_LIB
# The test's own directory, and what the machine says of itself.
LOCAL = "$L"


class Shell:
    """The JVM of tests/interop/java/Shell.java, with the class path of Hadoop's own `hdfs`."""

    def __init__(self, fs: str, timezone: str = "UTC"):
        classpath = f"{paths.JAVA_CONF}:{paths.JAVA_CLASSES}:{SERVER_LIB}/*"
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.timezone={timezone}"]
        self.process = subprocess.Popen(
            ["java", *quick, "-cp", classpath, "Shell", fs], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, user: str, tool: str, stdin: str, words: list[str]) -> tuple[int, str, str]:
        line = b" ".join(base64.b64encode(word.encode()) for word in (user, tool, stdin, *words))
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode()
        if not answer:
            raise AssertionError(f"the JVM ended at {tool} {' '.join(words)}")
        code, out, err = answer.rstrip("\n").split(" ")
        return int(code), *(base64.b64decode(text).decode(errors="replace") for text in (out, err))

    def stop(self):
        self.process.kill()
        self.process.wait()


def lines() -> list[str]:
    text = SCRIPT.read_text().splitlines()
    return [line.strip() for line in text if line.strip() and not line.startswith("#")]


def local_files(directory: pathlib.Path):
    """What the script puts: always the same bytes."""
    directory.mkdir(parents=True)
    (directory / "small").write_text("one\ntwo\nthree\n")
    (directory / "moved").write_text("moved away\n")
    (directory / "lines").write_text("".join(f"line {number}\n" for number in range(500)))
    (directory / "blocks").write_bytes(bytes(range(256)) * 10_000)
    sub = directory / "tree" / "sub"
    sub.mkdir(parents=True)
    (directory / "tree" / "top").write_text("top\n")
    (directory / "tree" / "zipped.gz").write_bytes(gzip.compress(b"unzipped\n", mtime=0))
    (sub / "a").write_text("a without newline")
    (sub / "b").write_text("b\n")
    for path in [*directory.rglob("*"), directory]:
        path.chmod(0o755 if path.is_dir() else 0o644)


# One rule a line: what differs between two runs of the same store, and is no answer of its own.
RULES = [
    (r"(?m)^(?:\d\d/){2}\d\d \d\d:\d\d:\d\d (?:ERROR|WARN|INFO) .*\n(?:\tat .*\n|Caused by.*\n)*", ""),
    (r"(?m)^\s*at [\w.$/]+\(.*\)\n+|^\s*\.\.\. \d+ more\n", ""),
    (r"hdfs://127\.0\.0\.1:\d+", "hdfs://STORE"),
    (r"(?:\w[\w.-]*/)?127\.0\.0\.1:\d+", "NODE"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "TIME"),
    (r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}", "TIME"),
    (r"\.Trash/\d{12}", ".Trash/TIME"),
    (r"blk_-?\d+(_\d+)?", "BLOCK"),
    (r"\(inode \d+\)", "(inode N)"),
    (r"DFSClient_NONMAPREDUCE_-?\d+_\d+", "CLIENT"),
    (r"(?<=Hostname: ).*", "HOST"),
    (r"(?<=NamenodeHostName:)\S+", "HOST"),
    (r"Call From .*? to .*? failed", "Call failed"),
]


def normal(text: str, directory: pathlib.Path) -> str:
    text = text.replace(str(directory), LOCAL)
    for pattern, instead in RULES:
        text = re.sub(pattern, instead, text)
    return text


# Sizes of the machine's disks, and how full they are.
FIGURES = re.compile(r"^dfs -df|^dfsadmin -report")

# No block more or less is reported for so long: several heartbeats of Apache HDFS.
UNCHANGED_S = 8
SETTLED_MAX_S = 60

# Figures of a report that are the store's own, and the same in any: how many blocks are in what state, how many nodes.
KEPT = re.compile(
    r"\s*(Under replicated|Blocks with|Missing|Low redundancy|Badly|Live|Dead|Decommission|Num of Blocks)"
)


def without_sizes(report: str) -> str:
    """Each node's count of blocks is a matter of placement; their sum is not."""
    kept, block_count = [], 0
    for line in report.splitlines(keepends=True):
        if line.startswith("Num of Blocks"):
            block_count += int(line.split(":")[1])
            continue
        if not KEPT.match(line):
            line = re.sub(r"[\d.]+ ?([KMGTP]?B?)?(?= |\)|%|$)", "0", line, flags=re.M)
        kept.append(re.sub(r"[ \t]+", " ", line))
    return "".join(kept) + (f"Num of Blocks of all: {block_count}\n" if block_count else "")


# A local directory's files come in no order, nor do the attributes that Java has in a map.
UNSORTED = re.compile(r"-put.*tree|-getfattr")


def settle(shell: Shell, wanted: int | None):
    """Replicas of files that were deleted, or of fewer copies than before, go in the background: waits until `wanted`
    are reported, or until their number stays as it is."""
    block_count, since = None, 0.0
    until = time.monotonic() + SETTLED_MAX_S
    while time.monotonic() < until:
        _, out, _ = shell.run(SUPERUSER, "dfsadmin", "", ["-report"])
        counted = sum(int(count) for count in re.findall(r"Num of Blocks: (\d+)", out))
        if counted != block_count:
            block_count, since = counted, time.monotonic()
        if counted == wanted or wanted is None and time.monotonic() > since + UNCHANGED_S:
            return
        time.sleep(0.5)


def play(fs: str, directory: pathlib.Path, golden: list[dict] = []) -> list[dict]:
    """Every command of the script with its exit code, output and errors, in order. `golden`: what they shall be."""
    local_files(directory)
    shell = Shell(fs)
    results = []
    try:
        for number, line in enumerate(lines()):
            user, _, command = line.partition(": ") if re.match(r"\w+: ", line) else (SUPERUSER, "", line)
            command, _, stdin = command.partition(" < ")
            words = [word.replace(LOCAL, str(directory)) for word in shlex.split(command)]
            if line in ("dfsadmin -report", "dfsadmin -safemode enter"):
                reported = re.findall(r"Num of Blocks of all: (\d+)", "".join(row["out"] for row in golden[number:]))
                settle(shell, int(reported[0]) if reported else None)
            code, out, err = shell.run(user, words[0], stdin, words[1:])
            out, err = normal(out, directory), normal(err, directory)
            if UNSORTED.search(line):
                out, err = ("".join(sorted(text.splitlines(keepends=True))) for text in (out, err))
            if FIGURES.match(line):
                out = without_sizes(out)
            results.append({"command": line, "code": code, "out": out, "err": err})
    finally:
        shell.stop()
    return results


def dump(results: list[dict]) -> str:
    return "[\n" + ",\n".join(json.dumps(result, ensure_ascii=False) for result in results) + "\n]\n"
