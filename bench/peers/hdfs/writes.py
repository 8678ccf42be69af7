#!/usr/bin/env python3
"""Writes of one and several clients against Levada and Apache HDFS in turn: large files, and small ones. See
README.md."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
import crc32c  # noqa: E402
import java as javaside  # noqa: E402
import paths  # noqa: E402
from bench import GB, SERVERS, congestion, spread, user_system  # noqa: E402
from others import Native  # noqa: E402
from store import SUPERUSER, eventually, used  # noqa: E402

BLOCK_LARGE = 128 << 20
# Apache HDFS sets a whole block aside for every writer; blocks of 128 MB and 64 writers would ask for more disk than
# there may be.
BLOCK_SMALL = 8 << 20

# --- clients: `large` writes a source to each of several paths at once, `small` many files; both give what the timed
# part took. `cpu()` is that of the client's processes so far, where they live on.


class Api:
    """Hadoop's FileSystem API in one JVM that lives on; each writer has a FileSystem, and so a connection, of its
    own."""

    name = "Java API"

    def __init__(self, server, writers):
        self.jvm = javaside.Java()
        self.systems = [self.jvm.mount(server.fs, SUPERUSER) for _ in range(writers)]

    def cpu(self):
        return sum(user_system(self.jvm.process.pid))

    def large(self, source, targets):
        how = {"local": str(source), "overwrite": True, "buffer": 1 << 20, "block": BLOCK_LARGE}
        begun = time.monotonic()
        running = [fs.start("put", path=path, **how) for fs, path in zip(self.systems, targets)]
        for answer in running:
            answer.get(1800)
        return {"wall": time.monotonic() - begun}

    def small(self, path, files, length):
        how = {
            "path": path,
            "files": files,
            "length": length,
            "systems": [fs.name for fs in self.systems],
            "block": BLOCK_SMALL,
        }
        found = self.jvm.call("small-write", 1800, **how)
        self.check = lambda: self.jvm.call("small-verify", 1800, without=[int(n) for n in found["failed"]], **how)
        return {"wall": found["seconds"], "ms": found["ms"], "failed": list(found["failed"].values())}

    def verify(self):
        assert not (bad := self.check()["failed"]), bad

    def stop(self):
        self.jvm.stop()


class HdfsNative:
    """hdfs-native from PyPI: a process for each writer of large files; for small ones threads of one process, each with
    a client of its own."""

    name = "hdfs-native"

    def __init__(self, server, writers):
        self.writers = writers
        self.children = [Native(server.fs, SUPERUSER)]
        self.more = lambda: Native(server.fs, SUPERUSER)

    def cpu(self):
        return sum(sum(user_system(child.process.pid)) for child in self.children)

    def large(self, source, targets):
        while len(self.children) < len(targets):
            self.children.append(self.more())
        with ThreadPoolExecutor(len(targets)) as pool:
            begun = time.monotonic()
            put = lambda child, path: child.call("put", local=str(source), path=path, block=BLOCK_LARGE)
            list(pool.map(put, self.children, targets))
            return {"wall": time.monotonic() - begun}

    def small(self, path, files, length):
        how = {"path": path, "files": files, "length": length, "threads": self.writers, "block": BLOCK_SMALL}
        found = self.children[0].call("small-write", **how)
        self.check = lambda: self.children[0].call("small-verify", without=[int(n) for n in found["failed"]], **how)
        return {"wall": found["seconds"], "ms": found["ms"], "failed": list(found["failed"].values())}

    def verify(self):
        assert not (bad := self.check()["failed"]), bad

    def stop(self):
        for child in self.children:
            child.stop()


class LevadaBench:
    """`levada bench`, a process for each run. It makes its bytes itself and reads them back; what is timed is the
    writing."""

    name = "levada bench"

    def __init__(self, server, writers):
        self.server, self.writers = server, writers

    def cpu(self):
        return None  # its own report has it

    def bench(self, *words):
        command = [
            paths.LEVADA,
            "bench",
            *words,
            "--clients",
            self.writers,
            "--json",
            "--url",
            self.server.fs,
            "--keep",
        ]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(f"levada bench: {done.stderr}")
        found = json.loads(done.stdout)
        assert found["verified"] == found["written"], done.stderr
        failed = done.stderr.splitlines()
        self.directory = found["dir"].removeprefix(self.server.fs)
        client = found["cost"]["client"]
        ms = found["latency_ms"]
        own = client["cpu_user_s"] + client["cpu_system_s"]
        return {"wall": found["seconds"], "client": own, "p50": ms["p50"], "p99": ms["p99"], "failed": failed}

    def large(self, source, targets):
        return self.bench(
            "write", "--files", len(targets), "--size", source.stat().st_size, "--block-size", BLOCK_LARGE
        )

    def small(self, path, files, length):
        return self.bench("small", "--files", files, "--size", length, "--block-size", BLOCK_SMALL)

    def verify(self):
        pass  # it did

    def stop(self):
        pass


CLIENTS = {"java": Api, "hdfs-native": HdfsNative, "levada": LevadaBench}


def told(text):
    """How far it is, for who waits."""
    print(f"{time.strftime('%H:%M:%S')} load {os.getloadavg()[0]:.1f}: {text}", file=sys.stderr, flush=True)


class Meter:
    """CPU of each role (user and system apart), and fsyncs, of one thing done."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    def roles(self):
        return {
            role: [sum(part) for part in zip(*map(user_system, self.server.pids[role]))] for role in ("data", "meta")
        }

    def measure(self, what) -> dict:
        fsyncs = self.server.fsyncs()
        own, roles = self.client.cpu(), self.roles()
        row = what()
        after = self.client.cpu()
        if row.get("failed") and "ms" in row and not row["ms"]:
            raise SystemExit(f"every file failed, the first: {row['failed'][0][:300]}")
        if "client" not in row:
            row["client"] = after - own
        time.sleep(0.5)  # what the servers put off until after the answer is theirs as well
        roles_after, fsyncs_after = self.roles(), self.server.fsyncs()
        for role in roles:
            row[f"{role}_user"], row[f"{role}_system"] = (b - a for a, b in zip(roles[role], roles_after[role]))
            row[f"{role}_fsyncs"] = fsyncs_after[role] - fsyncs[role]
        if "ms" in row:
            ms = sorted(row.pop("ms"))
            row["p50"], row["p99"] = ms[len(ms) // 2], ms[-(-99 * len(ms) // 100) - 1]
        return row


class Bench:
    def __init__(self, arguments):
        self.a = arguments
        self.work = pathlib.Path(arguments.dir).absolute()
        self.rows: dict[tuple, list] = {}

    def run(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        kind = "debug" if "debug" in paths.LEVADA.parts else "release"
        print(
            f"{os.cpu_count()} cores, {congestion()}, n = {self.a.reps}, "
            f"levada: {kind} build, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.work, True)
            self.servers = {}
            for name in self.a.servers:
                folder = self.work / name
                folder.mkdir()
                self.servers[name] = SERVERS[name](folder if name.startswith("hdfs") else folder / "store")
                stack.callback(self.servers[name].stop)
            self.judge = javaside.Java()
            stack.callback(self.judge.stop)
            if "large" in self.a.what:
                for writers in self.a.writers:
                    self.large(writers)
            if "small" in self.a.what:
                for writers in self.a.small_writers:
                    self.small(writers)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")

    def keep(self):
        """What is there so far: a run takes long."""
        if self.a.json:
            rows = [{"row": key, "runs": runs} for key, runs in self.rows.items()]
            pathlib.Path(self.a.json).write_text(json.dumps(rows, indent=1))

    def clients(self, writers, servers):
        """(client, server) pairs, clients as long as they are needed."""
        for client in self.a.clients:
            made = {name: CLIENTS[client](self.servers[name], writers) for name in servers}
            yield client, made
            for one in made.values():
                one.stop()

    # --- large files

    def source(self, length):
        path, sum_ = self.work / "source", 0
        with open(path, "wb") as f:
            for begin in range(0, length, 16 << 20):
                data = os.urandom(min(length - begin, 16 << 20))
                sum_ = crc32c.crc32c(data, sum_)
                f.write(data)
        return path, f"COMPOSITE-CRC32C {sum_:08x}"

    def floor(self, source, writers):
        """Three plain copies of all bytes, side by side: what the page cache asks of anybody who writes them thrice."""
        copy = f"for i in $(seq {writers}); do cat {source}; done > {self.work}/copy$n"
        command = f"for n in 1 2 3; do ({copy}) & done; wait"
        before, begun = os.times(), time.monotonic()
        subprocess.run(["sh", "-c", command], check=True)
        wall, after = time.monotonic() - begun, os.times()
        for n in (1, 2, 3):
            (self.work / f"copy{n}").unlink()
        os.sync()
        user, system = after.children_user - before.children_user, after.children_system - before.children_system
        row = {"wall": wall, "client": 0, "data_user": user, "data_system": system, "meta_user": 0, "meta_system": 0}
        self.rows.setdefault(("large", writers, "three plain writers", "-"), []).append(row)

    def large(self, writers):
        servers = [name for name in self.servers if name != "hdfs-synced"]
        source, sum_ = self.source(self.a.bytes // writers)
        # Not counted: code is compiled, connections are made.
        for name in servers if writers == self.a.writers[0] else []:
            self.large_once(1, "java", Api(self.servers[name], 1), name, source, sum_, counted=False)
        for client, made in self.clients(writers, servers):
            for rep in range(self.a.reps):
                self.floor(source, writers)
                for name in servers if rep % 2 == 0 else servers[::-1]:
                    self.large_once(writers, client, made[name], name, source, sum_)
        source.unlink()
        self.keep()
        self.large_table(writers)

    def large_once(self, writers, client, made, name, source, sum_, counted=True):
        server = self.servers[name]
        empty = sum(map(used, server.data_dirs))
        subprocess.run(["cat", str(source)], stdout=subprocess.DEVNULL)  # it is in the page cache
        targets = [f"/large-{n}" for n in range(writers)]
        row = Meter(server, made).measure(lambda: made.large(source, targets))
        told(f"large, {writers} writers, {client}, {name}: {row['wall']:.2f} s")
        fs = self.judge.mount(server.fs, SUPERUSER, {"dfs.checksum.combine.mode": "COMPOSITE_CRC"})
        if client == "levada":  # it compared every byte
            fs.delete(made.directory)
        else:
            for path in targets:
                if fs.checksum(path) != sum_:
                    raise SystemExit(f"{client} on {name}: {path} is not what was written")
                fs.delete(path)
        fs.unmount()
        if counted:
            self.rows.setdefault(("large", writers, client, name), []).append(row)
        else:
            made.stop()
        eventually(
            lambda: sum(map(used, server.data_dirs)) < empty + (64 << 20), 180, f"{name} frees the blocks", every=0.5
        )
        self.settle(server)

    def large_table(self, writers):
        gb = self.a.bytes // writers * writers / GB
        rows = [(key, runs) for key, runs in self.rows.items() if key[:2] == ("large", writers)]
        floor = statistics.median(
            r["data_user"] + r["data_system"] for r in self.rows[("large", writers, "three plain writers", "-")]
        )
        print(f"\n{gb:g} GB with 3 replicas by {writers} writer{'s' * (writers > 1)}\n")
        print(
            "| client | server | wall s | GB/s | client CPU s/GB | datanodes CPU s/GB | user | "
            "system | above the floor | metadata CPU s/GB |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for (_, _, client, name), runs in rows:
            per = lambda of: spread([of(row) / gb for row in runs])
            wall = [row["wall"] for row in runs]
            data = lambda row: row["data_user"] + row["data_system"]
            cells = [spread(wall), f"{gb / statistics.median(wall):.2f}", per(lambda r: r["client"]), per(data)]
            cells += [per(lambda r: r["data_user"]), per(lambda r: r["data_system"])]
            cells += [
                f"{(statistics.median(map(data, runs)) - floor) / gb:.2f}",
                per(lambda r: r["meta_user"] + r["meta_system"]),
            ]
            label = CLIENTS[client].name if client in CLIENTS else client
            if name == "-":
                cells[2] = cells[6] = cells[7] = "–"
            print(f"| {label} | {name} | {' | '.join(cells)} |", flush=True)

    # --- small files

    def small(self, writers):
        for client, made in self.clients(writers, self.servers):
            for rep in range(-1, self.a.reps):  # -1 warms up: compilation, connections, first growth
                for name in list(self.servers) if rep % 2 == 0 else list(self.servers)[::-1]:
                    self.small_once(writers, client, made[name], name, rep)
        self.keep()
        self.small_table(writers)

    def small_once(self, writers, client, made, name, rep):
        server = self.servers[name]
        files = self.a.files // (8 if name.startswith("hdfs") else 1) // (2 if rep < 0 else 1)
        path = f"/small-{client}"
        fs = self.judge.mount(server.fs, SUPERUSER)
        fs.mkdirs(path)
        row = Meter(server, made).measure(lambda: made.small(path, files, self.a.length))
        told(f"{files} small files, {writers} writers, {client}, {name}: {row['wall']:.2f} s")
        made.verify()
        fs.delete(path)
        if client == "levada":
            fs.delete(made.directory)
        fs.unmount()
        self.settle(server)
        if rep >= 0:
            failed = row["failed"]
            if failed:
                print(
                    f"{CLIENTS[client].name}, {writers} writers, {name}: "
                    f"{len(failed)} of {files} files failed, the first: {failed[0][:300]}",
                    flush=True,
                )
            self.rows.setdefault(("small", writers, client, name), []).append({**row, "files": files - len(failed)})

    def small_table(self, writers):
        rows = [(key, runs) for key, runs in self.rows.items() if key[:2] == ("small", writers)]
        print(f"\nFiles of {self.a.length} bytes with 3 replicas by {writers} writers\n")
        print(
            "| client | server | files/s | p50 ms | p99 ms | client CPU ms/file | servers CPU ms/file | of it "
            "datanodes | "
            "metadata | fsyncs/file, datanodes | metadata |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for (_, _, client, name), runs in rows:
            per = lambda of: spread([of(row) / row["files"] for row in runs])
            data = lambda r: 1e3 * (r["data_user"] + r["data_system"])
            meta = lambda r: 1e3 * (r["meta_user"] + r["meta_system"])
            rates = [row["files"] / row["wall"] for row in runs]
            cells = [f"{statistics.median(rates):.0f} [{min(rates):.0f}-{max(rates):.0f}]"]
            cells += [spread([row[key] for row in runs]) for key in ("p50", "p99")]
            cells += [per(lambda r: 1e3 * r["client"]), per(lambda r: data(r) + meta(r)), per(data), per(meta)]
            cells += [per(lambda r: r["data_fsyncs"]), per(lambda r: r["meta_fsyncs"])]
            print(f"| {CLIENTS[client].name} | {name} | {' | '.join(cells)} |", flush=True)

    def settle(self, server):
        """Until the servers have tidied up and the disk is quiet: the next run should not pay for this one."""
        os.sync()
        pids = [pid for group in server.pids.values() for pid in group]
        before, until = None, time.monotonic() + 60
        while time.monotonic() < until:
            now = sum(sum(user_system(pid)) for pid in pids)
            if before is not None and now - before < 0.05:
                return
            before = now
            time.sleep(1)


def main():
    words = lambda text: text.split(",")
    numbers = lambda text: list(map(int, text.split(",")))
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--what", type=words, default=["large", "small"])
    p.add_argument(
        "--bytes", type=lambda t: int(float(t)), default=2 * 10**9, help="of all large files of a run together"
    )
    p.add_argument("--writers", type=numbers, default=[1, 3], help="of large files")
    p.add_argument("--small-writers", type=numbers, default=[8, 64])
    p.add_argument(
        "--files",
        type=int,
        default=4000,
        help="small files of a run; an eighth of it on Apache HDFS, which takes longer",
    )
    p.add_argument("--length", type=int, default=4096, help="of a small file")
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--clients", type=words, default=list(CLIENTS))
    p.add_argument("--servers", type=words, default=[name for name in SERVERS if name != "levada-before"])
    p.add_argument("--quick", action="store_true", help="little of everything, once: to see that it works")
    p.add_argument(
        "--dir", default=str(paths.CACHE / "bench-writes"), help="a file system with room for 5 x --bytes and 2 GB"
    )
    p.add_argument("--json", help="also write every run here")
    a = p.parse_args()
    if a.quick:
        a.bytes, a.files, a.reps = 60 * 10**6, 200, 1
    # Asked to end, it tidies up as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Bench(a).run()


if __name__ == "__main__":
    main()
