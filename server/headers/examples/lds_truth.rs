//! Static LDS of every kernel instance in the truth table, against the compiler's.
//!
//! `cargo run --release -p hipsmith-headers --example lds_truth [-- --list]`; `HIPSMITH_SHARED` names the shared data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use hipsmith_headers::Headers;
use hipsmith_syntax::{Document, Options, lex};

/// The kernel's qualified name, its template arguments and its parameter types from a demangled signature.
fn signature(demangled: &str) -> Option<(String, Vec<String>, Vec<String>)> {
    // The parameter list's bracket: the first outside `<...>` that belongs to no name such as `(anonymous namespace)`.
    let mut depth = 0i32;
    let end = demangled.char_indices().find_map(|(i, c)| match c {
        '<' => {
            depth += 1;
            None
        }
        '>' => {
            depth -= 1;
            None
        }
        '(' if depth == 0 && !demangled[i..].starts_with("(anonymous") => Some(i),
        _ => None,
    });
    let head = &demangled[..end.unwrap_or(demangled.len())];
    let open = head.ends_with('>').then(|| {
        let mut depth = 0;
        head.char_indices().rev().find_map(|(i, c)| {
            depth += match c {
                '>' => 1,
                '<' => -1,
                _ => 0,
            };
            (depth == 0).then_some(i)
        })
    });
    let split = |text: &str| -> Vec<String> {
        lex::split_arguments(text, 0..text.len())
            .into_iter()
            .map(|r| text[r].to_owned())
            .collect()
    };
    let (name, args) = match open.flatten() {
        Some(open) => (&head[..open], split(&head[open + 1..head.len() - 1])),
        None => (head, Vec::new()),
    };
    let name = name.rsplit(' ').next()?.to_owned();
    let params = end
        .and_then(|e| demangled.get(e + 1..demangled.len() - 1))
        .map(split)
        .unwrap_or_default();
    Some((name, args, params))
}

fn main() {
    let list = std::env::args().any(|a| a == "--list");
    let shared = std::env::var_os("HIPSMITH_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let bulk = shared.join("corpus/bulk");
    let table = match std::fs::read_to_string(shared.join("corpus/compiled_gfx906.tsv")) {
        Ok(table) => table,
        Err(why) => {
            eprintln!(
                "lds_truth: {}: {why}; set HIPSMITH_SHARED",
                shared.display()
            );
            std::process::exit(2);
        }
    };
    let base = Options {
        target: hipsmith_target::by_name("gfx906").expect("a known target"),
        ..Options::default()
    };
    let mut documents: HashMap<String, Option<Document>> = HashMap::new();
    let mut seen = HashSet::new();
    let (mut rows, mut with_lds, mut known, mut known_with_lds, mut equal, mut equal_with_lds) =
        (0, 0, 0, 0, 0, 0);
    let mut library_rows = 0;
    let mut why_not: BTreeMap<&str, usize> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, kernel, mangled, lds, ..] = columns.as_slice() else {
            continue;
        };
        let Ok(lds) = lds.parse::<u64>() else {
            continue;
        };
        if !seen.insert((file.to_string(), mangled.to_string())) {
            continue;
        }
        rows += 1;
        with_lds += usize::from(lds > 0);
        let document = documents.entry((*file).to_owned()).or_insert_with(|| {
            let path = bulk.join(file);
            let bytes = std::fs::read(&path).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let headers = Headers::new(base.clone(), folders(&bulk, file));
            Some(Document::with_options(text, 0, headers.options(&path)))
        });
        let Some(document) = document else {
            *why_not.entry("file not readable").or_default() += 1;
            continue;
        };
        let Some((name, args, params)) = signature(kernel) else {
            *why_not.entry("name not understood").or_default() += 1;
            continue;
        };
        let model = document.model();
        let Some((found, bindings)) = model.find_instance(&name, &args, &params) else {
            // rocPRIM and rocThrust are not among the sources.
            let library = ["thrust::", "rocprim::", "hipcub::"];
            if library.iter().any(|l| name.starts_with(l)) {
                library_rows += 1;
                continue;
            }
            *why_not.entry("kernel not found").or_default() += 1;
            if list {
                println!("not found\t{file}\t{kernel}\t{lds}");
            }
            continue;
        };
        let Some(bytes) = model.static_lds_of(found, &bindings).bytes else {
            *why_not.entry("size not known").or_default() += 1;
            if list {
                println!("unknown\t{file}\t{kernel}\t{lds}");
            }
            continue;
        };
        known += 1;
        known_with_lds += usize::from(lds > 0);
        if bytes == lds {
            equal += 1;
            equal_with_lds += usize::from(lds > 0);
        } else if list {
            println!("differs\t{file}\t{kernel}\t{lds}\tmodel {bytes}");
        }
    }
    let percent = |a: usize, b: usize| 100.0 * a as f64 / b.max(1) as f64;
    println!(
        "{rows} kernels, {with_lds} with LDS; {library_rows} of a library whose source is not there"
    );
    println!(
        "instantiated {known}: {:.2} % of all, {:.2} % of those with source; with LDS {known_with_lds}",
        percent(known, rows),
        percent(known, rows - library_rows),
    );
    println!(
        "equal {equal} of those ({:.2} %), with LDS {equal_with_lds} ({:.2} %)",
        percent(equal, known),
        percent(equal_with_lds, known_with_lds)
    );
    for (why, count) in why_not {
        println!("{count}: {why}");
    }
}

/// Where the programs' build files look for headers besides the file's own folder.
fn folders(bulk: &Path, file: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let path = bulk.join(file);
    for folder in path.ancestors().skip(1).take_while(|f| f.starts_with(bulk)) {
        out.push(folder.to_owned());
        for inner in ["include", "Common"] {
            out.push(folder.join(inner));
        }
        // The HIP version of a program takes its references from the CUDA version.
        if let Some(name) = folder.file_name().and_then(|n| n.to_str())
            && let Some(stem) = name.strip_suffix("-hip")
        {
            out.push(folder.with_file_name(format!("{stem}-cuda")));
            out.push(
                folder
                    .with_file_name(format!("{stem}-cuda"))
                    .join("include"),
            );
        }
    }
    out.retain(|f| f.is_dir());
    out
}
