//! `hipsmith run`: real programs, built by the real compiler, on the simulated device.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use hipsmith_tests::{hipcc, hipsmith, root, shared};
use serde_json::Value;

/// Where this test's programs are built: one folder for the process, each program once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| tempfile::tempdir().expect("a temporary folder"))
        .path()
}

/// Build a HIP program; `None` after a "skipped" line when there is no compiler.
fn build(source: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let compiler = hipcc()?;
    let program = folder().join(name);
    let out = Command::new(compiler)
        .args(["--offload-arch=gfx906", "-O3", "-w", "-x", "hip"])
        .arg(source)
        .args(options)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the compiler starts");
    assert!(
        out.status.success(),
        "{} does not compile:\n{}",
        source.display(),
        String::from_utf8_lossy(&out.stderr)
    );
    Some(program)
}

fn own(name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = root().join("tests/programs").join(name);
    let stem = source.file_stem()?.to_string_lossy().into_owned();
    build(&source, &format!("{stem}{}", options.concat()), options)
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(options: &[&str], program: &Path, args: &[&str]) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(hipsmith())
        .arg("run")
        .args(options)
        .arg("--")
        .arg(program)
        .args(args)
        .output()
        .expect("hipsmith starts");
    Ran {
        code: status.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

impl Ran {
    #[track_caller]
    fn succeeded(&self) -> &Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
    #[track_caller]
    fn failed_saying(&self, parts: &[&str]) -> &Self {
        assert_ne!(self.code, Some(0), "it succeeded:\n{}", self.stderr);
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is not in:\n{}",
                self.stderr
            );
        }
        self
    }
    fn says_nothing_of_the_loader(&self) {
        assert!(
            !self.stderr.contains("no version information"),
            "{}",
            self.stderr
        );
    }
}

fn report(program: &Path, args: &[&str]) -> Value {
    let file = folder().join(format!(
        "{}.json",
        program.file_name().unwrap().to_string_lossy()
    ));
    let path = file.to_string_lossy().into_owned();
    run(&["--format", "json", "--output", &path], program, args).succeeded();
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn counter(kernel: &Value, name: &str) -> u64 {
    kernel["counters"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no counter {name}"))
}

#[test]
fn the_api_answers_as_hip_does() {
    let Some(program) = own("runtime/api.hip", &[]) else {
        return;
    };
    for target in ["gfx928", "gfx906", "gfx936"] {
        let ran = run(&["--target", target], &program, &[target]);
        assert_eq!(ran.stdout, "PASS\n", "{}", ran.stderr);
        // It calls functions wrongly on purpose, but nothing that did not run was a kernel.
        ran.succeeded().says_nothing_of_the_loader();
    }
}

#[test]
fn own_programs_pass_their_own_check() {
    for (name, args) in [
        ("saxpy_good.hip", &[][..]),
        ("matmul_naive.hip", &["64", "48", "32"]),
        ("transpose.hip", &[]),
        ("reduce_tree.hip", &[]),
        ("rmsnorm.hip", &[]),
    ] {
        let Some(program) = own(name, &[]) else {
            return;
        };
        let ran = run(&[], &program, args);
        ran.succeeded();
        assert!(ran.stdout.contains("PASS"), "{name}: {}", ran.stdout);
    }
}

#[test]
fn the_report_has_counters_and_lines() {
    let Some(program) = own("matmul_naive.hip", &["-gline-tables-only"]) else {
        return;
    };
    let (m, n, k) = (64u64, 64u64, 64u64);
    let report = report(&program, &["64", "64", "64"]);
    assert_eq!(report["origin"], "simulated");
    assert_eq!(report["target"], "gfx928");
    assert_eq!(report["compiled_for"], serde_json::json!(["gfx906"]));
    assert_eq!(report["complete"], true);
    assert!(report["faults"].as_array().unwrap().is_empty());
    let kernel = &report["kernels"][0];
    assert!(
        kernel["display"]
            .as_str()
            .unwrap()
            .starts_with("matmul_naive(")
    );
    let dispatches = kernel["dispatches"].as_u64().unwrap();
    assert!(dispatches >= 1);
    let first = &kernel["shapes"][0];
    assert_eq!(first["block"], serde_json::json!([16, 16, 1]));
    // What the first shape alone must do: 16 x 16 threads are 4 wavefronts in each of its workgroups, and every
    // thread writes its element.
    assert!(counter(kernel, "SQ_WAVES") >= m / 16 * (n / 16) * 4);
    assert!(counter(kernel, "bytes_written") >= 4 * m * n);
    assert!(counter(kernel, "SQ_INSTS_LDS") > k);
    // B's tile is stored transposed: 16 lanes of a row write the same bank.
    assert!(counter(kernel, "SQ_LDS_BANK_CONFLICT") > 0);
    assert!(kernel["predicted_ns_per_dispatch"].as_f64().unwrap() > 0.0);
    // The lines account for everything, and stand in the program's own source.
    let lines = kernel["lines"].as_array().unwrap();
    assert!(lines.iter().any(|l| {
        l["file"].as_str().unwrap().ends_with("matmul_naive.hip")
            && counter(l, "SQ_LDS_BANK_CONFLICT") > 0
    }));
    for name in ["SQ_LDS_BANK_CONFLICT", "bytes_written", "SQ_INSTS_LDS"] {
        let sum: u64 = lines.iter().map(|l| counter(l, name)).sum();
        assert_eq!(sum, counter(kernel, name), "{name} by line");
    }
}

#[test]
fn two_runs_give_the_same_report() {
    let Some(program) = own("reduce_tree.hip", &[]) else {
        return;
    };
    let strip = |mut report: Value| {
        for kernel in report["kernels"].as_array_mut().unwrap() {
            kernel["host_ns"] = Value::Null;
        }
        report
    };
    assert_eq!(strip(report(&program, &[])), strip(report(&program, &[])));
}

#[test]
fn the_text_goes_to_standard_error_and_leaves_the_program_its_output() {
    let Some(program) = own("runtime/faults.hip", &["-g"]) else {
        return;
    };
    let ran = run(&["--lines"], &program, &["none"]);
    ran.succeeded();
    assert_eq!(ran.stdout, "launch: hipSuccess\nafterwards: hipSuccess\n");
    for part in [
        "simulated gfx928",
        "compiled for gfx906",
        "kernel add_one(int*, int)",
        "predicted per dispatch",
        "faults.hip:10",
    ] {
        assert!(
            ran.stderr.contains(part),
            "{part} is missing:\n{}",
            ran.stderr
        );
    }
    let Some(plain) = own("runtime/faults.hip", &[]) else {
        return;
    };
    let ran = run(&["--lines"], &plain, &["none"]);
    assert!(
        ran.succeeded().stderr.contains("compile with -g"),
        "{}",
        ran.stderr
    );
}

#[test]
fn mistakes_in_a_program_are_named() {
    let Some(program) = own("runtime/faults.hip", &["-gline-tables-only"]) else {
        return;
    };
    let wrong = |mistake: &str, answer: &str, parts: &[&str]| {
        let ran = run(&["--timeout", "20"], &program, &[mistake]);
        ran.failed_saying(parts);
        assert!(
            ran.stdout.starts_with(&format!("launch: {answer}\n")),
            "{mistake}: {}",
            ran.stdout
        );
    };
    wrong(
        "out-of-bounds",
        "hipErrorIllegalAddress",
        &[
            "out of bounds read of 4 bytes",
            "faults.hip:10",
            "not everything it asked of the device was done",
        ],
    );
    wrong("null", "hipErrorIllegalAddress", &["the pointer is null"]);
    wrong(
        "large-block",
        "hipErrorInvalidConfiguration",
        &["1025 threads", "at most 1024"],
    );
    wrong(
        "launch-bounds",
        "hipErrorLaunchFailure",
        &["compiled for at most 64"],
    );
    wrong(
        "large-lds",
        "hipErrorInvalidValue",
        &["65537 of dynamic LDS"],
    );
    wrong("empty-grid", "hipErrorInvalidConfiguration", &["is empty"]);
    let ran = run(&["--timeout", "3"], &program, &["never-ends"]);
    // Somewhere in the loop.
    ran.failed_saying(&[
        "did not end within",
        "kernel never_ends(int volatile*) at",
        "faults.hip:1",
    ]);
    assert!(ran.stdout.starts_with("launch: hipErrorLaunchTimeOut"));
    // As on a device, what lies in the rest of the page can be had.
    run(&["--bounds", "page"], &program, &["out-of-bounds"]).succeeded();
}

#[test]
fn programs_that_cannot_be_run_get_one_clear_sentence() {
    let Some(program) = own("runtime/faults.hip", &["-gline-tables-only"]) else {
        return;
    };
    run(&[], &program, &["no-launch"]).failed_saying(&["launched no kernel"]);
    let crashed = run(&[], &program, &["crash"]);
    crashed.failed_saying(&["signal 11 (segmentation fault)"]);
    assert_eq!(crashed.code, Some(128 + 11));
    assert_eq!(run(&[], &program, &["none", "7"]).code, Some(7));
    run(&[], Path::new("/bin/true"), &[]).failed_saying(&["no HIP program"]);
    run(&[], Path::new("./no-such-program"), &[]).failed_saying(&["there is no program"]);
    run(&[], Path::new("no-such-program-of-ours"), &[]).failed_saying(&["not on PATH"]);
    run(&[], &root().join("Cargo.toml"), &[]).failed_saying(&["could not be run"]);
    run(&["--target", "gfx9999"], &program, &[]).failed_saying(&["no known target", "gfx928"]);
    run(&["--timeout", "0"], &program, &[]).failed_saying(&["--timeout"]);
    run(&["--timeout", "1"], Path::new("sleep"), &["30"])
        .failed_saying(&["did not end within 1 s"]);
    let missing = Command::new(hipsmith())
        .env("HIPSMITH_RUNTIME", "/nowhere/libhipsmith_runtime.so")
        .args(["run", "--"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("HIPSMITH_RUNTIME"));
}

#[test]
fn an_interrupt_stops_the_program_too() {
    let mark = folder().join("outlived");
    let script = format!("sleep 3; touch {}", mark.display());
    let mut running = Command::new(hipsmith())
        .args(["run", "--", "sh", "-c", &script])
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let sent = Command::new("kill")
        .args(["-TERM", &running.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert!(!running.wait().unwrap().success());
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert!(!mark.exists(), "the program outlived its interrupt");
}

#[test]
fn code_for_another_gpu_is_refused() {
    let Some(compiler) = hipcc() else { return };
    let program = folder().join("rdna");
    let out = Command::new(compiler)
        .args(["--offload-arch=gfx1030", "-O2", "-w"])
        .arg(root().join("tests/programs/runtime/faults.hip"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let ran = run(&[], &program, &["none"]);
    ran.failed_saying(&["gfx1030", "--offload-arch=gfx906"]);
    assert!(
        ran.stdout.starts_with("launch: hipErrorNoBinaryForGpu"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_dispatch_is_recorded_with_everything_to_repeat_it() {
    let Some(program) = own("matmul_naive.hip", &["-gline-tables-only"]) else {
        return;
    };
    let capture = folder().join("capture");
    let out = Command::new(hipsmith())
        .args(["run", "--"])
        .arg(&program)
        .args(["32", "16", "48"])
        .env("HIPSMITH_CAPTURE", &capture)
        .env("HIPSMITH_CAPTURE_KERNEL", "matmul_naive")
        .env("HIPSMITH_CAPTURE_EXTRA", "1")
        .env("HIPSMITH_CAPTURE_STOP", "1")
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let read = |path: &str| std::fs::read(capture.join(path)).unwrap();
    let subject: Value = serde_json::from_slice(&read("subject.json")).unwrap();
    assert_eq!(subject["block"], serde_json::json!([16, 16, 1]));
    assert_eq!(subject["grid"], serde_json::json!([1, 2, 1]));
    assert!(read("module.co").starts_with(b"\x7fELF"));
    let args = subject["args"].as_array().unwrap();
    assert_eq!(args.len(), 6);
    let value = |i: usize| args[i]["bytes"].as_str().unwrap().to_owned();
    assert_eq!(
        [value(3), value(4), value(5)],
        ["20000000", "10000000", "30000000"]
    );
    let buffer = |i: usize| &subject["buffers"][args[i]["buffer"].as_u64().unwrap() as usize];
    let floats = |bytes: Vec<u8>| -> Vec<f32> {
        bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    assert_eq!(buffer(0)["changed"], false);
    assert_eq!(buffer(2)["changed"], true);
    let contents = |i: usize, when: &str| floats(read(buffer(i)[when].as_str().unwrap()));
    let (a, b, c) = (
        contents(0, "before"),
        contents(1, "before"),
        contents(2, "after"),
    );
    assert_eq!((a.len(), b.len(), c.len()), (32 * 48, 48 * 16, 32 * 16));
    for row in 0..32 {
        for column in 0..16 {
            let want: f32 = (0..48).map(|i| a[row * 48 + i] * b[i * 16 + column]).sum();
            let got = c[row * 16 + column];
            assert!(
                (got - want).abs() < 1e-3,
                "({row},{column}): {got}, not {want}"
            );
        }
    }
    let extra: Value = serde_json::from_slice(&read("extra-1/subject.json")).unwrap();
    assert_ne!(extra["args"], subject["args"]);

    let none = Command::new(hipsmith())
        .args(["run", "--"])
        .arg(&program)
        .args(["16", "16", "16"])
        .env("HIPSMITH_CAPTURE", folder().join("nothing"))
        .env("HIPSMITH_CAPTURE_KERNEL", "another_kernel")
        .output()
        .unwrap();
    assert!(!none.status.success());
    assert!(String::from_utf8_lossy(&none.stderr).contains("nothing was recorded"));
}

/// A program of the corpus, the folders its headers are in, its arguments, and what it says when its own check
/// against a host reference holds.
struct Foreign {
    source: &'static str,
    include: &'static [&'static str],
    args: &'static [&'static str],
    good: &'static str,
    options: &'static [&'static str],
    /// A header or the source itself with a smaller problem: file, text, and what stands there instead.
    smaller: Option<(&'static str, &'static str, &'static str)>,
}

const HECBENCH: &str = "corpus/bulk/HeCBench/src";
const ROCM_EXAMPLES: &str = "corpus/bulk/rocm-examples";

fn corpus(programs: &[Foreign], base: &str) {
    let (Some(shared), Some(_)) = (shared(), hipcc()) else {
        return;
    };
    for (i, p) in programs.iter().enumerate() {
        let mut source = shared.join(base).join(p.source);
        if !source.is_file() {
            eprintln!("skipped: no {}", source.display());
            continue;
        }
        let mut options = Vec::new();
        if let Some((file, from, to)) = p.smaller {
            let original = std::fs::read_to_string(shared.join(base).join(file)).unwrap();
            assert!(original.contains(from), "{file} has no `{from}`");
            let changed = folder().join(format!("smaller-{i}"));
            std::fs::create_dir_all(&changed).unwrap();
            let copy = changed.join(Path::new(file).file_name().unwrap());
            std::fs::write(&copy, original.replace(from, to)).unwrap();
            if file == p.source {
                source = copy;
            }
            options.push(format!("-I{}", changed.display()));
        }
        options.extend(
            p.include
                .iter()
                .map(|i| format!("-I{}", shared.join(base).join(i).display())),
        );
        options.extend(p.options.iter().map(|&o| o.to_owned()));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let name = format!("{}-{i}", p.source.replace('/', "-"));
        let Some(program) = build(&source, &name, &options) else {
            return;
        };
        // On a device the rest of an allocation's page is there; one of the programs relies on it.
        let ran = run(&["--bounds", "page"], &program, p.args);
        ran.succeeded();
        assert!(ran.stdout.contains(p.good), "{}: {}", p.source, ran.stdout);
        for bad in ["FAIL", "INCORRECT", "Error", "error:"] {
            assert!(!ran.stdout.contains(bad), "{}: {}", p.source, ran.stdout);
        }
    }
}

#[test]
fn hecbench_programs_pass_their_own_check() {
    let program = |source, include, args| Foreign {
        source,
        include,
        args,
        good: "PASS",
        options: &[],
        smaller: None,
    };
    corpus(
        &[
            Foreign {
                good: "All results match",
                ..program(
                    "rmsnorm-hip/main.cu",
                    &["rmsnorm-cuda"],
                    &["64", "1024", "1"],
                )
            },
            program("gelu-hip/main.cu", &["gelu-cuda"], &["1", "16", "256", "1"]),
            program("scan-hip/main.cu", &[], &["16384", "1"]),
            program(
                "moe-sum-hip/main.cu",
                &["moe-sum-cuda"],
                &["16", "512", "1"],
            ),
            program("stencil1d-hip/stencil_1d.cu", &[], &["131072", "1"]),
            Foreign {
                smaller: Some(("crossEntropy-cuda/reference.h", "bs = 128", "bs = 1")),
                ..program("crossEntropy-hip/main.cu", &["crossEntropy-cuda"], &["1"])
            },
            program("convolution1D-hip/main.cu", &[], &["8192", "1"]),
            program(
                "histogram-hip/histogram_compare.cu",
                &[],
                &["--i=1", "--width=128", "--height=64"],
            ),
        ],
        HECBENCH,
    );
}

#[test]
fn rocm_examples_pass_their_own_check() {
    corpus(
        &[
            Foreign {
                source: "HIP-Basic/matrix_multiplication/main.hip",
                include: &["Common"],
                args: &["-A_rows", "64", "-A_cols", "64", "-B_cols", "64"],
                good: "Validation passed",
                options: &["-std=c++17"],
                smaller: None,
            },
            Foreign {
                source: "Tutorials/reduction/example/v1.hip",
                include: &["Tutorials/reduction/include", "Common"],
                args: &[],
                good: "Validation passed",
                options: &["-std=c++20"],
                smaller: Some((
                    "Tutorials/reduction/example/v1.hip",
                    "input_count = 100'000'000",
                    "input_count = 100'000",
                )),
            },
            Foreign {
                source: "Tutorials/reduction/example/v4.hip",
                include: &["Tutorials/reduction/include", "Common"],
                args: &[],
                good: "Validation passed",
                options: &["-std=c++20"],
                smaller: Some((
                    "Tutorials/reduction/example/v4.hip",
                    "input_count = 100'000'000",
                    "input_count = 100'000",
                )),
            },
        ],
        ROCM_EXAMPLES,
    );
}

/// It sums one element too far: exact bounds find it.
#[test]
fn exact_bounds_find_an_access_one_element_too_far_in_the_corpus() {
    let (Some(shared), Some(_)) = (shared(), hipcc()) else {
        return;
    };
    let source = shared
        .join(HECBENCH)
        .join("histogram-hip/histogram_compare.cu");
    if !source.is_file() {
        eprintln!("skipped: no {}", source.display());
        return;
    }
    let Some(program) = build(&source, "histogram-exact", &["-gline-tables-only"]) else {
        return;
    };
    run(&[], &program, &["--i=1", "--width=128", "--height=64"]).failed_saying(&[
        "out of bounds write of 4 bytes",
        "histogram_gmem_accum",
        "histogram_gmem_atomics.h:95",
        "whose end lies 0 bytes before it",
    ]);
}
