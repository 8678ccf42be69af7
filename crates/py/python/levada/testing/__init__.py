"""A store for tests: started in a temporary directory, and gone afterwards.

    from levada.testing import Store

    with Store() as store:
        fs = fsspec.filesystem("levada", host=store.host, port=store.port)

With pytest the fixtures `levada_store` (one for the whole run) and `levada_fs` come with the package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any
from urllib.parse import urlsplit


class Store:
    """`levada up` on ports of its own. `url` is `hdfs://host:port`, which stock HDFS clients open as well.

    `addresses` is all that `levada up --json` says, with the metrics' pages of each server.
    """

    def __init__(self, binary: str | None = None):
        self._directory = tempfile.mkdtemp(prefix="levada-")
        program = [binary or command(), "up", "--dir", self._directory, "--port-base", "0", "--json"]
        # However this process ends, its end of the pipe is closed then: the store ends, and deletes what it had.
        program += ["--until-stdin-ends", "--delete-at-end"]
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._alive, self._said = self._process.stdin, self._process.stdout
        try:
            line = self._said.readline()
            if not line:
                self._log.seek(0)
                raise RuntimeError(f"levada up did not start: {self._log.read().decode(errors='replace')[-2000:]}")
            self.addresses: dict[str, Any] = json.loads(line)
        except BaseException:
            self.stop()
            raise
        self.url: str = self.addresses["fs"]
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port

    def stop(self) -> None:
        """Ends it, and deletes what it had. The second time it does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._alive.close()
        self._said.close()
        self._log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def command() -> str:
    """LEVADA_BIN, what was installed with this package, or what is on the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "levada")
    found = os.environ.get("LEVADA_BIN") or (beside if os.access(beside, os.X_OK) else shutil.which("levada"))
    if not found:
        raise FileNotFoundError("there is no command levada: LEVADA_BIN can name it")
    return found
