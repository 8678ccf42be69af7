"""A line of JSON in, a line of JSON out: hdfs-native for the tests. Arguments: the hdfs:// address, and settings as
name=value."""

import base64
import itertools
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from hdfs_native import Client, WriteOptions

client = Client(sys.argv[1], dict(setting.split("=", 1) for setting in sys.argv[2:]))
writers, readers = {}, {}
own_clients = []  # of the threads of `small`: a connection each


def write_small(client, path, data, block):
    with client.create(path, WriteOptions(block_size=block)) as out:
        out.write(data)


def verify_small(client, path, data, _):
    if bytes(client.read(path).read()) != data:
        raise ValueError(f"{path} is not what was written")


def small(act, path, files, length, threads, without, block):
    """`files` files of `length` bytes below `path`, shared among the threads, but those of `without`; milliseconds of
    each. A file that fails is named with the reason, and the others go on."""
    while len(own_clients) < threads:
        own_clients.append(Client(sys.argv[1]))
    contents = [random.Random(n).randbytes(length) for n in range(files)]
    numbers, took, failed = itertools.count(), [], {}

    def work(client):
        while (n := next(numbers)) < files:
            if n in without:
                continue
            start = time.perf_counter()
            try:
                act(client, f"{path}/{n}", contents[n], block)
                took.append((time.perf_counter() - start) * 1e3)
            except Exception as error:
                failed[n] = f"{type(error).__name__}: {error}".splitlines()[0]

    with ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        for done in [pool.submit(work, one) for one in own_clients[:threads]]:
            done.result()
        return {"seconds": time.perf_counter() - begun, "ms": took, "failed": failed}


def call(
    call,
    path="",
    local="",
    to="",
    block=None,
    replication=None,
    offset=0,
    length=0,
    handle="",
    data="",
    size=1 << 20,
    files=0,
    threads=1,
    without=(),
):
    if call == "put":
        options = WriteOptions(block_size=block, replication=replication, overwrite=True)
        with open(local, "rb") as source, client.create(path, options) as out:
            while data := source.read(size):
                out.write(data)
    elif call == "append":
        with open(local, "rb") as source, client.append(path) as out:
            out.write(source.read())
    elif call == "get":
        reader = client.read(path)
        with open(local, "wb") as out:
            for data in reader.read_range_stream(0, len(reader)):
                out.write(data)
    elif call == "pread":
        return client.read(path).read_range(offset, length).hex()
    elif call == "create":
        writers[handle] = client.create(path, WriteOptions(block_size=block, replication=replication))
    elif call == "write":
        writers[handle].write(open(local, "rb").read() if local else base64.b64decode(data))
    elif call == "hsync":
        writers[handle].hsync()
    elif call == "close":
        writers.pop(handle).close()
    elif call == "open":
        readers[handle] = client.read(path)
    elif call == "read":
        return base64.b64encode(readers[handle].read(length)).decode()
    elif call == "close-reader":
        del readers[handle]
    elif call == "mkdir":
        client.mkdirs(path, create_parent=True)
    elif call == "remove":
        return client.delete(path, True)
    elif call == "rename":
        client.rename(path, to, False)
    elif call == "list":
        return [status.path.rsplit("/", 1)[-1] for status in client.list_status(path)]
    elif call == "walk":
        return sorted(status.path for status in client.list_status(path, recursive=True) if not status.isdir)
    elif call == "stat":
        status = client.get_file_info(path)
        return {"length": status.length, "directory": status.isdir, "mode": f"{status.permission:o}"}
    elif call == "summary":
        summary = client.get_content_summary(path)
        return {"length": summary.length, "files": summary.file_count, "directories": summary.directory_count}
    elif call == "small-write":
        return small(write_small, path, files, length, threads, without, block)
    elif call == "small-verify":
        return small(verify_small, path, files, length, threads, without, block)
    else:
        raise ValueError(f"no call {call}")


for line in sys.stdin:
    try:
        answer = {"ok": call(**json.loads(line))}
    except Exception as error:  # the other side wants to see every failure
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
