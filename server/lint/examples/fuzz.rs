//! Mutated programs and arbitrary bytes against the whole analysis, for as long as one likes.
//!
//! `cargo run --release -p hipsmith-lint --example fuzz -- --seconds 60 [--seed 1]`. Seeds are the programs under
//! `tests/programs`, and with `HIPSMITH_SHARED` the corpus. Case N of a seed is always the same; a fault prints its case
//! and leaves the text in the temporary folder.
//!
//! Held are: the mask keeps length and line breaks and changes nothing the second time; a document after a row of edits
//! is the document of its text; no rule panics, and every range lies in the text; a fix applies, and leaves no more
//! errors in the tree than there were.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hipsmith_lint::{Config, Safety, check, lds_accesses};
use hipsmith_syntax::{Document, Edit, MaskConfig, Options, mask};

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`; 0 when `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap_or(0)
    }
}

/// Text that the analysis treats in its own way.
const WORDS: &[&str] = &[
    "__shared__ float s[32][33];",
    "s[threadIdx.x][threadIdx.y]",
    "extern __shared__ char raw[];",
    "__syncthreads();",
    "__global__ void k(int* p) {",
    "__launch_bounds__(256)",
    "<<<1, dim3(8, 8)>>>",
    "\"",
    "\\\n",
    "/*",
    "*/",
    "//",
    "#if 0\n",
    "#endif\n",
    "#define F(x) (x)\n",
    "template <int N>",
    "__shfl_xor_sync(~0u, v, 16)",
    "__ballot(1)",
    "1u << lane",
    "for (int i = 0; i < 32; ++i)",
    "while (i /= 2)",
    "if (tid < 32)",
    "(float4*)",
    "&",
    "*",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    ";",
    ",",
    "é",
    "\r\n",
    "\0",
    "0xffffffff",
    "9223372036854775807",
    "-1",
    "0",
    "R\"(",
    ")\"",
    "'",
    "asm volatile(\"",
    "?",
    ":",
    "return;",
    "auto& r = s[0];",
    "float* q = s + 4;",
    "q += 32;",
    "f<32>(s)",
    "sizeof(s)",
    "do {",
    "} while (0);",
];

fn boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// A place to change and what to put there.
fn mutation(random: &mut Random, text: &str, seeds: &[String]) -> (std::ops::Range<usize>, String) {
    let start = boundary(text, random.below(text.len() + 1));
    let length = match random.below(4) {
        0 => 0,
        1 => random.below(4),
        2 => random.below(40),
        _ => random.below(400),
    };
    let end = boundary(text, start + length).max(start);
    let new = match random.below(6) {
        0 => String::new(),
        1 => text.get(start..end).unwrap_or("").repeat(2),
        2 => {
            let other = &seeds[random.below(seeds.len())];
            let from = boundary(other, random.below(other.len() + 1));
            let to = boundary(other, from + random.below(300)).max(from);
            other.get(from..to).unwrap_or("").to_owned()
        }
        3 => {
            let bytes: Vec<u8> = (0..random.below(8)).map(|_| random.next() as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => WORDS[random.below(WORDS.len())].to_owned(),
    };
    (start..end, new)
}

fn breaks(text: &str) -> Vec<usize> {
    text.match_indices('\n').map(|(i, _)| i).collect()
}

fn errors(document: &Document) -> usize {
    document
        .root()
        .descendants()
        .filter(|n| n.is_error() || n.is_missing())
        .count()
}

fn document(text: &str, target: &str) -> Document {
    let options = Options {
        target: hipsmith_target::by_name(target).expect("a known target"),
        ..Options::default()
    };
    Document::with_options(text.to_owned(), 0, std::sync::Arc::new(options))
}

/// One case; a broken promise is a panic.
fn case(seed: u64, number: u64, seeds: &[String], text: &mut String) {
    let mut random = Random(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
    random.next();
    *text = if random.below(16) == 0 {
        let bytes: Vec<u8> = (0..random.below(600))
            .map(|_| random.next() as u8)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        seeds[random.below(seeds.len())].clone()
    };
    // Long texts take the time of many short ones: mostly a piece.
    if text.len() > 6000 && random.below(8) != 0 {
        let from = boundary(text, random.below(text.len()));
        let to = boundary(text, from + 500 + random.below(5000));
        *text = text[from..to].to_owned();
    }
    let targets = ["gfx906", "gfx928", "gfx936", "gfx90a"];
    let target = targets[random.below(targets.len())];
    let mut edited = document(text, target);
    for version in 0..1 + random.below(6) {
        let (range, new) = mutation(&mut random, text, seeds);
        text.replace_range(range.clone(), &new);
        edited.apply(
            &[Edit { range, text: new }],
            i32::try_from(version).unwrap_or(0) + 1,
        );
    }
    if !edited.is_settled() {
        edited.settle();
    }
    assert_eq!(edited.text(), text.as_str(), "the text after edits");
    let fresh = document(text, target);
    assert_eq!(edited.masked(), fresh.masked(), "the mask after edits");
    assert_eq!(
        edited.model().functions,
        fresh.model().functions,
        "functions after edits"
    );
    assert_eq!(
        edited.model().shared,
        fresh.model().shared,
        "LDS after edits"
    );
    assert_eq!(
        edited.model().launches,
        fresh.model().launches,
        "launches after edits"
    );

    let config = MaskConfig::default();
    let once = mask(text, &config).text;
    assert_eq!(once.len(), text.len(), "length of the mask");
    assert_eq!(breaks(&once), breaks(text), "line breaks of the mask");
    assert_eq!(mask(&once, &config).text, once, "the mask of the mask");

    let before = errors(&fresh);
    let found = check(&fresh, &Config::default());
    assert_eq!(
        found,
        check(&edited, &Config::default()),
        "findings after edits"
    );
    for a in lds_accesses(&fresh) {
        assert!(
            text.get(a.range.clone()).is_some(),
            "an access at {:?}",
            a.range
        );
    }
    for d in found {
        assert!(
            text.get(d.range.clone()).is_some(),
            "{} at {:?}",
            d.rule,
            d.range
        );
        for (range, _) in &d.related {
            assert!(
                text.get(range.clone()).is_some(),
                "{} relates {range:?}",
                d.rule
            );
        }
        let Some(fix) = d.fix else { continue };
        let fixed = fix.apply(text);
        let Some(fixed) = fixed else {
            panic!("{}: {:?} does not fit", d.rule, fix.edits);
        };
        if fix.safety == Safety::Safe {
            let after = errors(&document(&fixed, target));
            assert!(
                after <= before,
                "{}: {before} errors before its fix, {after} after",
                d.rule
            );
        }
    }
}

fn collect(folder: &Path, out: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| {
            ["hip", "cu", "cuh", "cpp", "h", "hpp", "inl"]
                .iter()
                .any(|k| e == *k)
        }) && let Ok(bytes) = std::fs::read(&path)
            && bytes.len() < 200_000
        {
            out.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        args.iter()
            .position(|a| a == name)
            .and_then(|i| args.get(i + 1))
            .map_or(default, |v| {
                v.parse().unwrap_or_else(|_| {
                    eprintln!("fuzz: {name} {v} is no number");
                    std::process::exit(2)
                })
            })
    };
    let seconds = Duration::from_secs(number("--seconds", 60));
    let seed = number("--seed", 1);
    let only = args
        .iter()
        .any(|a| a == "--case")
        .then(|| number("--case", 0));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seeds = Vec::new();
    collect(&root.join("tests/programs"), &mut seeds);
    if let Some(shared) = std::env::var_os("HIPSMITH_SHARED") {
        collect(&Path::new(&shared).join("corpus/cases"), &mut seeds);
    }
    if seeds.is_empty() {
        eprintln!("fuzz: no seeds under {}", root.display());
        std::process::exit(2);
    }
    let start = Instant::now();
    let (mut n, mut faults) = (only.unwrap_or(0), 0);
    let mut slowest = (Duration::ZERO, 0);
    let stop = |n: u64| match only {
        Some(one) => n > one,
        None => start.elapsed() >= seconds,
    };
    while !stop(n) {
        let mut text = String::new();
        let began = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| case(seed, n, &seeds, &mut text))).is_err() {
            faults += 1;
            let path = std::env::temp_dir().join(format!("hipsmith-fuzz-{seed}-{n}.hip"));
            let _ = std::fs::write(&path, &text);
            eprintln!(
                "fuzz: case {n} of seed {seed} failed; its text is {}",
                path.display()
            );
        }
        if began.elapsed() > slowest.0 {
            slowest = (began.elapsed(), n);
        }
        n += 1;
    }
    println!(
        "{} cases of seed {seed} in {:.0} s: {faults} faults; the slowest was case {} with {:.1} ms",
        n - only.unwrap_or(0),
        start.elapsed().as_secs_f64(),
        slowest.1,
        slowest.0.as_secs_f64() * 1e3
    );
    std::process::exit(i32::from(faults > 0));
}
