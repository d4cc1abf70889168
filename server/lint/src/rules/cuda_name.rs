//! `cuda-name`

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::LazyLock;

use hipsmith_syntax::lex::TokenKind;

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Fix, Safety, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "cuda-name",
    family: Family::P,
    severity: Severity::Warning,
    scope: Scope::File,
    summary: "A name or header of CUDA's runtime that HIP calls otherwise.",
    docs: r#"
## What it does
Reports functions, types, codes and headers of CUDA's runtime API in HIP code, with the name that HIP has for them. A file of HIP
gets one finding per name; a file with nothing of HIP in it is CUDA as a whole, and gets one finding for all of its names.

A *hint* where a header of the project, which is not seen, could bring the names, and in CUDA files that only use such names or
only include a header of CUDA. Silent when the file defines the name, when a header of the project is about HIP or compatibility, in sources that include
PyTorch (its build translates them), under `#if` whose condition is the project's, and in code that the target does not compile.

## Why it matters on 64 lanes
It does not compile, or, through a layer of wrappers, hides that the code was written for 32 lanes. Most names differ in the
first letters only; some do not: `cudaErrorMemoryAllocation` is `hipErrorOutOfMemory`, `cudaMallocHost` is `hipHostMalloc`.

## Example that fires
```hip fires
#include <hip/hip_runtime.h>
int main() {
  float* x;
  if (hipMalloc(&x, 4) != cudaSuccess) return 1;
  return hipFree(x);
}
```

## Example that does not
```hip quiet
#include <hip/hip_runtime.h>
#define cudaFree hipFree
int main() {
  float* x;
  if (hipMalloc(&x, 4) != hipSuccess) return 1;
  return cudaFree(x);
}
```

## Fix
The counterpart, at all places of the file: safe in a file of HIP. In a CUDA file all names and headers at once, which a person
has to want: CUDA's compiler does not take the file any more.

## Sources
HIPIFY, tables of the CUDA runtime API that HIP supports; `hip_runtime_api.h`.
"#,
    check,
};

/// Counterparts by the rest of the name after `cuda`; `None` where the rest is the same after `hip`.
static NAMES: LazyLock<HashMap<&'static str, Option<&'static str>>> = LazyLock::new(|| {
    include_str!("../cuda_names.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| {
            let mut words = l.split_whitespace();
            Some((words.next()?, words.next()))
        })
        .collect()
});

/// What HIP calls `name`.
fn counterpart(name: &str) -> Option<String> {
    let rest = name.strip_prefix("cuda")?;
    let other = NAMES.get(rest)?;
    Some(other.map_or_else(|| format!("hip{rest}"), str::to_owned))
}

/// A header's counterpart, and whether the names that it declares are those of this rule or the same in HIP.
fn header(path: &str) -> Option<(&'static str, bool)> {
    Some(match path {
        "cuda_runtime.h" | "cuda.h" | "device_launch_parameters.h" => ("hip/hip_runtime.h", true),
        "cuda_runtime_api.h" | "cuda_profiler_api.h" => ("hip/hip_runtime_api.h", true),
        "cuda_fp16.h" => ("hip/hip_fp16.h", true),
        "cooperative_groups.h" => ("hip/hip_cooperative_groups.h", true),
        "driver_types.h" => ("hip/driver_types.h", true),
        "vector_types.h" => ("hip/hip_vector_types.h", true),
        "channel_descriptor.h" => ("hip/channel_descriptor.h", true),
        "cuda_bf16.h" => ("hip/hip_bf16.h", false),
        "cuda_fp8.h" => ("hip/hip_fp8.h", false),
        "cuComplex.h" => ("hip/hip_complex.h", false),
        "cublas_v2.h" | "cublas.h" => ("hipblas/hipblas.h", false),
        "cufft.h" => ("hipfft/hipfft.h", false),
        "curand.h" => ("hiprand/hiprand.h", false),
        "curand_kernel.h" => ("hiprand/hiprand_kernel.h", false),
        "cusparse.h" => ("hipsparse/hipsparse.h", false),
        "cusolverDn.h" => ("hipsolver/hipsolver.h", false),
        "cub/cub.cuh" => ("hipcub/hipcub.hpp", false),
        "nccl.h" => ("rccl/rccl.h", true),
        _ => return None,
    })
}

/// Directives of the file that matter here.
struct Directives<'t> {
    /// Paths of `#include <...>` with their bytes.
    system: Vec<(Range<usize>, &'t str)>,
    /// What stands under an `#if`; an include guard is none.
    conditional: Vec<Range<usize>>,
}

impl Directives<'_> {
    fn is_conditional(&self, at: usize) -> bool {
        let i = self.conditional.partition_point(|r| r.end <= at);
        self.conditional.get(i).is_some_and(|r| r.start <= at)
    }
}

fn directives(source: &str) -> Directives<'_> {
    let mut out = Directives {
        system: Vec::new(),
        conditional: Vec::new(),
    };
    // Where each starts and whether it is a guard, the innermost last.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut guard: Option<&str> = None;
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let directive = directive.trim_start();
        let word: &str = directive
            .split(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or("");
        let rest = directive.get(word.len()..).unwrap_or("").trim();
        let before = guard.take();
        match word {
            "if" | "ifdef" | "ifndef" => {
                open.push((start, false));
                guard = (word == "ifndef").then_some(rest);
            }
            "define" => {
                let name = rest.split_whitespace().next();
                if before.is_some()
                    && before == name
                    && let Some(last) = open.last_mut()
                {
                    last.1 = true;
                }
            }
            "endif" => {
                if let Some((from, is_guard)) = open.pop()
                    && !is_guard
                    && !open.iter().any(|(_, guard)| !guard)
                {
                    out.conditional.push(from..offset);
                }
            }
            "include" => {
                let path = rest
                    .strip_prefix('<')
                    .and_then(|r| Some(r.split_once('>')?.0));
                if let Some(path) = path
                    && let Some(at) = line.find('<')
                {
                    let at = start + at + 1;
                    out.system.push((at..at + path.len(), path));
                }
            }
            _ => {}
        }
    }
    out
}

/// Whether an `#include` is neither in a comment nor under a condition.
fn is_compiled(cx: &Context<'_>, directives: &Directives<'_>, at: usize) -> bool {
    let is_comment = || {
        let node = cx.document.root().descendant_for_byte_range(at, at + 1);
        node.is_some_and(|n| n.kind() == "comment")
    };
    !directives.is_conditional(at) && !cx.is_inactive(at) && !is_comment()
}

/// A name and where it stands.
type Uses<'t> = BTreeMap<usize, (&'t str, String, Vec<Range<usize>>)>;

/// The names of CUDA that the file uses, by their first place.
fn uses<'t>(cx: &Context<'t>, directives: &Directives<'_>, hip: &mut bool) -> Uses<'t> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut defined: Vec<&str> = Vec::new();
    let mut out = Uses::new();
    let words = cx.words();
    let mut typedef = false;
    for (i, token) in words.iter().enumerate() {
        let text = token.text(cx.source);
        if token.kind != TokenKind::Ident {
            typedef &= text != ";";
            continue;
        }
        let upper = |prefix: &str| {
            text.strip_prefix(prefix)
                .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        typedef |= text == "typedef";
        *hip |= upper("hip");
        if !upper("cuda") {
            continue;
        }
        let near = |back: usize| {
            let j = i.checked_sub(back)?;
            Some(words.get(j)?.text(cx.source))
        };
        let next = words.get(i + 1).map_or("", |t| t.text(cx.source));
        match near(1).unwrap_or("") {
            "." | "->" => continue,
            "::" if near(2).is_some_and(|n| n.starts_with(|c: char| c.is_alphanumeric())) => {
                continue;
            }
            "using" => defined.push(text),
            "struct" | "enum" | "class" | "union" if matches!(next, "{" | ":") => {
                defined.push(text);
            }
            _ if typedef && next == ";" => defined.push(text),
            _ => {}
        }
        if directives.is_conditional(token.range.start) {
            continue;
        }
        if let Some(at) = first.get(text) {
            if let Some(known) = out.get_mut(at) {
                known.2.push(token.range.clone());
            }
        } else if let Some(hip) = counterpart(text) {
            first.insert(text, token.range.start);
            out.insert(token.range.start, (text, hip, vec![token.range.clone()]));
        }
    }
    out.retain(|at, (name, _, _)| {
        !defined.contains(name) && !cx.may_be_mapped(name) && cx.model.macro_at(name, *at).is_none()
    });
    out
}

/// Whether a header of the project is not known: it may bring names.
fn has_unseen_header(cx: &Context<'_>) -> bool {
    cx.model.includes().iter().any(|(path, local)| {
        *local
            && !cx
                .model
                .headers()
                .iter()
                .any(|h| h.path().ends_with(path.trim_start_matches("../")))
    })
}

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    if !cx.has_text("cu") {
        return;
    }
    // The masked text lacks the conditions.
    let directives = directives(cx.document.text());
    let headers: Vec<(Range<usize>, &str, &str, bool)> = directives
        .system
        .iter()
        .filter(|(range, _)| is_compiled(cx, &directives, range.start))
        .filter_map(|(range, path)| {
            let (hip, same) = header(path)?;
            Some((range.clone(), *path, hip, same))
        })
        .collect();
    if headers.is_empty() && !cx.has_text("cuda") {
        return;
    }
    // A build of PyTorch translates its sources; a header about both platforms brings the names.
    let translated = cx.model.includes().iter().any(|(path, _)| {
        ["torch/", "ATen/", "c10/"]
            .iter()
            .any(|p| path.starts_with(p))
    });
    if translated || cx.may_be_mapped("cudaError_t") {
        return;
    }
    let mut hip = cx
        .model
        .includes()
        .iter()
        .any(|(path, _)| path.starts_with("hip") || path.starts_with("roc"));
    let names = uses(cx, &directives, &mut hip);
    let doubt = has_unseen_header(cx);
    if hip {
        in_hip(&names, &headers, doubt, out);
    } else {
        in_cuda(&names, &headers, doubt, out);
    }
}

fn diagnostic(
    range: Range<usize>,
    severity: Severity,
    message: String,
    fix: Option<Fix>,
) -> Diagnostic {
    Diagnostic {
        rule: RULE.id,
        family: RULE.family,
        severity,
        range,
        message,
        related: Vec::new(),
        fix,
    }
}

/// A file of HIP: each name for itself.
fn in_hip(
    names: &Uses<'_>,
    headers: &[(Range<usize>, &str, &str, bool)],
    doubt: bool,
    out: &mut Vec<Diagnostic>,
) {
    for (range, path, hip, same) in headers {
        // HIP and CUDA side by side: the header is there for what is not HIP.
        if doubt {
            continue;
        }
        let rest = if *same {
            ""
        } else {
            ", and its names change too"
        };
        out.push(diagnostic(
            range.clone(),
            Severity::Warning,
            format!("`{path}` is a header of CUDA; HIP has `{hip}`{rest}"),
            same.then(|| {
                Fix::new(
                    format!("Include `{hip}`"),
                    vec![(range.clone(), (*hip).to_owned())],
                    Safety::Safe,
                )
            }),
        ));
    }
    for (name, hip, places) in names.values() {
        let Some(first) = places.first() else {
            continue;
        };
        let (severity, unless) = if doubt {
            (Severity::Hint, ", unless a header of the project does")
        } else {
            (Severity::Warning, "")
        };
        let times = match places.len() {
            1 => String::new(),
            n => format!(" ({n} times in this file)"),
        };
        out.push(diagnostic(
            first.clone(),
            severity,
            format!("HIP does not declare `{name}`{unless}{times}; its name is `{hip}`"),
            Some(Fix::new(
                format!("Rename `{name}` to `{hip}` in this file"),
                places.iter().map(|p| (p.clone(), hip.clone())).collect(),
                if doubt { Safety::Unsafe } else { Safety::Safe },
            )),
        ));
    }
}

/// A file of CUDA: one finding.
fn in_cuda(
    names: &Uses<'_>,
    headers: &[(Range<usize>, &str, &str, bool)],
    doubt: bool,
    out: &mut Vec<Diagnostic>,
) {
    // A part of a program whose names may come from anywhere.
    if headers.is_empty() && (doubt || names.is_empty()) {
        return;
    }
    let Some(range) = headers
        .first()
        .map(|h| h.0.clone())
        .or_else(|| names.values().next()?.2.first().cloned())
    else {
        return;
    };
    // A header that includes nothing of CUDA takes its names from those who include it.
    let severity = if headers.is_empty() || names.is_empty() || doubt {
        Severity::Hint
    } else {
        Severity::Warning
    };
    let mut edits: Vec<(Range<usize>, String)> = names
        .values()
        .flat_map(|(_, hip, places)| places.iter().map(move |p| (p.clone(), hip.clone())))
        .collect();
    edits.extend(
        headers
            .iter()
            .filter(|h| h.3)
            .map(|(range, _, hip, _)| (range.clone(), (*hip).to_owned())),
    );
    let others: Vec<String> = headers
        .iter()
        .filter(|h| !h.3)
        .map(|(_, path, hip, _)| format!("`{path}` becomes `{hip}`, with its names"))
        .collect();
    let mut message = format!(
        "this file is CUDA, which HIP's compiler does not take as it is: {} of CUDA's runtime and {} have counterparts with other names",
        match names.len() {
            1 => "1 name".to_owned(),
            n => format!("{n} names"),
        },
        match headers.len() {
            1 => "1 header".to_owned(),
            n => format!("{n} headers"),
        },
    );
    if let Some((name, hip, _)) = names.values().next() {
        message.push_str(&format!(" (`{name}` is `{hip}`)"));
    }
    for other in others {
        message.push_str("; ");
        message.push_str(&other);
    }
    out.push(diagnostic(
        range,
        severity,
        message,
        (!edits.is_empty()).then(|| {
            Fix::new(
                "Rename CUDA's names and headers to HIP's in this file",
                edits,
                Safety::Unsafe,
            )
        }),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_fix};

    #[test]
    fn the_table_is_in_order() {
        let names: Vec<&str> = include_str!("../cuda_names.txt")
            .lines()
            .filter(|l| !l.starts_with('#'))
            .collect();
        assert!(names.windows(2).all(|w| w[0] < w[1]));
        assert!(names.len() > 500);
        assert_eq!(counterpart("cudaFreeHost").as_deref(), Some("hipHostFree"));
        assert_eq!(counterpart("cudaMalloc").as_deref(), Some("hipMalloc"));
        assert_eq!(counterpart("cudaOurOwn"), None);
    }

    #[test]
    fn names_in_hip() {
        expect(
            RULE.id,
            "
#include <hip/hip_runtime.h>
/*
#include <cuda_runtime.h>
*/
#include <cuda_fp16.h>
        //^ warning: HIP has `hip/hip_fp16.h`
void f(cudaStream_t s, struct options o) {
     //^ warning: its name is `hipStream_t`
  cudaDeviceProp p;
//^ warning: (2 times in this file); its name is `hipDeviceProp_t`
  hipStreamSynchronize(s);
  o.cudaFree = cudaOurOwn(ours::cudaMalloc);
  cudaDeviceProp q;
  const char* text = \"cudaMalloc\"; // cudaMalloc
}
using cudaEvent_t = hipEvent_t;
typedef hipError_t cudaError_t;
cudaEvent_t e; cudaError_t r;
#ifndef USE_HIP
void g() { cudaDeviceSynchronize(); }
#endif
#ifdef __CUDACC__
void h() { cudaDeviceReset(); }
#endif
",
        );
    }

    #[test]
    fn headers_of_the_project() {
        expect(
            RULE.id,
            "
#include <hip/hip_runtime.h>
#include \"mine.h\"
void f() { cudaDeviceSynchronize(); }
         //^ hint: unless a header of the project does
",
        );
        expect(
            RULE.id,
            "#include <hip/hip_runtime.h>\n#include \"cuda_to_hip.h\"\nvoid f() { cudaDeviceSynchronize(); }\n",
        );
        expect(
            RULE.id,
            "#include \"mine.h\"\nvoid f() { cudaDeviceSynchronize(); }\n",
        );
        expect(
            RULE.id,
            "#include <torch/extension.h>\n#include <cuda_runtime.h>\nvoid f() { cudaDeviceSynchronize(); }\n",
        );
    }

    #[test]
    fn files_of_cuda() {
        expect(
            RULE.id,
            "
#ifndef K_H
#define K_H
#include <cuda_runtime.h>
        //^ warning: 2 names of CUDA's runtime and 2 headers
#include <curand_kernel.h>
__global__ void k(float* x) { x[0] = 1; }
void f(float* x) { cudaMalloc(&x, 4); cudaDeviceSynchronize(); cudaMalloc(&x, 8); }
#endif
",
        );
        expect(
            RULE.id,
            "
void launch(float* x, cudaStream_t s);
                    //^ hint: 1 name of CUDA's runtime and 0 headers
",
        );
        expect(
            RULE.id,
            "
#include <cuda_runtime.h>
        //^ hint: 0 names of CUDA's runtime and 1 header have
__global__ void k(float* x) { x[0] = 1; }
",
        );
    }

    #[test]
    fn fixes() {
        expect_fix(
            RULE.id,
            "void f(hipStream_t s) { cudaFreeHost(0); cudaFreeHost(s); }\n",
            "void f(hipStream_t s) { hipHostFree(0); hipHostFree(s); }\n",
            Safety::Safe,
        );
        expect_fix(
            RULE.id,
            "#include <cuda_runtime.h>\nvoid f() { cudaError_t e = cudaErrorMemoryAllocation; }\n",
            "#include <hip/hip_runtime.h>\nvoid f() { hipError_t e = hipErrorOutOfMemory; }\n",
            Safety::Unsafe,
        );
    }
}
