#!/usr/bin/env bash
# Builds the wheel: the extension module, the Python sources, and the command `levada` as a script.
#
#   crates/py/build_wheel.sh OUTPUT_DIRECTORY
#
# Needs maturin. LEVADA_BIN names a binary of the command to take; without it `cargo build --release` makes one.
#   MATURIN=maturin                    which maturin
#   LEVADA_WHEEL_COMPATIBILITY=linux   the platform in the wheel's name: that of this machine, or a manylinux for PyPI
set -euo pipefail
out=$(realpath -m "${1:?where shall the wheel go?}")
cd "$(dirname "$0")"
binary=${LEVADA_BIN:-}
if [ -z "$binary" ]; then
  cargo build -q --release -p levada
  binary=${CARGO_TARGET_DIR:-../../target}/release/levada
fi
# Debug information is ten times the program.
mkdir -p levada.data/scripts
strip -o levada.data/scripts/levada "$binary"
exec "${MATURIN:-maturin}" build -q --release --compatibility "${LEVADA_WHEEL_COMPATIBILITY:-linux}" --out "$out"
