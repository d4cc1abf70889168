//! `tensor-core-cuda-only`

use std::collections::HashSet;

use hipsmith_syntax::lex::{Token, TokenKind};

use crate::context::Context;
use crate::diagnostic::{Diagnostic, Family, Severity};
use crate::rule::{Rule, Scope};

pub(super) static RULE: Rule = Rule {
    id: "tensor-core-cuda-only",
    family: Family::P,
    severity: Severity::Error,
    scope: Scope::File,
    summary: "Tensor-core fragments, asynchronous copies, pipelines or clusters of CUDA, which HIP does not have under these names.",
    docs: r#"
## What it does
Reports what CUDA offers of NVIDIA's hardware and HIP does not: `nvcuda::wmma` and `<mma.h>`, `cuda::pipeline`,
`cuda::barrier`, `cuda::memcpy_async` with their headers, `__pipeline_memcpy_async`, TMA descriptors, thread-block clusters and
programmatic dependent launch. Once per feature and function. The message names the counterpart of the target.

Silent is code that the target does not compile, rocWMMA under the name `wmma`, and a project's own namespace `cuda`. PTX in
inline assembly (`mma.sync`, `ldmatrix`, `cp.async`) is for the rule inline-ptx.

## Why it matters on 64 lanes
It does not compile. And a fragment is laid out over the 32 lanes of a warp: the counterparts spread the same tile over 64
lanes in another order, so that code that indexes `fragment.x[i]` or loads fragments by hand has to be rewritten, not renamed.

## Example that fires
```hip fires
#include <mma.h>
__global__ void k(const __half* a, float* c) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
  nvcuda::wmma::fill_fragment(acc, 0.0f);
}
```

## Example that does not
```hip quiet
#include <rocwmma/rocwmma.hpp>
namespace wmma = rocwmma;
__global__ void k(const __half* a, float* c) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
}
```

## Fix
Fragments: rocWMMA or MFMA builtins on gfx908 and later of AMD, DUMMA (`du_mma.h`, `du::dumma`) on Hygon's gfx926, gfx928 and
gfx936, dot products or packed arithmetic on gfx906, which has no matrix instructions. Asynchronous copies: load into registers,
store to LDS, and overlap with a second buffer. No fix is offered.

## Sources
CUDA C++ programming guide; rocWMMA documentation (supported targets); libhipcxx documentation, unsupported APIs
(`<cuda/barrier>`, `<cuda/pipeline>`); target tables (`compute.matrix`).
"#,
    check,
};

/// Kinds of hardware that CUDA names.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
enum Feature {
    Fragments,
    Copies,
    Clusters,
    Launches,
}

/// Words that only CUDA has.
const WORDS: [(&str, Feature); 27] = [
    ("nvcuda", Feature::Fragments),
    ("__pipeline_memcpy_async", Feature::Copies),
    ("__pipeline_commit", Feature::Copies),
    ("__pipeline_wait_prior", Feature::Copies),
    ("__pipeline_arrive_on", Feature::Copies),
    ("__mbarrier_init", Feature::Copies),
    ("__mbarrier_arrive", Feature::Copies),
    ("__mbarrier_test_wait", Feature::Copies),
    ("__mbarrier_t", Feature::Copies),
    ("CUtensorMap", Feature::Copies),
    ("cuTensorMapEncodeTiled", Feature::Copies),
    ("cuTensorMapEncodeIm2col", Feature::Copies),
    ("__cluster_dims__", Feature::Clusters),
    ("this_cluster", Feature::Clusters),
    ("cluster_group", Feature::Clusters),
    ("map_shared_rank", Feature::Clusters),
    ("cudaLaunchAttributeClusterDimension", Feature::Clusters),
    (
        "cudaFuncAttributeNonPortableClusterSizeAllowed",
        Feature::Clusters,
    ),
    ("cudaOccupancyMaxActiveClusters", Feature::Clusters),
    ("cudaOccupancyMaxPotentialClusterSize", Feature::Clusters),
    ("__cluster_map_shared_rank", Feature::Clusters),
    ("cudaGridDependencySynchronize", Feature::Launches),
    ("cudaTriggerProgrammaticLaunchCompletion", Feature::Launches),
    (
        "cudaLaunchAttributeProgrammaticStreamSerialization",
        Feature::Launches,
    ),
    ("cudaStreamFireAndForget", Feature::Launches),
    ("cudaStreamTailLaunch", Feature::Launches),
    ("cudaStreamFireAndForgetAsSibling", Feature::Launches),
];

/// Members of the namespace `cuda` that no library for HIP has.
const MEMBERS: [&str; 9] = [
    "pipeline",
    "make_pipeline",
    "pipeline_shared_state",
    "barrier",
    "memcpy_async",
    "aligned_size_t",
    "pipeline_role",
    "ptx",
    "pipeline_consumer_wait_prior",
];

const HEADERS: [(&str, Feature); 9] = [
    ("mma.h", Feature::Fragments),
    ("crt/mma.h", Feature::Fragments),
    ("cuda/pipeline", Feature::Copies),
    ("cuda/barrier", Feature::Copies),
    ("cuda/ptx", Feature::Copies),
    ("cuda_pipeline.h", Feature::Copies),
    ("cuda_pipeline_primitives.h", Feature::Copies),
    ("cuda_awbarrier.h", Feature::Copies),
    ("cuda_awbarrier_primitives.h", Feature::Copies),
];

fn check(cx: &Context<'_>, out: &mut Vec<Diagnostic>) {
    let hints = [
        "wmma",
        "nvcuda",
        "cuda::",
        "cuda/",
        "_pipeline",
        "mbarrier",
        "CUtensorMap",
        "cuTensorMap",
        "luster",
        "mma.h",
        "cudaGridDep",
        "cudaTrigger",
        "cudaLaunchAttr",
        "cudaStream",
        "memcpy_async",
        "cuda_awbarrier",
    ];
    if !hints.iter().any(|h| cx.has_text(h)) {
        return;
    }
    let words = cx.words();
    let own = words.windows(3).any(|w| {
        w[0].text(cx.source) == "namespace"
            && w[1].text(cx.source) == "cuda"
            && w[2].text(cx.source) == "{"
    });
    let rocwmma = cx.has_text("rocwmma");
    let mut said: HashSet<(Feature, Option<usize>)> = HashSet::new();
    for (i, token) in words.iter().enumerate() {
        let Some((feature, range)) = feature(cx, words, i, own, rocwmma) else {
            continue;
        };
        let function = cx.model.function_at(range.start);
        let include = token.text(cx.source) == "#";
        if cx.redefines(token.text(cx.source)) || !include && !said.insert((feature, function)) {
            continue;
        }
        let what = cx.source.get(range.clone()).unwrap_or("").to_owned();
        out.push(Diagnostic {
            rule: RULE.id,
            family: RULE.family,
            severity: Severity::Error,
            range,
            message: format!("`{what}` is CUDA's own: {}", counterpart(cx, feature)),
            related: Vec::new(),
            fix: None,
        });
    }
}

/// What the token at `i` begins, and its bytes.
fn feature(
    cx: &Context<'_>,
    words: &[Token],
    i: usize,
    own: bool,
    rocwmma: bool,
) -> Option<(Feature, std::ops::Range<usize>)> {
    let token = words.get(i)?;
    let at = |k: usize| words.get(i + k).map_or("", |t| t.text(cx.source));
    let before = |k: usize| {
        i.checked_sub(k)
            .and_then(|j| words.get(j))
            .map_or("", |t| t.text(cx.source))
    };
    let word = token.text(cx.source);
    if word == "#" && at(1) == "include" {
        // `<a/b.h>` is several tokens; a quoted name is one.
        let line = cx.source.get(token.range.start..)?.lines().next()?;
        let name = line
            .split_once(['<', '"'])?
            .1
            .split(['>', '"'])
            .next()?
            .trim();
        let (_, feature) = HEADERS.iter().find(|(h, _)| *h == name)?;
        let end = token.range.start + line.trim_end().len();
        return Some((*feature, token.range.start..end));
    }
    if token.kind != TokenKind::Ident {
        return None;
    }
    if let Some((_, feature)) = WORDS.iter().find(|(w, _)| *w == word) {
        return Some((*feature, token.range.clone()));
    }
    match word {
        "wmma" if at(1) == "::" && before(1) != "::" && !rocwmma && !own => {
            let known = [
                "fragment",
                "load_matrix_sync",
                "mma_sync",
                "store_matrix_sync",
                "fill_fragment",
            ];
            (known.contains(&at(2)) && cx.has_text("nvcuda")).then(|| {
                (
                    Feature::Fragments,
                    token.range.start..words[i + 2].range.end,
                )
            })
        }
        "cuda" if at(1) == "::" && before(1) != "::" && !own && MEMBERS.contains(&at(2)) => {
            Some((Feature::Copies, token.range.start..words[i + 2].range.end))
        }
        "memcpy_async" if before(1) == "::" && matches!(before(2), "cooperative_groups" | "cg") => {
            Some((Feature::Copies, token.range.clone()))
        }
        _ => None,
    }
}

fn counterpart(cx: &Context<'_>, feature: Feature) -> String {
    let name = &cx.target.name;
    match feature {
        Feature::Fragments => match cx.target.compute.matrix.as_str() {
            "mfma" => format!(
                "on {name} use rocWMMA (`rocwmma/rocwmma.hpp`) or the MFMA builtins; a fragment spreads over 64 lanes, in another order"
            ),
            m if m.starts_with("mmac") => format!(
                "on {name} use DUMMA (`du_mma.h`, `du::dumma::DUFragment`); a fragment spreads over 64 lanes, in another order{}",
                if m == "mmac_small" { ", and its shapes are 16x16x4 in f32 and f64 only" } else { "" }
            ),
            "dot" => format!(
                "{name} has no matrix instructions: use dot products (`__builtin_amdgcn_fdot2`, `__builtin_amdgcn_sdot4`) or packed arithmetic"
            ),
            _ => format!("{name} has no matrix instructions: use vector arithmetic"),
        },
        Feature::Copies => format!(
            "HIP has no such copy to LDS nor its barriers; on {name} load into registers, store to LDS, and overlap with a second buffer and `__syncthreads()`"
        ),
        Feature::Clusters => format!(
            "{name} has no clusters of workgroups: LDS is shared within one workgroup only, so exchange through global memory"
        ),
        Feature::Launches => "HIP has no programmatic dependent launch: kernels of a stream run in order, which is what is left without it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{expect, expect_on};

    #[test]
    fn features() {
        expect(
            RULE.id,
            "
#include <mma.h>
//~ error: dot products
#include <cuda/pipeline>
//~ error: second buffer
// nvcuda::wmma in a comment
using namespace nvcuda;
              //^ error: has no matrix instructions
#ifdef __CUDA_ARCH__
#include <cuda/barrier>
#endif
__global__ void k(float* x) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
//^ error: `wmma::fragment` is CUDA's own
  wmma::fill_fragment(acc, 0.0f);
  cuda::memcpy_async(x, x, 4, 3);
//^ error: registers
  at::cuda::barrier b;
  auto c = cooperative_groups::this_cluster();
                             //^ error: no clusters
  cudaGridDependencySynchronize();
//^ error: dependent launch
}
",
        );
    }

    #[test]
    fn own_names_are_silent() {
        expect(
            RULE.id,
            "
namespace cuda { struct barrier {}; }
#define __pipeline_commit() 
namespace wmma { struct fragment {}; }
__global__ void k() { cuda::barrier b; __pipeline_commit(); wmma::fragment f; }
",
        );
    }

    #[test]
    fn counterparts() {
        for (target, text) in [
            ("gfx928", "DUMMA"),
            ("gfx926", "16x16x4"),
            ("gfx936", "DUMMA"),
            ("gfx90a", "rocWMMA"),
            ("gfx942", "MFMA"),
            ("gfx900", "vector arithmetic"),
        ] {
            expect_on(
                RULE.id,
                &format!("using namespace nvcuda;\n//~ error: {text}\n"),
                target,
            );
        }
    }
}
