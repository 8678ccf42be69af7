"""A disk that loses power: what a process did to files, as strace saw it, and what may be left of that.

    strace ──▶ Disk: changes of names (a journal), of contents (a file each), in order ──▶ leave(cut, …) ──▶ a directory

What is promised by an fsync is kept, and nothing else:

- A file's bytes, length and holes are kept up to the last fsync or fdatasync of it that began after them, and what was
  written through a descriptor that is synced at each write. Each later change of it may be there, be missing, or be
  torn at any 512 bytes, without regard to order.
- Names are changed in the order of the calls, as journaling file systems do it: some beginning of all changes is there,
  and at least those before the last fsync of the directory they were made in.

strace writes a call's line when it returns, so a call that was under way at the cut has no line, or one that is not
counted.
"""

import os
import pathlib
import random
import re

SECTOR = 512
CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,pwritev2,ftruncate,fallocate,"
    "fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,"
    "copy_file_range"
)


def watched(trace: pathlib.Path) -> list[str]:
    """What to write before a command so that strace tells all its threads do to files. The command keeps its process
    id."""
    options = ["-D", "-f", "-q", "-ttt", "-xx", "-s", str(64 << 20)]
    return ["strace", *options, "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(trace)]


class File:
    """The changes of one file's contents: (moment, kind, offset, bytes or length)."""

    def __init__(self):
        self.changes, self.syncs = [], []

    def left(self, moment: int, chance: random.Random, mood: str) -> bytearray:
        data, kept = bytearray(), self.kept_at(moment)
        for when, kind, offset, what in self.changes:
            if when > moment:
                break
            if when > kept and kind != "write kept" and not survives(chance, mood):
                if kind != "write" or mood != "torn":
                    continue
                for start, piece in sectors(offset, what):
                    if chance.random() < 0.5:
                        put(data, start, piece)
            elif kind.startswith("write"):
                put(data, offset, what)
            elif kind == "length":
                del data[what:]
                data.extend(bytes(what - len(data)))
            elif kind == "reserve":
                data.extend(bytes(max(0, offset + what - len(data))))
            elif kind == "hole":
                end = min(offset + what, len(data))
                data[offset:end] = bytes(max(0, end - offset))
        return data

    def kept_at(self, moment: int) -> int:
        return max((began for began, ended in self.syncs if ended <= moment), default=-1)


def survives(chance: random.Random, mood: str) -> bool:
    return mood == "all" or (mood in ("some", "torn") and chance.random() < 0.5)


def sectors(offset: int, data: bytes):
    at = 0
    while at < len(data):
        length = min(SECTOR - (offset + at) % SECTOR, len(data) - at)
        yield offset + at, data[at : at + length]
        at += length


def number(word: str) -> int:
    return int(word, 8) if re.fullmatch("0[0-7]+", word) else int(word, 0)


def put(data: bytearray, offset: int, piece: bytes):
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(piece)] = piece


MOODS = ["none", "all", "some", "torn"]
LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
CALL = re.compile(r"(\w+)\((.*)\) += (-?\w+).*$", re.S)
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class Disk:
    """Everything under `root`, from the lines of strace."""

    def __init__(self, trace: pathlib.Path, root: pathlib.Path):
        self.root = str(root)
        # (moment, directory, what): what is ("put", path, file or None for a directory) or ("move", …) or ("drop", …)
        self.names = []
        self.syncs = []  # (began, ended, directory)
        self.times = []  # of each moment, when the call returned at the latest
        self.tree = {}  # path -> File, None for a directory
        self.handles = {}
        self.places = {}  # handle -> where the next write goes, after it was told to
        begun = {}
        for line in trace.open(errors="replace"):
            found = LINE.match(line)
            if not found:
                continue
            thread, when, rest = found[1], float(found[2]), found[3]
            if rest.endswith("<unfinished ...>"):
                head = rest.removesuffix("<unfinished ...>").rstrip()
                if head.startswith("close("):
                    # The number is free, and another thread may have it, before the call returns.
                    self.handles.pop(int(head[6:]), None)
                else:
                    begun[thread] = (len(self.times), head)
                continue
            began = len(self.times)
            if rest.startswith("<... "):
                if thread not in begun:
                    continue
                began, head = begun.pop(thread)
                rest = head + rest.split("resumed>", 1)[1]
            call = CALL.match(rest)
            if call and not call[3].startswith("-"):
                self.take(call[1], call[2], int(call[3], 0), began, when)

    def take(self, call: str, words: str, result: int, began: int, when: float):
        moment = len(self.times)
        strings = [bytes.fromhex(text.replace("\\x", "")) for text in STRING.findall(words)]
        numbers = [
            number(word) for word in re.findall(r"(?:^|, )(-?(?:0x[0-9a-f]+|\d+))(?=,|$)", STRING.sub("s", words))
        ]

        def path(place: int) -> str:
            return os.path.normpath(strings[place].decode(errors="replace"))

        def ours(place: int) -> bool:
            return len(strings) > place and (path(place) + "/").startswith(self.root + "/")

        if call in ("openat", "open", "creat"):
            if not ours(0):
                self.handles.pop(result, None)
                return
            name = path(0)
            if "O_TMPFILE" in words:
                return
            if name not in self.tree and "O_CREAT" in words:
                self.made(moment, name, File())
            file = self.tree.get(name)
            if "O_TRUNC" in words and file is not None:
                file.changes.append((moment, "length", 0, 0))
            self.places.pop(result, None)
            self.handles[result] = (name, file, "O_DSYNC" in words or "O_SYNC" in words)
        elif call in ("mkdir", "mkdirat"):
            if not ours(0):
                return
            self.made(moment, path(0), None)
        elif call in ("rename", "renameat", "renameat2"):
            if not ours(0):
                return
            self.names.append(
                (moment, (os.path.dirname(path(0)), os.path.dirname(path(1))), ("move", path(0), path(1)))
            )
            moved = {
                name: file for name, file in self.tree.items() if name == path(0) or name.startswith(path(0) + "/")
            }
            for name in moved:
                del self.tree[name]
            for name, file in moved.items():
                self.tree[path(1) + name[len(path(0)) :]] = file
        elif call in ("unlink", "unlinkat", "rmdir"):
            if not ours(0):
                return
            self.tree.pop(path(0), None)
            self.names.append((moment, (os.path.dirname(path(0)),), ("drop", path(0), None)))
        elif call in ("link", "linkat", "copy_file_range") and (call == "copy_file_range" or ours(0)):
            if call == "copy_file_range" and numbers and numbers[0] not in self.handles:
                return
            raise NotImplementedError(call)
        else:
            handle = numbers[0] if numbers else int(words.split(",")[0])
            if handle not in self.handles:
                return
            name, file, at_once = self.handles[handle]
            if call == "close":
                del self.handles[handle]
                return
            if call == "lseek":
                self.places[handle] = result
                return
            if call in ("fsync", "fdatasync"):
                if file is None:
                    self.syncs.append((began, moment, name))
                else:
                    file.syncs.append((began, moment))
            elif call in ("pwrite64", "write", "pwritev", "pwritev2", "writev"):
                if call in ("write", "writev") and handle in self.places:
                    # The store looks for the place first, when it writes several pages in a row.
                    offset = self.places[handle]
                    self.places[handle] = offset + result
                elif call in ("write", "writev"):
                    # By position: only lines that are appended to a file of ours, which none of ours does without a
                    # sync's need.
                    offset = max((o + len(w) for _, k, o, w in file.changes if k.startswith("write")), default=0)
                else:
                    offset = numbers[-2] if call == "pwritev2" else numbers[-1]
                file.changes.append((moment, "write kept" if at_once else "write", offset, b"".join(strings)[:result]))
            elif call == "ftruncate":
                file.changes.append((moment, "length", 0, numbers[1]))
            elif call == "fallocate":
                kind = "hole" if "PUNCH_HOLE" in words else None if "KEEP_SIZE" in words else "reserve"
                if kind:
                    file.changes.append((moment, kind, numbers[-2], numbers[-1]))
            else:
                return  # dup, fcntl, sync_file_range: nothing changes, and no handle of ours is duplicated for writing
        self.times.append(when)

    def made(self, moment: int, name: str, file):
        self.tree[name] = file
        self.names.append((moment, (os.path.dirname(name),), ("put", name, file)))

    def leave(self, moment: int, seed: int, to: pathlib.Path, mood: str | None = None) -> str:
        """Makes what a loss of power behind call `moment` may leave. Answers in which mood the disk was."""
        chance = random.Random(seed)
        mood = mood or chance.choice(MOODS)
        done = [change for change in self.names if change[0] <= moment]
        least = 0
        for began, ended, directory in self.syncs:
            if ended <= moment:
                for place, (when, directories, _) in enumerate(done):
                    if when <= began and directory in directories:
                        least = max(least, place + 1)
        most = len(done)
        count = {"none": least, "all": most}.get(mood, chance.randint(least, most))
        tree = {}
        for _, _, (kind, name, what) in done[:count]:
            if kind == "put":
                tree[name] = what
            elif kind == "drop":
                tree.pop(name, None)
            else:
                moved = {old: file for old, file in tree.items() if old == name or old.startswith(name + "/")}
                for old in moved:
                    del tree[old]
                tree.update({what + old[len(name) :]: file for old, file in moved.items()})
        for name in sorted(tree):
            place = to / os.path.relpath(name, self.root)
            if tree[name] is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(tree[name].left(moment, chance, mood))
        return mood
