//! What the tests on the simulated device share.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use hipsmith_rounds::Request;

/// Whether hipcc is here; builds the simulated runtime beside this test if it is.
pub fn ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        if Command::new("hipcc").arg("--version").output().is_err() {
            println!("skipped: no hipcc");
            return false;
        }
        if hipsmith_devices::simulated::runtime_library().is_err() {
            let test = std::env::current_exe().unwrap();
            let release = test.ancestors().nth(2).unwrap().ends_with("release");
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "-p", "hipsmith-runtime"])
                .args(release.then_some("--release"))
                .status()
                .unwrap();
            assert!(status.success(), "the simulated runtime does not build");
        }
        true
    })
}

/// A job on a file's kernel, with data from the program that the file is.
pub fn request(file: &Path, kernel: &str, state: &Path) -> Request {
    Request {
        file: file.to_owned(),
        text: std::fs::read_to_string(file).unwrap(),
        kernel: kernel.to_owned(),
        program: None,
        rounds: 20,
        target: "gfx928".to_owned(),
        state_dir: Some(state.to_owned()),
    }
}
