//! A check of many files against a bare parse of the same masked texts, on one core and on all.
//!
//! `cargo bench -p hipsmith-tests --bench bulk` prints both times and their ratio. Files are read beforehand, and each
//! time is the shortest of several runs.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use hipsmith_lint::{Config, check};
use hipsmith_syntax::{Document, is_hip};
use hipsmith_tests::shared;
use rayon::prelude::*;
use tree_sitter::Parser;

const RUNS: usize = 5;

fn main() {
    // Cargo runs benches as tests with `--test`, too.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let texts = texts(&shared.join("corpus/bulk"));
    let masked: Vec<String> = texts
        .iter()
        .map(|text| Document::new(text.as_str()).masked().to_owned())
        .collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} files, {:.1} MB", texts.len(), bytes as f64 / 1e6);
    println!(
        "{:>6}  {:>12} {:>12}  {:>6}",
        "cores", "bare parse", "check", "ratio"
    );
    for cores in [1, rayon::current_num_threads()] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(cores)
            .build()
            .expect("threads can be started");
        let (mut bare, mut whole) = (Duration::MAX, Duration::MAX);
        // In turns, so that a busy machine slows both alike.
        for _ in 0..RUNS {
            bare = bare.min(timed(|| {
                pool.install(|| masked.par_iter().for_each(|t| parse(t)))
            }));
            whole = whole.min(timed(|| {
                pool.install(|| texts.par_iter().for_each(|t| lint(t)))
            }));
        }
        println!(
            "{cores:>6}  {:>9.0} ms {:>9.0} ms  {:>5.2}x",
            bare.as_secs_f64() * 1e3,
            whole.as_secs_f64() * 1e3,
            whole.as_secs_f64() / bare.as_secs_f64()
        );
    }
}

fn texts(root: &Path) -> Vec<String> {
    let mut paths: Vec<_> = ignore::Walk::new(root)
        .flatten()
        .map(|entry| entry.into_path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let extension = path.extension()?.to_str()?;
            let source = ["hip", "cu", "cuh", "cpp", "h", "hpp", "inl", "H"].contains(&extension);
            (source && is_hip(&text, path.to_str()?)).then_some(text)
        })
        .collect()
}

fn parse(text: &str) {
    thread_local! {
        static PARSER: std::cell::RefCell<Parser> = std::cell::RefCell::new({
            let mut parser = Parser::new();
            parser
                .set_language(&hipsmith_syntax::language())
                .expect("the grammar fits");
            parser
        });
    }
    PARSER.with_borrow_mut(|parser| {
        black_box(parser.parse(text, None));
    });
}

fn lint(text: &str) {
    black_box(check(&Document::new(text), &Config::default()));
}

fn timed(f: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    f();
    begun.elapsed()
}
