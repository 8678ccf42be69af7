"""A store with several metadata servers, each role a process; what they say to each other goes over wires that can be
cut."""

import json
import os
import pathlib
import signal
import subprocess

import paths
from cli import levada
from roles import free_port
from store import die_with_parent, eventually, suspend
from wires import Wires

NAME = "levada"


class Group:
    # Of the servers' processes, besides that of the tests; and rows behind all others in each metadata server's file.
    environment: dict[str, str] = {}
    tables = ""

    def __init__(self, directory: pathlib.Path, metas: int = 3, datanodes: int = 3, data_rows: str = "", **settings):
        self.directory, self.settings = directory, {"lost_after_ms": 15_000, **settings}
        directory.mkdir()
        self.wires = Wires()
        self.ports: dict[int, int] = {}
        self.processes: dict[str, subprocess.Popen] = {}
        self.http: dict[str, str] = {}
        for number in range(1, metas + 1):
            self.ports[number] = free_port()
        for number in self.ports:
            self._configure(number, join=False)
        self.names = [f"data{n}" for n in range(1, datanodes + 1)]
        for name in self.names:
            metad = ",".join(self.way(name, number) for number in self.ports)
            (directory / f"{name}.toml").write_text(
                f'[data]\ndir = "{directory}/{name}"\nxfer_addr = "127.0.0.1:{free_port()}"\n'
                f'ipc_addr = "127.0.0.1:{free_port()}"\nmetad = "{metad}"\n{data_rows}'
            )
        # What clients dial.
        self.addrs = [self.way("client", number) for number in self.ports]
        self.url = "hdfs://" + ",".join(self.addrs)
        for number in self.ports:
            self.start(f"meta{number}")
        for name in self.names:
            self.start(name)

    def way(self, source: str, number: int) -> str:
        """The address at which `source` reaches the metadata server `number`."""
        return f"127.0.0.1:{self.wires.add(source, f'meta{number}', self.ports[number])}"

    def _configure(self, number: int, join: bool):
        name = f"meta{number}"
        rows = "".join(f"{key} = {value}\n" for key, value in self.settings.items())
        text = (
            f'http_addr = "127.0.0.1:0"\n[meta]\ndir = "{self.directory}/{name}"\n'
            f'rpc_addr = "127.0.0.1:{self.ports[number]}"\nid = {number}\n{rows}'
        )
        if join:
            text += "join = true\n"
        else:
            for other in self.ports:
                addr = f"127.0.0.1:{self.ports[other]}" if other == number else self.way(name, other)
                text += f'[[meta.members]]\nid = {other}\naddr = "{addr}"\n'
        (self.directory / f"{name}.toml").write_text(text + self.tables)

    def start(self, name: str):
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(paths.LEVADA), name.rstrip("0123456789"), "--json", "--config", f"{self.directory}/{name}.toml"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, preexec_fn=die_with_parent,
                env={**os.environ, **self.environment, "RUST_LOG": "info,openraft=warn"},
            )  # fmt: skip
        line = self.processes[name].stdout.readline()
        ready = json.loads(line) if line else {}
        assert ready.get("ready"), self.log(name)
        self.http[name] = ready.get("http", "")

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-3000:]

    def join(self, number: int):
        """Starts a further metadata server and adds it. The configurations of the others do not know it."""
        self.ports[number] = free_port()
        self._configure(number, join=True)
        self.start(f"meta{number}")
        levada(self.url, "admin", "meta", "add", number, self.way("group", number))

    def members(self, url: str | None = None) -> list[dict]:
        done = levada(url or self.url, "admin", "meta", "list", "--json", check=False)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def leader(self, url: str | None = None) -> str:
        def find():
            leading = [member["id"] for member in self.members(url) if member["role"] == "leader"]
            return f"meta{leading[0]}" if leading else None

        return eventually(find, 30, "a metadata server leads")

    def settled(self):
        """All members are up and have everything."""
        caught_up = lambda members: members and all(it["up"] and it["behind"] == 0 for it in members)
        eventually(lambda: caught_up(self.members()), 30, "all have caught up", every=0.1)

    def lose(self, how: str, name: str):
        {"kill": self.kill, "stop": self.pause, "cut": self.wires.cut}[how](name)

    def give_back(self, how: str, name: str):
        {"kill": self.start, "stop": self.go_on, "cut": self.wires.mend}[how](name)

    def kill(self, name: str):
        self.processes[name].kill()
        self.processes[name].wait()

    def pause(self, name: str):
        suspend(self.processes[name].pid)

    def go_on(self, name: str):
        os.kill(self.processes[name].pid, signal.SIGCONT)

    def conf(self) -> dict:
        """What a stock client needs; as `levada up --meta 3` writes it, but for a shorter wait for a server that
        hangs."""
        servers = [f"meta{number}" for number in range(1, len(self.addrs) + 1)]
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        rpc = {f"dfs.namenode.rpc-address.{NAME}.{s}": addr for s, addr in zip(servers, self.addrs)}
        return {
            "dfs.nameservices": NAME,
            f"dfs.ha.namenodes.{NAME}": ",".join(servers),
            f"dfs.client.failover.proxy.provider.{NAME}": provider,
            "dfs.client.failover.sleep.base.millis": "200",
            "dfs.client.failover.sleep.max.millis": "1000",
            "dfs.client.failover.max.attempts": "60",
            "ipc.client.rpc-timeout.ms": "2000",
            "ipc.client.connect.timeout": "2000",
            "ipc.client.connect.max.retries.on.timeouts": "0",
            **rpc,
        }

    def conf_dir(self) -> pathlib.Path:
        directory = self.directory / "conf"
        directory.mkdir(exist_ok=True)
        rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in self.conf().items())
        (directory / "hdfs-site.xml").write_text(f"<configuration>\n{rows}</configuration>\n")
        default = f"<property><name>fs.defaultFS</name><value>hdfs://{NAME}</value></property>"
        (directory / "core-site.xml").write_text(f"<configuration>{default}</configuration>\n")
        return directory

    def stop(self):
        for name, process in self.processes.items():
            if process.poll() is None:
                self.go_on(name)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.wires.stop()
