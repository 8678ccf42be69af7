"""Two network namespaces and the wide link between them.

    reader's namespace 10.78.1.1 ── emulator, RTT ── 10.78.1.2 servers' namespace, where the servers have 10.78.0.1

The servers' address lies on that namespace's loopback device, so they and their connections outlive the link, which is
made anew for each measurement: then the emulator's counters are of that measurement alone.
"""

import json
import os
import pathlib
import signal
import subprocess

READER, SERVERS = "levada-wan-r", "levada-wan-s"
ADDRESS = "10.78.0.1"
ENDS = ("10.78.1.1", "10.78.1.2")
# Everything here has a limit: a link that lost its way would leave a reader waiting for ever.
SETUP_S_MAX = 20


def command(*words: object, namespace: str | None = None, **options) -> subprocess.CompletedProcess:
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    options = {"timeout": SETUP_S_MAX, "check": True, **options}
    return subprocess.run([*inside, *map(str, words)], **options)


class Namespaces:
    """Both, with Reno as congestion control: BBR's pacing would hide what is measured."""

    def __enter__(self) -> "Namespaces":
        self.__exit__()
        for name in (READER, SERVERS):
            command("ip", "netns", "add", name)
            command("ip", "link", "set", "lo", "up", namespace=name)
            command("sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno", namespace=name)
            # What was learned on one link is not true of the next.
            command("sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1", namespace=name)
        command("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo", namespace=SERVERS)
        return self

    def __exit__(self, *_: object) -> None:
        for name in (READER, SERVERS):
            command("ip", "netns", "delete", name, check=False, stderr=subprocess.DEVNULL)


class Link:
    """The link, and after it what went over it: `bytes`, of IP with headers, `packets`, `connections`."""

    def __init__(self, emulator: pathlib.Path, rtt_ms: float, mbit_s: int):
        self.emulator, self.rtt_ms, self.mbit_s = emulator, rtt_ms, mbit_s
        self.bytes = self.packets = self.connections = self.dropped = 0

    def __enter__(self) -> "Link":
        near, far = ENDS
        words = ["tun", "--a-netns", READER, "--a-addr", near, "--b-netns", SERVERS, "--b-addr", far]
        words += ["--rtt", self.rtt_ms, "--bandwidth", self.mbit_s, "--queue", 64 << 20]
        self.process = subprocess.Popen(
            [self.emulator, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.process.stderr.readline()  # It says that it is up.
        command("ip", "route", "add", ADDRESS, "via", far, namespace=READER)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=SETUP_S_MAX)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        for one in map(json.loads, said.splitlines()):
            self.packets += one["packets"]
            self.dropped += one["dropped"]
            self.connections += one["syn"] if one["dir"] == "a_to_b" else 0
            self.bytes += one["ip_bytes"] if one["dir"] == "b_to_a" else 0

    def reader(self, words: list, timeout_s: float, environment: dict[str, str]) -> str:
        """What a program in the reader's namespace prints; with its end by force, nothing."""
        try:
            done = command(
                *words,
                namespace=READER,
                timeout=timeout_s,
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, **environment},
            )
        except subprocess.TimeoutExpired:
            return json.dumps({"failed": f"longer than {timeout_s} s"})
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip().splitlines()[-1]
        return json.dumps({"failed": (done.stderr or done.stdout)[-400:]})
