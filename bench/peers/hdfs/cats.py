#!/usr/bin/env python3
"""Several readers at once of one large file, as HADOOP-2758 measured; the whole machine counts. See README.md."""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
import paths  # noqa: E402
from apache import Apache, free_port  # noqa: E402
from bench import GB, HZ, Api, HdfsNative, LevadaCli, congestion, run, spread  # noqa: E402
from store import SUPERUSER, Store  # noqa: E402

import java as javaside  # noqa: E402

PATH = "/file"
# Before each round and behind it: what the machine does by itself.
REST_S = 2.0


def busy() -> float:
    """CPU seconds of the whole machine that were not idle."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(int, open("/proc/stat").readline().split()[1:])
    return (user + nice + system + irq + softirq) / HZ


class OverTcp(LevadaCli):
    """As for a client in a container, which does not find the datanode's Unix socket."""

    def __init__(self, server):
        super().__init__(server)
        (self.socket,) = pathlib.Path(server.directory).glob("data.[0-9]*")
        self.away = self.socket.with_name("away")

    def __enter__(self):
        self.socket.rename(self.away)

    def __exit__(self, *_):
        self.away.rename(self.socket)


class Nginx:
    """The same bytes without checksums, by sendfile."""

    def __init__(self, directory: pathlib.Path, source: pathlib.Path):
        port = free_port()
        (directory / "root").mkdir(parents=True)
        os.link(source, directory / "root" / "file")
        conf = directory / "nginx.conf"
        conf.write_text(
            f"user root; worker_processes auto; daemon off; pid {directory}/pid; error_log {directory}/log;"
            f"events {{}} http {{ access_log off; sendfile on;"
            f" server {{ listen 127.0.0.1:{port}; root {directory}/root; }} }}"
        )
        self.process = subprocess.Popen(["nginx", "-c", str(conf)])
        self.url = f"http://127.0.0.1:{port}/file"

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Curl:
    def __init__(self, server):
        self.url = server.url

    def get(self, _path, _out):
        run(["curl", "-s", "-o", "/dev/null", self.url])


class Cats:
    def __init__(self, arguments):
        self.a = arguments
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="cats", dir=arguments.dir))
        self.rows: dict[tuple, list] = {}

    def run(self):
        source = self.work / "source"
        with open(source, "wb") as out:
            for _ in range(self.a.bytes // (16 << 20)):
                out.write(os.urandom(16 << 20))
        self.len = source.stat().st_size
        (self.work / "hdfs").mkdir()
        servers = {
            "levada": Store(self.work / "levada", "--processes", "--datanodes", "1"),
            "hdfs": Apache(self.work / "hdfs", 1),
        }
        if shutil.which("nginx"):
            servers["nginx"] = Nginx(self.work / "nginx", source)
        else:
            print("nginx is not installed, and left out")
        java = javaside.Java()
        try:
            for name in ("levada", "hdfs"):
                java.mount(servers[name].fs, SUPERUSER, {"dfs.blocksize": 128 << 20, "dfs.replication": 1}).call(
                    "put", timeout=600, local=str(source), path=PATH, overwrite=True, buffer=1 << 20
                )
            self.rounds(servers)
        finally:
            java.stop()
            for server in servers.values():
                server.stop()
        self.table()
        shutil.rmtree(self.work)

    def rounds(self, servers):
        kinds = [
            ("Java API", "hdfs", Api),
            ("Java API", "levada", Api),
            ("hdfs-native", "hdfs", HdfsNative),
            ("hdfs-native", "levada", HdfsNative),
            ("levada cat, TCP", "levada", OverTcp),
            ("levada cat", "levada", LevadaCli),
            ("curl", "nginx", Curl),
        ]
        kinds = [kind for kind in kinds if kind[1] in servers]
        readers = {kind[:2]: [kind[2](servers[kind[1]]) for _ in range(self.a.readers)] for kind in kinds}
        for rep in range(-1, self.a.reps):  # -1 warms up: compilation, caches, first growth
            for kind in kinds if rep % 2 == 0 else kinds[::-1]:
                found = self.once(readers[kind[:2]])
                if rep >= 0:
                    self.rows.setdefault(kind[:2], []).append(found)
        for group in readers.values():
            for reader in group:
                for part in ("jvm", "child"):
                    if hasattr(reader, part):
                        getattr(reader, part).stop()

    def once(self, readers) -> tuple[float, float]:
        """Seconds, and the machine's CPU seconds per GB that was read."""
        before = busy()
        time.sleep(REST_S)
        idle = (busy() - before) / REST_S
        with readers[0] if isinstance(readers[0], OverTcp) else contextlib.nullcontext():
            with ThreadPoolExecutor(len(readers)) as pool:
                before, began = busy(), time.monotonic()
                list(pool.map(lambda reader: reader.get(PATH, None), readers))
                wall = time.monotonic() - began
                used = busy() - before - idle * wall
        return wall, used / (self.len * len(readers) / GB)

    def table(self):
        what = f"{self.a.readers} readers of {self.len / GB:.1f} GB each"
        print(f"\n{what}, {os.cpu_count()} cores, n = {self.a.reps}, {congestion()}\n")
        print("| client | server | wall s | GB/s | machine CPU s/GB |")
        print("|---|---|---|---|---|")
        for (client, server), rows in self.rows.items():
            walls, costs = zip(*rows)
            rate = self.len * self.a.readers / GB / statistics.median(walls)
            print(f"| {client} | {server} | {spread(walls)} | {rate:.2f} | {spread(costs)} |")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--bytes", type=lambda t: int(float(t)), default=2 * 10**9)
    p.add_argument("--readers", type=int, default=6)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--dir", default=str(paths.CACHE), help="a file system with room for 3 x --bytes")
    Cats(p.parse_args()).run()


if __name__ == "__main__":
    main()
