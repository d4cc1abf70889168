//! The toolchain's disassembler: finding it and running it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hipsmith_process::{Cancel, Job, run};

/// Names and places of the disassembler, best first. DTK's knows Hygon's instructions, LLVM's does not.
const PLACES: [&str; 5] = [
    "/opt/dtk/llvm/bin/llvm-objdump",
    "/opt/rocm/llvm/bin/llvm-objdump",
    "/opt/dtk/bin/llvm-objdump",
    "/usr/lib/llvm-15/bin/llvm-objdump",
    "/opt/rocm/bin/llvm-objdump",
];
const NAMES: [&str; 8] = [
    "llvm-objdump-15",
    "llvm-objdump",
    "llvm-objdump-21",
    "llvm-objdump-20",
    "llvm-objdump-19",
    "llvm-objdump-18",
    "llvm-objdump-17",
    "llvm-objdump-16",
];

/// The disassembler: `HIPSMITH_OBJDUMP`, or the first that is found in DTK's, ROCm's and the system's places.
fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("HIPSMITH_OBJDUMP").filter(|p| !p.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let on_path = |name: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|dir| dir.join(name))
            .find(|p| p.is_file())
    };
    PLACES
        .iter()
        .map(PathBuf::from)
        .find(|p| p.is_file())
        .or_else(|| NAMES.iter().find_map(|name| on_path(name)))
        .ok_or_else(|| {
            "no llvm-objdump was found; install LLVM 15 or newer, ROCm or DTK, or set HIPSMITH_OBJDUMP to it"
                .to_owned()
        })
}

/// Disassemble the executable sections of a code object.
///
/// # Errors
/// One sentence: no disassembler, or how it failed.
pub(crate) fn disassemble(file: &[u8], isa: &str, cancel: &Cancel) -> Result<String, String> {
    let program = find()?;
    let temporary =
        TemporaryFile::new(file).map_err(|e| format!("no temporary file could be written: {e}"))?;
    let base = Job::new(&program)
        .arg("-d")
        // The simulator may itself be loaded into the user's program that way.
        .env_remove("LD_PRELOAD")
        .timeout(Duration::from_secs(120))
        .output_limit(1 << 30);
    // The ELF flags name the processor; only where a tool does not read them must we.
    let attempts = [base.clone(), base.clone().arg(format!("--mcpu={isa}"))];
    let mut failure = String::new();
    for job in attempts {
        let output = run(&job.arg(temporary.path()), cancel)
            .map_err(|e| format!("the disassembler failed: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && text.contains("//") {
            return Ok(text.into_owned());
        }
        failure = format!(
            "{} {}: {}",
            program.display(),
            output.ending(),
            output.stderr_tail(3)
        );
    }
    Err(format!(
        "the code object for {isa} could not be disassembled: {failure}; set HIPSMITH_OBJDUMP to an llvm-objdump that knows {isa}"
    ))
}

/// A file that is deleted when it goes out of scope.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(bytes: &[u8]) -> std::io::Result<Self> {
        use std::io::Write as _;
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!(
                "hipsmith-{}-{}.co",
                std::process::id(),
                COUNT.fetch_add(1, Ordering::Relaxed)
            );
            let path = std::env::temp_dir().join(name);
            // `create_new`: nobody else's file or link is followed.
            match std::fs::File::create_new(&path) {
                Ok(mut file) => {
                    let this = Self(path);
                    file.write_all(bytes)?;
                    return Ok(this);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
