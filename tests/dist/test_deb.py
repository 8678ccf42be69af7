"""The life of the Debian package: installed, started, used, upgraded under load, removed, purged."""

import os
import pathlib
import shutil
import sys
import threading

import pytest
from conftest import NEW, OLD, deb
from machine import run

LEVADA = os.environ["LEVADA_BIN"]
URL = "hdfs://127.0.0.1:8020"
ADMINISTRATOR = {"HADOOP_USER_NAME": "levada", "LEVADA_URL": URL}
ROLES = ["levada-meta", "levada-data", "levada-gateway"]


def levada(machine, *words, check=True):
    return machine.from_outside(LEVADA, *words, check=check, environment=ADMINISTRATOR)


def stock_client(machine, script: str):
    """hdfs-native, as it comes from PyPI."""
    head = f"import hdfs_native; client = hdfs_native.Client({URL!r})\n"
    return machine.from_outside(sys.executable, "-c", head + script, environment=ADMINISTRATOR)


def processes(machine) -> list[str]:
    """Those of the package, in whatever state."""
    names = machine.run("sh", "-c", "cat /proc/[0-9]*/comm 2> /dev/null || true").stdout.split()
    return [name for name in names if name.startswith("levada")]


def start(machine):
    machine.run("systemctl", "enable", "--now", "levada-meta", "levada-data")
    assert machine.state("levada-meta") == machine.state("levada-data") == "active"


def nice(machine, unit: str, thread: str) -> set[str]:
    """Of the unit's threads of that name."""
    tasks = machine.run("sh", "-c", f"cat /proc/{machine.show(unit, 'MainPID')}/task/*/stat").stdout.splitlines()
    fields = [line.rpartition(")")[2].split() for line in tasks if f"({thread})" in line]
    return {of_one[16] for of_one in fields}


def mode(path: pathlib.Path) -> str:
    return oct(path.stat().st_mode & 0o7777)


class Load(threading.Thread):
    """Writes one file after the other until it is asked to end."""

    def __init__(self, machine, source):
        super().__init__()
        self.machine, self.source, self.ending = machine, source, threading.Event()
        self.put, self.failed = [], []

    def run(self):
        number = 0
        while not self.ending.is_set():
            path = f"/load/{number}"
            done = levada(self.machine, "put", self.source, URL + path, check=False)
            (self.put if done.returncode == 0 else self.failed).append((path, done.stderr))
            number += 1

    def end(self):
        self.ending.set()
        self.join()


def test_life_of_a_package(machine, made, tmp_path):
    machine.install(deb(made[OLD]))
    assert processes(machine) == [], "nobody has started anything"
    assert [machine.state(role) for role in ROLES] == ["inactive"] * 3
    state = machine.root / "var/lib/levada"
    owner = (state.stat().st_uid, state.stat().st_gid)
    passwd = machine.run("getent", "passwd", "levada").stdout.split(":")
    assert (mode(state), owner) == ("0o750", (int(passwd[2]), int(passwd[3]))) and passwd[6].strip().endswith("nologin")

    start(machine)
    assert "ready on 127.0.0.1:8020" in machine.show("levada-meta", "StatusText")
    stock_client(machine, "w = client.create('/stock'); w.write(b'of a stock client' * 100000); w.close()")
    levada(machine, "mkdir", URL + "/load")
    levada(machine, "ls", URL + "/")
    assert nice(machine, "levada-meta", "walk") == {"10"}, "listings let others go first"

    # As docs/install.md has it, for a user of that machine.
    machine.run("useradd", "ada")
    for words in [("mkdir", "-p", URL + "/user/ada"), ("chown", "ada", URL + "/user/ada")]:
        machine.run("runuser", "-u", "levada", "--", "levada", *words)
    machine.run("runuser", "-u", "ada", "--", "levada", "put", "/etc/passwd", URL + "/user/ada/")

    # Settings that an administrator changed, and a role that nobody started, stay as they are.
    settings = machine.root / "etc/levada/data.toml"
    settings.write_text(settings.read_text() + "\n# Ours.\n")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(300_000))
    load = Load(machine, source)
    load.start()
    before = [machine.show(role, "MainPID") for role in ROLES]
    machine.install(deb(made[NEW]))
    assert machine.run("dpkg-query", "--show", "--showformat", "${Version}", "levada").stdout == NEW
    after = [machine.show(role, "MainPID") for role in ROLES]
    assert [machine.state(role) for role in ROLES] == ["active", "active", "inactive"]
    assert before[0] != after[0] and before[1] != after[1], "what ran runs the new version"
    load.end()
    # Who comes while the only metadata server or datanode restarts waits for it.
    assert load.put and load.failed == []
    assert machine.show("levada-meta", "NRestarts") == machine.show("levada-data", "NRestarts") == "0"
    for path, _ in load.put:
        levada(machine, "get", "--force", URL + path, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == source.read_bytes(), path
    assert "# Ours." in settings.read_text()

    machine.run("dpkg", "--remove", "levada")
    assert processes(machine) == []
    assert "# Ours." in settings.read_text() and (state / "data").is_dir()

    # Who comes back goes on where it stopped.
    machine.install(deb(made[NEW]))
    start(machine)
    stock_client(machine, "assert client.read('/stock').read() == b'of a stock client' * 100000")

    # Silence deletes no data.
    purged = machine.run("dpkg", "--purge", "levada")
    assert "/var/lib/levada is left" in purged.stderr
    assert processes(machine) == [] and (state / "data").is_dir()
    assert not settings.exists() and not (machine.root / "var/log/levada").exists()
    assert not list((machine.root / "etc/systemd/system").rglob("levada*"))

    machine.install(deb(made[NEW]))
    start(machine)
    stock_client(machine, "assert client.read('/stock').read() == b'of a stock client' * 100000")
    answer = "levada levada/purge-data boolean true"
    machine.run("sh", "-c", f"echo {answer} | debconf-set-selections")
    machine.run("dpkg", "--purge", "levada")
    assert not state.exists()
    assert machine.run("systemctl", "--failed", "--plain", "--no-legend").stdout == ""


def test_a_server_that_hangs_is_started_again(machine, made):
    machine.install(deb(made[NEW]))
    for role in ["levada-meta", "levada-data"]:
        drop_in = machine.root / f"etc/systemd/system/{role}.service.d"
        drop_in.mkdir(parents=True)
        (drop_in / "soon.conf").write_text("[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n")
    start(machine)
    for role in ["levada-meta", "levada-data"]:
        machine.run("sh", "-c", f"kill -STOP {machine.show(role, 'MainPID')}")
        machine.run("sh", "-c", f"until [ $(systemctl show -P NRestarts {role}) = 1 ]; do sleep 0.1; done")
        machine.run("sh", "-c", f"until systemctl -q is-active {role}; do sleep 0.1; done")
    stock_client(machine, "client.mkdirs('/after', 0o755, True)")
    assert "Watchdog timeout" in machine.log()


def test_units_are_sound_and_hardened(machine, made):
    machine.install(deb(made[NEW]))
    for role in ROLES:
        verified = machine.run("systemd-analyze", "verify", "--man=no", f"{role}.service")
        assert role not in verified.stderr
        # In tenths; 16 today. Of what is left, most is the network.
        machine.run("systemd-analyze", "security", "--offline=true", "--threshold=20", f"{role}.service")


def test_the_gateway_is_a_service(machine, made):
    machine.install(deb(made[NEW]))
    start(machine)
    machine.run("systemctl", "start", "levada-gateway", check=False)
    assert machine.state("levada-gateway") == "failed", "it does not know its store"
    settings = f'LEVADA_URL={URL}\nLEVADA_GATEWAY_OPTIONS="--listen 127.0.0.1:8030 --beside-servers"\n'
    (machine.root / "etc/levada/gateway.env").write_text(settings)
    machine.run("systemctl", "start", "levada-gateway")
    assert levada(machine, "ls", URL + "/", "--gateway", "127.0.0.1:8030").stdout == ""
    machine.run("systemctl", "stop", "levada-gateway", "levada-data", "levada-meta")
    stopped = [line for line in machine.log().splitlines() if line.startswith("Stopped levada-")]
    assert [line.split(".service")[0] for line in stopped] == [f"Stopped {role}" for role in reversed(ROLES)]


def test_a_container_has_no_service_manager(debian, made):
    """As in images of Debian: nothing is started, nothing is stopped, and nothing fails."""

    def inside(*words):
        return run("chroot", debian, *words)

    (debian / "var/levada.deb").write_bytes(deb(made[NEW]).read_bytes())
    inside("dpkg", "--install", "/var/levada.deb")
    assert inside("levada", "--version").stdout.startswith("levada ")
    inside("dpkg", "--verify", "levada")
    (debian / "var/lib/levada/meta").mkdir()
    inside("dpkg", "--purge", "levada")
    assert (debian / "var/lib/levada/meta").is_dir()
    (debian / "var/lib/levada/meta").rmdir()
    inside("dpkg", "--install", "/var/levada.deb")
    inside("dpkg", "--purge", "levada")
    assert not (debian / "var/lib/levada").exists(), "what is empty is nobody's data"


def test_completions_and_man_pages_are_there(made, tmp_path):
    run("dpkg-deb", "--extract", deb(made[NEW]), tmp_path)
    share = tmp_path / "usr/share"
    for shell in ["bash-completion/completions/levada", "zsh/vendor-completions/_levada"]:
        assert "levada" in (share / shell).read_text()
    assert "levada" in (share / "fish/vendor_completions.d/levada.fish").read_text()
    assert (share / "man/man1/levada-admin-datanode.1.gz").exists()


def test_the_pages_are_where_installing_says(made, tmp_path):
    run("dpkg-deb", "--extract", deb(made[NEW]), tmp_path)
    root = pathlib.Path(__file__).parents[2]
    place = pathlib.PurePath("/usr/share/doc/levada/docs")
    assert f"`{place}`" in (root / "docs/install.md").read_text()
    for source in (root / "docs").glob("*.md"):
        assert (tmp_path / place.relative_to("/") / source.name).read_bytes() == source.read_bytes()


def test_the_board_and_the_alerts_are_where_the_page_says(made, tmp_path):
    run("dpkg-deb", "--extract", deb(made[NEW]), tmp_path)
    root = pathlib.Path(__file__).parents[2]
    place = pathlib.PurePath("/usr/share/levada/monitoring")
    assert f"`{place}`" in (root / "docs/install.md").read_text()
    for source in (root / "monitoring").iterdir():
        assert (tmp_path / place.relative_to("/") / source.name).read_bytes() == source.read_bytes()


@pytest.mark.skipif(not shutil.which("lintian"), reason="lintian is not installed")
def test_debians_own_checks_find_nothing(made):
    found = run("lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", deb(made[NEW]))
    assert found.stdout == ""
