"""hdfs-native (PyPI) in a process of its own, and the Go client github.com/colinmarc/hdfs/v2.

hdfs-native takes its user from the environment when the library starts, and a fault in native code would
take pytest with it; so it runs as a child that answers lines of JSON, as the Go program does.
"""

import json
import os
import subprocess
import sys
import threading

from paths import GO_CLIENT, ROOT


class RemoteError(Exception):
    pass


class Lines:
    """A child process that answers each line of JSON by one."""

    def __init__(self, command, user, environment=None):
        environment = environment or {**os.environ, "HADOOP_USER_NAME": user}
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.lock = threading.Lock()

    def call(self, call: str, **arguments):
        with self.lock:
            self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RemoteError(f"the client ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer["ok"]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Go(Lines):
    def __init__(self, url: str, user: str, *patience: str, before: list[str] = []):
        super().__init__([*before, GO_CLIENT, url.removeprefix("hdfs://"), user, *patience], user)


class Native(Lines):
    def __init__(self, url: str, user: str, environment=None, before: list[str] = [], **conf):
        settings = [f"{name}={value}" for name, value in conf.items()]
        child = ROOT / "tests" / "interop" / "native_child.py"
        super().__init__([*before, sys.executable, child, url, *settings], user, environment)
