// RMSNorm, naive on purpose: y[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * w[i].
// One workgroup a row, one float a load, a tree reduction in LDS with a barrier a step, two passes over the row.
// Usage: rmsnorm [rows] [cols]; runs three shapes and checks each against the CPU.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 256

__global__ void rmsnorm(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int n,
                        float eps) {
  __shared__ float partial[BLOCK];
  const int tid = threadIdx.x;
  const int row = blockIdx.x;

  float sum = 0.0f;
  for (int i = tid; i < n; i += blockDim.x) {
    const float v = x[row * n + i];
    sum += v * v;
  }

  partial[tid] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      partial[tid] += partial[tid + s];
    }
    __syncthreads();
  }
  const float scale = rsqrtf(partial[0] / n + eps);

  for (int i = tid; i < n; i += blockDim.x) {
    y[row * n + i] = x[row * n + i] * scale * w[i];
  }
}

#define CHECK(call)                                                                        \
  do {                                                                                     \
    hipError_t status = (call);                                                            \
    if (status != hipSuccess) {                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(status)); \
      std::exit(2);                                                                        \
    }                                                                                      \
  } while (0)

static bool run(int rows, int cols) {
  const float eps = 1e-6f;
  const size_t count = static_cast<size_t>(rows) * cols;
  std::vector<float> x(count), w(cols), y(count);
  unsigned state = 12345u + static_cast<unsigned>(cols);
  auto next = [&state]() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  };
  for (float &v : x) v = next();
  for (float &v : w) v = 1.0f + 0.5f * next();

  float *dx, *dw, *dy;
  CHECK(hipMalloc(&dx, count * sizeof(float)));
  CHECK(hipMalloc(&dw, cols * sizeof(float)));
  CHECK(hipMalloc(&dy, count * sizeof(float)));
  CHECK(hipMemcpy(dx, x.data(), count * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(dw, w.data(), cols * sizeof(float), hipMemcpyHostToDevice));
  rmsnorm<<<rows, BLOCK>>>(dx, dw, dy, cols, eps);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(y.data(), dy, count * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipFree(dx));
  CHECK(hipFree(dw));
  CHECK(hipFree(dy));

  for (int r = 0; r < rows; ++r) {
    double sum = 0.0;
    for (int i = 0; i < cols; ++i) {
      const double v = x[static_cast<size_t>(r) * cols + i];
      sum += v * v;
    }
    const double scale = 1.0 / std::sqrt(sum / cols + eps);
    for (int i = 0; i < cols; ++i) {
      const double want = x[static_cast<size_t>(r) * cols + i] * scale * w[i];
      const double got = y[static_cast<size_t>(r) * cols + i];
      if (!(std::fabs(got - want) <= 1e-4 * (1.0 + std::fabs(want)))) {
        std::printf("FAIL: %d x %d, row %d, column %d: got %g, want %g\n", rows, cols, r, i, got, want);
        return false;
      }
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 64;
  const int cols = argc > 2 ? std::atoi(argv[2]) : 4096;
  if (rows < 1 || cols < 1) {
    std::fprintf(stderr, "usage: rmsnorm [rows >= 1] [cols >= 1]\n");
    return 2;
  }
  // The second shape has rows that do not start on 16 bytes, the third is narrower than a workgroup.
  const bool ok = run(rows, cols) && run(rows / 2 + 1, cols / 2 + 3) && run(3, 100);
  std::printf("%s\n", ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
