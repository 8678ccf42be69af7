#!/usr/bin/env bash
# Builds the wheel: the extension module, the Python sources, and the command `levada` as a script.
#
#   crates/py/build_wheel.sh OUTPUT_DIRECTORY
#
# Needs maturin; with LEVADA_PY_LIBRARY the package `wheel`, too.
#   LEVADA_BIN=…                       a binary of the command to take; without it `cargo build --release` makes one
#   LEVADA_PY_LIBRARY=…/lib_levada.so  a module to take, as cargo built it together with something else
#   PYTHON=python3                     where maturin and wheel are installed
#   LEVADA_WHEEL_COMPATIBILITY=linux   the platform in the wheel's name: that of this machine, or a manylinux for PyPI
set -euo pipefail
out=$(realpath -m "${1:?where shall the wheel go?}")
binary=${LEVADA_BIN:+$(realpath "$LEVADA_BIN")}
library=${LEVADA_PY_LIBRARY:+$(realpath "$LEVADA_PY_LIBRARY")}
maturin() { "${PYTHON:-python3}" -m maturin "$@"; }
compatibility=(--compatibility "${LEVADA_WHEEL_COMPATIBILITY:-linux}")
# Before minutes of compiling.
maturin --version > /dev/null || {
  echo "build_wheel.sh needs maturin: ${PYTHON:-python3} -m pip install maturin, or name another one with PYTHON" >&2
  exit 1
}
cd "$(dirname "$0")"
if [ -z "$binary" ]; then
  cargo build -q --release -p levada
  binary=${CARGO_TARGET_DIR:-../../target}/release/levada
fi

# Debug information is ten times the program.
mkdir -p levada.data/scripts
strip -o levada.data/scripts/levada "$binary"
if [ -z "$library" ]; then
  maturin build -q --release "${compatibility[@]}" --out "$out"
  exit
fi

# maturin would build the module alone, and its dependencies once more: with other features than beside other packages.
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
maturin pep517 write-dist-info "${compatibility[@]}" --metadata-directory "$staging" > /dev/null
about=$(cd "$staging" && echo *.dist-info)
cp -r python/levada "$staging/"
cp -r levada.data "$staging/${about%.dist-info}.data"
find "$staging" -name __pycache__ -prune -exec rm -r {} +
strip -o "$staging/levada/_levada.abi3.so" "$library"
mkdir -p "$out"
"${PYTHON:-python3}" -m wheel pack "$staging" -d "$out" > /dev/null
