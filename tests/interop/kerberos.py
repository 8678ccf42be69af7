"""A store whose callers need tickets, and stock clients that have some or none.

    with Secure(directory) as secure:
        ada = secure.user("ada")
        secure.hdfs_dfs(ada, "-ls", "/")
"""

import os
import pathlib
import subprocess

import paths
from cli import levada
from java import java_command
from kdc import Kdc
from roles import Roles
from store import SUPERUSER, Store

REALM, OTHER = "EXAMPLE.COM", "OTHER.COM"
SERVER = f"nn/localhost@{REALM}"
# For what comes over HTTP, in the same keytab.
WEB = f"HTTP/localhost@{REALM}"
# Before the tests' own folder, which has an empty core-site.xml.
CONF = paths.ROOT / "tests" / "interop" / "java" / "kerberos"
NONE = pathlib.Path("/nonexistent/ccache")


class SecureRoles(Roles):
    """Finds its realm by the environment, as every program of Kerberos."""

    def __init__(self, kdc: Kdc, directory: pathlib.Path, datanodes: int, table: str):
        self.environment = kdc.environment
        self.table = table
        super().__init__(directory, datanodes)

    def start(self, name: str) -> dict:
        config = self.directory / "meta.toml"
        if name == "meta" and "[meta.security]" not in config.read_text():
            config.write_text(config.read_text() + self.table)
        return super().start(name)


class Secure:
    """A KDC with two realms, and a metadata server whose key it knows. Its superuser has a ticket, too."""

    def __init__(self, directory: pathlib.Path, protection: str = "authentication", datanodes: int = 0, more: str = ""):
        """`more`: further tables for the metadata server."""
        directory.mkdir(exist_ok=True)
        self.more = more
        self.directory, self.protection, self.datanodes = directory, protection, datanodes
        self.kdc = Kdc(directory / "kdc", REALM, OTHER)
        self.keytab = directory / "server.keytab"

    def __enter__(self):
        self.kdc.__enter__()
        try:
            for name in (SERVER, WEB):
                self.kdc.principal(name)
            self.kdc.keytab(self.keytab, SERVER, WEB)
            self.roles = self.start()
            port = self.roles.fs.rsplit(":", 1)[1]
            self.fs = f"hdfs://localhost:{port}"
            self.superuser = self.log_in_superuser()
        except BaseException:
            self.kdc.stop()
            raise
        return self

    def start(self):
        protection = ", ".join(f'"{word}"' for word in self.protection.split(","))
        table = (
            f'[meta.security]\nauthentication = "kerberos"\nprincipal = "{SERVER}"\n'
            f'keytab = "{self.keytab}"\nrpc_protection = [{protection}]\nstatic_groups = "root=supergroup"\n{self.more}'
        )
        return SecureRoles(self.kdc, self.directory / "roles", self.datanodes, table)

    def log_in_superuser(self) -> pathlib.Path:
        return self.user(SUPERUSER)

    def __exit__(self, *_):
        self.roles.stop()
        self.kdc.stop()

    def user(self, name: str, *options: str) -> pathlib.Path:
        """A user of the default realm, or of `name@REALM`; gives the cache with the ticket. `-l 5s`: a short life."""
        keytab, cache = (self.directory / f"{name.replace('/', '-')}.{what}" for what in ("keytab", "ccache"))
        if not keytab.exists():
            self.kdc.principal(name)
            self.kdc.keytab(keytab, name)
        self.kdc.kinit(name, keytab, cache, *options)
        return cache

    def environment(self, cache: pathlib.Path) -> dict[str, str]:
        kept = {key: value for key, value in self.kdc.environment.items() if key != "HADOOP_USER_NAME"}
        return {**kept, "KRB5CCNAME": str(cache)}

    def java(self, *arguments: str, principal=f"nn/_HOST@{REALM}", protection=None) -> list[str]:
        command = java_command(*arguments)
        at = command.index("-cp") + 1
        command[at] = f"{CONF}:{command[at]}"
        settings = [f"-Dlevada.principal={principal}", f"-Dlevada.protection={protection or self.protection}"]
        return [*command[:1], *self.kdc.java_options, *settings, *command[1:]]

    def hdfs_dfs(self, cache, *words, check=True, principal=f"nn/_HOST@{REALM}", protection=None, options=()):
        """`hdfs dfs` by the tickets of `cache`."""
        shell = ["org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={self.fs}", *options, *map(str, words)]
        done = subprocess.run(
            self.java(*shell, principal=principal, protection=protection),
            env=self.environment(cache),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = f"{done.stdout}{done.stderr}"
        assert (
            not check or done.returncode == 0
        ), f"hdfs dfs {' '.join(map(str, words))} ended with {done.returncode}\n{said}"
        return done

    def simple(self, *words):
        """`hdfs dfs` of a client that is not set up for Kerberos."""
        shell = ["org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={self.fs}", *map(str, words)]
        environment = {**os.environ, "HADOOP_USER_NAME": "ada"}
        return subprocess.run(java_command(*shell), env=environment, capture_output=True, text=True, timeout=300)


class SecureUp(Secure):
    """The same by `levada up --secure`, with datanodes. Its superuser is the user that its server is."""

    def __init__(self, directory: pathlib.Path, *options: str):
        super().__init__(directory)
        self.options = options

    def start(self):
        # Programs of Kerberos find their realm by these.
        realm = [f"{key}={value}" for key, value in self.kdc.environment.items() if key.startswith("KRB5")]
        options = ["--secure", "--principal", SERVER, "--keytab", str(self.keytab), *self.options]
        return Store(self.directory / "store", *options, before=["env", *realm])

    def log_in_superuser(self) -> pathlib.Path:
        cache = self.directory / "server.ccache"
        self.kdc.kinit(SERVER, self.keytab, cache)
        return cache

    def levada(self, cache, *words, **more):
        """Our own command line, by the tickets of `cache`."""
        return levada(self.fs, *words, environment={**self.kdc.environment, "KRB5CCNAME": str(cache)}, **more)
