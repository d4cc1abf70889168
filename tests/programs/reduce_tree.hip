// Row maximum and row sum, naive on purpose: two LDS tree reductions with a barrier a step.
// Usage: reduce_tree [rows] [cols]; runs three shapes and checks each against the CPU.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 512;

namespace rows {

template <typename T>
__global__ void reduce_tree(const T *in, T *out_sum, T *out_max, int cols) {
  __shared__ T sums[kThreads];
  __shared__ T tops[kThreads];
  const unsigned tid = threadIdx.x;
  const T *row = in + static_cast<size_t>(blockIdx.x) * cols;

  T sum = 0;
  T top = row[0];
  for (int i = tid; i < cols; i += kThreads) {
    sum += row[i];
    top = max(top, row[i]);
  }

  sums[tid] = sum;
  tops[tid] = top;
  __syncthreads();
  // One step a power of two: half of the threads add what the other half holds.
  for (unsigned s = kThreads / 2; s > 0; s /= 2) {
    if (tid < s) {
      sums[tid] += sums[tid + s];
      tops[tid] = max(tops[tid], tops[tid + s]);
    }
    __syncthreads();
  }

  if (tid == 0) {
    out_sum[blockIdx.x] = sums[0];
    out_max[blockIdx.x] = tops[0];
  }
}

}  // namespace rows

#define CHECK(call)                                                                        \
  do {                                                                                     \
    hipError_t status = (call);                                                            \
    if (status != hipSuccess) {                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(status)); \
      std::exit(2);                                                                        \
    }                                                                                      \
  } while (0)

static bool run(int n_rows, int cols) {
  const size_t count = static_cast<size_t>(n_rows) * cols;
  std::vector<float> in(count), sum(n_rows), top(n_rows);
  unsigned state = 99u + static_cast<unsigned>(cols);
  for (float &v : in) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 16777216.0f;
  }
  float *din, *dsum, *dtop;
  CHECK(hipMalloc(&din, count * sizeof(float)));
  CHECK(hipMalloc(&dsum, n_rows * sizeof(float)));
  CHECK(hipMalloc(&dtop, n_rows * sizeof(float)));
  CHECK(hipMemcpy(din, in.data(), count * sizeof(float), hipMemcpyHostToDevice));
  rows::reduce_tree<float><<<n_rows, kThreads>>>(din, dsum, dtop, cols);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(sum.data(), dsum, n_rows * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(top.data(), dtop, n_rows * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipFree(din));
  CHECK(hipFree(dsum));
  CHECK(hipFree(dtop));

  for (int r = 0; r < n_rows; ++r) {
    double want = 0.0;
    float want_top = in[static_cast<size_t>(r) * cols];
    for (int i = 0; i < cols; ++i) {
      const float v = in[static_cast<size_t>(r) * cols + i];
      want += v;
      want_top = v > want_top ? v : want_top;
    }
    if (!(std::fabs(sum[r] - want) <= 1e-5 * (1.0 + std::fabs(want))) || top[r] != want_top) {
      std::printf("FAIL: %d x %d, row %d: sum %g, want %g; max %g, want %g\n", n_rows, cols, r, sum[r], want, top[r],
                  want_top);
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int n_rows = argc > 1 ? std::atoi(argv[1]) : 64;
  const int cols = argc > 2 ? std::atoi(argv[2]) : 2048;
  if (n_rows < 1 || cols < 1) {
    std::fprintf(stderr, "usage: reduce_tree [rows >= 1] [cols >= 1]\n");
    return 2;
  }
  const bool ok = run(n_rows, cols) && run(n_rows / 2 + 1, cols + 1) && run(2, 5);
  std::printf("%s\n", ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
