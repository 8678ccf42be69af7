"""The servers, in their namespace: a store of three datanodes with a gateway before it, nginx, XRootD, and a plain
sender of bytes, all with the same files.
"""

import json
import pathlib
import pwd
import select
import shutil
import subprocess
import sys
import time

from link import ADDRESS, SERVERS, command

META, GATEWAY, GATEWAY_HTTP, GATEWAY_ROOT, NGINX, XROOTD, SENDER = 8020, 8030, 8031, 8094, 8080, 1094, 8099
DATANODES = 3
START_S_MAX = 30
HERE = pathlib.Path(__file__).resolve().parent

NGINX_CONF = """
daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log error.log warn;
events { worker_connections 4096; }
http {
  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;
  keepalive_timeout 600s; keepalive_requests 100000;
  max_ranges 10000; large_client_header_buffers 8 256k;
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  server { listen ADDRESS:PORT; root FILES; }
}
"""
XROOTD_CONF = """
xrd.port PORT
xrd.network nodnr
all.export / r/o
oss.localroot FILES
all.adminpath RUN
all.pidpath RUN
"""


class Servers:
    """`levada`: its binary. `directory`: where they keep what they have. `files`: what all of them serve."""

    def __init__(self, levada: pathlib.Path, directory: pathlib.Path, files: pathlib.Path, peers: bool):
        self.levada, self.directory, self.files, self.peers = levada, directory, files, peers
        self.url = f"hdfs://{ADDRESS}:{META}"
        self.started: list[subprocess.Popen] = []
        # Where files are that were moved.
        self.places: dict[str, str] = {}

    def __enter__(self) -> "Servers":
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(timeout=START_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start_all(self) -> None:
        self._start([sys.executable, HERE / "sender.py", ADDRESS, SENDER])
        meta = f'http_addr = "127.0.0.1:9870"\n[meta]\ndir = "{self.directory}/meta"\nrpc_addr = "{ADDRESS}:{META}"\n'
        self._levada("meta", "--config", self._write("meta.toml", meta), "--json")
        for number in range(DATANODES):
            port = 9866 + 10 * number
            data = f'[data]\ndir = "{self.directory}/data{number}"\nmetad = "{ADDRESS}:{META}"\n'
            data += f'xfer_addr = "{ADDRESS}:{port}"\nipc_addr = "{ADDRESS}:{port + 1}"\n'
            self._levada("data", "--config", self._write(f"data{number}.toml", data), "--json")
        self._levada(
            *("gateway", "--url", self.url, "--listen", f"{ADDRESS}:{GATEWAY}", "--beside-servers"),
            *("--http", f"{ADDRESS}:{GATEWAY_HTTP}", "--root", f"{ADDRESS}:{GATEWAY_ROOT}", "--json"),
        )
        for file in self.files.iterdir():
            self._put(file)
        if self.peers:
            self._start_peers()

    def _put(self, file: pathlib.Path) -> None:
        """Into the store, as soon as its datanodes have registered."""
        given_up = time.monotonic() + START_S_MAX
        while True:
            words = ["put", "-f", file, f"{self.url}/{file.name}"]
            done = command(self.levada, *words, namespace=SERVERS, check=False, timeout=300, capture_output=True)
            if done.returncode == 0:
                return
            if time.monotonic() > given_up:
                raise RuntimeError(f"{file.name} could not be put: {done.stderr.decode()}")
            time.sleep(0.5)

    def into_new_directory(self, name: str, directory: str) -> str:
        """The store keeps what is learned of a directory: of a new one nothing. Answers the file's path there."""
        path = f"/{directory}/{name}"
        source = self.places.get(name, f"/{name}")
        command(self.levada, "mkdir", "-p", f"{self.url}/{directory}", namespace=SERVERS)
        command(self.levada, "mv", f"{self.url}{source}", f"{self.url}{path}", namespace=SERVERS)
        self.places[name] = path
        return path

    def _start_peers(self) -> None:
        nginx, xrootd = self.directory / "nginx", self.directory / "xrootd"
        (nginx / "tmp").mkdir(parents=True)
        conf = NGINX_CONF.replace("ADDRESS", ADDRESS).replace("PORT", str(NGINX)).replace("FILES", str(self.files))
        self._start(["nginx", "-p", nginx, "-c", self._write("nginx.conf", conf)])
        xrootd.mkdir()
        # It does not run as root.
        user = pwd.getpwnam("xrootd")
        shutil.chown(xrootd, user.pw_uid, user.pw_gid)
        conf = XROOTD_CONF.replace("PORT", str(XROOTD)).replace("FILES", str(self.files)).replace("RUN", str(xrootd))
        words = ["xrootd", "-R", "xrootd", "-c", self._write("xrootd.cfg", conf), "-l", xrootd / "log"]
        self._start(words)
        time.sleep(2)

    def _write(self, name: str, text: str) -> pathlib.Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def _levada(self, *words: object) -> None:
        process = self._start([self.levada, *words], stdout=subprocess.PIPE)
        readable, _, _ = select.select([process.stdout], [], [], START_S_MAX)
        line = process.stdout.readline() if readable else b""
        if not line or not json.loads(line)["ready"]:
            raise RuntimeError(f"{words[0]} did not start")

    def _start(self, words: list, **options) -> subprocess.Popen:
        inside = ["ip", "netns", "exec", SERVERS, *map(str, words)]
        # Of its own group, or Ctrl-C would end it before it is told to.
        process = subprocess.Popen(inside, start_new_session=True, **options)
        self.started.append(process)
        return process
