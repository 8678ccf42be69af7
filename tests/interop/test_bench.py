"""`levada bench`: small runs; what it says adds up, and nothing of it stays."""

import json
import os
import pty
import signal
import subprocess
import time

import pytest

import paths
from cli import levada
from store import SUPERUSER, eventually


def bench(store, *words, **how) -> dict:
    return json.loads(levada(store.fs, "bench", *words, "--json", **how).stdout)


def left(root) -> list[str]:
    return [name for name in root.names("/") if name.startswith("bench-")]


def writing(root) -> bool:
    """Some file is there. The directory of the files is made after that of the run."""
    folders = [f"/{name}/0" for name in left(root)]
    return any(root.exists(folder) and root.names(folder) for folder in folders)


@pytest.mark.parametrize("clients", [1, 4])
def test_small_files(store, root, clients):
    found = bench(store, "small", "--clients", clients, "--files", 60, "--size", 4096)
    assert (found["bench"], found["clients"], found["files"], found["size"]) == ("small", clients, 60, 4096)
    assert found["written"] == found["verified"] == 60 and found["verified_by"] == "read"
    assert found["bytes"] == 60 * 4096 and found["seconds"] > 0
    assert found["files_per_s"] == pytest.approx(60 / found["seconds"])
    latency = found["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"] <= found["seconds"] * 1000
    assert left(root) == []


def test_large_files(store, root):
    """Blocks and a tail; sizes that are no multiple of a page or a chunk."""
    found = bench(
        store, "write", "--clients", 2, "--files", 3, "--size", 3_500_001, "--block-size", "1M", "--replication", 2
    )
    assert found["written"] == found["verified"] == 3 and found["replication"] == 2
    assert found["gb_per_s"] == pytest.approx(3 * 3_500_001 / 1e9 / found["seconds"])
    assert left(root) == []


@pytest.mark.levada
@pytest.mark.parametrize("routing", ["chain", "star", "tree"])
def test_routing(store, routing):
    found = bench(store, "write", "--files", 2, "--size", "3M", "--routing", routing)
    assert found["routing"] == routing and found["verified"] == 2


def test_files_of_nothing(store, root):
    found = bench(store, "small", "--files", 5, "--size", 0)
    assert found["verified"] == 5 and found["bytes"] == 0
    assert left(root) == []


@pytest.mark.levada
def test_costs_by_role(up):
    """Each side's share; with a process for each role they are told apart, and fsyncs are counted where they are
    made."""
    store = up("--processes")
    cost = bench(store, "small", "--files", 40)["cost"]
    assert sorted(cost) == ["client", "datanodes", "metadata"]
    assert cost["datanodes"]["processes"] == 3 and cost["metadata"]["processes"] == 1
    for side, share in cost.items():
        assert share["cpu_user_s"] + share["cpu_system_s"] > 0, side
    assert cost["client"]["fsyncs"] is None
    assert cost["datanodes"]["fsyncs"] > 0 and cost["metadata"]["fsyncs"] > 0
    servers = [json.loads(line) for line in levada(store.fs, "bench", "servers", "--json").stdout.splitlines()]
    assert sorted(s["pid"] for s in servers) == sorted(store.pids["meta"] + store.pids["data"])
    assert {s["role"] for s in servers} == {"metadata", "datanode"}


@pytest.mark.levada
def test_roles_in_one_process_are_one(up):
    cost = bench(up(), "small", "--files", 10)["cost"]
    assert sorted(cost) == ["client", "servers"] and cost["servers"]["processes"] == 1


CALLS = ["mkdir", "create", "stat", "open", "addblock", "rename", "delete", "list"]


def test_metadata_calls(up):
    """Every kind with each number of connections, and what the metadata server used for it."""
    store = up("--processes")
    lines = levada(
        store.fs, "bench", "meta", "--connections", "2,5", "--count", 20, "--rounds", 2, "--json"
    ).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["call"], row["connections"]) for row in rows] == [(call, n) for call in CALLS for n in (2, 5)]
    for row in rows:
        assert (row["bench"], row["rounds"], row["server"]) == ("meta", 2, "metadata")
        assert row["count"] == {"stat": 200, "open": 200, "list": 2}.get(row["call"], 20)
        least, most = row["server_cpu_us_range"]
        assert 0 < least <= row["server_cpu_us"] <= most and row["ops_per_s"] > 0 and row["client_cpu_us"] > 0
        latency = row["latency_us"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
        assert (row["server_fsyncs"] > 0) == (row["call"] not in ("stat", "open", "list")), row
        per_entry = row["server_cpu_us_per_entry"]
        assert per_entry == pytest.approx(row["server_cpu_us"] / 1000) if row["call"] == "list" else per_entry is None
    assert levada(store.fs, "ls", "/", "-C").stdout.split() == ["/user"]


def test_metadata_calls_one_by_one(store, root):
    """Any choice of calls makes what it needs; the text says what the figures are."""
    for call in CALLS:
        text = levada(
            store.fs, "bench", "meta", "--calls", call, "--connections", 3, "--count", 5, "--rounds", 1
        ).stdout
        assert text.splitlines()[1].split()[:2] == [call, "3"] and "CPU and fsyncs" in text, text
    refused = levada(store.fs, "bench", "meta", "--calls", "open,none", check=False)
    assert refused.returncode == 2 and "addblock" in refused.stderr
    assert left(root) == []


def test_text_for_people(store):
    text = levada(store.fs, "bench", "small", "--files", 10, "--size", "1K", "--seed", 7).stdout
    for part in ("10 files of 1 KiB by 8 clients", "seed 7", "every byte read back", "p99", "fsyncs", "client"):
        assert part in text, text


def test_kept_files_are_what_the_seed_says(store, root):
    """The same seed writes the same bytes; another one others."""
    sums = []
    for seed in (1, 1, 2):
        found = bench(store, "small", "--files", 2, "--size", 10_000, "--seed", seed, "--keep")
        path = found["dir"].removeprefix(store.fs)
        data = [root.read(f"{path}/0/{n}") for n in (0, 1)]
        assert len(data[0]) == len(data[1]) == 10_000 and data[0] != data[1]
        sums.append(data)
        root.delete(path)
    assert sums[0] == sums[1] != sums[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["small", "--files", "1000000"], ["meta", "--count", "100000"]])
def test_interrupt_leaves_nothing(store, root, number, words):
    command = [str(paths.LEVADA), "bench", *words, "--url", store.fs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: left(root) and root.names(f"/{left(root)[0]}"), 10)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(10) == 128 + number
    assert process.stderr.read() == b""
    time.sleep(0.3)  # what was on its way then
    assert left(root) == []


def test_refusals(store, root):
    run = lambda *words, **how: levada(store.fs, "bench", *words, check=False, **how)
    missing = run("small", "--dir", "/no-such-directory", "--files", 1)
    assert missing.returncode == 1 and "/no-such-directory: no such file" in missing.stderr
    denied = run("small", "--files", 1, user="stranger")
    assert denied.returncode == 1 and "--dir" in denied.stderr
    for words in (("small", "--clients", 0), ("small", "--files", 0), ("nothing",), ("small", "--size", "x"), ()):
        assert run(*words).returncode == 2, words
    huge = run("write", "--files", 10_000_000, "--size", "9000000T")
    assert huge.returncode == 2 and "--files and --size" in huge.stderr
    gone = levada("hdfs://127.0.0.1:1", "bench", "small", check=False)
    assert gone.returncode == 1 and "is the store running" in gone.stderr
    root.mkdirs("/for-bench")
    root.call("set-permission", path="/for-bench", mode="777")
    assert run("small", "--files", 2, "--dir", "/for-bench", user="stranger").returncode == 0
    assert root.names("/for-bench") == []
    root.delete("/for-bench")
    assert left(root) == []


@pytest.mark.levada
def test_files_that_fail_are_told(up, java):
    """All datanodes die in mid-run: each failure has its line, the exit code says so, and nothing stays."""
    store = up("--processes")
    root = java.mount(store.fs, SUPERUSER)
    command = [str(paths.LEVADA), "bench", "small", "--files", "1000000", "--clients", "2", "--url", store.fs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: writing(root), 10)
    for pid in store.pids["data"]:
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "FAILED" in out, out + err
    assert err.count("levada: bench: hdfs://") >= 10, err
    assert left(root) == []


def test_progress_on_a_terminal(store):
    """A bar on standard error while it runs, gone at the end; none for programs."""
    ours, theirs = pty.openpty()
    command = [str(paths.LEVADA), "bench", "write", "--files", "2", "--size", "30M", "--url", store.fs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 4096):
            seen += data
    except OSError:  # the terminal is closed
        pass
    assert process.wait(60) == 0
    assert b"writing" in seen and b"/s" in seen, seen
    os.close(ours)
    assert levada(store.fs, "bench", "small", "--files", 2).stderr == ""
