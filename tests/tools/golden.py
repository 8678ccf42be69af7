#!/usr/bin/env python3
"""Records the golden bytes: what the stock Java client and real HDFS servers say to each other.

    tests/tools/golden.py --namenode 19800 --datanode 19810:19811 [--datanode ...]

takes a running, insecure Apache HDFS on 127.0.0.1 (RPC port; XFER:IPC port of each datanode), runs the
commands below through a recording proxy, and writes crates/{hdfs,wire}/tests/golden/*.bin, one direction
of one connection a file, with a README.md that says which client and command made it.
"""

import argparse
import pathlib
import sys
import time

import record

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
import java  # noqa: E402
import paths  # noqa: E402

LEN_MAX = 64 * 1024


def content(length: int) -> bytes:
    """Byte i is (i * 7 + i / 251) mod 256: no run of it repeats soon, any reader can compute it."""
    return bytes((i * 7 + i // 251) & 0xFF for i in range(length))


class Golden:
    def __init__(self, args):
        self.recorder = record.Recorder()
        self.port = self.recorder.listen("rpc", args.namenode)
        for number, ports in enumerate(args.datanode):
            transfer, control = (int(p) for p in ports.split(":"))
            self.recorder.listen(f"transfer{number}", transfer)
            self.recorder.listen(f"control{number}", control)
        self.direct = f"hdfs://127.0.0.1:{args.namenode}"
        self.through = f"hdfs://127.0.0.1:{self.port}"
        self.work = ROOT / ".test" / "golden"
        self.work.mkdir(parents=True, exist_ok=True)
        self.notes: dict[str, list] = {"hdfs": [], "wire": []}

    def local(self, length: int) -> str:
        path = self.work / f"{length}.bin"
        path.write_bytes(content(length))
        return str(path)

    def shell(self, *words, user="alice", check=True, options=()):
        return java.hdfs_dfs(self.through, *words, user=user, check=check, options=options)

    def quiet(self, *words):
        return java.hdfs_dfs(self.direct, *words, user="root", check=False)

    def keep(self, crate: str, name: str, stream: record.Stream, says: str):
        folder = ROOT / "crates" / crate / "tests" / "golden"
        folder.mkdir(parents=True, exist_ok=True)
        for direction in ("client", "server"):
            data = bytes(getattr(stream, direction))
            assert 0 < len(data) <= LEN_MAX, f"{name}.{direction}: {len(data)} bytes"
            (folder / f"{name}.{direction}.bin").write_bytes(data)
        self.notes[crate].append((name, len(stream.client), len(stream.server), says))

    def rpc(self, name, says):
        self.save("hdfs", name, "rpc", says)

    def save(self, crate, name, kind, says, pick=0):
        found = [s for s in self.streams if s.name.startswith(kind) and s.client]
        self.keep(crate, name, found[pick], says)

    def run(self, *words, **how):
        self.recorder.take()
        self.shell(*words, **how)
        time.sleep(0.3)
        self.streams = self.recorder.take()

    def readme(self):
        version = paths.HADOOP_VERSION
        for crate, rows in self.notes.items():
            lines = [
                "# Golden bytes",
                "",
                f"Recorded between the Java client of Apache Hadoop {version} "
                f"(hadoop-client-api from Maven, unmodified) and Apache",
                "HDFS servers (1 namenode, 3 datanodes, default settings) by `tests/tools/golden.py`. "
                "`NAME.client.bin` is all that one",
                "TCP connection carried from the client to the server, `NAME.server.bin` the answer, "
                "both from the first byte to",
                "the last. Nothing was edited except the datanodes' port numbers, "
                "which name the recorder (same length).",
                "",
                "The user is `alice` and the group of every path `supergroup`. Byte `i` of a file's content is",
                "`(7 i + i / 251) mod 256`. Times, ids, call ids, ports and client ids are those of that day.",
                "",
                "| NAME | bytes of client, of server | made by |",
                "|---|---|---|",
            ]
            lines += [f"| {name} | {client}, {server} | {says} |" for name, client, server, says in rows]
            (ROOT / "crates" / crate / "tests" / "golden" / "README.md").write_text("\n".join(lines) + "\n")

    # --- what is recorded

    def record_all(self):
        home = "/golden"
        self.quiet("-rm", "-r", "-f", "-skipTrash", home)
        self.quiet("-mkdir", "-p", home)
        self.quiet("-chown", "alice", home)

        self.run("-stat", "%n", home)
        self.rpc("stat", "`hdfs dfs -stat %n /golden`: preamble, context, getFileInfo")
        self.run("-stat", "%n", home + "/missing", check=False)
        self.rpc("stat_missing", "`hdfs dfs -stat %n /golden/missing`: getFileInfo with an empty answer")
        self.run("-mkdir", "-p", home + "/a/b")
        self.rpc("mkdir", "`hdfs dfs -mkdir -p /golden/a/b`: getFileInfo, mkdirs")
        self.run("-mkdir", home + "/denied", user="mallory", check=False)
        self.rpc(
            "denied",
            "`HADOOP_USER_NAME=mallory hdfs dfs -mkdir /golden/denied`: getFileInfo twice, mkdirs answered by ERROR "
            "(AccessControlException)",
        )

        small = ("-D", "dfs.client-write-packet-size=4096", "-D", "dfs.blocksize=1048576")
        says = "`hdfs dfs -D dfs.client-write-packet-size=4096 -D dfs.blocksize=1048576 -put 20000.bin /golden/f`"
        self.run("-put", self.local(20000), home + "/f", options=small)
        self.rpc("put", says + ": getFileInfo, create, addBlock, getServerDefaults, complete, rename")
        self.save(
            "wire",
            "write",
            "transfer",
            says + ": op 80 (CRC32C/512, two targets), 7 packets, acks; client to first node",
            pick=0,
        )
        self.save("wire", "write_middle", "transfer", says + ": the same chain, first node to second", pick=1)
        self.save("wire", "write_tail", "transfer", says + ": the same chain, second node to third", pick=2)
        self.run("-put", self.local(0), home + "/empty")
        self.rpc("put_empty", "`hdfs dfs -put 0.bin /golden/empty`: create and complete, no block")
        crc = ("-D", "dfs.checksum.type=CRC32", "-D", "dfs.bytes-per-checksum=1024")
        self.run("-put", self.local(3000), home + "/crc32", options=crc)
        self.save(
            "wire",
            "write_crc32",
            "transfer",
            "`hdfs dfs -D dfs.checksum.type=CRC32 -D dfs.bytes-per-checksum=1024 -put 3000.bin /golden/crc32`: op 80",
            pick=0,
        )
        null = ("-D", "dfs.checksum.type=NULL")
        self.run("-put", self.local(3000), home + "/null", options=null)
        self.save(
            "wire",
            "write_null",
            "transfer",
            "`hdfs dfs -D dfs.checksum.type=NULL -put 3000.bin /golden/null`: op 80 without checksums",
            pick=0,
        )

        self.run("-cat", home + "/f")
        self.rpc("cat", "`hdfs dfs -cat /golden/f`: getFileInfo, getBlockLocations, getServerDefaults")
        self.save("wire", "read", "transfer", "`hdfs dfs -cat /golden/f`: op 81, answer, packets, client status")
        self.run("-cat", home + "/crc32")
        self.save("wire", "read_crc32", "transfer", "`hdfs dfs -cat /golden/crc32`: op 81 of a CRC32/1024 replica")
        self.run("-cat", home + "/null")
        self.save("wire", "read_null", "transfer", "`hdfs dfs -cat /golden/null`: op 81 of a replica without checksums")
        self.run("-get", "-ignoreCrc", home + "/f", str(self.work / "ignore"))
        (self.work / "ignore").unlink(missing_ok=True)
        self.save(
            "wire",
            "read_unverified",
            "transfer",
            "`hdfs dfs -get -ignoreCrc /golden/f`: op 81 with sendChecksums=false",
        )
        self.run("-tail", home + "/f")
        self.save(
            "wire", "read_tail", "transfer", "`hdfs dfs -tail /golden/f`: op 81 from offset 18976, not at a chunk"
        )

        self.run("-checksum", home + "/f")
        self.rpc(
            "checksum",
            "`hdfs dfs -checksum /golden/f`: getFileInfo, getServerDefaults, getBlockLocations of everything",
        )
        self.save("wire", "checksum_md5", "transfer", "`hdfs dfs -checksum /golden/f`: op 85, MD5CRC")
        self.run("-checksum", home + "/f", options=("-D", "dfs.checksum.combine.mode=COMPOSITE_CRC"))
        self.save(
            "wire",
            "checksum_composite",
            "transfer",
            "`hdfs dfs -D dfs.checksum.combine.mode=COMPOSITE_CRC -checksum /golden/f`: op 85, COMPOSITE_CRC",
        )

        self.run("-ls", home)
        self.rpc("list", "`hdfs dfs -ls /golden`: getFileInfo, getListing of six entries")
        self.run("-appendToFile", self.local(1000), home + "/f")
        self.rpc(
            "append",
            "`hdfs dfs -appendToFile 1000.bin /golden/f`: getFileInfo, append, updateBlockForPipeline, "
            "updatePipeline, complete",
        )
        self.save(
            "wire",
            "append",
            "transfer",
            "`hdfs dfs -appendToFile 1000.bin /golden/f`: op 80 PIPELINE_SETUP_APPEND at 20000, first packet "
            "fills a partial chunk",
        )
        self.run("-count", home)
        self.rpc("count", "`hdfs dfs -count /golden`: getFileInfo, getContentSummary")
        self.run("-df", "/")
        self.rpc("df", "`hdfs dfs -df /`: getFileInfo, getFsStats")
        self.run("-setrep", "2", home + "/f")
        self.rpc("setrep", "`hdfs dfs -setrep 2 /golden/f`: getFileInfo, setReplication")
        self.run("-chmod", "640", home + "/f")
        self.rpc("chmod", "`hdfs dfs -chmod 640 /golden/f`: getFileInfo, setPermission")
        self.run("-touch", "-t", "20200102:030405", home + "/f")
        self.rpc("touch", "`hdfs dfs -touch -t 20200102:030405 /golden/f`: getFileInfo, setTimes")
        self.run("-mv", home + "/f", home + "/a")
        self.rpc("rename", "`hdfs dfs -mv /golden/f /golden/a`: getFileInfo, rename")
        self.run("-rm", "-r", "-skipTrash", home + "/a")
        self.rpc("delete", "`hdfs dfs -rm -r -skipTrash /golden/a`: getFileInfo, delete")
        self.record_open_file(home)
        self.quiet("-rm", "-r", "-f", "-skipTrash", home)
        self.readme()

    def record_open_file(self, home):
        """hflush in mid-chunk, a reader meanwhile, pread, and the errors that the API shows."""
        with java.Java() as jvm:
            self.recorder.take()
            writer = jvm.mount(self.through, "alice", {"dfs.client-write-packet-size": 4096})
            out = writer.create(home + "/open")
            out.write(content(700))
            out.hflush()
            out.write(content(800)[700:])
            out.hsync()
            reader = jvm.mount(self.through, "alice", {"dfs.client.read.shortcircuit": False})
            assert reader.read(home + "/open") == content(800)
            out.close()
            time.sleep(0.3)
            self.streams = self.recorder.take()
            story = "API: create, write 700 bytes, hflush, write 100, hsync, [another reader opens and reads], close"
            self.save("hdfs", "hflush", "rpc", story + "; the writer's RPC (fsync between)", pick=0)
            self.save(
                "wire",
                "hflush",
                "transfer",
                story + "; op 80: the partial chunk is sent again from its start, then with syncBlock",
                pick=0,
            )
            self.save(
                "hdfs",
                "visible_length",
                "control",
                story + "; the reader's getReplicaVisibleLength to a datanode, opened with SASL NEGOTIATE",
            )
            reads = [s for s in self.streams if s.name.startswith("transfer") and s.client[2:3] == b"\x51"]
            self.keep("wire", "read_open", reads[0], story + "; op 81 of the open replica")

            self.recorder.take()
            fs = jvm.mount(self.through, "alice", {})
            for path in ("/golden/missing",):
                try:
                    fs.read(path)
                except java.JavaError:
                    pass
            try:
                fs.create(home + "/open", overwrite=False)
            except java.JavaError:
                pass
            try:
                fs.delete(home, recursive=False)
            except java.JavaError:
                pass
            fs.unmount()
            time.sleep(0.3)
            self.streams = self.recorder.take()
            self.rpc(
                "errors",
                "API: open a missing path (FileNotFoundException), create over a file "
                "(FileAlreadyExistsException), delete a full directory, not recursive "
                "(PathIsNotEmptyDirectoryException)",
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namenode", type=int, required=True)
    parser.add_argument("--datanode", action="append", required=True)
    Golden(parser.parse_args()).record_all()


if __name__ == "__main__":
    main()
