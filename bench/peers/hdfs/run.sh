#!/usr/bin/env bash
# Levada beside Apache HDFS, same machine, same run, same clients: see README.md. Arguments go to bench.py.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=$PWD/bench/peers/hdfs
cache=${LEVADA_TEST_CACHE:-$PWD/.test}
version=${HADOOP_SERVER_VERSION:-3.5.0}

LEVADA_TEST_FS=none tests/run.sh interop --collect-only -q > /dev/null # the clients, and levada itself
servers=$cache/hadoop-server-$version
if [ ! -e "$servers/.ok" ]; then
  rm -rf "$servers"
  mvn -q -B -f "$here/pom.xml" -Dhadoop.version="$version" dependency:copy-dependencies -DoutputDirectory="$servers/lib"
  mkdir -p "$servers/web"
  (cd "$servers/web" && python3 -m zipfile -e "$servers"/lib/hadoop-hdfs-*-tests.jar . && find . -mindepth 1 -maxdepth 1 ! -name webapps -exec rm -rf {} +)
  rm "$servers"/lib/*-tests.jar
  touch "$servers/.ok"
fi

# Loopback with reno, in a namespace of its own: where the machine's default is BBR, its pacing timers cost more
# than the data path and hide every difference.
exec unshare -n -- bash -c '
  ip link set lo up && sysctl -qw net.ipv4.tcp_congestion_control=reno || exit 1
  exec "$@"' - "$cache/venv/bin/python" "$here/bench.py" "$@"
