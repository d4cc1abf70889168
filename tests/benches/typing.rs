//! Typing replayed against a real server process: from the keystroke sent to its diagnostics received.
//!
//! `cargo bench -p hipsmith-tests --bench typing` prints one line per file size, beside what the bare parser takes for
//! the same texts.

use std::time::{Duration, Instant};

use hipsmith_syntax::Document;
use hipsmith_tests::lsp::{Client, position};
use hipsmith_tests::{hipsmith, root, shared};
use serde_json::{Value, json};
use tree_sitter::Parser;

/// What is typed: a statement and a comment, character by character, in the middle of the file.
const TYPED: &str =
    "    float folded = x[i] * 2.0f + __shfl_down(x[i], 16); // two more per lane\n";
const REPEATS: usize = 4;

fn main() {
    // Cargo runs benches as tests with `--test`, too; a replay is no test.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!(
        "{:>8}  {:>22}  {:>8} {:>8} {:>8}  {:>11} {:>13}  {:>10} {:>12}",
        "bytes",
        "",
        "p50",
        "p99",
        "open",
        "full parse",
        "reparse (p50)",
        "p50 / full",
        "peak memory"
    );
    for size in [5 << 10, 20 << 10, 130 << 10] {
        replay(&text_of(size));
    }
    // A real program, whose one function of 100 KB is the hardest case: nothing of it can be left alone.
    match shared() {
        None => println!("skipped: no shared data for the replay in a real program"),
        Some(shared) => {
            let path = shared.join("corpus/bulk/HeCBench/src/secp256k1-hip/main.cu");
            replay(&std::fs::read_to_string(path).expect("it can be read"));
        }
    }
}

/// Text of about `size` bytes: our own test programs, then small kernels until it is long enough.
fn text_of(size: usize) -> String {
    let mut text = String::new();
    let mut programs: Vec<_> = std::fs::read_dir(root().join("tests/programs"))
        .expect("the test programs are there")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "hip"))
        .collect();
    programs.sort();
    for n in 0.. {
        let program =
            std::fs::read_to_string(&programs[n % programs.len()]).expect("it can be read");
        if text.len() + program.len() > size {
            break;
        }
        text.push_str(&format!("namespace part_{n} {{\n{program}\n}}\n"));
    }
    for n in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&format!(
            "__global__ void scale_{n}(float *x, int n)\n{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n)\n        x[i] *= 2.0f;\n}}\n"
        ));
    }
    text
}

/// Where a statement can be typed: at the start of the kernel nearest to the middle.
fn place(text: &str) -> usize {
    let middle = text.floor_char_boundary(text.len() / 2);
    let kernel = text[middle..].find("__global__").map(|p| middle + p);
    let kernel = kernel.or_else(|| text.find("__global__"));
    let kernel = kernel.expect("a kernel is there");
    let body = text[kernel..].find("{\n").expect("it has a body");
    kernel + body + 2
}

fn replay(text: &str) {
    let uri = "file:///nowhere/typing.hip";
    let mut client = Client::start(hipsmith());
    client.initialize(json!({}), Value::Null);
    let begun = Instant::now();
    client.open(uri, text);
    client.diagnostics(uri, 1);
    let open = begun.elapsed();

    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_cpp::LANGUAGE.into())
        .expect("the grammar fits");
    let mut current = text.to_owned();
    let mut at = place(text);
    let (mut latencies, mut parses, mut reparses) = (Vec::new(), Vec::new(), Vec::new());
    for (version, c) in (2..).zip(TYPED.chars().cycle().take(TYPED.len() * REPEATS)) {
        let here = position(&current, at, true);
        let begun = Instant::now();
        client.change(
            uri,
            version,
            json!([{ "range": { "start": here, "end": here }, "text": c.to_string() }]),
        );
        client.diagnostics(uri, version);
        latencies.push(begun.elapsed());
        current.insert(at, c);
        at += c.len_utf8();

        // The parser alone, now and then, on the text that the server parses too.
        if version % 10 != 0 {
            continue;
        }
        let mut masked = Document::new(current.as_str()).masked().to_owned();
        let begun = Instant::now();
        let mut tree = parser.parse(&masked, None).expect("no limit is set");
        parses.push(begun.elapsed());
        masked.insert(at, ' ');
        edit(&mut tree, &masked, at, 1);
        let begun = Instant::now();
        parser.parse(&masked, Some(&tree)).expect("no limit is set");
        reparses.push(begun.elapsed());
    }
    let (parse, reparse, p50) = (
        quantile(&mut parses, 50),
        quantile(&mut reparses, 50),
        quantile(&mut latencies, 50),
    );
    println!(
        "{:>8}  {:>22}  {:>8} {:>8} {:>8}  {:>11} {:>13}  {:>9.2}x {:>12}",
        text.len(),
        format!("{} keystrokes", latencies.len()),
        ms(p50),
        ms(quantile(&mut latencies, 99)),
        ms(open),
        ms(parse),
        ms(reparse),
        p50.as_secs_f64() / parse.as_secs_f64(),
        client.peak_memory()
    );
}

fn edit(tree: &mut tree_sitter::Tree, text: &str, at: usize, length: usize) {
    let point = |offset: usize| {
        let before = &text[..offset];
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        tree_sitter::Point::new(before.matches('\n').count(), offset - line)
    };
    tree.edit(&tree_sitter::InputEdit {
        start_byte: at,
        old_end_byte: at,
        new_end_byte: at + length,
        start_position: point(at),
        old_end_position: point(at),
        new_end_position: point(at + length),
    });
}

fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
