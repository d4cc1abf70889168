//! Mask, parse, edit and model on generated HIP text, beside the bare grammar on the same text.
//!
//! `cargo bench -p hipsmith-syntax` prints the times and, at the end, ratios to the bare parse: ratios are what can be
//! compared between machines.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hipsmith_syntax::{Document, Edit, MaskConfig, mask};
use tree_sitter::{InputEdit, Parser, Point, Tree};

/// One kernel of about 1 KB with what kernels have: LDS, launch bounds, a loop, a reduction, and its launch.
fn kernel(n: usize) -> String {
    format!(
        r#"
#define TILE_{n} (16 + {n} % 4)
// Row sums of a matrix, number {n}.
template <typename T, int BLOCK>
__launch_bounds__(BLOCK) __global__ void row_sum_{n}(const T *__restrict__ in, T *__restrict__ out, int cols) {{
  __shared__ T partial[BLOCK];
  __shared__ float tile[TILE_{n}][TILE_{n} + 1];
  const int row = blockIdx.x, lane = threadIdx.x % warpSize;
  T sum = 0;
  for (int i = threadIdx.x; i < cols; i += BLOCK) {{
    sum += in[row * cols + i]; /* strided */
  }}
  partial[threadIdx.x] = sum;
  tile[lane % TILE_{n}][lane / TILE_{n}] = sum;
  __syncthreads();
  for (int s = BLOCK / 2; s > 0; s >>= 1) {{
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }}
  if (threadIdx.x == 0) out[row] = partial[0] + tile[0][0];
}}

void launch_{n}(const float *in, float *out, int rows, int cols, hipStream_t stream) {{
  dim3 block(256);
  row_sum_{n}<float, 256><<<rows, block, 0, stream>>>(in, out, cols);
  hipLaunchKernelGGL((row_sum_{n}<float, 128>), dim3(rows), dim3(128), 0, stream, in, out, cols);
}}
"#
    )
}

fn text_of(bytes: usize) -> String {
    let mut text = String::from("#include <hip/hip_runtime.h>\n");
    let mut n = 0;
    while text.len() < bytes {
        text.push_str(&kernel(n));
        n += 1;
    }
    text
}

fn parser() -> Parser {
    let mut parser = Parser::new();
    parser
        .set_language(&hipsmith_syntax::language())
        .expect("the grammar loads");
    parser
}

/// A letter typed into the middle of the text, for the bare grammar.
fn bare_edit(parser: &mut Parser, text: &str, tree: &Tree, at: usize) -> Tree {
    let mut edited = text.to_owned();
    edited.insert(at, 'x');
    let row = text[..at].matches('\n').count();
    let column = at - text[..at].rfind('\n').map_or(0, |p| p + 1);
    let mut old = tree.clone();
    old.edit(&InputEdit {
        start_byte: at,
        old_end_byte: at,
        new_end_byte: at + 1,
        start_position: Point::new(row, column),
        old_end_position: Point::new(row, column),
        new_end_position: Point::new(row, column + 1),
    });
    parser.parse(&edited, Some(&old)).expect("a parse ends")
}

fn median(runs: usize, mut f: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let begun = Instant::now();
            f();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[runs / 2]
}

fn benches(c: &mut Criterion) {
    for (name, bytes) in [("6KB", 6 << 10), ("130KB", 130 << 10)] {
        let text = text_of(bytes);
        let config = MaskConfig::default();
        let at = text[..text.len() / 2]
            .rfind("sum += in")
            .expect("the text holds it");
        let mut bare = parser();
        let tree = bare.parse(&text, None).expect("a parse ends");
        let doc = Document::new(text.clone());
        let letter = Edit {
            range: at..at,
            text: "x".into(),
        };
        let mut group = c.benchmark_group(name);
        group
            .throughput(Throughput::Bytes(text.len() as u64))
            .sample_size(20);
        group.bench_function("bare grammar, whole", |b| {
            b.iter(|| black_box(bare.parse(&text, None)));
        });
        group.bench_function("bare grammar, one letter", |b| {
            b.iter(|| black_box(bare_edit(&mut bare, &text, &tree, at)));
        });
        group.bench_function("mask", |b| b.iter(|| black_box(mask(&text, &config))));
        group.bench_function("document, whole", |b| {
            b.iter(|| black_box(Document::new(text.clone())));
        });
        group.bench_function("document, one letter", |b| {
            b.iter(|| {
                let mut edited = doc.clone();
                edited.apply(std::slice::from_ref(&letter), 1);
                black_box(edited)
            });
        });
        group.bench_function("document, one letter, with model", |b| {
            b.iter(|| {
                let mut edited = doc.clone();
                edited.apply(std::slice::from_ref(&letter), 1);
                black_box(edited.model().functions.len())
            });
        });
        group.finish();
        let mut bare = parser();
        let whole = median(15, || {
            black_box(bare.parse(&text, None));
        });
        let bare_letter = median(15, || {
            black_box(bare_edit(&mut bare, &text, &tree, at));
        });
        let ours = median(15, || {
            black_box(Document::new(text.clone()));
        });
        let ours_letter = median(15, || {
            let mut edited = doc.clone();
            edited.apply(std::slice::from_ref(&letter), 1);
            black_box(edited.model().functions.len());
        });
        let ratio = |d: Duration| d.as_secs_f64() / whole.as_secs_f64();
        println!(
            "{name}: against the bare parse of the whole text ({whole:?}): document {:.2}; one letter: bare grammar {:.3}, \
             document with model {:.3}",
            ratio(ours),
            ratio(bare_letter),
            ratio(ours_letter)
        );
    }
}

criterion_group!(all, benches);
criterion_main!(all);
