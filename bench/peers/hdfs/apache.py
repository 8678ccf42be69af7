"""Apache HDFS on this machine: one namenode, three datanodes, each its own JVM, Hadoop's defaults otherwise."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
import paths  # noqa: E402
from java import Java  # noqa: E402
from store import die_with_parent  # noqa: E402

VERSION = os.environ.get("HADOOP_SERVER_VERSION", "3.5.0")
HOME = paths.CACHE / f"hadoop-server-{VERSION}"
# How old its counters may be.
COUNTER_AGE_S = 2.5
# What Hadoop's own start script adds on Java 17 and newer.
OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.io java.lang java.lang.reflect java.math java.net java.nio java.text java.util java.util.concurrent "
        "java.util.zip sun.nio.ch sun.security.util sun.security.x509"
    ).split()
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Apache:
    """Like store.Store: fs, pids, data_dirs, ready_s, stop()."""

    name = f"Apache HDFS {VERSION}"

    def __init__(
        self, directory: pathlib.Path, datanodes: int = 3, settings: dict | None = None, names: dict | None = None
    ):
        """`settings` are for the datanodes, `names` for the namenode, over Hadoop's defaults."""
        self.directory = directory
        self.rpc = free_port()
        self.fs = f"hdfs://127.0.0.1:{self.rpc}"
        self.processes = []
        common = {"fs.defaultFS": self.fs, "hadoop.tmp.dir": directory / "tmp"}
        self.http = {"meta": [free_port()], "data": []}
        name = {
            **common,
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http['meta'][0]}",
            "dfs.namenode.name.dir": f"file://{directory}/name",
            **(names or {}),
        }
        self._conf("name", name)
        self._java("name", "org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive").wait()
        begun = time.monotonic()
        meta = self._java("name", "org.apache.hadoop.hdfs.server.namenode.NameNode")
        self.processes.append(meta)
        self.data_dirs = []
        for number in range(1, datanodes + 1):
            folder = directory / f"data{number}"
            self.data_dirs.append(folder)
            ports = {f"dfs.datanode.{kind}address": f"127.0.0.1:{free_port()}" for kind in ("", "ipc.", "http.")}
            self.http["data"].append(int(ports["dfs.datanode.http.address"].rsplit(":", 1)[1]))
            own = {**common, **ports, **(settings or {}), "dfs.datanode.data.dir": f"file://{folder}"}
            self._conf(f"data{number}", own)
            self.processes.append(self._java(f"data{number}", "org.apache.hadoop.hdfs.server.datanode.DataNode"))
        self.pids = {"meta": [meta.pid], "data": [p.pid for p in self.processes[1:]]}
        self._wait(datanodes)
        self.ready_s = time.monotonic() - begun

    def _conf(self, role, settings):
        folder = self.directory / "conf" / role
        folder.mkdir(parents=True)
        rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(f"<configuration>{rows}</configuration>")
        # So that its counters are never older than a second or two.
        (folder / "hadoop-metrics2.properties").write_text("*.period=1\n")
        log = self.directory / f"{role}.log"
        (folder / "log4j.properties").write_text(
            "log4j.rootLogger=INFO,file\nlog4j.appender.file=org.apache.log4j.FileAppender\n"
            f"log4j.appender.file.File={log}\nlog4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.file.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n\n"
        )

    def _java(self, role, *words):
        classpath = f"{self.directory}/conf/{role}:{HOME}/lib/*:{HOME}/web"
        out = open(self.directory / f"{role}.out", "ab")
        return subprocess.Popen(
            ["java", *OPENS, "-cp", classpath, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )

    def _wait(self, datanodes):
        until = time.monotonic() + 90
        with Java(quick=True) as java:
            while True:
                try:
                    fs = java.mount(self.fs, "root")
                    if fs.call("datanodes") == datanodes:
                        return
                except Exception:
                    pass
                if time.monotonic() > until:
                    raise SystemExit(f"Apache HDFS did not start; see {self.directory}/*.log")
                time.sleep(0.2)

    def fsyncs(self) -> dict:
        """By role, as the servers count them themselves: batches of the edit log, and each sync of data or checksums on
        the datanodes."""
        time.sleep(COUNTER_AGE_S)
        return {
            "meta": sum(bean(port, "name=NameNodeActivity", "SyncsNumOps") for port in self.http["meta"]),
            "data": sum(bean(port, "name=DataNodeActivity*", "FsyncNanosNumOps") for port in self.http["data"]),
        }

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def bean(port: int, query: str, key: str) -> int:
    """A number out of a server's JMX page."""
    service = "NameNode" if "NameNode" in query else "DataNode"
    url = f"http://127.0.0.1:{port}/jmx?qry=Hadoop:service={service},{query}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return sum(found.get(key, 0) for found in json.load(answer)["beans"])
