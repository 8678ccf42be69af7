"""Every client with files that it writes and reads step by step, so that something can happen in between.

A writer has `write`, `flush` (False if the client cannot know what is acknowledged before the end) and `close`; a
reader `read` and `close`. Whatever fails raises.
"""

import base64
import itertools
import os
import subprocess

import paths
from java import JavaError
from others import Go, Native, RemoteError
from store import SUPERUSER

# What a client says when it gives up.
FAILURES = (JavaError, RemoteError, OSError, AssertionError)


class Ours:
    """`levada put` and `levada cat`: a process for each file."""

    name = "levada"

    def __init__(self, store):
        self.environment = {**os.environ, "LEVADA_URL": store.fs}
        self.all = []

    def writer(self, path, block):
        return self.run("put", "--block-size", block, "-", path)

    def reader(self, path):
        return self.run("cat", path)

    def run(self, *words):
        self.all.append(Pipe([paths.LEVADA, *words], self.environment))
        return self.all[-1]

    def stop(self):
        for pipe in self.all:
            pipe.process.kill()
            pipe.process.wait()


class Pipe:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            list(map(str, command)),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def flush(self) -> bool:
        return False

    def read(self, length) -> bytes:
        return self.process.stdout.read(length)

    def close(self):
        self.process.stdin.close()
        said = self.process.stderr.read().decode(errors="replace")
        assert self.process.wait() == 0, said


class JavaApi:
    name = "java"

    def __init__(self, store, java, **conf):
        self.fs = java.mount(store.fs, SUPERUSER, conf)

    def writer(self, path, block):
        return JavaWriter(self.fs.create(path, block=block))

    def reader(self, path):
        return self.fs.open(path)

    def stop(self):
        self.fs.unmount()


class JavaWriter:
    def __init__(self, out):
        self.write, self.close, self.out = out.write, out.close, out

    def flush(self) -> bool:
        self.out.hflush()
        return True


class Children:
    """A client that answers lines: a process for each open file, which serves another one when that is closed."""

    numbers = itertools.count(1)

    def __init__(self, start):
        self.start, self.idle, self.all = start, [], []

    def take(self):
        try:
            return self.idle.pop()
        except IndexError:
            child = self.start()
            self.all.append(child)
            return child

    def writer(self, path, block):
        stream = Line(self, "close")
        stream.call("create", path=path, block=block, replication=3)
        return stream

    def reader(self, path):
        stream = Line(self, "close-reader")
        stream.call("open", path=path)
        return stream

    def stop(self):
        for child in self.all:
            child.stop()


class NativeApi(Children):
    """Its `hsync` (0.14.7) waits for ever if the chain breaks while it waits, so that it must not be called then."""

    name, flush_call = "hdfs-native", "hsync"

    def __init__(self, store, **conf):
        super().__init__(lambda: Native(store.fs, SUPERUSER, **conf))


class GoApi(Children):
    name, flush_call = "go", "flush"

    def __init__(self, store, patience: str):
        super().__init__(lambda: Go(store.fs, SUPERUSER, patience))


class Line:
    def __init__(self, owner, end):
        self.owner, self.end, self.child, self.handle = owner, end, owner.take(), str(next(owner.numbers))

    def call(self, name, **arguments):
        return self.child.call(name, handle=self.handle, **arguments)

    def write(self, data):
        self.call("write", data=base64.b64encode(data).decode())

    def flush(self) -> bool:
        self.call(self.owner.flush_call)
        return True

    def read(self, length) -> bytes:
        return base64.b64decode(self.call("read", length=length))

    def close(self):
        self.call(self.end)
        self.owner.idle.append(self.child)
