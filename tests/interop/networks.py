"""Machines of their own in network namespaces, and a gateway that translates addresses, as in front of containers.

    outside 203.0.113.2 ── 203.0.113.1 gate 172.30.0.1 ── a bridge ── 172.30.0.2 store
                                                                   ── 172.30.0.3 inside

Nothing leads from outside to the bridge's addresses but the ports that the gate forwards. It needs root, `ip` and
`nft`.
"""

import itertools
import os
import pathlib
import shutil
import subprocess

# Names on the whole machine, and several tests run at a time. A device's name has at most 15 letters.
PREFIX = f"lv{os.getpid() % 1000000}"
numbers = itertools.count(1)
SETUP_S_MAX = 20
NAME = "store.example.com"


def run(*words, check=True) -> str:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=SETUP_S_MAX, stdin=subprocess.DEVNULL
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Namespace:
    """A machine as far as its network goes. `hosts`: what its /etc/hosts has beside localhost."""

    def __init__(self, hosts: dict[str, str] = {}):
        self.name = f"{PREFIX}n{next(numbers)}"
        self.etc = pathlib.Path("/etc/netns") / self.name
        self.etc.mkdir(parents=True)
        run("ip", "netns", "add", self.name)
        self.set_hosts(hosts)
        # A name that is unknown is unknown at once.
        (self.etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        self("ip", "link", "set", "lo", "up")

    @property
    def inside(self) -> list[str]:
        """What to write before a command; it keeps its process id."""
        return ["ip", "netns", "exec", self.name]

    def __call__(self, *words, check=True) -> str:
        return run(*self.inside, *words, check=check)

    def set_hosts(self, hosts: dict[str, str]):
        """Of programs that start from now on."""
        lines = [f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **hosts}.items()]
        (self.etc / "hosts").write_text("".join(lines))

    def remove(self):
        run("ip", "netns", "delete", self.name, check=False)
        shutil.rmtree(self.etc, ignore_errors=True)


class Network:
    """A bridge in a namespace of its own, and machines at it."""

    def __init__(self, network: str, hosts: dict[str, str] = {}):
        """`network`: the first three numbers of its addresses; 1 is the gate's."""
        self.network, self.hosts = network, hosts
        self.gate = Namespace()
        self.members = [self.gate]
        self.gate("ip", "link", "add", "bridge", "type", "bridge")
        self.gate("ip", "address", "add", f"{network}.1/24", "dev", "bridge")
        self.gate("ip", "link", "set", "bridge", "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.members:
            one.remove()

    def address(self, number: int) -> str:
        return f"{self.network}.{number}"

    def machine(self, number: int) -> Namespace:
        one = Namespace(self.hosts)
        self.members.append(one)
        self.plug(number, one.name, one)
        return one

    def plug(self, number: int, namespace, command):
        """`namespace`: a name, or the id of a process there; `command` runs what it is given in it."""
        near, far = f"{PREFIX}a{number}", f"p{number}"
        self.gate("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace)
        self.gate("ip", "link", "set", near, "master", "bridge", "up")
        command("ip", "address", "add", f"{self.address(number)}/24", "dev", far)
        command("ip", "link", "set", far, "up")
        command("ip", "route", "add", "default", "via", self.address(1))


class Nat(Network):
    """The network above, behind a gate that forwards `ports` (of outside: inside) to the store."""

    OUTSIDE, GATE = "203.0.113.2", "203.0.113.1"

    def __init__(self, ports: dict[int, int], hides_callers: bool = False, hosts: dict[str, str] = {}):
        """`hides_callers`: callers come from the gate's own address, as through Docker's proxy."""
        super().__init__("172.30.0", hosts)
        self.store, self.inside = self.machine(2), self.machine(3)
        self.outside = Namespace({NAME: self.GATE})
        self.members.append(self.outside)
        self.gate("ip", "link", "add", "out", "type", "veth", "peer", "name", "eth0", "netns", self.outside.name)
        self.gate("ip", "address", "add", f"{self.GATE}/24", "dev", "out")
        self.gate("ip", "link", "set", "out", "up")
        self.outside("ip", "address", "add", f"{self.OUTSIDE}/24", "dev", "eth0")
        self.outside("ip", "link", "set", "eth0", "up")
        self.gate("sysctl", "-qw", "net.ipv4.ip_forward=1")
        forwarded = "".join(
            f'iifname "out" tcp dport {there} dnat to {self.address(2)}:{here}\n' for there, here in ports.items()
        )
        hidden = 'iifname "out" oifname "bridge" masquerade' if hides_callers else ""
        rules = f"""
        table ip nat {{
          chain before {{ type nat hook prerouting priority dstnat;\n{forwarded} }}
          chain after {{ type nat hook postrouting priority srcnat;\n{hidden}\noifname "out" masquerade\n }}
        }}
        """
        self.gate("nft", rules)
