"""A store whose roles are started one by one from configuration files, so that each can be killed and started again."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess

import paths
from store import address, die_with_parent, suspend
from wires import Wires


def own_ports() -> list[int]:
    """Below those that the system gives to clients, and apart from those of the test runs beside this one."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    ports = list(range(20_000 + int(worker.removeprefix("gw")), 32_000, int(workers)))
    random.shuffle(ports)
    return ports


PORTS = iter(own_ports())


def free_port() -> int:
    """Each is given once: what its server has not bound yet nobody else gets."""
    for port in PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("the tests have used up all their ports")


class Roles:
    """`levada meta --config` and `levada data --config`, as an administrator would run them."""

    environment: dict[str, str] = {}

    def __init__(self, directory: pathlib.Path, datanodes: int = 3, **settings):
        self.directory = directory
        directory.mkdir()
        port = free_port()
        self.fs = f"hdfs://127.0.0.1:{port}"
        self.rpc = address(self.fs)
        self.processes: dict[str, subprocess.Popen] = {}
        settings = {"lost_after_ms": 15_000, **settings}
        rows = "".join(f"{key} = {value}\n" for key, value in settings.items())
        (directory / "meta.toml").write_text(
            f'http_addr = "127.0.0.1:0"\n[meta]\ndir = "{directory}/meta"\nrpc_addr = "127.0.0.1:{port}"\n{rows}'
        )
        self.metad = f"127.0.0.1:{port}"
        self.names: list[str] = []
        self.data_dirs: list[pathlib.Path] = []
        for _ in range(datanodes):
            self.describe_datanode()
        # Where the metadata server answers HTTP.
        self.http = self.start("meta")["http"]
        for name in self.names:
            self.start(name)

    def describe_datanode(self, rows: str = "", host: str = "127.0.0.1") -> str:
        """Another one, not started yet."""
        name = f"data{len(self.names) + 1}"
        self.names.append(name)
        self.data_dirs.append(self.directory / name)
        (self.directory / f"{name}.toml").write_text(
            f'[data]\ndir = "{self.directory}/{name}"\nxfer_addr = "{host}:{free_port()}"\n'
            f'ipc_addr = "{host}:{free_port()}"\nmetad = "{self.metad}"\n{rows}'
        )
        return name

    def ports(self, name: str) -> list[int]:
        """Of a datanode: for data transfer, and for RPC."""
        lines = (self.directory / f"{name}.toml").read_text().splitlines()
        return [int(line.strip('"').rsplit(":", 1)[1]) for line in lines if line.startswith(("xfer_addr", "ipc_addr"))]

    def start(self, name: str) -> dict:
        role = "meta" if name == "meta" else "data"
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(paths.LEVADA), role, "--config", str(self.directory / f"{name}.toml"), "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, preexec_fn=die_with_parent,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        line = self.processes[name].stdout.readline()
        assert line, (self.directory / f"{name}.log").read_text()[-2000:]
        return json.loads(line)

    def kill(self, *names: str):
        for name in names:
            os.kill(self.processes[name].pid, signal.SIGKILL)
        for name in names:
            self.processes[name].wait()

    def pause(self, name: str):
        suspend(self.processes[name].pid)

    def go_on(self, name: str):
        os.kill(self.processes[name].pid, signal.SIGCONT)

    def stop(self):
        running = [p for p in self.processes.values() if p.poll() is None]
        for process in running:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Wired(Roles):
    """Each datanode can be cut off: everybody dials it, and it dials the metadata server, over wires.

    What a datanode sends to others by connections of its own is not cut. It gets nothing to send on.
    """

    def __init__(self, directory: pathlib.Path, datanodes: int = 3, **settings):
        self.wires = Wires()
        super().__init__(directory, datanodes, **settings)

    def describe_datanode(self, rows: str = "") -> str:
        number, metad = len(self.names) + 1, self.metad
        # An address of its own: the same ports there are those of the wires.
        ip = f"127.0.0.{10 + number}"
        self.metad = f"127.0.0.1:{self.wires.add(f'data{number}', 'meta', address(metad)[1])}"
        name = super().describe_datanode(f'ip = "{ip}"\n{rows}')
        self.metad = metad
        for port in self.ports(name):
            self.wires.add("others", name, port, at=(ip, port))
        return name

    def cut(self, name: str):
        self.wires.cut(name)

    def mend(self, name: str):
        self.wires.mend(name)

    def stop(self):
        super().stop()
        self.wires.stop()
