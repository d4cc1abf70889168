//! Compile the device half of a text to a code object, with fixed flags, in a fresh folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hipsmith_process::{Cancel, Job};

use crate::code_object::CodeObject;

/// Compilers have been seen to take minutes on one kernel; this is a limit on hanging, not on patience.
const COMPILE_LIMIT: Duration = Duration::from_secs(600);

/// A hipcc that answered, and how it is asked.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// Its version line.
    pub version: String,
    /// The architecture it compiles for.
    pub arch: String,
    /// The file whose quoted includes must resolve.
    file: PathBuf,
    /// Extra flags from the subject's declaration.
    flags: Vec<String>,
}

/// One compiled candidate; the folder goes when this is dropped.
#[derive(Debug)]
pub struct Compiled {
    /// The code object.
    pub path: PathBuf,
    /// What it holds.
    pub object: CodeObject,
    _folder: tempfile::TempDir,
}

/// Why there is no code object.
#[derive(Debug)]
pub enum CompileError {
    /// The compiler refused the text; the first error, with its line.
    Refused(String),
    /// Somebody cancelled.
    Cancelled,
    /// The compiler could not be used at all.
    Broken(String),
}

impl From<hipsmith_process::Error> for CompileError {
    fn from(error: hipsmith_process::Error) -> Self {
        match error {
            hipsmith_process::Error::Cancelled { .. } => Self::Cancelled,
            hipsmith_process::Error::NotFound { .. } => Self::Broken(
                "hipcc is not installed or not on PATH: install it (Debian 12: `apt install hipcc`), or add your \
                 ROCm or DTK `bin` folder to PATH"
                    .to_owned(),
            ),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl Compiler {
    /// Find hipcc, and the architecture to compile `file` for when the target is `target`: the target itself
    /// if the compiler knows it, otherwise gfx906, whose instructions all our targets execute.
    ///
    /// # Errors
    /// [`CompileError`] when there is no compiler, or it knows neither.
    pub fn find(
        file: &Path,
        target: &str,
        flags: &[String],
        cancel: &Cancel,
    ) -> Result<Self, CompileError> {
        let out = hipsmith_process::run(&Job::new("hipcc").arg("--version"), cancel)?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let version = text
            .lines()
            .filter(|l| l.contains("version"))
            .collect::<Vec<_>>()
            .join(", ");
        let mut compiler = Self {
            version,
            arch: target.to_owned(),
            file: file.to_owned(),
            flags: flags.to_vec(),
        };
        let probe = "__attribute__((global)) void probe() {}\n";
        let mut refused = String::new();
        for arch in [target, "gfx906"] {
            compiler.arch = arch.to_owned();
            match compiler.device(probe, cancel) {
                Ok(_) => return Ok(compiler),
                Err(CompileError::Refused(why)) => refused = why,
                Err(other) => return Err(other),
            }
        }
        Err(CompileError::Broken(format!(
            "hipcc compiles device code neither for {target} nor for gfx906: {refused}"
        )))
    }

    /// Compile a text's device code.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn device(&self, text: &str, cancel: &Cancel) -> Result<Compiled, CompileError> {
        let folder = self.folder(text)?;
        let object = folder.path().join("device.co");
        let job = self.job(folder.path(), &object).args([
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-c",
        ]);
        self.compile(&job, folder.path(), cancel)?;
        let bytes = std::fs::read(&object).map_err(|e| {
            CompileError::Broken(format!("hipcc ended well but left no code object: {e}"))
        })?;
        Ok(Compiled {
            object: CodeObject::read(&bytes).map_err(CompileError::Broken)?,
            path: object,
            _folder: folder,
        })
    }

    /// Build the whole program that the text is, when it has a `main`. The folder holds it as `program`.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn program(&self, text: &str, cancel: &Cancel) -> Result<tempfile::TempDir, CompileError> {
        let folder = self.folder(text)?;
        let job = self.job(folder.path(), &folder.path().join("program"));
        self.compile(&job, folder.path(), cancel)?;
        Ok(folder)
    }

    fn folder(&self, text: &str) -> Result<tempfile::TempDir, CompileError> {
        let broken =
            |e: std::io::Error| CompileError::Broken(format!("no folder to compile in: {e}"));
        let folder = tempfile::Builder::new()
            .prefix("hipsmith-compile-")
            .tempdir()
            .map_err(broken)?;
        std::fs::write(folder.path().join(self.name()), text).map_err(broken)?;
        Ok(folder)
    }

    fn name(&self) -> &std::ffi::OsStr {
        self.file.file_name().unwrap_or("kernel.hip".as_ref())
    }

    fn job(&self, folder: &Path, output: &Path) -> Job {
        let beside = match self.file.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let beside = std::path::absolute(beside).unwrap_or_else(|_| beside.to_owned());
        // No cache and no shared folder: a candidate must not meet another one's leavings. The same
        // contraction of floating-point expressions for all, or a rewrite could change rounding unseen.
        Job::new("hipcc")
            .arg(format!("--offload-arch={}", self.arch))
            .args(["-x", "hip", "-O3", "-gline-tables-only"])
            .arg("-ffp-contract=fast")
            .arg("-iquote")
            .arg(beside)
            .args(&self.flags)
            .arg(self.name())
            .arg("-o")
            .arg(output)
            .dir(folder)
            .env("AMD_COMGR_CACHE", "0")
            .env("CCACHE_DISABLE", "1")
            .timeout(COMPILE_LIMIT)
    }

    fn compile(&self, job: &Job, folder: &Path, cancel: &Cancel) -> Result<(), CompileError> {
        let out = hipsmith_process::run(job, cancel)?;
        if out.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&out.stderr);
        let first = text
            .lines()
            .find(|l| l.contains("error:"))
            .or_else(|| text.lines().rev().find(|l| !l.trim().is_empty()))
            .map_or_else(
                || format!("hipcc {}", out.ending()),
                |l| l.replace(&format!("{}/", folder.display()), ""),
            );
        Err(CompileError::Refused(first))
    }
}

/// The flags that a declared subject may add: those that choose code, not those that run programs.
///
/// # Errors
/// One sentence that names the first flag that is not allowed.
pub fn allowed_flags(flags: &[String]) -> Result<(), String> {
    let allowed = ["-I", "-D", "-U", "-std=", "-O", "-include"];
    for flag in flags {
        if !allowed.iter().any(|a| flag.starts_with(a)) {
            return Err(format!(
                "hipsmith.toml: the flag `{flag}` is not allowed; use one of {}",
                allowed.join(", ")
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "#include <hip/hip_runtime.h>\n#include \"beside.h\"\n\
        __device__ int counter;\n\
        template <typename T> __global__ void k(const T *a, T *b, int n) {\n  __shared__ T s[COUNT];\n\
          int i = threadIdx.x;\n  if (i < n) s[i] = a[i];\n  __syncthreads();\n\
          if (i < n) { b[i] = s[n - 1 - i]; atomicAdd(&counter, 1); }\n}\n\
        void launch(float *a) { k<float><<<1, 64>>>(a, a, 64); }\n";

    #[test]
    fn a_text_becomes_a_code_object_and_an_error_keeps_its_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("beside.h"), "constexpr int COUNT = 64;\n").unwrap();
        let file = dir.path().join("k.hip");
        let compiler = match Compiler::find(&file, "gfx928", &[], &Cancel::new()) {
            Ok(c) => c,
            Err(CompileError::Broken(why)) if why.contains("not installed") => {
                println!("skipped: no hipcc");
                return;
            }
            Err(e) => panic!("{e:?}"),
        };
        let compiled = compiler.device(GOOD, &Cancel::new()).unwrap();
        let kernel = &compiled.object.kernels[0];
        assert_eq!(kernel.lds, 256);
        assert_eq!(kernel.wavefront, 64);
        assert_eq!(
            kernel
                .args
                .iter()
                .map(|a| (a.offset, a.size, a.pointer))
                .collect::<Vec<_>>(),
            [(0, 8, true), (8, 8, true), (16, 4, false)]
        );
        assert!(!kernel.code.is_empty());
        assert_eq!(compiled.object.globals, ["counter"]);
        assert!(compiled.object.imports.is_empty());
        let bad = GOOD.replace("threadIdx.x;", "threadIdx.q;");
        match compiler.device(&bad, &Cancel::new()) {
            Err(CompileError::Refused(why)) => {
                assert!(why.starts_with("k.hip:6:"), "{why}");
                assert!(why.contains("error:"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_that_run_programs_are_refused() {
        assert!(allowed_flags(&["-DX=1".into(), "-Iinclude".into()]).is_ok());
        assert!(allowed_flags(&["-fplugin=evil.so".into()]).is_err());
        assert!(allowed_flags(&["-Wl,-rpath".into()]).is_err());
    }
}
