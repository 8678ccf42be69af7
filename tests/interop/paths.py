"""Where the tests find what `tests/run.sh` installed, and which versions of the clients they use."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("LEVADA_TEST_CACHE", ROOT / ".test"))

HADOOP_VERSION = os.environ.get("HADOOP_VERSION", "3.4.3")
HADOOP_LIB = CACHE / f"hadoop-{HADOOP_VERSION}" / "lib"
# `hdfs fsck` and others are in the servers' package, as is `hdfs` itself.
SERVER_LIB = CACHE / "hadoop-server-3.5.0" / "lib"
# libhadoop.so
HADOOP_NATIVE = CACHE / "hadoop-native"
JAVA_CONF = CACHE / "conf"
JAVA_CLASSES = CACHE / "classes"
HBASE_LIB = CACHE / "hbase" / "lib"
HBASE_CLASSES = CACHE / "hbase" / "classes"
GO_CLIENT = CACHE / "bin" / "hdfs-go"
LEVADA = pathlib.Path(os.environ.get("LEVADA_BIN", ROOT / "target" / "release" / "levada"))

# One block of the tests; small, so that files of several blocks are cheap.
BLOCK = 1 << 20
