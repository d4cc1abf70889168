//! Figures on real programs, where the shared data are there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hipsmith_syntax::{Binding, Document, Options, Scope, lex};

fn shared() -> Option<PathBuf> {
    let found = std::env::var_os("HIPSMITH_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    if found.join("corpus/bulk").is_dir() {
        Some(found)
    } else {
        eprintln!("skipped: no shared data");
        None
    }
}

fn cu_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            cu_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "cu") {
            out.push(path);
        }
    }
}

fn read(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// 11.5 % of the files had errors with the mask alone when the design was made, 68.6 % without it.
#[test]
fn files_with_errors() {
    let Some(shared) = shared() else { return };
    let mut files = Vec::new();
    cu_files(&shared.join("corpus/bulk/HeCBench"), &mut files);
    files.retain(|f| {
        f.components()
            .any(|c| c.as_os_str().to_string_lossy().ends_with("-hip"))
    });
    let (mut wrong, mut all, mut kernels, mut kernels_lost) = (0, 0, 0, 0);
    for file in &files {
        let Some(text) = read(file) else { continue };
        let doc = Document::new(text);
        all += 1;
        wrong += usize::from(doc.root().has_error());
        let model = doc.model();
        kernels += model.kernels().count();
        kernels_lost += model.kernels().filter(|(_, k)| k.has_error).count();
        if std::env::var_os("HIPSMITH_LIST").is_some() && doc.root().has_error() {
            eprintln!("error in {}", file.display());
        }
    }
    assert!(all > 200, "only {all} files under HeCBench");
    let percent = 100.0 * f64::from(wrong as u32) / f64::from(all as u32);
    eprintln!(
        "{wrong} of {all} files have errors: {percent:.1} %; {kernels_lost} of {kernels} kernels hold one"
    );
    assert!(percent <= 11.5, "{percent:.1} % of the files have errors");
}

/// The kernel's name and template arguments from a demangled signature.
fn signature(demangled: &str) -> Option<(String, Vec<String>)> {
    let end = {
        // The parameter list's bracket: the first outside `<...>`.
        let mut depth = 0i32;
        demangled.char_indices().find_map(|(i, c)| match c {
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
        })?
    };
    let head = &demangled[..end];
    let (name, args) = match head.find('<') {
        Some(open) if head.ends_with('>') => {
            let inner = &head[open + 1..head.len() - 1];
            let args = lex::split_arguments(inner, 0..inner.len())
                .into_iter()
                .map(|r| inner[r].to_owned())
                .collect();
            (&head[..open], args)
        }
        _ => (head, Vec::new()),
    };
    let name = name.rsplit([' ', ':']).next()?;
    Some((name.to_owned(), args))
}

/// The compiler's static LDS bytes against the model's, wherever the model says that it knows.
#[test]
fn static_lds_is_the_compilers() {
    let Some(shared) = shared() else { return };
    let Ok(table) = std::fs::read_to_string(shared.join("corpus/compiled_gfx906.tsv")) else {
        eprintln!("skipped: no shared data");
        return;
    };
    let options = Arc::new(Options {
        target: hipsmith_target::by_name("gfx906").expect("a known target"),
        ..Options::default()
    });
    let mut docs: HashMap<String, Option<Document>> = HashMap::new();
    let (mut rows, mut found, mut known, mut agree) = (0, 0, 0, 0);
    let (mut with_lds, mut known_with_lds) = (0, 0);
    let mut seen = std::collections::HashSet::new();
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
        let doc = docs.entry((*file).to_owned()).or_insert_with(|| {
            let text = read(&shared.join("corpus/bulk").join(file))?;
            Some(Document::with_options(text, 0, options.clone()))
        });
        let Some(doc) = doc else { continue };
        let Some((name, args)) = signature(kernel) else {
            continue;
        };
        let model = doc.model();
        let Some(k) = model.kernel(&name) else {
            continue;
        };
        found += 1;
        let mut bindings: Vec<(String, Binding)> = Vec::new();
        for (p, a) in model.functions[k].template_params.iter().zip(&args) {
            let bound = if p.is_type {
                Some(Binding::Type(a.clone()))
            } else {
                model.eval(a, &Scope::file()).map(Binding::Value)
            };
            bindings.extend(bound.map(|b| (p.name.clone(), b)));
        }
        let got = model.static_lds(k, &bindings);
        let Some(bytes) = got.bytes else {
            if std::env::var_os("HIPSMITH_LIST").is_some() {
                eprintln!("unknown: {file} {name} ({lds})");
            }
            continue;
        };
        known += 1;
        known_with_lds += usize::from(lds > 0);
        // The compiler rounds each array up to its own alignment, 16 bytes at most.
        let same = bytes == lds || (bytes > 0 && bytes < lds && lds - bytes < 16);
        agree += usize::from(same);
        if !same && std::env::var_os("HIPSMITH_LIST").is_some() {
            eprintln!("differs: {file} {name}: model {bytes}, compiler {lds}");
        }
    }
    eprintln!(
        "static LDS: {rows} kernels ({with_lds} with LDS), {found} found in their file, {known} known \
         ({known_with_lds} with LDS), {agree} agree"
    );
    // The others stand in headers.
    assert!(found >= 600, "too few kernels found");
    assert!(agree * 100 >= known * 95, "{agree} of {known} agree");
}
