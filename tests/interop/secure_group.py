"""Three metadata servers whose callers need tickets, of one of two realms that trust each other.

    with SecureGroup(directory) as group:
        ada = group.user("ada")
        group.hdfs_dfs(ada, "-ls", "/")
"""

import json
import pathlib
import socket
import subprocess
import urllib.request

import kerberos
from group import NAME, Group
from java import Java, java_command
from kdc import Kdc
from kerberos import OTHER, REALM
from others import Native
from store import SUPERUSER, eventually

HOST = socket.gethostname()
SERVER = f"nn/{HOST}@{REALM}"
# Of the other realm ada alone is known here, by another name, as REALM has an ada of its own.
RULES = f"RULE:[1:$1@$0](ada@{OTHER.replace('.', chr(92) + '.')})s/@.*/-of-other/\nDEFAULT"


class SecureGroup(Group):
    def __init__(self, directory: pathlib.Path):
        directory.mkdir(parents=True)
        self.files = directory
        self.keytab = directory / "server.keytab"
        self.kdc = Kdc(directory / "kdc", REALM, OTHER)
        # Servers name themselves by the machine, and listen on 127.0.0.1.
        assert socket.gethostbyname(HOST) == "127.0.0.1", f"{HOST} is to be 127.0.0.1 in /etc/hosts"

    def __enter__(self):
        self.kdc.__enter__()
        try:
            self.kdc.principal(SERVER)
            self.kdc.keytab(self.keytab, SERVER)
            self.kdc.trust(OTHER, REALM)
            self.environment = self.kdc.environment
            self.tables = (
                f'[meta.security]\nauthentication = "kerberos"\n'
            f'principal = "nn/_HOST@{REALM}"\nkeytab = "{self.keytab}"\n'
                f"static_groups = \"root=supergroup\"\nauth_to_local = '''{RULES}'''\n"
            )
            super().__init__(self.files / "group", datanodes=0)
            self.client_conf()
            self.superuser = self.user(SUPERUSER)
        except BaseException:
            self.kdc.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.kdc.stop()

    def client_conf(self):
        """Java maps its own name as well, before it dials: here any user of the other realm, as servers are to
        decide."""
        directory = self.conf_dir()
        rules = f"RULE:[1:$1@$0](.*@{OTHER.replace('.', chr(92) + '.')})s/@.*//\nDEFAULT"
        row = f"<property><name>hadoop.security.auth_to_local</name><value>{rules}</value></property>\n</configuration>"
        site = (kerberos.CONF / "core-site.xml").read_text()
        (directory / "core-site.xml").write_text(site.replace("</configuration>", row))

    def way(self, source: str, number: int) -> str:
        """By the name that tickets are for."""
        return super().way(source, number).replace("127.0.0.1", HOST)

    def user(self, name: str) -> pathlib.Path:
        """A user of the default realm, or of `name@REALM`; gives the cache with the ticket."""
        keytab, cache = (self.files / f"{name}.{what}" for what in ("keytab", "ccache"))
        if not keytab.exists():
            self.kdc.principal(name)
            self.kdc.keytab(keytab, name)
        self.kdc.kinit(name, keytab, cache)
        return cache

    def leader(self, url: str | None = None) -> str:
        """By the page of a server that runs: who asks there needs no ticket."""

        def find():
            for name in [name for name, process in self.processes.items() if process.poll() is None]:
                with urllib.request.urlopen(f"http://{self.http[name]}/status", timeout=5) as page:
                    status = json.load(page)
                if status.get("meta", status).get("leader"):
                    return name
            return None

        return eventually(find, 30, "a metadata server leads")

    def with_ticket(self, cache) -> dict[str, str]:
        kept = {key: value for key, value in self.kdc.environment.items() if key != "HADOOP_USER_NAME"}
        return {**kept, "KRB5CCNAME": str(cache)}

    def java_command(self, *arguments: str) -> list[str]:
        command = java_command(*arguments)
        at = command.index("-cp") + 1
        command[at] = f"{self.directory / 'conf'}:{command[at]}"
        # Java asks for the name of the address once more, and /etc/hosts may have another one first.
        hosts = self.files / "hosts"
        hosts.write_text(f"127.0.0.1 {HOST}\n")
        settings = [f"-Djdk.net.hosts.file={hosts}", f"-Dlevada.principal=nn/_HOST@{REALM}"]
        settings += ["-Dlevada.protection=authentication"]
        return [*command[:1], *self.kdc.java_options, *settings, *command[1:]]

    def hdfs_dfs(self, cache, *words, check=True, environment=None):
        """`hdfs dfs` of a client that knows the servers by the name of all."""
        command = self.java_command(
            "org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS=hdfs://{NAME}", *map(str, words)
        )
        environment = environment or self.with_ticket(cache)
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        said = f"{done.stdout}{done.stderr}"
        assert (
            not check or done.returncode == 0
        ), f"hdfs dfs {' '.join(map(str, words))} ended with {done.returncode}\n{said}"
        return done

    def jvm(self, cache) -> Java:
        """A client that stays."""
        return Java(command=self.java_command("Driver"), environment=self.with_ticket(cache))

    def native(self, environment) -> Native:
        conf = {**self.conf(), "hadoop.security.authentication": "kerberos"}
        return Native(f"hdfs://{NAME}", "", environment=environment, **conf)
