//! A check that keeps findings from the one before finds what a fresh check finds, whatever was edited in between.

use std::path::{Path, PathBuf};

use hipsmith_lint::{Cache, Config, Diagnostic, check, check_again};
use hipsmith_syntax::{Document, Edit};
use proptest::prelude::*;

/// Pieces of programs whose findings depend on each other: helpers, macros, constants, kernels and their launches.
const PIECES: &[&str] = &[
    "#define FULL 0xffffffffu\n",
    "#define WARP 32\n",
    "#define SUM(v) warp_sum(v)\n",
    "constexpr int TILE = 32;\n",
    "__device__ float warp_sum(float v) { for (int o = 16; o > 0; o /= 2) v += __shfl_down(v, o); return v; }\n",
    "__device__ float warp_sum(float v) { for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_down(v, o); return v; }\n",
    "__global__ void sum(float *x) {\n  __shared__ float part[32];\n  float v = warp_sum(x[threadIdx.x]);\n  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;\n  __syncthreads();\n  if (threadIdx.x == 0) x[0] = part[0];\n}\n",
    "__global__ void vote(int *x) {\n  unsigned m = __ballot(x[threadIdx.x] > 0);\n  if (m == FULL) x[0] = __popc(m);\n}\n",
    "__global__ void tile(float *x, int n) {\n  __shared__ float t[TILE][TILE];\n  t[threadIdx.x][threadIdx.y] = x[threadIdx.x * n + threadIdx.y];\n  __syncthreads();\n  x[threadIdx.y * n + threadIdx.x] = t[threadIdx.y][threadIdx.x];\n}\n",
    "template <int N> __global__ void big(float *x) {\n  extern __shared__ float s[];\n  __shared__ float t[N];\n  if (threadIdx.x < 16) { __syncthreads(); }\n  s[threadIdx.x * N] = t[threadIdx.x];\n}\n",
    "__device__ int lane() { return threadIdx.x & 31; }\n",
    "__device__ void put(float *s, float v) { s[threadIdx.x >> 5] = v; __syncthreads(); }\n",
    "__global__ void other(float *x) {\n  __shared__ float s[32];\n  float v = warp_sum(x[0]);\n  if (lane() == 0) put(s, v);\n  x[1] = __shfl(v, 0);\n}\n",
    "__global__ void third(float *x, int n) {\n  __shared__ float s[8];\n  if (threadIdx.x >= n) return;\n  put(s, SUM(x[threadIdx.x]));\n}\n",
    "void more(float *x) { other<<<1, 64>>>(x); third<<<2, 1024>>>(x, 7); }\n",
    "void go(float *x, int *y, hipStream_t s) {\n  const int n = 256;\n  dim3 block(32, 8);\n  sum<<<4, n>>>(x);\n  vote<<<1, 32>>>(y);\n  tile<<<4, block>>>(x, n);\n  big<n><<<1, n, 60000>>>(x);\n}\n",
    "// hipsmith: allow(all)\n",
    "// a comment\n",
    "if (threadIdx.x < 32) {\n",
    "}\n",
    "dim3 block(16, 16);\n",
    "const int n = 64;\n",
    "#include <cuda_runtime.h>\n",
    "cudaStream_t stream = 0;\n",
    "x[0] += 1;\n",
    " ",
    "(",
    ")",
    "64",
    "a",
];

fn boundary(text: &str, at: f64) -> usize {
    text.floor_char_boundary((text.len() as f64 * at) as usize)
}

/// Apply the edits one by one, checking after each both ways.
fn agrees(text: &str, edits: &[(f64, f64, &str)]) -> Result<(), TestCaseError> {
    let config = Config::default();
    let mut cache = Cache::default();
    let mut document = Document::new(text);
    check_again(&document, &config, Some(&mut cache));
    for (version, (at, length, piece)) in (1..).zip(edits) {
        let start = boundary(document.text(), *at);
        let end = boundary(document.text(), (at + length).min(1.0));
        let text = (*piece).to_owned();
        document.apply(
            &[Edit {
                range: start..end,
                text,
            }],
            version,
        );
        let kept = check_again(&document, &config, Some(&mut cache));
        let fresh: Vec<Diagnostic> = check(&document, &config);
        prop_assert_eq!(kept, fresh, "after {:?}", document.text());
    }
    Ok(())
}

proptest! {
    #[test]
    fn kept_findings_are_those_of_a_fresh_check(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 1..12),
        edits in proptest::collection::vec(
            (0.0f64..1.0, prop_oneof![Just(0.0), 0.0f64..0.1], proptest::sample::select(PIECES)),
            1..8,
        ),
    ) {
        agrees(&pieces.concat(), &edits)?;
    }
}

fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("HIPSMITH_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    path.join("corpus/cases").is_dir().then_some(path)
}

/// Real files, with words of theirs dropped in anywhere.
#[test]
fn kept_findings_in_real_files() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(shared.join("corpus/cases"))
        .expect("the cases are there")
        .flatten()
        .flat_map(|case| {
            std::fs::read_dir(case.path())
                .into_iter()
                .flatten()
                .flatten()
        })
        .map(|file| file.path())
        .filter(|path| path.file_stem().is_some_and(|s| s == "before"))
        .collect();
    files.sort();
    // The same places in every run; which of them changes with the file.
    let mut seed = 1u64;
    let mut random = |n: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n.max(1)
    };
    for path in files {
        let text =
            String::from_utf8_lossy(&std::fs::read(&path).expect("it can be read")).into_owned();
        if text.len() > 40_000 {
            continue;
        }
        let edits: Vec<(f64, f64, &str)> = (0..4)
            .map(|_| {
                let at = random(1000) as f64 / 1000.0;
                let length = if random(2) == 0 {
                    0.0
                } else {
                    random(10) as f64 / 1000.0
                };
                (at, length, PIECES[random(PIECES.len())])
            })
            .collect();
        if let Err(e) = agrees(&text, &edits) {
            panic!("{}: {e}", path.display());
        }
    }
}
