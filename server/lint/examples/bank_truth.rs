//! Bank conflicts that the analyser works out from the text, against those that the simulator measures.
//!
//! `cargo run --release -p hipsmith-lint --example bank_truth [-- --list] [NAME...]`; `HIPSMITH_SHARED` names the
//! shared data, `HIPSMITH_RUNTIME` the simulated HIP runtime where it does not lie in `target/release`. Programs and reports are kept under `target/bank_truth`; delete a report to run its program again.
//!
//! Compared is, for each place in the source at which the compiler left LDS instructions (file, line and column of the
//! line table), the worst degree that any wavefront met there in the run, with the degree of the analyser's access at
//! that place. Where the compiler merged two accesses into one instruction (`ds_read2`, or a wider access), the place is
//! the one that the instruction is charged to; the two halves of a `read2` are costed by themselves, as two accesses.
//! Kernels are judged for the workgroups and template arguments that the run used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hipsmith_headers::Headers;
use hipsmith_lint::{Launched, LdsUse, lds_accesses_of};
use hipsmith_process::{Cancel, Job};
use hipsmith_profile::simulated::RunReport;
use hipsmith_syntax::{Document, Options, lex};

/// A program of HeCBench and small arguments for it.
const PROGRAMS: &[(&str, &str)] = &[
    ("aidw", "64 0 1"),
    ("atomicPerf", "1"),
    ("blockAccess", "64 64 1"),
    ("bsearch", "4096 1"),
    ("ced", "-x"),
    ("concurrentKernels", "2"),
    ("convolution1D", "8192 1"),
    ("entropy", "64 64 1"),
    ("fpc", "256 1"),
    ("gemv", "-s 512 -i 1 -x 32 -y 4"),
    ("histogram", "--i=1 --width=128 --height=64"),
    ("hungarian", "/dev/null"),
    ("jacobi", ""),
    ("keogh", "64 4096 1"),
    ("lavaMD", "-boxes1d 2"),
    ("lda", "1"),
    ("ldpc", ""),
    ("lfib4", "100000"),
    ("loopback", "0 1"),
    ("marchingCubes", "1"),
    ("match", "1"),
    ("mdh", "-itmax 1"),
    ("nbnxm", "1"),
    ("ntt", "1"),
    ("nw", "128 10 1"),
    ("pathfinder", "2000 20 5"),
    ("quant3MatMul", "1"),
    ("quantAQLM", ""),
    ("quantBnB", "65536 1"),
    ("quicksort", "1 64 64"),
    ("resnet-kernels", "0 3"),
    ("rmsnorm", "64 1024 1"),
    ("scan", "16384 1"),
    ("shmembench", "1"),
    ("srad", "1 0.5 64 64"),
    ("stddev", "64 512 1"),
    ("stencil1d", "131072 1"),
    ("surfel", "64 64 64 1"),
    ("threadfence", "1 65536"),
    ("zmddft", "1"),
];

/// Seconds that a program may run on the simulator.
const LIMIT: u64 = 60;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = args.iter().any(|a| a == "--list");
    let wanted: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared =
        std::env::var_os("HIPSMITH_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let sources = shared.join("corpus/bulk/HeCBench/src");
    if !sources.is_dir() {
        eprintln!("bank_truth: no {}; set HIPSMITH_SHARED", sources.display());
        std::process::exit(2);
    }
    let runtime = std::env::var_os("HIPSMITH_RUNTIME").map_or_else(
        || target.join("release/libhipsmith_runtime.so"),
        PathBuf::from,
    );
    let folder = target.join("bank_truth");
    if let Err(why) = std::fs::create_dir_all(&folder) {
        eprintln!("bank_truth: {}: {why}", folder.display());
        std::process::exit(2);
    }
    let mut total = Tally::default();
    let mut ran = 0;
    for (name, arguments) in PROGRAMS {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let report = match measured(&sources, &folder, &runtime, name, arguments) {
            Ok(report) => report,
            Err(why) => {
                eprintln!("{name}: not measured: {why}");
                continue;
            }
        };
        let tally = compare(&report, &sources.join(format!("{name}-hip")), list);
        if tally.places > 0 {
            ran += 1;
            println!("{name}: {tally}");
            total.add(&tally);
        }
    }
    println!("{ran} programs with LDS: {total}");
    println!("(simulated on gfx906's table; nothing was measured on a device)");
}

/// The report of a run, made now or earlier.
fn measured(
    sources: &Path,
    folder: &Path,
    runtime: &Path,
    name: &str,
    arguments: &str,
) -> Result<RunReport, String> {
    let report = folder.join(format!("{name}.json"));
    let failed = folder.join(format!("{name}.failed"));
    if let Ok(why) = std::fs::read_to_string(&failed) {
        return Err(why);
    }
    if !report.exists() {
        let made = run(sources, folder, runtime, name, arguments, &report);
        if let Err(why) = made {
            // What does not work does not work the next time either.
            let _ = std::fs::write(&failed, &why);
            return Err(why);
        }
    }
    RunReport::read(&report).map_err(|e| e.to_string())
}

fn run(
    sources: &Path,
    folder: &Path,
    runtime: &Path,
    name: &str,
    arguments: &str,
    report: &Path,
) -> Result<(), String> {
    let program = folder.join(name);
    if !program.exists() {
        let own = sources.join(format!("{name}-hip"));
        let mut files = Vec::new();
        let mut folders = vec![own.clone(), sources.join(format!("{name}-cuda"))];
        let mut queue = vec![own];
        while let Some(dir) = queue.pop() {
            for entry in std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
                let path = entry.map_err(|e| e.to_string())?.path();
                if path.is_dir() {
                    folders.push(path.clone());
                    queue.push(path);
                } else if path
                    .extension()
                    .is_some_and(|e| ["cu", "cpp", "cc", "c"].iter().any(|k| e == *k))
                {
                    files.push(path);
                }
            }
        }
        files.sort();
        let texts: Vec<String> = files
            .iter()
            .map(|f| std::fs::read_to_string(f).unwrap_or_default())
            .collect();
        // A source that another one includes is no program of its own.
        let included = |f: &Path| {
            let file = f.file_name().unwrap_or_default().to_string_lossy();
            texts
                .iter()
                .any(|t| t.contains(&format!("#include \"{file}\"")))
        };
        let output = Command::new("hipcc")
            .args([
                "--offload-arch=gfx906",
                "-O3",
                "-w",
                "-std=c++17",
                "-gline-tables-only",
                "-x",
                "hip",
            ])
            .args(files.iter().filter(|f| !included(f)))
            .args(folders.iter().map(|f| format!("-I{}", f.display())))
            .arg(format!("-I{}", sources.join("include").display()))
            .arg("-o")
            .arg(&program)
            .output()
            .map_err(|e| e.to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text
                .lines()
                .find(|l| l.contains("error"))
                .unwrap_or("no reason given");
            return Err(format!("does not compile here: {line}"));
        }
    }
    // Through the runtime itself: `hipsmith run` would do the same, and need the whole binary.
    let job = Job::new(&program)
        .args(arguments.split_whitespace())
        .env("LD_PRELOAD", runtime)
        .env("HIPSMITH_TARGET", "gfx906")
        .env("HIPSMITH_REPORT", report)
        .env("HIPSMITH_BOUNDS", "page")
        .dir(sources.join(format!("{name}-hip")))
        .timeout(Duration::from_secs(LIMIT));
    let ended = match hipsmith_process::run(&job, &Cancel::new()) {
        Ok(output) if output.status.success() => return exists(report),
        Ok(output) => output.ending(),
        Err(why) => why.to_string(),
    };
    // What ran before a stop was measured all the same.
    eprintln!("{name}: {ended}");
    exists(report)
}

fn exists(report: &Path) -> Result<(), String> {
    if report.exists() {
        Ok(())
    } else {
        Err("it wrote no report".to_owned())
    }
}

#[derive(Default)]
struct Tally {
    places: usize,
    judged: usize,
    equal: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.places += other.places;
        self.judged += other.judged;
        self.equal += other.equal;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = |a: usize, b: usize| 100.0 * a as f64 / b.max(1) as f64;
        write!(
            f,
            "{} places, {} judged ({:.1} %), {} of them equal ({:.1} %)",
            self.places,
            self.judged,
            share(self.judged, self.places),
            self.equal,
            share(self.equal, self.judged)
        )
    }
}

/// What was measured at one place of the source.
#[derive(Default)]
struct Measured {
    degree: u32,
    mnemonics: BTreeSet<String>,
    executions: u64,
}

fn compare(report: &RunReport, folder: &Path, list: bool) -> Tally {
    let mut files: BTreeMap<String, BTreeMap<(u32, u32), Measured>> = BTreeMap::new();
    for kernel in &report.kernels {
        for one in &kernel.lds {
            let Some(file) = &one.file else { continue };
            if one.line == 0 {
                continue;
            }
            let place = files
                .entry(file.clone())
                .or_default()
                .entry((one.line, one.column))
                .or_default();
            place.degree = place.degree.max(one.degree);
            place.executions += one.executions;
            place.mnemonics.insert(one.mnemonic.clone());
        }
    }
    let mut tally = Tally::default();
    let base = Options {
        target: hipsmith_target::by_name("gfx906").expect("a known target"),
        ..Options::default()
    };
    let twin = folder.to_string_lossy().replace("-hip", "-cuda");
    let headers = Headers::new(base, vec![folder.to_path_buf(), PathBuf::from(twin)]);
    for (file, places) in files {
        let Ok(text) = std::fs::read(&file) else {
            eprintln!("{file} cannot be read");
            continue;
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        let options = headers.options(Path::new(&file));
        let document = Document::with_options(text.clone(), 0, options);
        let launched = launched(&document, report);
        let uses = lds_accesses_of(&document, &launched);
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(i, _)| i + 1))
            .collect();
        for ((line, column), measured) in places {
            tally.places += 1;
            let found = at(&text, &starts, &uses, line, column, &measured);
            let short = Path::new(&file)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let source = text.lines().nth(line as usize - 1).unwrap_or("").trim();
            let what = measured
                .mnemonics
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join(" ");
            match found.map(|u| u.degree.map(|d| d.ways)) {
                Some(Ok(ways)) => {
                    tally.judged += 1;
                    if ways == measured.degree {
                        tally.equal += 1;
                    } else if list {
                        println!(
                            "  differs {short}:{line}:{column} {what} measured {} judged {ways}: {source}",
                            measured.degree
                        );
                    }
                }
                Some(Err(why)) if list => println!(
                    "  unknown {short}:{line}:{column} {what} measured {} ({why}): {source}",
                    measured.degree
                ),
                None if list => println!(
                    "  not found {short}:{line}:{column} {what} measured {}: {source}",
                    measured.degree
                ),
                _ => {}
            }
        }
    }
    tally
}

/// The run's launches of the kernels in `document`, their template parameters bound as their names say.
fn launched(document: &Document, report: &RunReport) -> Vec<Launched> {
    let mut out = Vec::new();
    for kernel in &report.kernels {
        let Some((name, args, params)) = signature(&kernel.display) else {
            continue;
        };
        let model = document.model();
        let bound = model
            .find_instance(&name, &args, &params)
            .map(|(_, bound)| bound)
            .unwrap_or_default();
        let short = name.rsplit("::").next().unwrap_or(&name).to_owned();
        for shape in &kernel.shapes {
            let one = Launched {
                kernel: short.clone(),
                block: shape.block,
                bound: bound.clone(),
            };
            if !out.contains(&one) {
                out.push(one);
            }
        }
    }
    out
}

/// The kernel's qualified name, its template arguments and its parameter types from a demangled signature.
fn signature(demangled: &str) -> Option<(String, Vec<String>, Vec<String>)> {
    let mut depth = 0i32;
    let mut open = None;
    let mut end = demangled.len();
    for (i, c) in demangled.char_indices() {
        match c {
            '<' => {
                if depth == 0 {
                    open = Some(i);
                }
                depth += 1;
            }
            '>' => depth -= 1,
            '(' if depth == 0 && !demangled.get(i..)?.starts_with("(anonymous") => {
                end = i;
                break;
            }
            _ => {}
        }
    }
    let split = |text: &str| -> Vec<String> {
        lex::split_arguments(text, 0..text.len())
            .into_iter()
            .map(|r| text[r].to_owned())
            .collect()
    };
    let head = demangled.get(..end)?;
    let (name, args) = match open.filter(|o| *o < end && head.ends_with('>')) {
        Some(open) => (
            head.get(..open)?,
            split(head.get(open + 1..head.len() - 1)?),
        ),
        None => (head, Vec::new()),
    };
    let params = demangled
        .get(end + 1..demangled.len().saturating_sub(1))
        .map(split)
        .unwrap_or_default();
    Some((name.rsplit(' ').next()?.to_owned(), args, params))
}

/// The analyser's access at a place of the line table. A read is charged to the start of its expression, a write to its
/// operator, an atomic to the start of the call.
fn at<'a>(
    text: &str,
    starts: &[usize],
    uses: &'a [LdsUse],
    line: u32,
    column: u32,
    measured: &Measured,
) -> Option<&'a LdsUse> {
    let start = *starts.get(line as usize - 1)?;
    let end = starts.get(line as usize).copied().unwrap_or(text.len());
    let here = start + column.saturating_sub(1) as usize;
    let on_line: Vec<&LdsUse> = uses
        .iter()
        .filter(|u| (start..end).contains(&u.range.start))
        .collect();
    let writes = measured.mnemonics.iter().all(|m| m.contains("write"));
    let reads = measured.mnemonics.iter().all(|m| m.contains("read"));
    let fits = |u: &&&LdsUse| (!writes || u.writes) && (!reads || u.reads);
    on_line
        .iter()
        .find(|u| u.range.start == here && fits(u))
        // A write: what stands before the operator.
        .or_else(|| {
            on_line
                .iter()
                .filter(|u| u.range.end <= here && fits(u))
                .max_by_key(|u| u.range.end)
                .filter(|u| {
                    writes
                        && text
                            .get(u.range.end..here)
                            .is_some_and(|t| t.trim().is_empty())
                })
        })
        // An atomic: its argument.
        .or_else(|| {
            on_line
                .iter()
                .filter(|u| u.range.start >= here && u.reads && u.writes)
                .min_by_key(|u| u.range.start)
                .filter(|_| !writes && !reads)
        })
        // The place lies in the expression.
        .or_else(|| {
            on_line
                .iter()
                .filter(|u| u.range.contains(&here) && fits(u))
                .min_by_key(|u| u.range.len())
        })
        .or_else(|| {
            let fitting: Vec<&&LdsUse> = on_line.iter().filter(fits).collect();
            match fitting[..] {
                [] => None,
                // Merged with others of the line: they must say the same.
                [first, ..] => fitting
                    .iter()
                    .all(|u| u.degree.map(|d| d.ways) == first.degree.map(|d| d.ways))
                    .then_some(first),
            }
        })
        .copied()
}
