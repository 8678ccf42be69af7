#!/usr/bin/env python3
"""Put and get of one large file by each client, against Levada and Apache HDFS in turn; one table. See README.md."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
import crc32c  # noqa: E402
import java as javaside  # noqa: E402
import paths  # noqa: E402
from apache import Apache  # noqa: E402
from others import Native  # noqa: E402
from store import SUPERUSER, Store, eventually, memory, used  # noqa: E402

GB = 1e9
HZ = os.sysconf("SC_CLK_TCK")


def user_system(pid: int) -> tuple[float, float]:
    """CPU seconds of a process."""
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0, 0.0
    return int(fields[11]) / HZ, int(fields[12]) / HZ


def cpu(pid: int) -> float:
    return sum(user_system(pid))


# --- servers


class Levada(Store):
    name = "Levada"

    def __init__(self, directory, *options):
        super().__init__(directory, "--processes", *options)

    def fsyncs(self) -> dict:
        """By role: all waits for a disk, as the servers count them themselves."""
        found = {"meta": 0, "data": 0}
        command = [str(self.binary), "bench", "servers", "--json", "--url", self.fs]
        for line in subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines():
            server = json.loads(line)
            found["meta" if server["role"] == "metadata" else "data"] += server["fsyncs"]
        return found


class Before(Levada):
    """Another build of it, beside which a change is measured; `levada` as a client may not speak to it."""

    name = "Levada, before"
    binary = os.environ.get("LEVADA_BEFORE")


SERVERS = {
    "levada": lambda d: Levada(d),  # default: a block is acknowledged when it is on disk
    "levada-replicated": lambda d: Levada(d, "--durability", "replicated"),  # in memory of all replicas, as HDFS
    "levada-before": lambda d: Before(d),  # the binary that LEVADA_BEFORE names
    "hdfs": lambda d: Apache(d),
    "hdfs-synced": lambda d: Apache(d, settings={"dfs.datanode.synconclose": "true"}),  # on disk, as Levada's default
}

# --- clients: put(local, path) and get(path) -> bytes read; `pid` when it lives on, else children are counted


class Shell:
    """`hdfs dfs`: a JVM for each command, start-up included, options as Hadoop ships them."""

    pid = None

    def __init__(self, server):
        self.url = server.fs

    def command(self, *words):
        command = javaside.java_command(
            "org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={self.url}", *words, quick=False
        )
        return [word for word in command if not word.startswith("-Xmx")]

    def put(self, local, path):
        run(self.command("-put", "-f", str(local), path))

    def get(self, path, out):
        run(self.command("-cat", path), out)


class Api:
    """One JVM that lives on; a first pass warms it up and is not counted."""

    def __init__(self, server):
        self.jvm = javaside.Java()
        self.pid = self.jvm.process.pid
        self.fs = self.jvm.mount(server.fs, SUPERUSER, {"dfs.blocksize": 128 << 20})

    def put(self, local, path):
        self.fs.call("put", timeout=600, local=str(local), path=path, overwrite=True, buffer=1 << 20)

    def get(self, path, out):
        if out is None:
            self.fs.call("drain", timeout=600, path=path)
        else:
            self.fs.call("get", timeout=600, path=path, local=out.name)


class HdfsNative:
    def __init__(self, server):
        self.child = Native(server.fs, SUPERUSER)
        self.pid = self.child.process.pid

    def put(self, local, path):
        self.child.call("put", local=str(local), path=path)

    def get(self, path, out):
        self.child.call("get", path=path, local="/dev/null" if out is None else out.name)


class LevadaCli:
    """A process for each command."""

    pid = None

    def __init__(self, server):
        self.environment = {**os.environ, "LEVADA_URL": server.fs}

    def put(self, local, path):
        run([str(paths.LEVADA), "put", "-f", str(local), path], environment=self.environment)

    def get(self, path, out):
        run([str(paths.LEVADA), "cat", path], out, environment=self.environment)


CLIENTS = {"hdfs dfs": Shell, "Java API": Api, "hdfs-native": HdfsNative, "levada": LevadaCli}


def run(command, out=None, environment=None):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=out or subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[-4:])}: {done.returncode}\n{done.stderr.decode()[-2000:]}")


def children() -> float:
    t = os.times()
    return t.children_user + t.children_system


class Meter:
    """Wall time, and CPU seconds of the client and of each role, of one thing done."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def sample(self):
        own = cpu(self.client.pid) if self.client.pid else children()
        return time.monotonic(), own, *(sum(map(cpu, self.server.pids[role])) for role in ("data", "meta"))

    def measure(self, what) -> dict:
        before = self.sample()
        what()
        # Work that the servers put off until after the answer is theirs as well.
        wall, own = (b - a for a, b in zip(before[:2], self.sample()[:2]))
        time.sleep(0.5)
        data, meta = (b - a for a, b in zip(before[2:], self.sample()[2:]))
        return {"wall": wall, "client": own, "data": data, "meta": meta}


class Bench:
    def __init__(self, arguments):
        self.a = arguments
        self.gb = arguments.bytes / GB
        self.work = pathlib.Path(arguments.dir).absolute()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.rows: dict[tuple, list] = {}

    def source(self):
        path = self.work / "source"
        sum_ = 0
        with open(path, "wb") as f:
            left = self.a.bytes
            while left:
                data = os.urandom(min(left, 16 << 20))
                sum_ = crc32c.crc32c(data, sum_)
                f.write(data)
                left -= len(data)
        return path, f"COMPOSITE-CRC32C {sum_:08x}"

    def floor(self, source):
        """What the machine itself asks for three plain copies, and for reading one file."""
        for name, command in (
            ("3 plain copies", f"for i in 1 2 3; do cat {source} > {self.work}/copy$i; done; rm {self.work}/copy?"),
            ("plain read", f"cat {source} > /dev/null"),
        ):
            walls, costs = [], []
            for _ in range(self.a.reps):
                os.sync()
                wall, before = time.monotonic(), children()
                run(["sh", "-c", command])
                walls.append((time.monotonic() - wall))
                costs.append((children() - before) / self.gb)
            print(
                f"floor: {name}: {statistics.median(walls):.2f} s, {statistics.median(costs):.3f} CPU s/GB", flush=True
            )

    def start(self):
        servers = {}
        for name in self.a.servers:
            folder = self.work / name
            folder.mkdir()
            servers[name] = SERVERS[name](folder / "store" if not name.startswith("hdfs") else folder)
        return servers

    def starts(self):
        """Start to ready, and resident memory when idle, each from an empty directory."""
        for name in self.a.servers:
            ready, resident = [], []
            for i in range(self.a.starts if not name.startswith("hdfs") else 1):
                folder = self.work / f"start-{name}-{i}"
                folder.mkdir()
                server = SERVERS[name](folder / "store" if not name.startswith("hdfs") else folder)
                time.sleep(3)
                ready.append(server.ready_s)
                pids = [p for group in server.pids.values() for p in group]
                resident.append(sum(memory(p, "VmRSS") for p in pids) / 1e6)
                server.stop()
            self.report_start(name + " --processes" if not name.startswith("hdfs") else server.name, ready, resident)
        if any(name.startswith("levada") for name in self.a.servers):
            ready, resident = [], []
            for i in range(self.a.starts):
                store = Store(self.work / f"start-one-{i}")
                time.sleep(3)
                ready.append(store.ready_s)
                resident.append(memory(store.process.pid, "VmRSS") / 1e6)
                store.stop()
            self.report_start("levada up (one process)", ready, resident)

    def report_start(self, name, ready, resident):
        print(
            f"start: {name}: ready after {statistics.median(ready):.2f} s "
            f"[{min(ready):.2f}-{max(ready):.2f}], idle {statistics.median(resident):.0f} MB resident",
            flush=True,
        )

    def run(self):
        source, self.sum = self.source()
        print(
            f"{self.a.bytes / GB:g} GB, replication 3, {os.cpu_count()} cores, n = {self.a.reps}, {congestion()}",
            flush=True,
        )
        self.starts()
        self.floor(source)
        servers = self.start()
        judge = javaside.Java()
        try:
            for client in self.a.clients:
                clients = {name: CLIENTS[client](server) for name, server in servers.items()}
                for rep in range(-1, self.a.reps):  # -1 warms up: compilation, caches, first growth
                    order = list(servers)
                    for name in order if rep % 2 == 0 else order[::-1]:
                        self.once(judge, servers[name], clients[name], client, name, source, rep)
                for one in clients.values():
                    for part in ("jvm", "child"):
                        if hasattr(one, part):
                            getattr(one, part).stop()
        finally:
            judge.stop()
            for server in servers.values():
                server.stop()
        self.table()
        shutil.rmtree(self.work)

    def once(self, judge, server, client, client_name, server_name, source, rep):
        path = "/bench"
        empty = sum(map(used, server.data_dirs))
        run(["cat", str(source)])  # the source is in the page cache
        meter = Meter(server, client)
        put = meter.measure(lambda: client.put(source, path))
        fs = judge.mount(server.fs, SUPERUSER, {"dfs.checksum.combine.mode": "COMPOSITE_CRC"})
        found = fs.checksum(path)
        if found != self.sum:
            raise SystemExit(f"{client_name} put on {server_name}: {found} instead of {self.sum}")
        os.sync()
        if rep < 0:  # byte for byte, once for each client and server; the timed reads verify checksums
            copy = self.work / "copy"
            with open(copy, "wb") as out:
                client.get(path, out)
            run(["cmp", str(source), str(copy)])
            copy.unlink()
        get = meter.measure(lambda: client.get(path, None))
        if rep >= 0:
            self.rows.setdefault(("put", client_name, server_name), []).append(put)
            self.rows.setdefault(("get", client_name, server_name), []).append(get)
        fs.delete(path)
        fs.unmount()
        eventually(
            lambda: sum(map(used, server.data_dirs)) < empty + (64 << 20),
            180,
            f"{server_name} frees the blocks",
            every=0.5,
        )
        os.sync()

    def table(self):
        print()
        print("| | client | server | wall s | GB/s | client CPU s/GB | datanodes CPU s/GB | metadata CPU s/GB |")
        print("|---|---|---|---|---|---|---|---|")
        for (what, client, server), rows in sorted(
            self.rows.items(), key=lambda kv: (kv[0][0] == "get", self.a.clients.index(kv[0][1]))
        ):
            wall = [row["wall"] for row in rows]
            cells = [spread(wall), f"{self.gb / statistics.median(wall):.2f}"]
            cells += [spread([row[key] / self.gb for row in rows]) for key in ("client", "data", "meta")]
            print(f"| {what} | {client} | {server} | {' | '.join(cells)} |")
        if self.a.json:
            rows = [{"op": o, "client": c, "server": s, "runs": runs} for (o, c, s), runs in self.rows.items()]
            pathlib.Path(self.a.json).write_text(json.dumps(rows, indent=1))


def spread(values) -> str:
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.2f}-{max(values):.2f}]"


def congestion() -> str:
    return "TCP " + open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()


def main():
    words = lambda text: text.split(",")
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--bytes", type=lambda t: int(float(t)), default=2 * 10**9)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--starts", type=int, default=5)
    p.add_argument("--clients", type=words, default=list(CLIENTS))
    p.add_argument("--servers", type=words, default=["levada", "levada-replicated", "hdfs"])
    p.add_argument("--dir", default=str(paths.CACHE / "bench"), help="a file system with room for 10 x --bytes")
    p.add_argument("--json", help="also write every run here")
    Bench(p.parse_args()).run()


if __name__ == "__main__":
    main()
