#!/usr/bin/env bash
# Installs what the tests need into .test/, then runs them: format, clippy, Rust tests, simulated clusters, real clients.
#
#   tests/run.sh                       everything
#   tests/run.sh quick                 what to run every few minutes: pure crates, 200 seeds, each client once each way
#   tests/run.sh rust                  format, clippy, cargo test
#   tests/run.sh sim [SEEDS]           whole clusters under faults, 400 seeds or FROM..TO; groups of metadata servers alone
#   tests/run.sh coverage [SEEDS]      lines of the pure crates and the metadata server that seeds 0..300 of the simulation pass
#   tests/run.sh prepare               only install what the real clients need
#   tests/run.sh python [PYTEST...]    the Python package: its wheel is built, installed and tested; LEVADA_BIN goes into
#                                      it, and LEVADA_PY_LIBRARY, the module as cargo built it
#   tests/run.sh dist [PYTEST...]      what people install: archive, image and Debian package of LEVADA_BIN; the package on a
#                                      clean Debian that is booted in namespaces
#   tests/run.sh interop [PYTEST...]   real clients against a real store; arguments go to pytest
#
# Needs Rust and a C compiler; a JDK of 17 or newer, Maven, Go, strace, MIT's KDC, mmdebstrap and Python 3.11 are taken from
# Debian when missing.
#   LEVADA_TEST_FS=hdfs://host:port    run the clients against another HDFS; what needs our own servers is skipped
#   HADOOP_VERSION=3.4.3               which Java client
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${LEVADA_TEST_CACHE:-$root/.test}
hadoop=${HADOOP_VERSION:-3.4.3}
# Whose `hdfs` the script of commands runs; what it said to Apache HDFS of this version is kept beside the test.
commands=3.5.0
# Whose package has Hadoop's native library.
trino=3.3.5-3
part=${1:-all}

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

need() { # test of whether it is there, Debian package
  eval "$1" > /dev/null 2>&1 && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "tests/run.sh: Debian's $2, or the like, is needed" >&2
    exit 1
  fi
  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$2" > /dev/null
}

# Runs a step unless what it depends on is unchanged since it last succeeded.
once() { # name, dependency text, command...
  local stamp=$cache/stamps/$1 wanted=$2
  shift 2
  if [ "$(cat "$stamp" 2> /dev/null)" != "$wanted" ]; then
    "$@" || return
    mkdir -p "$cache/stamps"
    echo "$wanted" > "$stamp"
  fi
}

hadoop_jars() {
  rm -rf "$cache/hadoop-$hadoop"
  mvn -q -B -f tests/interop/java/pom.xml -Dhadoop.version="$hadoop" dependency:copy-dependencies -DoutputDirectory="$cache/hadoop-$hadoop/lib"
}

# libhadoop.so, which Hadoop's own packages on Maven do not have: 0.8 MB out of 32.
hadoop_native() {
  rm -rf "$cache/hadoop-native"
  mkdir -p "$cache/hadoop-native"
  mvn -q -B dependency:copy -Dartifact=io.trino.hadoop:hadoop-apache:"$trino" -DoutputDirectory="$cache/hadoop-native"
  (cd "$cache/hadoop-native" && jar xf "hadoop-apache-$trino.jar" nativelib/Linux-amd64/libhadoop.so)
  mv "$cache/hadoop-native/nativelib/Linux-amd64/libhadoop.so" "$cache/hadoop-native"
  rm -r "$cache/hadoop-native/nativelib" "$cache/hadoop-native/hadoop-apache-$trino.jar"
}

java_driver() {
  rm -rf "$cache/classes"
  mkdir -p "$cache/classes"
  javac -nowarn -d "$cache/classes" -cp "$cache/hadoop-$hadoop/lib/*" tests/interop/java/*.java
}

hbase_writer() {
  rm -rf "$cache/hbase"
  mkdir -p "$cache/hbase/classes"
  mvn -q -B -f tests/interop/hbase/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/hbase/lib"
  javac -nowarn -d "$cache/hbase/classes" -cp "$cache/hbase/lib/*:$cache/hadoop-$hadoop/lib/*" tests/interop/hbase/*.java
}

java_conf() {
  mkdir -p "$cache/conf"
  cp tests/interop/java/conf/* "$cache/conf/"
}

python_packages() {
  rm -rf "$cache/venv"
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" -q --disable-pip-version-check install -r tests/requirements.txt
}

go_client() {
  (cd tests/interop/go && GOPATH="$cache/go" GOFLAGS=-modcacherw go build -o "$cache/bin/hdfs-go" .)
}

# A KDC for the tests to start, a clock that can be wrong, and the header that our types are compared with.
kerberos() {
  need "PATH=\$PATH:/usr/sbin command -v krb5kdc" krb5-kdc
  need "PATH=\$PATH:/usr/sbin command -v kadmin.local" krb5-admin-server
  need "command -v kvno" krb5-user
  need "command -v faketime && ls /usr/lib/*/faketime/libfaketime.so.1" faketime
  need "test -e /usr/include/gssapi/gssapi_ext.h" libkrb5-dev
}

# All that Debian's packages bring; alone, as its installer locks out another one.
packages() {
  need "command -v strace" strace
  kerberos
  need "command -v ip" iproute2
  need "PATH=\$PATH:/usr/sbin command -v nft" nftables
  need "command -v javac" openjdk-17-jdk-headless
  need "command -v mvn" maven
  need "command -v go" golang-go
  need "python3 -c 'import ensurepip'" python3-venv
  need "command -v xrdcp" xrootd-client
}

prepare() {
  packages
  once "hadoop-$hadoop" "$(sha256sum tests/interop/java/pom.xml)" hadoop_jars
  bench/peers/hdfs/fetch.sh "$cache/hadoop-server-$commands" "$commands"
  once driver "$hadoop $(cat tests/interop/java/*.java | sha256sum)" java_driver
  once hbase "$hadoop $(cat tests/interop/hbase/* | sha256sum)" hbase_writer
  once hadoop-native "$trino" hadoop_native
  once conf "$(cat tests/interop/java/conf/* | sha256sum)" java_conf
  once python "$(sha256sum tests/requirements.txt) $(python3 --version)" python_packages
  once go "$(cat tests/interop/go/* | sha256sum)" go_client
}

# What is built at low priority while Rust tests wait.
meanwhile=()

rust() {
  # It records what the tests of power loss do to their files.
  need "command -v strace" strace
  kerberos
  say "cargo fmt --check"
  cargo fmt --all --check
  say "cargo clippy"
  cargo clippy -q --workspace --all-targets -- -D warnings
  say "cargo build of the tests"
  cargo test -q --workspace --exclude levada-sim --no-run
  say "cargo test"
  # Many wait more than they compute: for timeouts, syncs and other processes.
  export RUST_TEST_THREADS=4
  [ ${#meanwhile[@]} = 0 ] || nice -n 19 "${meanwhile[@]}" > /dev/null 2>&1 &
  cargo test -q --workspace --exclude levada-sim --no-fail-fast
  say "cargo test, with the trait of object_store 0.13"
  cargo test -q -p levada-object-store --features object_store_0_13 --lib --tests
}

# Packages that are built with the simulation: what two builds share is compiled once if they are one.
beside=()

sim() {
  local sim=(--profile sim -p levada-sim "${beside[@]}")
  say "cargo build --profile sim"
  cargo build -q "${sim[@]}" # waits for the same build, if it is under way
  say "kept seeds and deliberate faults"
  cargo test -q "${sim[@]}" --lib --test deliberate --test groups --test replay --no-fail-fast
  say "simulated clusters"
  target/sim/levada-sim --seeds "${1:-0..400}"
  say "simulated groups of metadata servers" # some seconds of one core
  target/sim/levada-sim --groups --seeds 0..200
  target/sim/levada-sim --groups --rolling --seeds 0..100
}

# What the simulation alone passes, crate by crate. Tests count for nothing here, nor is their code counted.
coverage() {
  local bin=$root/target/coverage/sim/levada-sim tools
  rustup component add llvm-tools > /dev/null
  tools=$(dirname "$(find "$(rustc --print sysroot)" -name llvm-profdata | head -1)")
  say "build with counters"
  # Build scripts count, too, and would leave files beside the sources.
  LLVM_PROFILE_FILE=/dev/null RUSTFLAGS="-C instrument-coverage" CARGO_TARGET_DIR=target/coverage \
    cargo build -q --profile sim -p levada-sim
  say "simulated clusters"
  rm -f target/coverage/*.profraw
  LLVM_PROFILE_FILE=$root/target/coverage/%p.profraw "$bin" --seeds "${1:-0..300}"
  say "lines"
  "$tools/llvm-profdata" merge -o target/coverage/all.profdata target/coverage/*.profraw
  "$tools/llvm-cov" export -summary-only -instr-profile target/coverage/all.profdata "$bin" |
    python3 tests/coverage.py lead:90 namespace:90 blocks:90 xfer:90 metad:75
}

interop() {
  say "clients"
  prepare
  if [ -z "${LEVADA_BIN:-}" ]; then
    say "cargo build --release"
    cargo build -q --release
  fi
  say "real clients"
  cd tests/interop
  # They mostly wait: for leases, for dead nodes, for clients' timeouts. Five files at a time, each with its own stores.
  [ $# != 0 ] || set -- -n 5 --dist loadfile --no-loadscope-reorder
  exec "$cache/venv/bin/python" -m pytest "$@"
}

package_environment() {
  rm -rf "$cache/python"
  python3 -m venv "$cache/python"
  "$cache/python/bin/pip" -q --disable-pip-version-check install -r tests/python/requirements.txt
}

prepare_python() {
  need "python3 -c 'import ensurepip'" python3-venv
  once python-package "$(sha256sum tests/python/requirements.txt) $(python3 --version)" package_environment
}

# The wheel, in an environment of its own.
python() {
  local env=$cache/python
  prepare_python
  if [ -z "${LEVADA_BIN:-}" ]; then
    say "cargo build --release"
    cargo build -q --release
    LEVADA_BIN=$root/target/release/levada
  fi
  say "wheel"
  rm -rf "$cache/wheel"
  PYTHON=$env/bin/python LEVADA_BIN=$LEVADA_BIN crates/py/build_wheel.sh "$cache/wheel"
  find "$cache/wheel" -name '*.whl' -size +25M | (! grep .) # more than anybody wants to wait for
  "$env/bin/pip" -q --disable-pip-version-check install --force-reinstall --no-deps "$cache"/wheel/*.whl
  say "the Python package"
  # What was installed is what is tested.
  (cd tests/python && env -u LEVADA_BIN -u LEVADA_PY_LIBRARY "$env/bin/python" -m pytest "$@")
}

# A Debian with systemd and nothing else, from the package archives that this machine uses.
debian_root() {
  local archives=()
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    [ ! -s "$file" ] || archives+=("$file")
  done
  mmdebstrap --quiet --variant=essential --include=passwd,debconf,systemd --format=tar \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$cache/debian.part" "${archives[@]}" || return
  mv "$cache/debian.part" "$cache/debian.tar"
}

# What people install. It needs root, for the namespaces.
dist() {
  need "python3 -c 'import ensurepip'" python3-venv
  need "command -v mmdebstrap" mmdebstrap
  need "command -v strip" binutils
  need "command -v ip" iproute2
  need "PATH=\$PATH:/usr/sbin command -v nft" nftables
  mkdir -p "$cache"
  once python "$(sha256sum tests/requirements.txt) $(python3 --version)" python_packages
  once debian "$(declare -f debian_root)" debian_root || say "no clean Debian: the packages are looked at, and not installed"
  if [ -z "${LEVADA_BIN:-}" ]; then
    say "cargo build --release"
    cargo build -q --release
    LEVADA_BIN=$root/target/release/levada
  fi
  say "what people install"
  cargo build -q -p xtask
  (cd tests/dist && LEVADA_BIN=$LEVADA_BIN "$cache/venv/bin/python" -m pytest "$@")
}

# Minutes after a build, and none of the tests that wait: the pure crates, whole clusters from a few seeds, and every client
# that writes one set of files and reads all others'.
quick() {
  say "cargo fmt --check"
  cargo fmt --all --check
  say "pure crates"
  cargo test -q -p types -p wire -p hdfs -p namespace -p blocks -p lead -p xfer -p datanode -p security -p xroot -p edge
  say "simulated clusters"
  cargo run -q --profile sim -p levada-sim -- --seeds 0..200
  say "real clients"
  cargo build -q
  LEVADA_BIN=${LEVADA_BIN:-$root/target/debug/levada} interop -q test_matrix.py
}

case $part in
  all)
    # Nothing that runs beside goes on when this ends.
    trap 'kill $(jobs -pr) 2> /dev/null || true' EXIT
    # What is fetched is fetched while the compiler is at work.
    packages
    mkdir -p "$cache"
    (prepare; prepare_python) > "$cache/prepare.log" 2>&1 &
    preparing=$!
    beside=(-p levada -p levada-py)
    # The next build is made while tests wait. What is wrong with it comes out when it is asked for again.
    meanwhile=(cargo build -q --profile sim -p levada-sim "${beside[@]}")
    rust
    sim
    wait "$preparing" || { cat "$cache/prepare.log"; exit 1; }
    LEVADA_BIN=$root/target/sim/levada LEVADA_PY_LIBRARY=$root/target/sim/lib_levada.so python
    LEVADA_BIN=$root/target/sim/levada dist
    LEVADA_BIN=$root/target/sim/levada interop
    ;;
  quick) quick ;;
  rust) rust ;;
  sim) sim "${2:-}" ;;
  coverage) coverage "${2:-}" ;;
  prepare) prepare ;;
  interop) shift && interop "$@" ;;
  python) shift && python "$@" ;;
  dist) shift && dist "$@" ;;
  *) sed -n '2,20p' "$0" && exit 2 ;;
esac
