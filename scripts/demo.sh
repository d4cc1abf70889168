#!/usr/bin/env bash
# The main job, on the built-in simulator: a naive HIP kernel is found, run, optimized and verified.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release -p hipsmith -p hipsmith-runtime
hipsmith=target/release/hipsmith
work=build/demo
mkdir -p "$work"
cp tests/programs/rmsnorm.hip "$work/rmsnorm.hip"
rm -rf "$work/.hipsmith"

step() { printf '\n$ %s\n' "$*"; "$@"; }
step $hipsmith check "$work/rmsnorm.hip"
step hipcc --offload-arch=gfx906 -O3 -gline-tables-only "$work/rmsnorm.hip" -o "$work/rmsnorm"
step $hipsmith run --lines -- "$work/rmsnorm"
step $hipsmith optimize "$work/rmsnorm.hip" --kernel rmsnorm --program "$work/rmsnorm"
