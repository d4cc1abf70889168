# The two commands of the README. Both call the same set-up script, which installs only what is missing.
.PHONY: demo test build lint docs

demo:
	scripts/setup.sh demo
	scripts/demo.sh

test:
	scripts/setup.sh test
	scripts/test.sh

build:
	cargo build --release --workspace

# What a change must pass before its tests are worth running.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# Rewrites the generated pages from the code; a test fails when they are stale.
docs:
	UPDATE_DOCS=1 cargo test -p hipsmith-lint reference_is_up_to_date
