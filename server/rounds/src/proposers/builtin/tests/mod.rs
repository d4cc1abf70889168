//! Tests of the rewrites: what each makes of programs that it should change, and that it leaves alone what it must.
//!
//! Results are kept as diffs in `snapshots/`; every result must parse as well as its origin, and compile where hipcc
//! is installed.

use std::path::Path;

use similar::TextDiff;

use super::code::{Code, Dispatch};
use super::{Idea, read};

mod legal;
mod order;
mod refused;
mod skills;
mod texts;

/// A rewrite.
type Rewrite = fn(&Code) -> Vec<Idea>;

/// What a rewrite makes of a text for gfx928, launched as the text says.
fn apply(rewrite: Rewrite, text: &str, kernel: &str) -> Vec<Idea> {
    let target = hipsmith_target::default_target();
    let document = read::document(text, target);
    let model = document.model();
    let block = model
        .kernel(kernel)
        .and_then(|k| model.block_shapes(k).first().copied())
        .and_then(read::axes)
        .unwrap_or([256, 1, 1]);
    let dispatch = Dispatch { block };
    let ideas =
        read::with_code(text, kernel, target.name.as_str(), dispatch, rewrite).unwrap_or_default();
    for idea in &ideas {
        assert!(
            !read::is_worse(text, &idea.new_text),
            "{} parses worse:\n{}",
            idea.id,
            idea.new_text
        );
    }
    ideas
}

/// The ideas' ids, hypotheses and diffs as one readable text.
fn show(text: &str, ideas: &[Idea]) -> String {
    let mut out = String::new();
    for idea in ideas {
        let diff = TextDiff::from_lines(text, &idea.new_text);
        out.push_str(&format!(
            "== {} ({}x): {}\n",
            idea.id, idea.expected, idea.what
        ));
        if let Some(launch) = &idea.launch {
            out.push_str(&format!(
                "== launch: block {:?}, grid {:?}\n",
                launch.block, launch.grid_scale
            ));
        }
        out.push_str(&diff.unified_diff().context_radius(2).to_string());
    }
    if out.is_empty() {
        "nothing\n".to_owned()
    } else {
        out
    }
}

/// One of the programs that the whole project tests with.
fn program(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Check device code with the compiler; the error holds what it said. `None` without a compiler.
fn compile(text: &str) -> Option<Result<(), String>> {
    let path = std::env::var_os("PATH")?;
    let hipcc = std::env::split_paths(&path)
        .map(|d| d.join("hipcc"))
        .find(|f| f.is_file())?;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("after.hip");
    std::fs::write(&source, text).unwrap();
    let job = hipsmith_process::Job::new(hipcc)
        .args([
            "--cuda-device-only",
            "--offload-arch=gfx906",
            "-O3",
            "-Wall",
            "-Werror",
            "-Wno-unused-command-line-argument",
            "-fsyntax-only",
        ])
        .arg(&source)
        .timeout(std::time::Duration::from_secs(120));
    let done = hipsmith_process::run(&job, &crate::Cancel::new()).unwrap();
    Some(if done.status.success() {
        Ok(())
    } else {
        Err(done.stderr_tail(40))
    })
}

/// Every idea must compile, where there is a compiler.
fn compile_all<'a>(ideas: impl IntoIterator<Item = &'a Idea>) {
    for idea in ideas {
        match compile(&idea.new_text) {
            None => eprintln!("skipped: no hipcc"),
            Some(Ok(())) => {}
            Some(Err(said)) => panic!("{} does not compile:\n{said}\n{}", idea.id, idea.new_text),
        }
    }
}
