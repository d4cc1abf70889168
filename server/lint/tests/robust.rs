//! No text makes the rules panic, and no fix leaves the text.

use hipsmith_lint::{Config, check};
use hipsmith_syntax::Document;
use proptest::prelude::*;

/// Sources that make every rule work.
const SEEDS: [&str; 3] = [
    "template <int N> __global__ void k(float* x, int n) {\n  __shared__ float s[N][32];\n  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;\n  unsigned m = __ballot(x[lane] > 0);\n  float v = x[threadIdx.x];\n  for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_down(v, o);\n  if (lane == 0) s[w][0] = v;\n  v = __shfl(v, 0);\n  x[__popc(m & ~(-1 << lane))] = s[threadIdx.x][w];\n}\nvoid go(float* x) { k<64><<<dim3(1, 2), 1024, 65536>>>(x, 3); }\n",
    "#define MASK 0xfffffffffffffff\n#define GO(n) k<<<1, n, 1 << 20>>>(x)\n__device__ unsigned f(int p) { return __ballot_sync(MASK, p) == 0xffffffff ? 1u : __shfl_xor_sync(~0u, p, 1); }\n",
    "__device__ void g(int* x) { asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(x[0])); for (int d = 1; d < 32; d *= 2) { int t = __shfl_up(x[0], d); if (__lane_id() >= d) x[0] += t; } }\n",
];

fn run(text: &str) {
    let document = Document::new(text);
    for d in check(&document, &Config::default()) {
        assert!(
            text.get(d.range.clone()).is_some(),
            "{} reports {:?}",
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
        if let Some(fix) = d.fix {
            assert!(
                fix.apply(text).is_some(),
                "{}: {:?} does not fit",
                d.rule,
                fix.edits
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        run(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_sources(
        seed in 0..SEEDS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[ -~\n(){}<>*&é]{0,6}"), 1..6),
    ) {
        let mut text = SEEDS[seed].to_owned();
        for (at, length, new) in edits {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((start + length).min(text.len())).max(start);
            text.replace_range(start..end, &new);
            if text.is_empty() {
                break;
            }
        }
        run(&text);
    }
}

#[test]
fn seeds_and_deep_nesting() {
    for seed in SEEDS {
        run(seed);
        let document = Document::new(seed);
        assert!(!check(&document, &Config::default()).is_empty(), "{seed}");
    }
    run(&format!(
        "__global__ void k(int* x) {{ x[0] = {}1{}; }}",
        "(".repeat(3000),
        ")".repeat(3000)
    ));
    run(&format!(
        "__global__ void k(int* x) {{ x[0] = 1 << {}1; }}",
        "~".repeat(3000)
    ));
    run(&format!("__global__ void k(int* x) {}", "{".repeat(3000)));
    run(&format!(
        "__global__ void k(int* x) {{ int m = __ballot(1); x[0] = {}m; }}",
        "1+".repeat(3000)
    ));
}
