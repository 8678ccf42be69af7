"""The Java client, unmodified: `hdfs dfs` as a process, and Hadoop's FileSystem API in one long-lived JVM.

Everything here talks to any `hdfs://` address; nothing knows Levada.
"""

import base64
import itertools
import json
import os
import subprocess
import threading

from paths import BLOCK, HADOOP_LIB, JAVA_CLASSES, JAVA_CONF, SERVER_LIB


def java_command(*arguments: str, quick: bool = True) -> list[str]:
    """`quick` is for a JVM that lives for a second: little compilation, the small collector."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if quick else ["-Xmx512m"]
    # What the JVM itself warns of, as of a collection that waits, is no answer and no output of a command.
    options += ["-Xlog:disable", "-Xlog:all=warning:stderr"]
    classpath = f"{JAVA_CONF}:{JAVA_CLASSES}:{HADOOP_LIB}/*"
    return ["java", *options, "-Dhadoop.root.logger=ERROR,console", "-cp", classpath, *arguments]


def shell_command(url, *words, options=()) -> list[str]:
    return java_command("org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={url}", *options, *map(str, words))


def shell_environment(user=None) -> dict:
    return {**os.environ, "HADOOP_USER_NAME": user} if user else dict(os.environ)


def hdfs_dfs(url, *words, user=None, check=True, options=(), stdin=None, timeout=300, before=()):
    """Runs Hadoop's FsShell as `hdfs dfs` does; gives the finished process with text output."""
    done = subprocess.run(
        [*before, *shell_command(url, *words, options=options)],
        env=shell_environment(user),
        stdin=stdin or subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    if check and done.returncode != 0:
        line = " ".join(map(str, words))
        raise AssertionError(f"hdfs dfs {line} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def run_tool(main: str, *words: str, user: str) -> subprocess.CompletedProcess:
    """Runs a tool for administrators, which is in the servers' package, with text output; times are in UTC."""
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
    return subprocess.run(
        [*java, "-cp", f"{JAVA_CONF}:{SERVER_LIB}/*", main, *words],
        env=shell_environment(user),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


class JavaError(Exception):
    """A Java exception: `kind` is its class, short and full."""

    def __init__(self, full: str, message: str):
        super().__init__(f"{full}: {message}")
        self.full = full
        self.kind = full.rsplit(".", 1)[-1]
        self.text = message


class Java:
    """The long-lived JVM of tests/interop/java/Driver.java."""

    def __init__(self, quick: bool = False, command: list[str] | None = None, environment: dict | None = None):
        self.process = subprocess.Popen(
            command or java_command("Driver", quick=quick), env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.numbers = itertools.count(1)
        self.waiting: dict[int, "Answer"] = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._answers, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()

    def _answers(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.waiting.pop(answer["id"]).set(answer)
        for answer in list(self.waiting.values()):
            answer.set({"error": "java.lang.InternalError", "message": "the JVM ended"})

    def start(self, call: str, **arguments) -> "Answer":
        """Sends a call and does not wait; `.get()` on what it gives does."""
        number = next(self.numbers)
        answer = self.waiting[number] = Answer()
        request = json.dumps({"id": number, "call": call, **{k: v for k, v in arguments.items() if v is not None}})
        with self.lock:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        return answer

    def call(self, call: str, timeout: float = 120, **arguments):
        return self.start(call, **arguments).get(timeout)

    def mount(self, url: str, user: str = "root", conf: dict | None = None) -> "JavaFs":
        name = f"fs{next(self.numbers)}"
        settings = {"dfs.blocksize": BLOCK, "dfs.namenode.fs-limits.min-block-size": 1, **(conf or {})}
        settings = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in settings.items()}
        self.call("mount", fs=name, url=url, user=user, conf=settings)
        return JavaFs(self, name)


class Answer:
    def __init__(self):
        self.done = threading.Event()

    def set(self, answer):
        self.answer = answer
        self.done.set()

    def get(self, timeout: float = 120):
        if not self.done.wait(timeout):
            raise TimeoutError(f"no answer from Java in {timeout} s")
        if "error" in self.answer:
            raise JavaError(self.answer["error"], self.answer["message"])
        return self.answer["ok"]


class JavaFs:
    """One FileSystem object: a user and a configuration."""

    def __init__(self, java: Java, name: str):
        self.java, self.name = java, name

    def call(self, call, timeout=120, **arguments):
        return self.java.call(call, timeout, fs=self.name, **arguments)

    def start(self, call, **arguments):
        return self.java.start(call, fs=self.name, **arguments)

    def unmount(self):
        self.call("unmount")

    def mkdirs(self, path, mode=None):
        return self.call("mkdirs", path=path, mode=mode)

    def rename(self, source, target):
        return self.call("rename", **{"from": source, "to": target})

    def rename2(self, source, target, overwrite=False):
        return self.call("rename2", overwrite=overwrite, **{"from": source, "to": target})

    def delete(self, path, recursive=True):
        return self.call("delete", path=path, recursive=recursive)

    def exists(self, path):
        return self.call("exists", path=path)

    def stat(self, path):
        return self.call("stat", path=path)

    def list(self, path):
        return self.call("list", path=path)

    def names(self, path):
        return [entry["path"].rsplit("/", 1)[-1] for entry in self.list(path)]

    def checksum(self, path):
        return self.call("checksum", path=path)

    def put(self, local, path, **how):
        return self.call("put", local=str(local), path=path, **how)

    def get(self, path, local):
        return self.call("get", path=path, local=str(local))

    def create(self, path, **how) -> "Writer":
        handle = f"w{next(self.java.numbers)}"
        self.call("create", handle=handle, path=path, **how)
        return Writer(self, handle)

    def append(self, path, **how) -> "Writer":
        handle = f"w{next(self.java.numbers)}"
        self.call("append", handle=handle, path=path, **how)
        return Writer(self, handle)

    def open(self, path) -> "Reader":
        handle = f"r{next(self.java.numbers)}"
        self.call("open", handle=handle, path=path)
        return Reader(self, handle)

    def write(self, path, data: bytes, **how):
        out = self.create(path, **how)
        out.write(data)
        out.close()

    def read(self, path) -> bytes:
        reader = self.open(path)
        try:
            return reader.read()
        finally:
            reader.close()


class Handle:
    def __init__(self, fs, handle):
        self.fs, self.handle = fs, handle

    def call(self, call, timeout=120, **arguments):
        return self.fs.call(call, timeout, handle=self.handle, **arguments)


class Writer(Handle):
    def write(self, data: bytes):
        return self.call("write", data=base64.b64encode(data).decode())

    def hflush(self):
        self.call("hflush")

    def hsync(self):
        self.call("hsync")

    def close(self):
        self.call("close-writer")

    def abandon(self):
        """Forgets the stream without closing it."""
        self.call("abandon-writer")


class Reader(Handle):
    def read(self, length: int = 1 << 30) -> bytes:
        return base64.b64decode(self.call("read", length=length))

    def pread(self, offset: int, length: int) -> bytes:
        return base64.b64decode(self.call("pread", offset=offset, length=length))

    def seek(self, offset: int):
        self.call("seek", offset=offset)

    def visible(self) -> int:
        return self.call("visible")

    def close(self):
        self.call("close-reader")
