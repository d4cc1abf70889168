//! What the rewrites make of the programs in `tests/programs` and of small kernels.

use super::super::*;
use super::{apply, compile_all, program, show};

macro_rules! shows {
    ($name:ident, $rewrite:expr, $text:expr, $kernel:expr) => {
        #[test]
        fn $name() {
            let text = $text;
            let ideas = apply($rewrite, &text, $kernel);
            insta::assert_snapshot!(stringify!($name), show(&text, &ideas));
            // Other constants and pragmas compile as the original does.
            compile_all(
                ideas
                    .iter()
                    .filter(|i| !i.id.starts_with("constant/") && !i.id.starts_with("unroll/")),
            );
        }
    };
}

shows!(
    rmsnorm_vector_loads,
    vector_loads::rewrite,
    program("rmsnorm.hip"),
    "rmsnorm"
);
shows!(
    rmsnorm_shuffles,
    lds_reduction_to_shuffle::rewrite,
    program("rmsnorm.hip"),
    "rmsnorm"
);
shows!(
    rmsnorm_sizes,
    block_size::rewrite,
    program("rmsnorm.hip"),
    "rmsnorm"
);
shows!(
    rmsnorm_bounds,
    launch_bounds::rewrite,
    program("rmsnorm.hip"),
    "rmsnorm"
);
shows!(
    rmsnorm_unroll,
    unroll::rewrite,
    program("rmsnorm.hip"),
    "rmsnorm"
);
shows!(
    reduce_tree_vector_loads,
    vector_loads::rewrite,
    program("reduce_tree.hip"),
    "reduce_tree"
);
shows!(
    reduce_tree_shuffles,
    lds_reduction_to_shuffle::rewrite,
    program("reduce_tree.hip"),
    "reduce_tree"
);
shows!(
    reduce_tree_restrict,
    restrict_pointers::rewrite,
    program("reduce_tree.hip"),
    "reduce_tree"
);
shows!(
    transpose_tile,
    transpose_through_lds::rewrite,
    program("transpose.hip"),
    "transpose"
);
shows!(
    transpose_sizes,
    block_size::rewrite,
    program("transpose.hip"),
    "transpose"
);
shows!(
    matmul_stride,
    lds_stride::rewrite,
    program("matmul_naive.hip"),
    "matmul_naive"
);
shows!(
    matmul_sizes,
    block_size::rewrite,
    program("matmul_naive.hip"),
    "matmul_naive"
);

/// The rewrites that change memory access leave a kernel alone that already does it well.
#[test]
fn a_good_kernel_gets_no_memory_rewrite() {
    let text = program("saxpy_good.hip");
    for rewrite in [
        vector_loads::rewrite,
        lds_reduction_to_shuffle::rewrite,
        lds_stride::rewrite,
        transpose_through_lds::rewrite,
        restrict_pointers::rewrite,
        launch_bounds::rewrite,
    ] {
        assert_eq!(show(&text, &apply(rewrite, &text, "saxpy")), "nothing\n");
    }
}

/// Rewrites apply one after the other, in either order.
#[test]
fn vector_loads_and_shuffles_combine() {
    let text = program("rmsnorm.hip");
    let first = apply(vector_loads::rewrite, &text, "rmsnorm")
        .remove(0)
        .new_text;
    let both = apply(lds_reduction_to_shuffle::rewrite, &first, "rmsnorm")
        .remove(0)
        .new_text;
    let other = apply(lds_reduction_to_shuffle::rewrite, &text, "rmsnorm")
        .remove(0)
        .new_text;
    let other = apply(vector_loads::rewrite, &other, "rmsnorm")
        .remove(0)
        .new_text;
    assert_eq!(both, other);
    // And having been applied, they have nothing more to do.
    assert!(apply(lds_reduction_to_shuffle::rewrite, &both, "rmsnorm").is_empty());
    assert_eq!(
        show(&both, &apply(vector_loads::rewrite, &both, "rmsnorm")),
        "nothing\n"
    );
}

const SOFTMAX: &str = r#"
#include <hip/hip_runtime.h>
constexpr int kBlock = 256;
__global__ void softmax(const float *x, float *y, int n) {
    __shared__ float sh[kBlock];
    const int tid = threadIdx.x;
    const float *row = x + blockIdx.x * n;
    float top = -INFINITY;
    for (int i = tid; i < n; i += kBlock) top = fmaxf(top, row[i]);
    sh[tid] = top;
    __syncthreads();
    for (int s = kBlock >> 1; s > 0; s >>= 1) {
        if (tid < s) sh[tid] = fmaxf(sh[tid], sh[tid + s]);
        __syncthreads();
    }
    top = sh[0];
    __syncthreads();
    float sum = 0;
    for (int i = tid; i < n; i += kBlock)
        sum += expf(row[i] - top);
    sh[tid] = sum;
    __syncthreads();
    for (int s = kBlock >> 1; s > 0; s >>= 1) {
        if (tid < s) sh[tid] += sh[tid + s];
        __syncthreads();
    }
    sum = sh[0];
    for (int i = tid; i < n; i += kBlock)
        y[blockIdx.x * n + i] = expf(row[i] - top) / sum;
}
void go(float *a, float *b, int rows, int n) { softmax<<<rows, kBlock>>>(a, b, n); }
"#;
shows!(
    softmax_vector_loads,
    vector_loads::rewrite,
    SOFTMAX.to_owned(),
    "softmax"
);
shows!(
    softmax_shuffles,
    lds_reduction_to_shuffle::rewrite,
    SOFTMAX.to_owned(),
    "softmax"
);

const GRID_STRIDE: &str = r#"
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
__global__ void scale(const __half *__restrict__ x, __half *__restrict__ y, size_t n, float f) {
	size_t stride = (size_t)gridDim.x * blockDim.x;
	#pragma unroll 2
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		// keep the sign
		float v = __half2float(x[i]);
		y[i] = __float2half(i % 2 ? v : v * f);
	}
}
void go(__half *a, __half *b, int n) { scale<<<64, 256>>>(a, b, n, 2.0f); }
"#;
shows!(
    grid_stride_half,
    vector_loads::rewrite,
    GRID_STRIDE.to_owned(),
    "scale"
);

const IN_PLACE: &str = r#"
#include <hip/hip_runtime.h>
__global__ void gelu(float *__restrict__ y, const float *__restrict__ bias, const float *__restrict__ table, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = y[blockIdx.x * n + i] + bias[i];
    if (v > 0) v = v * table[int(v)];
    y[blockIdx.x * n + i] = v;
  }
}
void go(float *a, float *b, float *t, int n) { gelu<<<64, 192>>>(a, b, t, n); }
"#;
shows!(
    in_place_update,
    vector_loads::rewrite,
    IN_PLACE.to_owned(),
    "gelu"
);

const ATOMIC_SUM: &str = r#"
#include <hip/hip_runtime.h>
__global__ void total(const int *x, int *out, int n) {
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i];
  }
  atomicAdd(out, sum);
}
void go(int *x, int *out, int n) { total<<<64, 256>>>(x, out, n); }
"#;
shows!(
    atomic_sum,
    vector_loads::rewrite,
    ATOMIC_SUM.to_owned(),
    "total"
);

const INTERLEAVED: &str = r#"
#include <hip/hip_runtime.h>
__global__ void sum(const float *x, float *out) {
  __shared__ float part[128];
  part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (threadIdx.x % (2 * s) == 0) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
void go(float *x, float *out) { sum<<<64, 128>>>(x, out); }
"#;
shows!(
    interleaved_tree,
    lds_reduction_to_shuffle::rewrite,
    INTERLEAVED.to_owned(),
    "sum"
);

const MIRRORED: &str = r#"
#include <hip/hip_runtime.h>
__global__ void turn(double *dst, const double *src, int w, int h) {
  int col = threadIdx.x + blockDim.x * blockIdx.x;
  int row = threadIdx.y + blockDim.y * blockIdx.y;
  if (row >= h || col >= w) return;
  dst[row * w + col] = src[col * h + row];
}
void go(double *a, double *b, int w, int h) {
  dim3 block(32, 32);
  turn<<<dim3((w + 31) / 32, (h + 31) / 32), block>>>(a, b, w, h);
}
"#;
shows!(
    mirrored_transpose,
    transpose_through_lds::rewrite,
    MIRRORED.to_owned(),
    "turn"
);
