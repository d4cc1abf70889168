//! Every instruction that real programs compile to must be known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hipsmith_process::{Cancel, Job};
use hipsmith_simulator::{Memory, Module};

fn shared() -> Option<PathBuf> {
    let found = std::env::var_os("HIPSMITH_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    found.join("corpus/bulk").is_dir().then_some(found)
}

/// `None` when the file does not compile here (Debian's 5.2 headers are older than some programs).
fn compile(source: &std::path::Path) -> Result<Option<Vec<u8>>, hipsmith_process::Error> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.co");
    let compiler = std::env::var_os("HIPSMITH_HIPCC").unwrap_or_else(|| "hipcc".into());
    let job = Job::new(compiler)
        .args([
            "--offload-arch=gfx906",
            "-O3",
            "-std=c++17",
            "--cuda-device-only",
            "-c",
            "-x",
            "hip",
        ])
        .arg(source)
        .arg("-I")
        .arg(source.parent().unwrap())
        // HeCBench's HIP programs share headers with their CUDA twins.
        .arg("-I")
        .arg(
            source
                .parent()
                .unwrap()
                .to_string_lossy()
                .replace("-hip", "-cuda"),
        )
        .arg("-o")
        .arg(&out)
        .timeout(Duration::from_secs(120));
    let output = hipsmith_process::run(&job, &Cancel::new())?;
    Ok(output.status.success().then(|| std::fs::read(out).unwrap()))
}

#[test]
fn real_programs_use_only_known_instructions() {
    let Some(shared) = shared() else {
        eprintln!("skipped: no shared data");
        return;
    };
    let bulk = shared.join("corpus/bulk");
    // A few; HIPSMITH_SURVEY names a file with a list of others.
    let mut sources: Vec<PathBuf> = ["scan", "histogram", "convolution1D", "stencil1d"]
        .iter()
        .flat_map(|name| std::fs::read_dir(bulk.join(format!("HeCBench/src/{name}-hip"))))
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "cu"))
        .collect();
    if let Some(list) = std::env::var_os("HIPSMITH_SURVEY") {
        sources = std::fs::read_to_string(list)
            .unwrap()
            .lines()
            .map(PathBuf::from)
            .collect();
    }
    let mut missing: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut compiled = 0;
    for source in &sources {
        let code = match compile(source) {
            Ok(Some(code)) => code,
            Ok(None) => continue,
            Err(hipsmith_process::Error::NotFound { .. }) => {
                eprintln!("skipped: no hipcc");
                return;
            }
            Err(e) => panic!("{e}"),
        };
        compiled += 1;
        eprintln!("{}", source.display());
        let memory = Memory::new();
        let module = match Module::load(&code, &memory) {
            Ok(module) => module,
            Err(e) => panic!("{}: {e}", source.display()),
        };
        for (what, n) in module.unimplemented().unwrap() {
            let entry = missing
                .entry(what)
                .or_insert((0, source.display().to_string()));
            entry.0 += n;
        }
    }
    eprintln!("{compiled} of {} programs compiled", sources.len());
    assert!(compiled > 0, "not one program compiled");
    assert!(missing.is_empty(), "not implemented: {missing:#?}");
}
