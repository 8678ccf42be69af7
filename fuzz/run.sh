#!/usr/bin/env bash
# Runs a fuzz target, or all of them in turn, for some seconds each, without cargo-fuzz: fuzz/run.sh TARGET|all SECONDS [asan]
# New inputs go to fuzz/found/TARGET, what breaks something to fuzz/found/TARGET-*, what libFuzzer says to fuzz/found/TARGET.log.
set -euo pipefail
cd "$(dirname "$0")"
chosen=$1 seconds=$2 sanitizer=${3:-}
all=$(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml | tail -n +2)
[ "$chosen" = all ] && chosen=$all
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
[ "$sanitizer" = asan ] && flags="$flags -Zsanitizer=address"
triple=$(rustc -vV | sed -n 's/^host: //p')
target_dir=target/fuzz-${sanitizer:-plain}
# With a target named, build scripts and macros are left alone.
RUSTFLAGS=$flags cargo +nightly build -q --release --target "$triple" --target-dir "$target_dir" $(printf -- '--bin %s ' $chosen)
mkdir -p found/seeds
LEVADA_FUZZ_SEEDS=$PWD/found/seeds cargo test -q -p fuzzed --manifest-path ../Cargo.toml write_seeds > /dev/null
failed=
for target in $chosen; do
  mkdir -p "found/$target"
  "$target_dir/$triple/release/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="found/$target-" "found/$target" "found/seeds/$target" > "found/$target.log" 2>&1 ||
    failed="$failed $target"
  echo "$target: $(sed -n 's/^stat::number_of_executed_units: */executions /p' "found/$target.log")"
done
[ -z "$failed" ] || { echo "broken:$failed; see found/TARGET.log"; exit 1; }
