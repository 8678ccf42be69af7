#!/usr/bin/env python3
"""One large file written and read by `hdfs dfs` with a ticket, for each protection of data transfer. See README.md."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "interop"))
from apache import OPENS, Apache, free_port  # noqa: E402
from bench import cpu, spread  # noqa: E402
from kerberos import REALM, SecureUp  # noqa: E402
from store import die_with_parent, eventually, used  # noqa: E402

import apache  # noqa: E402

SUITE = "AES/CTR/NoPadding"
# What data transfer agrees on, and the suite that servers and client know beside SASL's own ciphers.
MODES = {"authentication": None, "integrity": None, "privacy": None, "privacy-aes": SUITE}
READY_S = 90


class Kerberized(Apache):
    """One realm's namenode and datanodes, all by one keytab. Their web pages ask for nothing: nobody uses them. The KDC
    knows `nn`, `dn` and `HTTP` of localhost."""

    def __init__(
        self,
        secure,
        directory: pathlib.Path,
        protection: str,
        suite: str | None,
        datanodes: int = 3,
        more: dict | None = None,
    ):
        """`more`: settings of all servers beside those."""
        self.secure = secure
        names = ["nn/localhost", "dn/localhost", "HTTP/localhost"]
        keytab = directory / "hdfs.keytab"
        secure.kdc.keytab(keytab, *(f"{name}@{REALM}" for name in names))
        both = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "hadoop.rpc.protection": "authentication",
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": protection,
            "dfs.namenode.kerberos.principal": f"nn/localhost@{REALM}",
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.kerberos.principal": f"dn/localhost@{REALM}",
            "dfs.datanode.keytab.file": keytab,
            "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
            "dfs.web.authentication.kerberos.keytab": keytab,
            "dfs.datanode.hostname": "localhost",
            # Datanodes' ports are above 1024, and their pages no HTTPS.
            "ignore.secure.ports.for.testing": "true",
            **({"dfs.encrypt.data.transfer.cipher.suites": suite} if suite else {}),
            **(more or {}),
        }
        super().__init__(directory, datanodes, settings=both, names={**both, "fs.defaultFS": "PLACE"})

    def _conf(self, role, settings):
        self.fs = f"hdfs://localhost:{self.rpc}"
        super()._conf(role, {**settings, "fs.defaultFS": self.fs, "dfs.namenode.rpc-address": f"localhost:{self.rpc}"})

    def _java(self, role, *words):
        classpath = f"{self.directory}/conf/{role}:{apache.HOME}/lib/*:{apache.HOME}/web"
        out = open(self.directory / f"{role}.out", "ab")
        command = ["java", *self.secure.kdc.java_options, *OPENS, "-cp", classpath, *words]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=self.secure.kdc.environment,
            preexec_fn=die_with_parent,
        )

    def _wait(self, datanodes):
        def live():
            url = f"http://127.0.0.1:{self.http['meta'][0]}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return json.load(answer)["beans"][0]["NumLiveDataNodes"] == datanodes
            except (OSError, LookupError, ValueError):
                return False

        eventually(live, READY_S, f"Apache HDFS starts; see {self.directory}", every=0.5)


class Side:
    """A store of one side, and `hdfs dfs` with the ticket of its superuser."""

    def __init__(self, name: str, secure, store, mode: str):
        self.name, self.secure, self.store = name, secure, store
        protection, suite = mode.removesuffix("-aes"), MODES[mode]
        self.options = ["-D", f"dfs.data.transfer.protection={protection}"]
        self.options += ["-D", f"dfs.encrypt.data.transfer.cipher.suites={suite}"] if suite else []

    def dfs(self, *words, out=None) -> dict:
        """CPU seconds of the datanodes, of the rest, and of the client."""
        shell = ["org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={self.store.fs}", *self.options, *map(str, words)]
        command = [word for word in self.secure.java(*shell) if not word.startswith("-Xmx")]
        before, children, begun = self.spent(), os.times(), time.monotonic()
        done = subprocess.run(
            command, env=self.secure.environment(self.secure.superuser), stdin=subprocess.DEVNULL,
            stdout=out or subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wall, after = time.monotonic() - begun, os.times()
        if done.returncode:
            raise SystemExit(f"{self.name}: hdfs dfs {words[0]} ended with {done.returncode}\n{done.stderr[-3000:]}")
        time.sleep(0.5)
        client = after.children_user + after.children_system - children.children_user - children.children_system
        data, meta = (now - then for now, then in zip(self.spent(), before))
        return {"datanodes": data, "metadata": meta, "client": client, "wall": wall}

    def spent(self) -> list[float]:
        return [sum(map(cpu, self.store.pids[role])) for role in ("data", "meta")]


def run(mode: str, asked, directory: pathlib.Path) -> dict:
    """Figures by side and operation, in CPU seconds a GB."""
    found: dict[tuple[str, str], list[dict]] = {}
    protection = mode.removesuffix("-aes")
    source, copy = directory.parent / "source", directory / "copy"
    directory.mkdir()
    with SecureUp(directory / "levada", "--processes", "--data-transfer-protection", protection) as secure:
        sides = [Side("levada", secure, secure.roles, mode)]
        other = None
        if "hdfs" in asked.servers:
            (directory / "hdfs").mkdir()
            secure.kdc.principal(f"dn/localhost@{REALM}")
            other = Kerberized(secure, directory / "hdfs", protection, MODES[mode])
            sides.append(Side("hdfs", secure, other, mode))
        try:
            for rep in range(-1, asked.reps):  # the first one warms up
                for side in sides if rep % 2 else sides[::-1]:
                    put = side.dfs("-put", "-f", source, "/bench")
                    if rep < 0:
                        side.dfs("-get", "-f", "/bench", copy)
                        subprocess.run(["cmp", source, copy], check=True)
                        copy.unlink()
                    get = side.dfs("-cat", "/bench")
                    if rep >= 0:
                        for what, figures in [("put", put), ("get", get)]:
                            found.setdefault((side.name, what), []).append(figures)
                    side.dfs("-rm", "-skipTrash", "/bench")
                    eventually(
                        lambda: sum(map(used, side.store.data_dirs)) < 64 << 20, 180, "its blocks are gone", every=0.5
                    )
        finally:
            if other:
                other.stop()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=10**9)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--servers", type=lambda text: text.split(","), default=["levada", "hdfs"])
    parser.add_argument("--dir", type=pathlib.Path, help="where the stores lie (a temporary directory)")
    asked = parser.parse_args()
    gb = asked.bytes / 1e9
    print(
        "| protection | | server | datanodes CPU s/GB | client CPU s/GB | "
        "metadata CPU s/GB | wall s | datanodes, ÷ Apache's |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=asked.dir, prefix="levada-protections-") as directory:
        with open(pathlib.Path(directory) / "source", "wb") as source:
            for left in range(asked.bytes, 0, -(16 << 20)):
                source.write(os.urandom(min(left, 16 << 20)))
        for mode in asked.modes:
            found = run(mode, asked, pathlib.Path(directory) / mode)
            of = lambda side, what, key: [figures[key] / gb for figures in found[side, what]]
            for what in ["put", "get"]:
                for side in asked.servers:
                    cells = [spread(of(side, what, key)) for key in ("datanodes", "client", "metadata")]
                    ratio = statistics.median(of(side, what, "datanodes"))
                    ratio /= statistics.median(of("hdfs", what, "datanodes")) if "hdfs" in asked.servers else 1
                    cells += [
                        f"{statistics.median(figures['wall'] for figures in found[side, what]):.1f}",
                        f"{ratio:.2f}",
                    ]
                    print(f"| {mode} | {what} | {side} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
