"""The recipes of deploy/, as they stand there: each is read, and what it says is done with namespaces in place of
containers. Nothing of command, ports or environment is said here again.

    gate, the machine itself, at whose localhost ports are published ── a bridge ── containers
"""

import contextlib
import json
import os
import pathlib
import re
import runpy
import shlex
import signal
import subprocess
import sys
import types

import pytest
import yaml

import content
from cli import levada_in
from java import hdfs_dfs
from networks import Network
from paths import LEVADA, ROOT
from store import die_with_parent, eventually

pytestmark = [pytest.mark.levada, pytest.mark.skipif(os.geteuid() != 0, reason="it makes network namespaces")]

DEPLOY = ROOT / "deploy"
READY = "Levada is ready"


def image() -> dict:
    """Configuration of the image, as crates/xtask makes it: what a container runs that is told nothing else."""
    text = (ROOT / "crates/xtask/src/dist/image.rs").read_text()
    command = re.search(r'"Cmd": \[(.*?)\],\n', text).group(1)
    command = re.sub(r'format!\("/\{DATA\}"\)', '"/var/lib/levada"', command)
    health = re.search(r'"Test": \["CMD", (.*?)\],\n', text).group(1)
    return {"command": json.loads(f"[{command}]"), "health": json.loads(f"[{health}]")}


IMAGE = image()


class Container:
    """A program of the image in a namespace: any user of group 0, the root read-only but for its volume."""

    def __init__(self, machine, volume: pathlib.Path, command=None, environment={}):
        self.machine, self.volume = machine, volume
        volume.mkdir(exist_ok=True)
        volume.chmod(0o777)
        words = list(map(str, command or IMAGE["command"]))
        passwd = volume.with_suffix(".passwd")
        passwd.write_text("root:x:0:0:root:/:/sbin/nologin\nlevada:x:64020:0:Levada:/var/lib/levada:/sbin/nologin\n")
        script = f"""
            mkdir -p /var/lib/levada && mount --bind {volume} /var/lib/levada &&
            mount --bind {passwd} /etc/passwd && mount -o remount,bind,ro / &&
            exec setpriv --reuid 64020 --regid 0 --clear-groups {LEVADA} {shlex.join(words)}
        """
        plain = {"PATH": os.environ["PATH"], "HOME": "/var/lib/levada"}
        self.log = open(f"{volume}.log", "wb")
        self.process = subprocess.Popen(
            [*machine.inside, "unshare", "--mount", "sh", "-c", script],
            env={**plain, **{name: str(value) for name, value in environment.items()}},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
        )  # fmt: skip
        self.environment = {**plain, **{name: str(value) for name, value in environment.items()}}

    def text(self) -> str:
        return pathlib.Path(f"{self.volume}.log").read_text(errors="replace")

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, self.text()
            return READY in self.text()

        eventually(ready, 30, "a store in a container", every=0.05)

    def is_healthy(self) -> bool:
        _, *words = IMAGE["health"]
        command = [*self.machine.inside, str(LEVADA), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=60).returncode == 0

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        self.log.close()


class Host(contextlib.ExitStack):
    """A machine with containers."""

    def __init__(self, tmp_path, hosts={}):
        super().__init__()
        self.tmp_path = tmp_path
        self.network = self.enter_context(Network("172.30.0", hosts))
        self.machine, self.count = self.network.gate, 1

    def container(self, command=None, environment={}) -> Container:
        self.count += 1
        one = Container(self.network.machine(self.count), self.tmp_path / f"volume{self.count}", command, environment)
        self.callback(one.stop)
        return one

    def publish(self, ports: list[int], number: int):
        forward = pathlib.Path(__file__).with_name("forward.py")
        words = [*self.machine.inside, sys.executable, forward, self.network.address(number), *ports]
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.callback(process.wait)
        self.callback(process.kill)
        assert process.stdout.readline() == b"forwarding\n"


def published(ports) -> list[int]:
    """As compose and GitHub write them; all are the same outside, as they have to be."""
    found = []
    for entry in ports:
        outside, inside = str(entry).split(":")
        assert outside == inside, entry
        first, _, last = outside.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def both_sides_use(host: Host, url_here: str, url_inside: str):
    """A program on the machine itself and one in another container, `levada` and Java, write and read."""
    other = host.network.machine(9)
    sides = {"here": (host.machine, url_here), "inside": (other, url_inside)}
    source, data = host.tmp_path / "source", content.make(300_000)
    source.write_bytes(data)
    levada_in(host.machine, url_here, "mkdir", "-p", "-m", "777", "/both", user="levada")
    for side, (machine, url) in sides.items():
        levada_in(machine, url, "put", source, f"/both/{side}")
        hdfs_dfs(url, "-put", source, f"/both/java-{side}", before=machine.inside)
    for side, (machine, url) in sides.items():
        for other_side in sides:
            assert levada_in(machine, url, "cat", f"/both/java-{other_side}", text=False).stdout == data
            copy = host.tmp_path / f"copy-{side}-{other_side}"
            hdfs_dfs(url, "-get", f"/both/{other_side}", copy, before=machine.inside)
            assert copy.read_bytes() == data


def expanded(value: str, environment={}) -> str:
    """`${NAME:-default}`, as compose knows it."""
    return re.sub(r"\$\{(\w+):-(.*?)\}", lambda match: environment.get(match[1]) or match[2], value)


def test_compose(tmp_path):
    services = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    store, client = services["levada"], services["client"]
    assert store["read_only"] and any(mount.endswith(":/var/lib/levada") for mount in store["volumes"])
    # Services find each other by their names.
    with Host(tmp_path, {"levada": "172.30.0.2"}) as host:
        environment = {name: expanded(value) for name, value in store["environment"].items()}
        container = host.container(shlex.split(store["command"]), environment)
        host.publish(published(store["ports"]), 2)
        container.wait_until_ready()
        assert client["depends_on"] == {"levada": {"condition": "service_healthy"}} and container.is_healthy()
        beside = host.container(shlex.split(client["command"]), client["environment"])
        assert beside.process.wait(30) == 0, beside.text()
        assert levada_in(host.machine, "hdfs://localhost:8020", "ls", "-C", "/shared", "-d").stdout == "/shared\n"
        both_sides_use(host, "hdfs://localhost:8020", "hdfs://levada:8020")


def test_a_service_of_github(tmp_path):
    workflow = yaml.safe_load((DEPLOY / "github-actions.yml").read_text())
    (job,) = workflow["jobs"].values()
    ((name, service),) = job["services"].items()
    with Host(tmp_path, {name: "172.30.0.2"}) as host:
        # It knows no command for a service: the image's own runs.
        assert set(service) == {"image", "env", "ports"}
        container = host.container(environment=service["env"])
        host.publish(published(service["ports"]), 2)
        container.wait_until_ready()
        assert container.is_healthy()
        (tmp_path / "README.md").write_text("read me\n")
        for step in job["steps"]:
            words = shlex.split(step.get("run", ""))
            if words[:1] == ["levada"]:
                local = [tmp_path / word if word == "README.md" else word for word in words[1:]]
                said = levada_in(
                    host.machine, job["env"]["LEVADA_URL"], *local, user=job["env"]["HADOOP_USER_NAME"]
                ).stdout
        assert said == "read me\n"
        both_sides_use(host, job["env"]["LEVADA_URL"], f"hdfs://{name}:8020")


def start_as_asked(host: Host, asked: dict) -> Container:
    """What a recipe of testcontainers asked its library for."""
    container = host.container(asked.get("command"), asked["environment"])
    ports = asked["ports"]
    assert all(outside == inside for outside, inside in ports.items())
    host.publish(list(ports), 2)
    container.wait_until_ready()
    return container


def test_testcontainers_for_python(tmp_path, monkeypatch):
    asked = {"environment": {}, "ports": {}}

    class DockerContainer:
        """What of testcontainers' class the recipe uses."""

        def __init__(self, image, **_):
            asked["image"] = image

        def with_bind_ports(self, container, host):
            asked["ports"][host] = container
            return self

        def with_env(self, key, value):
            asked["environment"][key] = value
            return self

        def get_container_host_ip(self):
            return "localhost"

        def start(self):
            return self

    library = {
        "testcontainers": {},
        "testcontainers.core": {},
        "testcontainers.core.container": {"DockerContainer": DockerContainer},
        "testcontainers.core.waiting_utils": {"wait_for_logs": lambda _, text: asked.update(waits_for=text)},
    }
    for name, members in library.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    recipe = runpy.run_path(str(DEPLOY / "testcontainers/levada_container.py"))
    store = recipe["LevadaContainer"]().start()
    assert asked["waits_for"] in READY
    with Host(tmp_path) as host:
        container = start_as_asked(host, asked)
        assert container.is_healthy()
        first = store.url.rsplit(":", 1)[1]
        both_sides_use(host, store.url, f"hdfs://{host.network.address(2)}:{first}")


# What of Testcontainers' classes the recipe uses, and a program that prints what was asked.
LIBRARY = {
    "org/testcontainers/utility/DockerImageName.java": """
        package org.testcontainers.utility;
        public record DockerImageName(String name) {
            public static DockerImageName parse(String name) { return new DockerImageName(name); }
        }
    """,
    "org/testcontainers/containers/wait/strategy/WaitStrategy.java": """
        package org.testcontainers.containers.wait.strategy;
        public interface WaitStrategy { String regex(); }
    """,
    "org/testcontainers/containers/wait/strategy/Wait.java": """
        package org.testcontainers.containers.wait.strategy;
        public class Wait { public static WaitStrategy forLogMessage(String regex, int times) { return () -> regex; } }
    """,
    "org/testcontainers/containers/GenericContainer.java": """
        package org.testcontainers.containers;
        import java.util.*;
        import org.testcontainers.containers.wait.strategy.WaitStrategy;
        import org.testcontainers.utility.DockerImageName;
        public class GenericContainer<SELF extends GenericContainer<SELF>> implements AutoCloseable {
          public final Map<String, String> environment = new TreeMap<>();
          public final Map<Integer, Integer> ports = new TreeMap<>();
          public WaitStrategy strategy;
          public GenericContainer(DockerImageName image) { }
          protected void addFixedExposedPort(int host, int container) { ports.put(host, container); }
          public SELF waitingFor(WaitStrategy strategy) { this.strategy = strategy; return null; }
          public SELF withEnv(String key, String value) { environment.put(key, value); return null; }
          protected void configure() { }
          public String getHost() { return "localhost"; }
          public void start() { configure(); }
          public void close() { }
        }
    """,
    "Ask.java": """
        public class Ask {
          public static void main(String[] words) {
            LevadaContainer store = new LevadaContainer("levada:latest");
            store.start();
            System.out.println(store.url());
            System.out.println(store.strategy.regex());
            store.environment.forEach((name, value) -> System.out.println("env " + name + " " + value));
            store.ports.forEach((host, container) -> System.out.println("port " + host + " " + container));
          }
        }
    """,
}


def test_testcontainers_for_java(tmp_path):
    for name, text in LIBRARY.items():
        path = tmp_path / "java" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sources = [DEPLOY / "testcontainers/LevadaContainer.java", *(tmp_path / "java").rglob("*.java")]
    subprocess.run(["javac", "-nowarn", "-d", tmp_path / "classes", *sources], check=True, timeout=120)
    words = ["java", "-cp", tmp_path / "classes", "Ask"]
    url, regex, *lines = subprocess.run(
        words, check=True, timeout=60, capture_output=True, text=True
    ).stdout.splitlines()
    asked = {"environment": {}, "ports": {}}
    for kind, key, value in map(str.split, lines):
        if kind == "env":
            asked["environment"][key] = value
        else:
            asked["ports"][int(key)] = int(value)
    assert re.search(regex.replace("\\n", "\n"), f"{READY} after\n")
    with Host(tmp_path) as host:
        container = start_as_asked(host, asked)
        assert container.is_healthy()
        both_sides_use(host, url, f"hdfs://{host.network.address(2)}:{url.rsplit(':', 1)[1]}")
