#!/usr/bin/env bash
# Levada beside Apache HDFS, same machine, same run, same clients: see README.md. `run.sh writes …` goes to writes.py,
# and so do cats, listings, locations and protections to theirs; all else goes to bench.py.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=$PWD/bench/peers/hdfs
cache=${LEVADA_TEST_CACHE:-$PWD/.test}
version=${HADOOP_SERVER_VERSION:-3.5.0}
script=bench.py
case ${1:-} in
  cats | writes | listings | locations | protections)
    script=$1.py
    shift
    ;;
esac

LEVADA_TEST_FS=none tests/run.sh interop --collect-only -q > /dev/null # the clients, and levada itself
"$here/fetch.sh" "$cache/hadoop-server-$version" "$version"

# Loopback with reno, in a namespace of its own: where the machine's default is BBR, its pacing timers cost more
# than the data path and hide every difference.
exec unshare -n -- bash -c '
  ip link set lo up && sysctl -qw net.ipv4.tcp_congestion_control=reno || exit 1
  exec "$@"' - "$cache/venv/bin/python" "$here/$script" "$@"
