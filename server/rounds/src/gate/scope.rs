//! An edit may touch device code, constants, and how this kernel is launched. Everything else must be the same.

use std::collections::BTreeSet;
use std::ops::Range;

use hipsmith_syntax::{Document, Expr, FunctionKind, Launch};

use super::{Edit, Refusal, words};

pub(super) fn check(edit: &Edit) -> Result<(), Refusal> {
    let documents = [edit.original, edit.text].map(Document::new);
    // A variable may lose its place in the launch, or get one.
    let names: BTreeSet<String> = documents
        .iter()
        .flat_map(|d| launch_words(d, edit.kernel))
        .collect();
    let [before, after] = documents.map(|d| rest(&d, edit.kernel, &names));
    let difference = before
        .iter()
        .zip(&after)
        .find(|(b, a)| b != a)
        .map(|(b, a)| (b.as_str(), a.as_str()));
    let (old, new) = match difference {
        Some(pair) => pair,
        None if before.len() == after.len() => return Ok(()),
        None => (
            before.get(after.len()).map_or("", String::as_str),
            after.get(before.len()).map_or("", String::as_str),
        ),
    };
    Err(Refusal::Refused(format!(
        "it changes something other than device code, constants and this kernel's launch: `{old}` became `{new}`"
    )))
}

/// The words of the expressions that say how a kernel is launched.
fn launch_words(document: &Document, kernel: &str) -> Vec<String> {
    let launches = document.model().launches.iter();
    launches
        .filter(|l| l.kernel == kernel)
        .flat_map(shape)
        .flat_map(|e| {
            words::count(&e.text)
                .into_keys()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn shape(launch: &Launch) -> impl Iterator<Item = &Expr> {
    [
        Some(&launch.grid_expr),
        Some(&launch.block_expr),
        launch.lds_expr.as_ref(),
    ]
    .into_iter()
    .flatten()
    .chain(&launch.template_args)
}

/// The lines of a text without what an edit may touch, white space evened out. `names` are variables that the
/// launch's shape is made of.
fn rest(document: &Document, kernel: &str, names: &BTreeSet<String>) -> Vec<String> {
    let (text, model) = (document.text(), document.model());
    let mut free: Vec<Range<usize>> = model
        .functions
        .iter()
        .filter(|f| matches!(f.kind, FunctionKind::Kernel | FunctionKind::Device))
        .map(|f| f.range.clone())
        .collect();
    for launch in model.launches.iter().filter(|l| l.kernel == kernel) {
        free.extend(shape(launch).map(|e| e.range.clone()));
        let at = launch.range.start;
        let values = model
            .variables
            .iter()
            .filter(|v| names.contains(&v.name) && v.name_range.start < at && v.scope.contains(&at))
            .filter_map(|v| Some(v.init.as_ref()?.range.clone()));
        free.extend(values);
    }
    free.sort_by_key(|r| (r.start, r.end));
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for range in free {
        if range.start > at {
            kept.push_str(text.get(at..range.start).unwrap_or_default());
        }
        kept.push(' ');
        at = at.max(range.end);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept.lines()
        .filter(|line| !is_constant(line))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

/// `constexpr int TILE = 32;` or `#define TILE 32`, on one line.
fn is_constant(line: &str) -> bool {
    let line = line.trim();
    if let Some(directive) = line.strip_prefix('#') {
        let mut parts = directive.split_whitespace();
        let name = parts.next().filter(|d| *d == "define").and(parts.next());
        // A macro with parameters is code, and a name of the runtime must stay what it is.
        return name.is_some_and(|n| !n.contains('(') && !n.starts_with("hip"))
            && parts.next().is_some()
            && !line.ends_with('\\');
    }
    let mut parts = line.split_whitespace().peekable();
    let mut constant = false;
    while let Some(word) = parts.next_if(|w| ["static", "inline", "constexpr", "const"].contains(w))
    {
        constant |= word.starts_with("const");
    }
    constant && line.ends_with(';') && line.matches(';').count() == 1 && line.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#include <hip/hip_runtime.h>\n#define TILE 16\nconstexpr int kRows = 4;\n\
        __device__ float twice(float x) { return 2 * x; }\n\
        __global__ void k(const float *a, float *b, int n) {\n  int i = threadIdx.x;\n  if (i < n) b[i] = twice(a[i]);\n}\n\
        __global__ void other(float *a) { a[0] = 1; }\n\
        int main(int argc, char **argv) {\n  int n = argc;\n  float *a = nullptr;\n  const dim3 block(TILE, kRows);\n\
          const int blocks = (n + TILE - 1) / TILE;\n  k<<<blocks, block>>>(a, a, n);\n  return 0;\n}\n";

    fn judge(text: &str) -> Result<(), Refusal> {
        check(&Edit {
            original: TEXT,
            text,
            kernel: "k",
            target: hipsmith_target::default_target(),
        })
    }

    #[test]
    fn device_code_constants_and_the_launch_may_change() {
        for (old, new) in [
            ("b[i] = twice(a[i])", "b[i] = a[i] + a[i]"),
            ("#define TILE 16", "#define TILE 32\n#define PAD 1"),
            (
                "constexpr int kRows = 4;",
                "constexpr int kRows = 8;\nstatic constexpr int kMore = 2;",
            ),
            ("dim3 block(TILE, kRows)", "dim3 block(TILE, 2)"),
            ("(n + TILE - 1) / TILE;", "(n + 31) / 32;"),
            ("<<<blocks, block>>>", "<<<dim3(blocks), dim3(32, 8)>>>"),
            (
                "__global__ void k",
                "__device__ float help(float x) { return x; }\n__global__ void k",
            ),
        ] {
            assert!(TEXT.contains(old), "{old}");
            judge(&TEXT.replace(old, new)).unwrap();
        }
    }

    #[test]
    fn host_code_and_the_rest_may_not() {
        for (old, new) in [
            ("return 0;", "return 1;"),
            ("int n = argc;", "int n = 1;"),
            ("(a, a, n);", "(a, a, 1);"),
            ("float *a = nullptr;", ""),
            ("int main", "static int remembered;\nint main"),
            (
                "#define TILE 16",
                "#define TILE 16\n#define hipMalloc(p, n) hipSuccess",
            ),
            ("#define TILE 16", "#define TILE 16\n#undef TILE"),
            (
                "__global__ void k",
                "__device__ float memo[64];\n__global__ void k",
            ),
        ] {
            assert!(TEXT.contains(old), "{old}");
            judge(&TEXT.replace(old, new)).unwrap_err();
        }
    }
}
