"""The store under test: `levada up` in a directory of its own, or any HDFS named by LEVADA_TEST_FS."""

import ctypes
import getpass
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

import paths

SUPERUSER = getpass.getuser()
READY_S = 60  # a second is the promise; a busy machine of two cores gets more


def die_with_parent():
    """PR_SET_PDEATHSIG: a test run that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class External:
    """A store that someone else runs."""

    def __init__(self, url: str):
        self.fs, self.data_dirs, self.pids = url, [], {}

    def stop(self):
        pass


class Store:
    """One `levada up`. The same directory can be started again after `stop` or `kill`."""

    binary = paths.LEVADA

    def __init__(self, directory: pathlib.Path, *options: str, before: list[str] = [], port_base: str | None = "0"):
        """`before`: a program that runs `levada` and keeps its process id, as `nice` does. `port_base`: free ports, or
        as `up` has them."""
        self.directory, self.before = directory, before
        self.options = options
        self.ports = ["--port-base", port_base] if port_base else []
        self.process = None
        self.start()

    def start(self):
        log = open(self.directory.parent / f"{self.directory.name}.log", "ab")
        command = [*self.before, self.binary, "up", "--dir", self.directory, *self.ports, "--json", *self.options]
        begun = time.monotonic()
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=die_with_parent,
        )
        log.close()
        line = self._line()
        self.ready_s = time.monotonic() - begun
        ready = json.loads(line)
        assert ready["ready"] is True
        self.fs, self.pids = ready["fs"], ready["pids"]
        self.data_dirs = [pathlib.Path(d) for d in ready["data_dirs"]]
        self.transfer = [address(text) for text in ready["data"]]
        self.rpc = address(self.fs)
        self.http, self.http_of_data = ready["http"], ready.get("data_http")

    def _line(self) -> bytes:
        out, line, until = self.process.stdout, b"", time.monotonic() + READY_S
        while not line.endswith(b"\n"):
            if not select.select([out], [], [], max(0, until - time.monotonic()))[0]:
                self.process.kill()
                raise AssertionError(f"not ready in {READY_S} s\n{self.log()}")
            data = os.read(out.fileno(), 4096)
            if not data:
                raise AssertionError(f"levada up ended with {self.process.wait()}\n{self.log()}")
            line += data
        return line

    def log(self) -> str:
        return (self.directory.parent / f"{self.directory.name}.log").read_text(errors="replace")[-4000:]

    def all_pids(self) -> list[int]:
        return sorted({self.process.pid, *(pid for group in self.pids.values() for pid in group)})

    def stop(self) -> float:
        """SIGTERM; gives the seconds it took. A store that had ended before has nothing to stop."""
        begun = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(30)
                assert code == 0, f"SIGTERM: ended with {code}\n{self.log()}"
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"SIGTERM did not stop it in 30 s\n{self.log()}") from None
        return time.monotonic() - begun

    def kill(self):
        """`kill -9` of every process of it at once."""
        for pid in self.all_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        # The roles are its children, not ours. One that waits for its disk ends later, and has its directory and its
        # ports till then.
        eventually(lambda: all(has_ended(pid) for pid in self.all_pids()), 30, "all processes have ended", every=0.01)

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def used(self) -> int:
        """Bytes that the datanodes' directories take on disk."""
        return sum(used(directory) for directory in self.data_dirs)

    def resident(self) -> int:
        """Bytes of memory of all its processes: private pages, not mapped files."""
        return sum(memory(pid, "RssAnon") for pid in self.all_pids())


def address(text: str) -> tuple[str, int]:
    host, port = text.removeprefix("hdfs://").rsplit(":", 1)
    return host, int(port)


def used(directory: pathlib.Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def memory(pid: int, key: str) -> int:
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def suspend(pid: int):
    """SIGSTOP, and until no thread runs any more: on a busy machine they go on for a while after the signal was sent,
    and answer."""
    os.kill(pid, signal.SIGSTOP)
    eventually(
        lambda: all(state in "tTXZ" for state in thread_states(pid)), 30, f"process {pid} stands still", every=0.002
    )


def thread_states(pid: int) -> list[str]:
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            # The name before it may have spaces and brackets of its own.
            found.append(pathlib.Path(f"/proc/{pid}/task/{thread}/stat").read_text().rsplit(")", 1)[1].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread ended meanwhile
    return found


def has_ended(pid: int) -> bool:
    """Nobody may have asked how."""
    try:
        return all(state in "XZ" for state in thread_states(pid))
    except (FileNotFoundError, ProcessLookupError):
        return True


# How much longer a busy machine may take for what a quiet one does: what is slow is not what hangs. Speed is measured
# in benchmarks.
PATIENCE = 3


def eventually(what, seconds: float, says: str = "", every: float = 0.25):
    """Waits until `what()` is true: for `seconds` on a quiet machine, and longer on a busy one."""
    seconds *= PATIENCE
    until = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {says or what}")
        time.sleep(every)
