//! Programs that look like a rewrite's pattern, where the rewrite would be wrong or is not proved right.

use super::super::*;
use super::{Rewrite, apply, show};

/// A kernel `k` over `x`, `y`, `n` with a body, launched with 256 threads.
fn kernel(body: &str) -> String {
    with_parameters(
        "const float *__restrict__ x, float *__restrict__ y, int n, int m",
        "x, y, n, m",
        body,
    )
}

fn with_parameters(parameters: &str, arguments: &str, body: &str) -> String {
    format!(
        "#include <hip/hip_runtime.h>\n__global__ void k({parameters}) {{\n  const int tid = threadIdx.x;\n{body}\n}}\n\
         void go(float *x, float *y, int n, int m) {{ k<<<64, 256>>>({arguments}); }}\n"
    )
}

fn refuses(rewrite: Rewrite, cases: &[(&str, String)]) {
    for (why, text) in cases {
        assert_eq!(
            show(text, &apply(rewrite, text, "k")),
            "nothing\n",
            "{why}:\n{text}"
        );
    }
}

#[test]
fn vector_loads() {
    let tree = "  __shared__ float sh[256];\n  sh[tid] = sum;\n  __syncthreads();\n  for (int s = 128; s > 0; s >>= 1) {\n    \
                if (tid < s) sh[tid] += sh[tid + s];\n    __syncthreads();\n  }\n  if (tid == 0) y[blockIdx.x] = sh[0];";
    let loop_ = |body: &str| {
        kernel(&format!(
            "  for (int i = tid; i < n; i += blockDim.x) {{ {body} }}"
        ))
    };
    // The frame is right: with a plain copy the rewrite works.
    assert_eq!(
        apply(vector_loads::rewrite, &loop_("y[i] = x[i];"), "k").len(),
        1
    );
    let summed = |b: &str| {
        kernel(&format!(
            "  float sum = 0;\n  for (int i = tid; i < n; i += 256) {{ {b} }}\n{tree}"
        ))
    };
    assert_eq!(
        apply(vector_loads::rewrite, &summed("sum += x[i];"), "k").len(),
        1
    );
    refuses(
        vector_loads::rewrite,
        &[
            (
                "a partial sum that stays with its thread",
                kernel(
                    "  float sum = 0;\n  for (int i = tid; i < n; i += 256) sum += x[i];\n  y[tid] = sum;",
                ),
            ),
            (
                "summed, then reduced by maximum",
                summed("sum += x[i];").replace(
                    "sh[tid] += sh[tid + s]",
                    "sh[tid] = fmaxf(sh[tid], sh[tid + s])",
                ),
            ),
            ("the last element wins", summed("sum = x[i];")),
            ("the sum feeds back", summed("sum += x[i] * sum;")),
            (
                "the sum is read elsewhere",
                summed("sum += x[i]; if (sum > 3.0f) y[i] = 1.0f;"),
            ),
            (
                "used before it is reduced",
                summed("sum += x[i];").replace("sh[tid] = sum;", "sh[tid] = sum; y[tid] = sum;"),
            ),
            ("leaves early", loop_("if (x[i] < 0) break; y[i] = x[i];")),
            (
                "a store under a condition",
                loop_("if (x[i] > 0) y[i] = x[i];"),
            ),
            (
                "a load that the condition protects",
                loop_("y[i] = i < m ? x[i] : 0.0f;"),
            ),
            (
                "the thread is part of the value",
                loop_("y[i] = x[i] * tid;"),
            ),
            (
                "the base differs between threads",
                loop_("y[tid * n + i] = x[tid * n + i];"),
            ),
            ("strided elements", loop_("y[2 * i] = x[2 * i];")),
            (
                "a neighbour is read and written",
                kernel("  for (int i = tid; i < n; i += 256) y[i] = y[i + 1];"),
            ),
            (
                "written in one loop, read in the next without a barrier",
                kernel(
                    "  for (int i = tid; i < n; i += 256) y[i] = x[i];\n  for (int i = tid; i < n; i += 256) y[i] = y[i] * 2.0f;",
                ),
            ),
            (
                "kept in LDS for the same thread",
                kernel(
                    "  __shared__ float sh[4096];\n  for (int i = tid; i < n; i += 256) sh[i] = x[i];\n  for (int i = tid; i < n; i += 256) y[i] = sh[i];",
                ),
            ),
            (
                "the bound differs between threads",
                kernel("  int end = n - tid;\n  for (int i = tid; i < end; i += 256) y[i] = x[i];"),
            ),
            (
                "some threads are gone",
                kernel("  if (tid > m) return;\n  for (int i = tid; i < n; i += 256) y[i] = x[i];"),
            ),
            (
                "some threads do not come",
                kernel(
                    "  if (x[tid] > 0) {\n    for (int i = tid; i < n; i += 256) y[i] = x[i];\n  }",
                ),
            ),
            (
                "the step is not the block",
                kernel("  for (int i = tid; i < n; i += 128) y[i] = x[i];"),
            ),
            ("the bound moves", loop_("y[i] = x[i]; n--;")),
            ("the index moves", loop_("y[i] = x[i]; i += 1;")),
            (
                "a shuffle needs its lanes",
                loop_("y[i] = __shfl_xor(x[i], 1, 64);"),
            ),
            ("a barrier inside", loop_("y[i] = x[i]; __syncthreads();")),
            ("an unknown function", loop_("y[i] = mystery(x[i]);")),
            ("an address is taken", loop_("atomicAdd(&y[i], x[i]);")),
            (
                "one element a thread and nothing carried is no loop",
                kernel("  if (tid < n) y[tid] = x[tid];"),
            ),
            (
                "pointers may alias",
                with_parameters(
                    "const float *x, float *y, int n, int m",
                    "y, y, n, m",
                    "  for (int i = tid; i < n; i += 256) y[i] = x[i];",
                ),
            ),
            (
                "pointers may alias, behind expressions",
                with_parameters(
                    "const float *x, float *y, int n, int m",
                    "x, x + 1, n, m",
                    "  for (int i = tid; i < n; i += 256) y[i] = x[i];",
                ),
            ),
            (
                "a preprocessor line inside",
                kernel(
                    "  for (int i = tid; i < n; i += 256) {\n#ifdef TWICE\n    y[i] = 2 * x[i];\n#else\n    y[i] = x[i];\n#endif\n  }",
                ),
            ),
            (
                "neighbours that cannot both be aligned",
                loop_("y[i] = x[i] + x[i + 1];"),
            ),
            ("a base that is never aligned", loop_("y[i] = x[i + 3];")),
            (
                "already 16 bytes",
                with_parameters(
                    "const float4 *__restrict__ x, float4 *__restrict__ y, int n, int m",
                    "(float4 *)x, (float4 *)y, n, m",
                    "  for (int i = tid; i < n; i += 256) y[i] = x[i];",
                ),
            ),
        ],
    );
}

#[test]
fn shuffles() {
    let tree = |fill: &str, join: &str, after: &str| {
        kernel(&format!(
            "  __shared__ float sh[256];\n  {fill}\n  __syncthreads();\n  for (int s = 128; s > 0; s >>= 1) {{\n    \
             if (tid < s) {join}\n    __syncthreads();\n  }}\n  {after}"
        ))
    };
    let (fill, join, after) = (
        "sh[tid] = x[tid];",
        "sh[tid] += sh[tid + s];",
        "if (tid == 0) y[blockIdx.x] = sh[0];",
    );
    assert_eq!(
        apply(
            lds_reduction_to_shuffle::rewrite,
            &tree(fill, join, after),
            "k"
        )
        .len(),
        1
    );
    let good = tree(fill, join, after);
    refuses(
        lds_reduction_to_shuffle::rewrite,
        &[
            (
                "a scan, not a reduction",
                tree(fill, "sh[tid + s] += sh[tid];", after),
            ),
            ("a difference", tree(fill, "sh[tid] -= sh[tid + s];", after)),
            (
                "another distance",
                tree(fill, "sh[tid] += sh[tid + 2 * s];", after),
            ),
            (
                "every partial result is used",
                tree(fill, join, "y[tid] = sh[tid];"),
            ),
            (
                "another slot is used",
                tree(fill, join, "if (tid == 0) y[0] = sh[1];"),
            ),
            (
                "the first slot is written",
                tree(
                    fill,
                    join,
                    "if (tid == 0) sh[0] = 1.0f; __syncthreads(); y[tid] = sh[0];",
                ),
            ),
            (
                "filled for some threads only",
                tree("if (tid < n) sh[tid] = x[tid];", join, after),
            ),
            (
                "filled somewhere else",
                tree("sh[255 - tid] = x[tid];", join, after),
            ),
            (
                "two kernels' blocks",
                good.replace(
                    "void go",
                    "void other(float *x, float *y) { k<<<1, 96>>>(x, y, 1, 1); }\nvoid go",
                ),
            ),
            (
                "not a power of two",
                good.replace("<<<64, 256>>>", "<<<64, 192>>>"),
            ),
            (
                "an unknown block",
                good.replace("<<<64, 256>>>", "<<<64, n>>>"),
            ),
            (
                "two-dimensional",
                good.replace("<<<64, 256>>>", "<<<64, dim3(256, 2)>>>"),
            ),
            (
                "no launch to learn the block from",
                good.replace("k<<<64, 256>>>(x, y, n, m);", ""),
            ),
            (
                "stops at the last wavefront",
                good.replace("s > 0", "s > 32"),
            ),
            ("starts too low", good.replace("s = 128", "s = 64")),
            (
                "threads have left",
                tree(&format!("if (tid >= m) return;\n  {fill}"), join, after),
            ),
            (
                "no barrier in the loop",
                good.replace("    __syncthreads();\n  }", "  }"),
            ),
            (
                "a preprocessor line inside",
                good.replace("    if (tid < s)", "#ifdef A\n#endif\n    if (tid < s)"),
            ),
            (
                "a type that shuffles do not take",
                good.replace("__shared__ float sh", "__shared__ __half sh"),
            ),
        ],
    );
}

#[test]
fn transposes() {
    let transposed = |guard: &str, copy: &str| {
        format!(
            "#include <hip/hip_runtime.h>\n__global__ void k(const float *in, float *out, int w, int h) {{\n  int x = blockIdx.x * 16 + \
             threadIdx.x;\n  int y = blockIdx.y * 16 + threadIdx.y;\n  {guard} {copy}\n}}\n\
             void go(float *a, float *b, int w, int h) {{ k<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(a, b, w, h); }}\n"
        )
    };
    let (guard, copy) = ("if (x < w && y < h)", "out[x * h + y] = in[y * w + x];");
    let good = transposed(guard, copy);
    assert_eq!(apply(transpose_through_lds::rewrite, &good, "k").len(), 1);
    refuses(
        transpose_through_lds::rewrite,
        &[
            (
                "a plain copy",
                transposed(guard, "out[y * w + x] = in[y * w + x];"),
            ),
            (
                "more than a copy",
                transposed(guard, "{ out[x * h + y] = in[y * w + x]; out[0] = 1; }"),
            ),
            (
                "added to",
                transposed(guard, "out[x * h + y] += in[y * w + x];"),
            ),
            (
                "both sides strided",
                transposed(guard, "out[x * h + y] = in[x * w + y];"),
            ),
            (
                "an offset",
                transposed(guard, "out[x * h + y + 1] = in[y * w + x];"),
            ),
            ("another guard", transposed("if (x < w || y < h)", copy)),
            ("half a guard", transposed("if (x < w)", copy)),
            ("not square", good.replace("dim3(16, 16)", "dim3(16, 8)")),
            (
                "another block than the index says",
                good.replace("dim3(16, 16)", "dim3(32, 32)"),
            ),
            (
                "no launch",
                good.replace("k<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(a, b, w, h);", ""),
            ),
        ],
    );
}

#[test]
fn strides() {
    let tiled = |uses: &str| {
        format!(
            "#include <hip/hip_runtime.h>\n__device__ float first(const float *p) {{ return p[0]; }}\n\
             __global__ void k(const float *x, float *y) {{\n  __shared__ float t[32][32];\n  {uses}\n}}\n\
             void go(float *a, float *b) {{ k<<<8, dim3(32, 8)>>>(a, b); }}\n"
        )
    };
    let columns = "t[threadIdx.x][threadIdx.y] = x[threadIdx.x]; __syncthreads(); y[threadIdx.x] = t[threadIdx.x][threadIdx.y];";
    assert_eq!(apply(lds_stride::rewrite, &tiled(columns), "k").len(), 2);
    refuses(
        lds_stride::rewrite,
        &[
            (
                "no conflict",
                tiled(
                    "t[threadIdx.y][threadIdx.x] = x[threadIdx.x]; __syncthreads(); y[threadIdx.x] = t[threadIdx.y][threadIdx.x];",
                ),
            ),
            (
                "read as vectors",
                tiled(&format!(
                    "{columns} float4 v = *reinterpret_cast<float4 *>(&t[threadIdx.y][0]); y[1] = v.x;"
                )),
            ),
            (
                "a row escapes",
                tiled(&format!("{columns} y[1] = first(t[threadIdx.y]);")),
            ),
            (
                "walked linearly",
                tiled(&format!(
                    "{columns} float *p = t[0]; y[1] = p[threadIdx.x];"
                )),
            ),
            (
                "lanes in an unknown order",
                tiled(
                    "int r = x[threadIdx.x]; t[r][0] = x[0]; __syncthreads(); y[threadIdx.x] = t[threadIdx.x][0];",
                ),
            ),
        ],
    );
}

#[test]
fn hints() {
    let good = with_parameters(
        "const float *x, float *y, int n, int m",
        "x, y, n, m",
        "  y[tid] = x[tid];",
    );
    assert_eq!(apply(restrict_pointers::rewrite, &good, "k").len(), 1);
    assert_eq!(apply(launch_bounds::rewrite, &good, "k").len(), 1);
    refuses(
        restrict_pointers::rewrite,
        &[
            (
                "one buffer twice",
                with_parameters(
                    "const float *x, float *y, int n, int m",
                    "y, y, n, m",
                    "  y[tid] = x[tid];",
                ),
            ),
            (
                "a part of a buffer",
                with_parameters(
                    "const float *x, float *y, int n, int m",
                    "x, y + n, n, m",
                    "  y[tid] = x[tid];",
                ),
            ),
            (
                "nothing is launched",
                good.replace("k<<<64, 256>>>(x, y, n, m);", ""),
            ),
            ("said already", kernel("  y[tid] = x[tid];")),
        ],
    );
    refuses(
        launch_bounds::rewrite,
        &[
            ("an unknown block", good.replace("256>>>", "n>>>")),
            (
                "said already",
                good.replace("void k(", "__launch_bounds__(256) void k("),
            ),
        ],
    );
}
