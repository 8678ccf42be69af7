"""Leases as those who write logs live by them: short limits, writers that are killed, and others that take over."""

import threading
import time

import pytest

import content
from java import Java, JavaError
from paths import BLOCK
from roles import Roles
from store import SUPERUSER, eventually

pytestmark = pytest.mark.levada

SOFT_MS, HARD_MS = 2000, 6000


@pytest.fixture
def roles(tmp_path):
    made = Roles(tmp_path / "roles", lease_soft_ms=SOFT_MS, lease_hard_ms=HARD_MS)
    yield made
    made.stop()


@pytest.fixture
def patient(tmp_path):
    """Its limits are HDFS's: on a busy machine nobody's lease ends while he writes. A Java client renews each thirty
    seconds alone."""
    made = Roles(tmp_path / "patient")
    yield made
    made.stop()


@pytest.fixture
def writer():
    """A client in a process of its own, which can be killed."""
    jvm = Java(quick=True)
    yield jvm
    jvm.stop()


def refused(call) -> str:
    try:
        call()
    except JavaError as error:
        return error.kind
    return ""


def fenced(out):
    """Neither bytes nor an end come through any more."""
    with pytest.raises(JavaError):
        out.write(content.make(1000))
        out.hflush()
        out.close()


def test_another_writer_takes_over_after_the_soft_limit(roles, java, writer):
    """Not before; and the first one is out before the second is in."""
    first, second = writer.mount(roles.fs, SUPERUSER), java.mount(roles.fs, SUPERUSER)
    tries = iter(range(100))

    def open_file():
        """Its path and its writer, once the other one came before the limit: on a busy machine he may come too late to
        be refused."""
        path, begun = f"/f{next(tries)}", time.monotonic()
        out = first.create(path)
        out.write(content.make(BLOCK + 1000))
        out.hflush()
        said = refused(lambda: second.append(path))
        if time.monotonic() - begun > SOFT_MS / 1000:
            return None
        assert said == "AlreadyBeingCreatedException", said
        return path, out

    path, out = eventually(open_file, 60, "a file is written and asked for within the limit")
    # The client renews every thirty seconds: by our limit it is silent.
    taken = []

    def take() -> bool:
        try:
            taken.append(second.append(path))
        except JavaError as error:
            assert error.kind in ("AlreadyBeingCreatedException", "RecoveryInProgressException"), error
        return bool(taken)

    eventually(take, 30, "the file can be appended to", every=0.3)
    fenced(out)
    taken[0].write(b"second")
    taken[0].close()
    assert second.read(path) == content.make(BLOCK + 1000) + b"second"


def test_the_server_closes_what_nobody_asks_for_after_the_hard_limit(roles, java, writer):
    fs = java.mount(roles.fs, SUPERUSER)
    begun = time.monotonic()
    out = writer.mount(roles.fs, SUPERUSER).create("/f")
    out.write(content.make(70_000))
    out.hflush()
    # Not before; on a busy machine the limit may have passed already.
    assert fs.call("is-closed", path="/f") is False or time.monotonic() - begun > HARD_MS / 1000
    eventually(lambda: fs.call("is-closed", path="/f"), 40, "the server closes the file")
    assert fs.read("/f") == content.make(70_000)
    fenced(out)
    assert fs.read("/f") == content.make(70_000)


def record(number: int) -> bytes:
    return content.make(50 + number * 37 % 4000, number)


class Log:
    """Writes records and flushes each, until its process is killed. What `flushed` counts was acknowledged."""

    def __init__(self, fs):
        self.out = fs.create("/wal")
        self.flushed = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for number in range(100_000):
            try:
                self.out.write(record(number))
                self.out.hflush()
            except JavaError:
                return
            self.flushed = number + 1


def records(data: bytes) -> int:
    """Whole records in front; behind them is at most a part of the next."""
    at = number = 0
    while data[at : at + len(record(number))] == record(number):
        at += len(record(number))
        number += 1
    assert record(number).startswith(data[at:]), f"damaged behind record {number}"
    return number


@pytest.mark.parametrize("also", [[], ["data1"], ["meta"], ["meta", "data2"]], ids=" and ".join)
def test_a_write_ahead_log(patient, java, writer, also):
    """A log as HBase keeps it: another process reads behind; then the writer is killed, maybe others with it, and all
    that was flushed is there when its lease is recovered."""
    fs = java.mount(patient.fs, SUPERUSER)
    log = Log(writer.mount(patient.fs, SUPERUSER))
    seen = 0
    for _ in range(4):
        eventually(lambda: log.flushed >= seen + 20, 60, "records are written", every=0.02)
        known = log.flushed
        seen = records(fs.read("/wal"))
        assert seen >= known, "a reader that opens the log now sees all that was flushed before"
    writer.stop()
    patient.kill(*also)
    flushed = log.flushed
    for name in also:
        patient.start(name)

    def recovered() -> bool:
        try:
            return fs.call("recover-lease", path="/wal")
        except JavaError:
            return False

    eventually(recovered, 90, "the lease is recovered", every=0.5)
    assert records(fs.read("/wal")) >= flushed
    out = fs.append("/wal")
    out.write(b"more")
    out.close()
    assert fs.read("/wal").endswith(b"more")


def test_recovery_goes_on_after_the_server_fell(roles, java, writer):
    """The metadata server is killed as soon as it was asked, with a datanode that the recovery would need."""
    fs = java.mount(roles.fs, SUPERUSER)
    out = writer.mount(roles.fs, SUPERUSER).create("/f")
    out.write(content.make(BLOCK + 5000))
    out.hflush()
    writer.stop()
    roles.pause("data3")
    asked = fs.start("recover-lease", path="/f")
    asked.done.wait(0.3)
    roles.kill("meta")
    roles.go_on("data3")
    roles.start("meta")
    eventually(lambda: not refused(lambda: fs.call("recover-lease", path="/f")), 60, "the server answers again")
    eventually(lambda: fs.call("is-closed", path="/f"), 60, "the file is closed")
    assert fs.read("/f") == content.make(BLOCK + 5000)
