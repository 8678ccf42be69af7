"""`levada up` itself: ready, the line of --json, stopping, starting again, memory."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

import content
import paths
from cli import levada
from store import SUPERUSER, memory

pytestmark = pytest.mark.levada

# A machine with no more than 32 ports for who asks for any.
FEW_PORTS = "ip link set lo up; echo 40000 40031 > /proc/sys/net/ipv4/ip_local_port_range; exec \"$@\""


@pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
def test_ready_line(up, options):
    store = up(*options)
    assert store.fs.startswith("hdfs://127.0.0.1:") and store.http.startswith("http://")
    assert len(store.transfer) == 3 and len(store.data_dirs) == 3
    assert all(d.is_dir() and store.directory in d.parents for d in store.data_dirs)
    for address in [store.rpc, *store.transfer]:
        socket.create_connection(address, 2).close()
    pids = store.pids
    if options:
        assert len(set(pids["meta"] + pids["data"])) == 4
    else:
        assert set(pids["meta"]) == set(pids["data"]) == {store.process.pid}


def test_it_is_small_and_quick(up):
    """Ready in about a second, and idle with less than 45 MB of its own; the bounds here leave room for a busy machine.

    What is resident beside that are pages of the program, as many as the kernel chooses to map around those in use.
    """
    store = up()
    time.sleep(2)
    own, resident = (memory(store.process.pid, kind) for kind in ("RssAnon", "VmRSS"))
    print(f"ready after {store.ready_s:.2f} s, idle {own / 1e6:.0f} MB of its own, {resident / 1e6:.0f} MB resident")
    assert store.ready_s < 5
    assert own < 45e6
    assert resident < 75e6


def test_idle_costs_no_cpu(up):
    """Ten seconds of doing nothing cost less than half a second of CPU."""
    store = up()
    time.sleep(2)
    ticks = lambda: sum(map(int, open(f"/proc/{store.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    before = ticks()
    time.sleep(10)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") < 0.5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
def test_stops_with_clients_connected(up, java, monkeypatch, options, number):
    """An open file and idle connections do not hold it up, and nothing of it stays behind."""
    monkeypatch.setenv("RUST_LOG", "warn,openraft=error,rpc=debug")
    store = up(*options)
    fs = java.mount(store.fs, SUPERUSER)
    fs.write("/whole", content.make(100_000))
    out = fs.create("/open")
    out.write(content.make(100_000))
    out.hflush()
    idle = [socket.create_connection(store.rpc) for _ in range(10)]
    store.process.send_signal(number)
    assert store.process.wait(60) == 0
    # A disk may take its time. Whoever was waited for in vain was told of.
    log = (store.directory.parent / f"{store.directory.name}.log").read_text(errors="replace")
    for held_up in ("cut off by the shutdown", "connections are cut", "a task still uses the store", "did not stop in"):
        assert held_up not in log, log[-4000:]
    for pid in store.all_pids():
        assert not os.path.exists(f"/proc/{pid}"), pid
    out.abandon()
    del idle
    store.start()
    assert java.mount(store.fs, SUPERUSER).read("/whole") == content.make(100_000)


def test_starts_again_on_the_same_directory(up, java):
    store = up()
    fs = java.mount(store.fs, SUPERUSER)
    expected = {f"/d{i % 7}/f{i}": content.make(i * 997, i) for i in range(60)}
    for path, data in expected.items():
        fs.write(path, data)
    fs.call("set-permission", path="/d1", mode="1711")
    fs.call("set-times", path="/d2", modified=1_000_000_000_000, accessed=-1)
    fs.rename("/d3", "/renamed")
    expected = {path.replace("/d3/", "/renamed/"): data for path, data in expected.items()}
    for round in range(3):
        store.stop()
        store.start()
        fs = java.mount(store.fs, SUPERUSER)
        for path, data in expected.items():
            assert fs.read(path) == data
        assert fs.stat("/d1")["mode"] == "1711"
        assert fs.stat("/d2")["modified"] == 1_000_000_000_000
        fs.write(f"/after{round}", b"one")
        expected[f"/after{round}"] = b"one"


@pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
def test_other_ports_after_a_stop_are_no_second_process(up, options):
    """Datanodes that said goodbye are waited for by nobody, wherever they are next."""
    store = up(*options)
    before = store.transfer
    store.stop()
    (store.directory / "conf/ports.json").unlink()  # those that it would take again
    store.start()
    assert set(store.transfer).isdisjoint(before)
    log = (store.directory.parent / f"{store.directory.name}.log").read_text(errors="replace")
    assert "registration refused" not in log, log[-4000:]


@pytest.mark.parametrize("options", [(), ("--processes",)], ids=["one", "processes"])
def test_no_role_takes_the_port_of_another(up, options):
    """Connections between the first roles that run are given ports, too: not those on which the others will listen."""
    store = up(*options, before=["unshare", "--net", "sh", "-c", FEW_PORTS, "sh"])
    before = (store.rpc, store.http, store.transfer, store.http_of_data)
    for _ in range(4):
        store.stop()
        store.start()
        assert (store.rpc, store.http, store.transfer, store.http_of_data) == before


def test_second_up_on_the_same_directory_is_refused(up):
    store = up()
    command = [str(paths.LEVADA), "up", "--dir", str(store.directory), "--port-base", "0", "--json"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    assert second.returncode != 0
    assert second.stderr.strip(), "it says why"
    assert store.process.poll() is None


def test_taken_port_is_told(up, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [str(paths.LEVADA), "up", "--dir", str(tmp_path / "x"), "--port-base", str(port), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert str(port) in done.stderr


def test_a_keytab_that_is_not_there_leaves_no_certificates(tmp_path):
    """Else the next start would be secure, and open to everybody."""
    command = [str(paths.LEVADA), "up", "--dir", str(tmp_path / "x"), "--port-base", "0", "--secure"]
    command += ["--principal", "nn/localhost@EXAMPLE.COM", "--keytab", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and str(tmp_path / "none") in done.stderr
    assert not (tmp_path / "x/certificates").exists()


def test_welcome_names_the_endpoints(tmp_path):
    """Without --json it prints where it is and three commands to try."""
    command = [str(paths.LEVADA), "up", "--dir", str(tmp_path / "levada"), "--port-base", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    text = ""
    while not all(word in text for word in ("hdfs dfs", "python", "levada put")):
        part = os.read(process.stdout.fileno(), 4096)
        assert part, text
        text += part.decode()
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 0
    for word in ("hdfs://127.0.0.1:", "http://127.0.0.1:", "hdfs dfs", "python", "levada put"):
        assert word in text, text


def test_it_goes_on_when_nobody_reads_what_it_says(tmp_path):
    """As after `levada up | head -1`."""
    command = [str(paths.LEVADA), "up", "--dir", str(tmp_path / "levada"), "--port-base", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    process.stdout.close()
    time.sleep(3)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 0
    assert process.stderr.read() == b""  # nothing to be alarmed by at a first start


def test_it_remembers_how_many_datanodes_it_has(up, java):
    """Started with five, then without a word of it: all five are there, and so is what they hold."""
    store = up("--datanodes", "5", "--replication", "1")
    fs = java.mount(store.fs, SUPERUSER, {"dfs.replication": 1})
    for number in range(20):
        fs.write(f"/f{number}", content.make(1000, number))
    store.stop()
    store.options = ()
    store.start()
    assert len(store.transfer) == 5
    fs = java.mount(store.fs, SUPERUSER)
    for number in range(20):
        assert fs.read(f"/f{number}") == content.make(1000, number)


def test_it_remembers_its_trash(up):
    """Else a start without a word of it would have `rm` delete for good."""
    store = up("--trash-interval", "1d", "--datanodes", "2", "--replication", "1")

    def restarted(*options):
        store.stop()
        store.options = options
        store.start()

    def is_kept(name: str) -> bool:
        levada(store.fs, "put", __file__, f"/{name}")
        levada(store.fs, "rm", f"/{name}")
        return f"/{name}\n" in levada(store.fs, "trash", "list").stdout

    restarted()
    assert is_kept("second")
    restarted("--trash-interval", "0s")
    assert not is_kept("third")
    restarted()
    assert not is_kept("fourth"), "what was said last counts"
    levada(store.fs, "put", __file__, "/fifth")
    assert json.loads(levada(store.fs, "stat", "--json", "/fifth").stdout)["replication"] == 1


def test_a_port_that_is_taken_comes_with_advice(up, tmp_path):
    store = up()
    port = str(store.rpc[1])
    done = subprocess.run(
        [str(paths.LEVADA), "up", "--dir", str(tmp_path / "other"), "--port-base", port],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1 and port in done.stderr and "--port-base" in done.stderr


def test_a_datanode_says_what_it_waits_for(tmp_path):
    """Its metadata server is not there: it says so, tries on, and stops when asked."""
    addresses = "".join(f'{name} = "127.0.0.1:0"\n' for name in ("xfer_addr", "ipc_addr"))
    (tmp_path / "data.toml").write_text(f'[data]\ndir = "{tmp_path}/data"\n{addresses}metad = "127.0.0.1:1"\n')
    command = [str(paths.LEVADA), "data", "--config", str(tmp_path / "data.toml")]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    # Behind a line that says that it starts.
    assert any("waits for the metadata server at 127.0.0.1:1" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0


@pytest.mark.parametrize("options", [(), ("--meta", "3", "--processes")], ids=["one", "group"])
def test_the_home_directory_is_there(up, tmp_path, options):
    """Of who starts it: `levada put x y` and `hdfs dfs -ls` are the first things that people try. What they made of it
    stays."""
    store = up(*options)
    (tmp_path / "x").write_text("x")
    levada(store.fs, "put", tmp_path / "x", "y")
    assert levada(store.fs, "ls", "-C").stdout == f"/user/{SUPERUSER}/y\n"
    levada(store.fs, "chmod", "700", ".")
    store.stop()
    store.start()
    assert levada(store.fs, "stat", "-c", "%a", ".").stdout == "700\n"


def test_one_datanode(up, java):
    store = up("--datanodes", "1")
    fs = java.mount(store.fs, SUPERUSER, {"dfs.replication": 1})
    fs.write("/f", content.make(1_500_000))
    assert fs.read("/f") == content.make(1_500_000)


@pytest.mark.parametrize("durability", ["synced", "replicated"])
def test_durability(up, java, durability):
    store = up("--durability", durability)
    fs = java.mount(store.fs, SUPERUSER)
    fs.write("/f", content.make(1_500_000))
    store.kill()
    store.start()
    assert java.mount(store.fs, SUPERUSER).read("/f") == content.make(1_500_000)


def test_roles_by_themselves(up, tmp_path, java):
    """The files that --processes leaves run each role alone."""
    store = up("--processes")
    conf = store.directory / "conf"
    store.stop()
    meta = subprocess.Popen(
        [str(paths.LEVADA), "meta", "--config", str(conf / "meta.toml"), "--json"],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert json.loads(meta.stdout.readline())
    finally:
        meta.send_signal(signal.SIGTERM)
        assert meta.wait(15) == 0


def test_status_over_http(up):
    store = up()
    for path in ("/", "/metrics", "/health"):
        with urllib.request.urlopen(store.http + path, timeout=5) as answer:
            assert answer.status == 200 and answer.read()


def up_as_stranger(tmp_path, script, environment, writable):
    """`levada up` of a user whom nobody knows, on a root that may only be read, but for /mnt, if there is something to
    write there. Ready, what it said on standard error, and the process."""
    keep = f"mount --bind {writable} /mnt && " if writable else ""
    stranger = "setpriv --reuid 54321 --regid 0 --clear-groups"
    words = f"{keep}mount -o remount,bind,ro / && exec {stranger} {paths.LEVADA} {script}"
    log = open(tmp_path / "log", "wb")
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        stdin=subprocess.DEVNULL,
    )
    log.close()
    line = process.stdout.readline()
    return line and json.loads(line), (tmp_path / "log").read_text(), process


@pytest.mark.skipif(os.geteuid() != 0, reason="it makes namespaces")
@pytest.mark.parametrize("how", ["named", "temporary", "nowhere"])
def test_any_user_on_a_root_that_may_only_be_read(tmp_path, how):
    """As in a container: no entry for the user, a home that is not there, one directory that may be written, or
    none."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o1777)
    plain = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": "/mnt"}
    words = "up --json --port-base 0" + (" --dir /mnt/store" if how == "named" else "")
    ready, said, process = up_as_stranger(tmp_path, words, plain, None if how == "nowhere" else place)
    try:
        if how == "nowhere":
            assert not ready and process.wait(15) == 1
            assert "/nonexistent/.local/share/levada" in said and "--dir" in said
            return
        assert ready["dir"] == f"/mnt/{'store' if how == 'named' else 'levada-54321'}"
        # Where it is gone with the container, that is said.
        assert ("is gone with" in said) == (how == "temporary")
        (tmp_path / "x").write_text("x")
        levada(ready["fs"], "put", tmp_path / "x", "y", user="54321")
        assert levada(ready["fs"], "cat", "y", user="54321").stdout == "x"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)
