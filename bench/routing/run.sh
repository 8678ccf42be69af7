#!/usr/bin/env bash
# Who forwards to whom, where the network is the limit: see README.md beside this. Takes root, `ip` and `tc`; leaves nothing behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
levada=${LEVADA_BIN:-$here/../../target/release/levada}
reps=${REPS:-3} rate=${RATE:-200mbit} thin=${THIN:-50mbit} files=${FILES:-4 8} size=${SIZE:-16M}

# A network namespace of our own, and a process namespace, so that everything in it ends with this script.
if [ -z "${LEVADA_BENCH_INSIDE:-}" ]; then
  [ -x "$levada" ] || { echo "build it first: cargo build --release -p levada"; exit 1; }
  export LEVADA_BENCH_INSIDE=1 LEVADA_BIN=$levada
  exec unshare -n -fp --kill-child --mount-proc -- "$0" "$@"
fi
# The network is measured and not the disk, so memory will do.
dir=$(mktemp -d -p "${TMPDIR:-/dev/shm}" levada-routing.XXXXXX)
trap 'rm -rf "$dir"' EXIT
ip link set lo up
sysctl -qw net.ipv4.tcp_congestion_control=reno

declare -A pid
limit() { tc qdisc add dev "$1" root tbf rate "$2" burst 256kb latency 100ms; }

# machine NAME BRIDGE ADDRESS: a namespace with a link of $rate each way.
machine() {
  unshare -n sleep infinity &
  pid[$1]=$!
  until [ "$(readlink "/proc/${pid[$1]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
  ip link add "$1" type veth peer name eth0 netns "${pid[$1]}"
  ip link set "$1" master "$2" up
  on "$1" ip addr add "$3/24" dev eth0
  on "$1" ip link set eth0 up
  on "$1" ip link set lo up
  on "$1" sysctl -qw net.ipv4.tcp_congestion_control=reno
  limit "$1" "$rate"
  on "$1" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 100ms
}
on() { nsenter -t "${pid[$1]}" -n "${@:2}"; }

# start NAME COMMAND…: a role, until it says that it is ready.
start() {
  "${@:2}" > "$dir/$1.out" 2> "$dir/$1.log" &
  roles+=($!)
  until grep -q '"ready":true' "$dir/$1.out"; do
    kill -0 $! 2> /dev/null || { cat "$dir/$1.log"; exit 1; }
    sleep 0.05
  done
}
roles=()
# store METAD-ADDRESS REPLICATION MACHINE=ADDRESS=RACK…
store() {
  url=hdfs://$1:8020 replication=$2
  printf 'http_addr = "127.0.0.1:0"\n[meta]\ndir = "%s/meta"\nrpc_addr = "%s:8020"\nreplication = %s\n' "$dir" "$1" "$2" > "$dir/meta.toml"
  start meta "$levada" meta --json --config "$dir/meta.toml"
  for node in "${@:3}"; do
    IFS== read -r name address rack <<< "$node"
    printf '[data]\ndir = "%s/%s"\nxfer_addr = "%s:9866"\nipc_addr = "%s:9867"\nmetad = "%s:8020"\nrack = "%s"\ndurability = "replicated"\n' \
      "$dir" "$name" "$address" "$address" "$1" "$rack" > "$dir/$name.toml"
    start "$name" nsenter -t "${pid[$name]}" -n "$levada" data --json --config "$dir/$name.toml"
  done
}
stop() {
  kill "${roles[@]}" && wait "${roles[@]}" || true
  roles=()
  rm -rf "${dir:?}"/*
}

# write COUNT MACHINE… -- OPTION…: each machine's client writes COUNT files at the same time, and verifies every byte. Prints MB/s.
write() {
  local count=$1 machines=() jobs=()
  shift
  while [ "$1" != -- ]; do machines+=("$1"); shift; done
  shift
  for name in "${machines[@]}"; do
    on "$name" "$levada" bench write --url "$url" --json --quiet --files "$count" --size "$size" "$@" > "$dir/$name.json" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job"; done
  # All together, by the slowest: they began at once.
  for name in "${machines[@]}"; do cat "$dir/$name.json"; done | python3 -c '
import json, sys
runs = [json.loads(line) for line in sys.stdin]
assert all(run["verified"] == run["files"] for run in runs), runs
print(round(sum(run["bytes"] for run in runs) / max(run["seconds"] for run in runs) / 1e6, 2))'
}
crossed() { ip -s -j link show thin | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["bytes"])'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# compare TITLE MACHINE…: a star through the leader on node1 beside a chain from the nearest, in turns.
compare() {
  local title=$1 count rep
  shift
  for count in $files; do
    : > "$dir/star"; : > "$dir/chain"
    for rep in $(seq "$reps"); do
      write "$count" "$@" -- --routing star --leader 10.78.0.11 >> "$dir/star"
      write "$count" "$@" -- --routing chain >> "$dir/chain"
    done
    star=$(median < "$dir/star") chain=$(median < "$dir/chain")
    echo "| $title | $count | $star ($(sort -n "$dir/star" | sed -n '1p;$p' | paste -sd-)) | $chain ($(sort -n "$dir/chain" | sed -n '1p;$p' | paste -sd-)) | $(echo "$chain $star" | awk '{ printf "%.2f", $1 / $2 }') |"
  done
}

ip link add switch type bridge
ip addr add 10.78.0.1/24 dev switch
ip link set switch up
for n in 1 2 3; do machine "node$n" switch "10.78.0.1$n"; done
for n in 1 2 3; do machine "client$n" switch "10.78.0.2$n"; done
store 10.78.0.1 3 node1=10.78.0.11=/rack node2=10.78.0.12=/rack node3=10.78.0.13=/rack
echo "Links of $rate each way, files of $size, 3 replicas; MB/s of all clients together, median of $reps (least-most)"
echo
echo "| clients | files each | star through one leader | chain from the nearest | ratio |"
echo "|---|---|---|---|---|"
compare "one, on a machine of its own" client1
compare "three, on the datanodes' machines" node1 node2 node3
compare "three, on machines of their own" client1 client2 client3
stop

# Two racks: each a switch, a thin link between them.
ip link add left type bridge
ip link add right type bridge
ip link add thin type veth peer name thin2
ip link set thin master left up
ip link set thin2 master right up
limit thin "$thin"
limit thin2 "$thin"
ip addr add 10.79.0.1/24 dev left
ip link set left up
ip link set right up
for n in 1 2; do machine "left$n" left "10.79.0.1$n"; done
for n in 1 2 3; do machine "right$n" right "10.79.0.2$n"; done
store 10.79.0.1 5 left1=10.79.0.11=/left left2=10.79.0.12=/left right1=10.79.0.21=/right right2=10.79.0.22=/right right3=10.79.0.23=/right
echo
echo "Two racks, a link of $thin between them, the client on a machine of the left one; 5 replicas, 2 left and 3 right"
echo
echo "| routing | bytes to the right rack per byte written | MB/s |"
echo "|---|---|---|"
for shape in chain tree star; do
  before=$(crossed)
  speed=$(write 4 left1 -- --routing "$shape" --seed 7)
  bytes=$(($(crossed) - before))
  total=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bytes"])' "$dir/left1.json")
  echo "| $shape | $(echo "$bytes $total" | awk '{ printf "%.2f", $1 / $2 }') | $speed |"
done
stop
