"""docs/twenty-machines.md, followed: its commands, in its order, on three metadata servers and four datanodes, each a
clean Debian that is booted in namespaces (machine.py), and a client. What is no command there is done by `copies`;
disks and package archives, which these machines do not have, are in `PLAYED`.
"""

import contextlib
import pathlib
import re
import shutil
import sys
import time

import pytest

from conftest import NEW, ROOT, deb
from machine import Machine, NotBooted, run

sys.path.append(str(ROOT / "tests/interop"))
from networks import Network  # noqa: E402

PAGE = ROOT / "docs/twenty-machines.md"
RACKS = {"d1": "r1", "d2": "r1", "d3": "r2", "d4": "r2"}
METAS = ["m1", "m2", "m3"]
NETWORK = "10.20.0"
ADDRESSES = {name: f"{NETWORK}.{10 + number}" for number, name in enumerate([*METAS, *RACKS, "client"], 1)}

# Of seven machines on two busy cores.
LEADER_S_MAX = 60

# Programs that a machine of the page has and these have not.
PLAYED = {
    # Four disks' worth of memory.
    "mkfs.xfs": "exit 0",
    "mount": 'mkdir -p "$1" && exec /usr/bin/mount -t tmpfs -o size=1g tmpfs "$1"',
    "apt": 'test "$1" = install && exec dpkg --install "$2"',
    # The rules are given to the kernel by this machine's program (`nft_of`).
    "nft": "exit 0",
}


class Step:
    """A block of commands, and where they run; or a copy; or a file."""

    def __init__(self, about: str, text: str):
        self.kind, _, self.where = about.partition(": ")
        self.text = text


def steps() -> list[Step]:
    found = []
    for match in re.finditer(
        r"<!-- ([^\n]*?) -->\n\n((?:    [^\n]*\n|\n)*)(?:```xml\n(.*?)```)?", PAGE.read_text(), re.DOTALL
    ):
        about, indented, fenced = match.groups()
        text = fenced or "".join(line[4:] if line.strip() else "\n" for line in indented.splitlines(keepends=True))
        found.append(Step(about, text))
    assert len(found) == PAGE.read_text().count("<!--"), "a step is not read: each is a line"
    return found


@contextlib.contextmanager
def booted(archive_root: pathlib.Path, directory: pathlib.Path, name: str, network: Network):
    """A machine of that name, on a layer of its own above the same clean root."""
    upper, work, root = (directory / name / part for part in ("upper", "work", "root"))
    for path in (upper / "etc", upper / "usr/local/bin", work, root):
        path.mkdir(parents=True)
    hosts = {"localhost": "127.0.0.1", **ADDRESSES}
    (upper / "etc/hosts").write_text("".join(f"{address} {host}\n" for host, address in hosts.items()))
    (upper / "etc/hostname").write_text(name + "\n")
    for program, script in PLAYED.items():
        path = upper / "usr/local/bin" / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={archive_root},upperdir={upper},workdir={work}", root)
    try:
        machine = Machine(root)
        try:
            network.plug(
                int(ADDRESSES[name].rsplit(".", 1)[1]), machine.pid, lambda *words: machine.from_outside(*words)
            )
            machine.run("hostname", name)
            yield machine
        finally:
            machine.off()
    finally:
        run("umount", root)


@pytest.fixture
def machines(debian, tmp_path):
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(NETWORK))
        try:
            yield {name: stack.enter_context(booted(debian, tmp_path, name, network)) for name in [*METAS, *RACKS]}
        except NotBooted as why:
            pytest.skip(f"a clean Debian does not boot in namespaces here: {why}")


def shell(machine, script: str, check=True):
    """In the shell of root, where it was left: variables that a step exports are there in the next ones."""
    kept = "/root/exported"
    whole = f"touch {kept}; . {kept}; set -e\n{script}\nexport -p > {kept}\n"
    path = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return machine.run("env", "-i", path, "HOME=/root", "sh", "-c", whole, check=check)


def nft_of(machine):
    """The rules that the page wrote, as `nft -f` would take them."""
    machine.from_outside("nft", "-f", machine.root.parent / "upper/etc/nftables.conf")


class Walk:
    def __init__(self, machines, package: pathlib.Path):
        self.machines, self.package = machines, package
        self.tokens = {}

    def named(self, letters: str) -> list[str]:
        return [name for name in self.machines if name[0] in letters.split() or name in letters.split()]

    def run(self, step: Step):
        where, _, how = step.where.partition(", ")
        match step.kind, how:
            case "copies", _:
                self.copies()
            case "on", "for each d":
                for name in RACKS:
                    self.invite(step.text, name)
            case "on", "RACK is r1 or r2, TOKEN as it was printed":
                for name, rack in RACKS.items():
                    text = re.sub(r"\bRACK\b", rack, step.text)
                    shell(self.machines[name], text.replace("echo TOKEN", f"echo {self.tokens[name]}"))
            case "on", "":
                for name in self.named(where):
                    self.on(name, step.text)
                if "--now levada-meta" in step.text:
                    # Now all of them are on their way, each is waited for.
                    for name in METAS:
                        shell(self.machines[name], "systemctl start levada-meta")
                    self.until_one_leads()
            case _:
                raise AssertionError(f"nobody knows how to follow {step.kind}: {step.where}")

    def until_one_leads(self):
        """They look for each other, and vote."""
        words = "export LEVADA_URL=hdfs://m1:8020,m2:8020,m3:8020; runuser -u levada -- levada admin meta list"
        deadline = time.monotonic() + LEADER_S_MAX
        while (asked := shell(self.machines["m1"], words, check=False)).returncode != 0:
            logs = "\n".join(f"{name}: {self.machines[name].log()[-3000:]}" for name in METAS)
            assert time.monotonic() < deadline, f"{asked.stdout}{asked.stderr}{logs}"
            time.sleep(0.5)

    def on(self, name: str, text: str):
        machine = self.machines[name]
        if "apt install" in text:
            (machine.root / "root" / self.package.name).write_bytes(self.package.read_bytes())
            text = "cd /root\n" + text.replace("levada_VERSION_amd64.deb", self.package.name)
        # The group is founded when all are up: nobody is waited for before.
        text = text.replace("systemctl enable --now levada-meta", "systemctl enable --now --no-block levada-meta")
        # What doctor says of members that are not up yet ends with 1, as the page says.
        text = text.replace("doctor --config /etc/levada/meta.toml", "doctor --config /etc/levada/meta.toml || true")
        shell(machine, text)
        if "nft -f" in text:
            nft_of(machine)

    def copies(self):
        authority = self.machines["m1"].root / "root/authority"
        for number, name in enumerate(METAS, 1):
            configuration = self.machines[name].root / "etc/levada"
            shutil.copytree(self.machines["m1"].root / f"root/m{number}", configuration / "certificates")
            shutil.copytree(authority, configuration / "authority")

    def invite(self, text: str, node: str):
        """On the metadata server that leads: the others refuse, as the page says."""
        said = []
        for name in METAS:
            done = shell(self.machines[name], "export LEVADA_URL=hdfs://m1:8020,m2:8020,m3:8020\n" + text, check=False)
            if done.returncode == 0:
                self.tokens[node] = done.stdout.strip()
                return
            said.append(done.stderr)
        raise AssertionError("\n".join(said))


def test_the_page_leads_to_a_store(machines, made, tmp_path):
    walk = Walk(machines, deb(made[NEW]))
    files = {}
    for step in steps():
        if step.kind == "file":
            files[step.where] = step.text
        else:
            walk.run(step)
    m1 = machines["m1"]

    def levada(*words):
        return shell(m1, "runuser -u levada -- levada " + " ".join(words)).stdout

    nodes = levada("admin", "datanode", "list")
    assert nodes.count(" up ") == len(RACKS), nodes
    explained = levada("explain", "--json", "/user/ada/first")
    assert explained.count('"state":"here"') == 3 and "/r1" in explained and "/r2" in explained, explained
    assert levada("admin", "meta", "list").count("standby") == 2
    assert list((m1.root / "var/lib/levada/backups").glob("levada-*"))

    # A stock client with the page's two files, on a machine of its own; and no other machine may call.
    conf = tmp_path / "conf"
    conf.mkdir()
    for name, text in files.items():
        (conf / name).write_text(text)
    assert set(files) == {"core-site.xml", "hdfs-site.xml"}
    script = "import hdfs_native; c = hdfs_native.Client('hdfs://levada'); w = c.create('/spark/events/one'); " \
        "w.write(b'events' * 100_000); w.close(); assert c.read('/spark/events/one').read() == b'events' * 100_000"
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{address} {name}\n" for name, address in ADDRESSES.items()))
    words = f"mount --bind {hosts} /etc/hosts && exec {sys.executable} -c \"{script}\""
    environment = {"HADOOP_CONF_DIR": str(conf), "HADOOP_USER_NAME": "spark"}
    m1.from_outside("unshare", "--mount", "sh", "-c", words, environment=environment)
