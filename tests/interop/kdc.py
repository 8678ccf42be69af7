"""A KDC of MIT Kerberos in a directory of its own, as an ordinary process: nothing of it is in /etc.

    with Kdc(directory, "EXAMPLE.COM", "OTHER.COM") as kdc:
        kdc.principal("nn/localhost")
        kdc.keytab(directory / "nn.keytab", "nn/localhost")

Where a program is missing, the test fails. Programs find the realms by `kdc.environment`, Java by `kdc.java_options`.
The tests of the crate `gss` run themselves within one, and ask it for more:

    kdc.py run DIRECTORY REALM [REALM…] -- PROGRAM [ARGUMENT…]
    kdc.py call DIRECTORY METHOD [ARGUMENT…]
"""

import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

# Debian keeps servers where a user's PATH does not look.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"
PROGRAMS = ["krb5kdc", "kadmin.local", "kdb5_util", "kinit", "kvno"]
PACKAGES = "krb5-kdc krb5-admin-server krb5-user"
FAKETIME = ["libfaketime.so.1", "faketime"]  # the library, Debian's package
READY_S = 30
PORT_TRIES = 20


class Kdc:
    """One process for all realms. The first one is the default."""

    def __init__(self, directory: pathlib.Path, *realms: str):
        self.directory = pathlib.Path(directory)
        self.realms = realms
        self.process = None
        missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        assert not missing, f"{', '.join(missing)}: install Debian's {PACKAGES}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.krb5_conf = self.directory / "krb5.conf"

    def __enter__(self):
        for _ in range(PORT_TRIES):
            # Below those that the system gives to clients.
            self._describe(random.randrange(20_000, 32_000))
            if not (self.directory / f"{self.realms[0]}.db").exists():
                for realm in self.realms:
                    self._run("kdb5_util", "-r", realm, "create", "-s", "-P", "of the tests")
            if self._start():
                return self
        raise AssertionError(f"krb5kdc does not start\n{self.log()}")

    def __exit__(self, *_):
        self.stop()

    def _describe(self, port: int):
        self.port = port
        here = self.directory
        kdcs = "\n".join(f"    {realm} = {{\n        kdc = 127.0.0.1:{port}\n    }}" for realm in self.realms)
        # Realms by the names of hosts: in other.com is OTHER.COM.
        domains = "\n".join(f"    .{realm.lower()} = {realm}\n    {realm.lower()} = {realm}" for realm in self.realms)
        self.krb5_conf.write_text(
            f"""[libdefaults]
    default_realm = {self.realms[0]}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    default_ccache_name = FILE:{here}/ccache
    default_rcache_name = file2:{here}/rcache
[realms]
{kdcs}
[domain_realm]
{domains}
"""
        )
        databases = "\n".join(
            f"""    {realm} = {{
        database_name = {here}/{realm}.db
        key_stash_file = {here}/{realm}.stash
        acl_file = {here}/none.acl
        max_life = 1d
        max_renewable_life = 7d
        supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
    }}"""
            for realm in self.realms
        )
        (here / "kdc.conf").write_text(
            f"""[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{databases}
[logging]
    kdc = FILE:{here}/kdc.log
    default = FILE:{here}/kdc.log
"""
        )

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KRB5")}
        mine = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"), "PATH": PATH}
        return {**kept, **mine}

    @property
    def java_options(self) -> list[str]:
        return [f"-Djava.security.krb5.conf={self.krb5_conf}"]

    def environment_at(self, offset: str) -> dict[str, str]:
        """For a program whose clock is wrong, by `+10m` as faketime writes it."""
        return {**self.environment, "LD_PRELOAD": faketime(), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def _start(self) -> bool:
        realms = [word for realm in self.realms for word in ("-r", realm)]
        with open(self.directory / "kdc.out", "ab") as out:
            self.process = subprocess.Popen(
                ["krb5kdc", "-n", "-P", self.directory / "kdc.pid", *realms],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=die_with_parent,
            )
        until = time.monotonic() + READY_S
        while self.process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                # Whoever answered may be somebody else; then ours ends, as the port is taken.
                time.sleep(0.05)
                return self.process.poll() is None
            except OSError:
                time.sleep(0.01)
        self.stop()
        return False

    def stop(self):
        """What it is asked from then on has no answer. `__enter__` starts it again, elsewhere, with all it knows."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill(self):
        """As `stop`, from outside of the process that started it."""
        os.kill(int((self.directory / "kdc.pid").read_text()), signal.SIGKILL)

    def log(self) -> str:
        texts = [self.directory / name for name in ("kdc.out", "kdc.log")]
        return "".join(text.read_text(errors="replace")[-4000:] for text in texts if text.exists())

    def _run(self, *command) -> str:
        done = subprocess.run(
            list(map(str, command)), env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout

    def kadmin(self, name: str, command: str, *words) -> str:
        """`kadmin.local` in the realm of `name`, which comes last."""
        realm = name.split("@")[1] if "@" in name else self.realms[0]
        return self._run("kadmin.local", "-r", realm, command, *words, name)

    def principal(self, name: str, life: str = "1d"):
        """With a key that nobody knows."""
        self.kadmin(name, "addprinc", "-randkey", "-maxlife", life)

    def user(self, name: str, password: str):
        self.kadmin(name, "addprinc", "-pw", password)

    def remove(self, name: str):
        self.kadmin(name, "delprinc", "-force")

    def keytab(self, path, *names: str):
        """Adds the current keys of `names`; they stay as they are."""
        for name in names:
            self.kadmin(name, "ktadd", "-q", "-k", path, "-norandkey")

    def rotate(self, name: str):
        """A new key, by the next number. Tickets by the previous one stay as good as whoever has that key."""
        self.kadmin(name, "cpw", "-randkey")

    def trust(self, realm: str, other: str):
        """Users of `realm` get tickets for servers of `other`."""
        for where in (realm, other):
            self._run("kadmin.local", "-r", where, "addprinc", "-pw", "between the realms", f"krbtgt/{other}@{realm}")

    def kinit(self, name: str, keytab, cache, *options: str):
        """Logs in by a keytab: `-l 5s` for a short life."""
        self._run("kinit", "-k", "-t", keytab, "-c", f"FILE:{cache}", *options, name)

    def kinit_password(self, name: str, password: str, cache):
        command = ["kinit", "-c", f"FILE:{cache}", name]
        done = subprocess.run(command, env=self.environment, input=password, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def ticket(self, cache, server: str):
        """Gets a ticket for a server into the cache."""
        self._run("kvno", "-c", f"FILE:{cache}", server)


def faketime() -> str:
    library, package = FAKETIME
    found = sorted(pathlib.Path("/usr/lib").glob(f"**/faketime/{library}"))
    assert found, f"{library}: install Debian's {package}"
    return str(found[0])


def die_with_parent():
    """PR_SET_PDEATHSIG: a test run that is killed leaves no KDC behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def main(verb: str, directory: str, *words: str) -> int:
    if verb == "call":
        realms = json.loads((pathlib.Path(directory) / "realms.json").read_text())
        method, *arguments = words
        print(getattr(Kdc(directory, *realms), method)(*arguments) or "", end="")
        return 0
    between = words.index("--")
    with Kdc(directory, *words[:between]) as kdc:
        (kdc.directory / "realms.json").write_text(json.dumps(kdc.realms))
        environment = {**kdc.environment, "LEVADA_KDC": str(kdc.directory), "LEVADA_FAKETIME": faketime()}
        return subprocess.run(words[between + 1 :], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
