"""Clients that change names and files one after the other, and know what must come of each change.

Each works in a directory of its own and keeps what must be there. A change that was lost, or done twice, shows at once:
a directory that is made twice "already exists", a name that is moved twice is "not found".
"""

import random
import threading
import time

import content
from cli import levada
from java import JavaError
from others import RemoteError


class Twice(Exception):
    """The client was told that the change was made already, or had no object."""


class OurShell:
    name, waits_for_ever = "levada", False

    def __init__(self, group, scratch):
        self.url, self.scratch = group.url, scratch

    def run(self, *words, stdin=None):
        done = levada(self.url, *words, check=False, stdin=stdin, text=False)
        error = done.stderr.decode(errors="replace")
        if "already exists" in error or "no such file" in error:
            raise Twice(f"{words}: {error}")
        assert done.returncode == 0, f"{words}: {error}"
        return done.stdout

    def mkdir(self, path):
        self.run("mkdir", path)

    def create(self, path, data):
        self.run("put", "-", path, stdin=data)

    def rename(self, source, target):
        self.run("mv", source, target)

    def delete(self, path):
        self.run("rm", "-r", path)

    def read(self, path):
        return self.run("cat", path)

    def walk(self, top):
        return sorted(line.decode() for line in self.run("ls", "-R", "-C", top).splitlines())


class JavaApi:
    name, waits_for_ever = "java", False

    def __init__(self, java, group, user):
        self.fs = java.mount("hdfs://levada", user, group.conf())

    def run(self, act, *words, **how):
        try:
            return act(*words, **how)
        except JavaError as error:
            if error.kind in ("FileAlreadyExistsException", "FileNotFoundException"):
                raise Twice(str(error)) from error
            raise

    def mkdir(self, path):
        assert self.run(self.fs.mkdirs, path) is True

    def create(self, path, data):
        self.run(self.fs.write, path, data, overwrite=False)

    def rename(self, source, target):
        if self.run(self.fs.rename, source, target) is not True:
            raise Twice(f"rename {source} {target}: false")

    def delete(self, path):
        if self.run(self.fs.delete, path) is not True:
            raise Twice(f"delete {path}: false")

    def read(self, path):
        return self.run(self.fs.read, path)

    def walk(self, top):
        found, waiting = [], [top]
        while waiting:
            for entry in self.fs.list(waiting.pop()):
                found.append(entry["path"])
                waiting += [entry["path"]] if entry["directory"] else []
        return sorted(found)


class NativeApi:
    """hdfs-native gives up a call whose connection breaks, and gives one that it repeats a new number, so no server can
    know it. So this asks again, as a program that uses it must, and then may be told that the change was made already.
    For a server that hangs it waits for ever."""

    name, waits_for_ever = "hdfs-native", True
    PATIENCE_S = 60

    def __init__(self, native, scratch):
        self.native, self.scratch = native, scratch

    def once(self, call, **how):
        try:
            return self.native.call(call, **how)
        except RemoteError as error:
            if any(word in str(error) for word in ("AlreadyExists", "NotFound", "FileNotFound", "AlreadyBeingCreated")):
                raise Twice(str(error)) from error
            raise

    def again(self, act, also=()):
        until = time.monotonic() + self.PATIENCE_S
        while True:
            try:
                return act()
            except (RemoteError, *also):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def run(self, call, **how):
        return self.again(lambda: self.once(call, **how))

    def mkdir(self, path):
        self.run("mkdir", path=path)

    def create(self, path, data):
        local = self.scratch / "source"
        local.write_bytes(data)
        begun = False

        def act():
            nonlocal begun
            if begun:  # what a try before this one has left
                self.once("remove", path=path)
            begun = True
            self.once("create", path=path, handle="w")
            self.once("write", local=str(local), handle="w")
            self.once("close", handle="w")

        self.again(act, also=(Twice,))

    def rename(self, source, target):
        self.run("rename", path=source, to=target)

    def delete(self, path):
        if self.run("remove", path=path) is not True:
            raise Twice(f"delete {path}: false")

    def read(self, path):
        local = self.scratch / "copy"
        self.run("get", path=path, local=str(local))
        return local.read_bytes()


class Walker:
    """One client in a thread. `ends` has the time at which each change began and was done."""

    def __init__(self, api, seed: int, may_be_told_twice=False):
        self.api, self.chance, self.may_be_told_twice = api, random.Random(seed), may_be_told_twice
        self.top = f"/walk-{api.name}-{seed}"
        self.dirs, self.files = {}, {}
        self.ends, self.twice, self.failure, self.number = [], 0, None, 0
        self.stopped = threading.Event()
        api.mkdir(self.top)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.stopped.is_set():
                self.step()
        except Exception as error:
            self.failure = error

    def step(self):
        self.number += 1
        kind = self.chance.choice(["mkdir", "create", "create", "rename", "delete", "read"])
        name = f"{self.top}/n{self.number}"
        begun = time.monotonic()
        if kind == "mkdir" or not self.files:
            self.change(self.api.mkdir, name)
            self.dirs[name] = True
        elif kind == "create":
            data = content.make(self.chance.choice([0, 10, 5_000, 400_000, 1_300_000]), self.number)
            self.change(self.api.create, name, data)
            self.files[name] = data
        elif kind == "rename":
            source = self.chance.choice(sorted(self.files))
            self.change(self.api.rename, source, name)
            self.files[name] = self.files.pop(source)
        elif kind == "delete":
            path = self.chance.choice(sorted({**self.files, **self.dirs}))
            self.change(self.api.delete, path)
            self.files.pop(path, None), self.dirs.pop(path, None)
        else:
            path = self.chance.choice(sorted(self.files))
            found = self.api.read(path)
            assert (
                found == self.files[path]
            ), f"{path}: {len(found)} bytes, not the {len(self.files[path])} that were written"
            return
        self.ends.append((begun, time.monotonic()))

    def change(self, act, *words):
        try:
            act(*words)
        except Twice:
            if not self.may_be_told_twice:
                raise
            self.twice += 1

    def writable_after(self, moment: float) -> float | None:
        """Seconds from `moment` to the end of the first change that began after it."""
        # The last one may be growing at this moment.
        return next((end - moment for begun, end in list(self.ends) if begun >= moment), None)

    def stop(self):
        self.stopped.set()
        self.thread.join(120)
        assert not self.thread.is_alive(), f"{self.top}: a call hangs"
        assert not self.failure, f"{self.top}: {self.failure!r}"

    def check(self, reader):
        """All that must be there is, with its bytes, and nothing else."""
        assert reader.walk(self.top) == sorted([*self.dirs, *self.files]), self.top
        for path, data in self.files.items():
            assert reader.read(path) == data, path
