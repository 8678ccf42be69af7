"""A clean Debian, booted in namespaces: systemd, dpkg, no compiler, no network but its own loopback."""

import os
import pathlib
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).parent
BOOT_S_MAX = 60


class NotBooted(Exception):
    """This machine makes no namespaces, or systemd does not start in them."""


class Machine:
    """`root`: a directory with an unpacked Debian."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child"]
        self.boot = subprocess.Popen(
            ["unshare", *namespaces, str(HERE / "boot.sh"), str(root)], stdin=subprocess.DEVNULL
        )
        try:
            self.pid = self._first_process()
            deadline = time.monotonic() + BOOT_S_MAX
            while self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip() != "running":
                self._must_come(deadline, "systemd is not running")
                time.sleep(0.1)
        except NotBooted:
            self.off()
            raise

    def _must_come(self, deadline: float, what: str):
        if self.boot.poll() is not None or time.monotonic() > deadline:
            raise NotBooted(what)

    def _first_process(self) -> int:
        children = pathlib.Path(f"/proc/{self.boot.pid}/task/{self.boot.pid}/children")
        deadline = time.monotonic() + BOOT_S_MAX
        while not (children.exists() and children.read_text().strip()):
            self._must_come(deadline, "the namespaces were not made")
            time.sleep(0.01)
        pid = int(children.read_text().split()[0])
        # Until then it is the script.
        while pathlib.Path(f"/proc/{pid}/comm").read_text().strip() != "systemd":
            self._must_come(deadline, "systemd did not start")
            time.sleep(0.01)
        return pid

    def run(self, *words, check=True, **options):
        """A command of that machine, as its root."""
        return run("nsenter", "-t", str(self.pid), "-a", *words, check=check, **options)

    def from_outside(self, *words, check=True, **options):
        """A command of this machine on that one's network."""
        return run("nsenter", "-t", str(self.pid), "-n", *words, check=check, **options)

    def install(self, package: pathlib.Path):
        (self.root / "var" / package.name).write_bytes(package.read_bytes())
        return self.run("dpkg", "--install", f"/var/{package.name}")

    def state(self, unit: str) -> str:
        return self.run("systemctl", "is-active", unit, check=False).stdout.strip()

    def show(self, unit: str, what: str) -> str:
        return self.run("systemctl", "show", unit, "--property", what, "--value").stdout.strip()

    def log(self) -> str:
        return self.run("journalctl", "--no-pager", "--output", "cat", check=False).stdout

    def off(self):
        """As by the mains switch."""
        self.boot.send_signal(signal.SIGKILL)
        self.boot.wait()


def run(*words, check=True, environment=None, timeout=280, **options):
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **PLAIN, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


# Nobody answers questions; and paths of this machine are not for the other one.
PLAIN = {
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C",
    "HOME": "/",
    "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin",
}
