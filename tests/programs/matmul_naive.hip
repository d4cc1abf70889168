// C = A * B in fp32, naive on purpose: square LDS tiles, B's tile stored transposed so that its columns conflict.
// Usage: matmul_naive [m] [n] [k]; runs three shapes and checks each against the CPU.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;

__global__ void matmul_naive(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m,
                             int n, int k) {
  __shared__ float a_tile[TILE][TILE];
  __shared__ float b_tile[TILE][TILE];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float acc = 0.0f;
  for (int first = 0; first < k; first += TILE) {
    a_tile[ty][tx] = row < m && first + tx < k ? a[row * k + first + tx] : 0.0f;
    b_tile[tx][ty] = first + ty < k && col < n ? b[(first + ty) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) {
      acc += a_tile[ty][i] * b_tile[tx][i];
    }
    __syncthreads();
  }
  if (row < m && col < n) {
    c[row * n + col] = acc;
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

static bool run(int m, int n, int k) {
  std::vector<float> a(static_cast<size_t>(m) * k), b(static_cast<size_t>(k) * n), c(static_cast<size_t>(m) * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 33) / 16.0f - 1.0f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 29) / 16.0f - 0.9f;
  float *da, *db, *dc;
  CHECK(hipMalloc(&da, a.size() * sizeof(float)));
  CHECK(hipMalloc(&db, b.size() * sizeof(float)));
  CHECK(hipMalloc(&dc, c.size() * sizeof(float)));
  CHECK(hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(db, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice));
  const dim3 block(TILE, TILE);
  const dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
  matmul_naive<<<grid, block>>>(da, db, dc, m, n, k);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(c.data(), dc, c.size() * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipFree(da));
  CHECK(hipFree(db));
  CHECK(hipFree(dc));

  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < n; ++col) {
      double want = 0.0;
      for (int i = 0; i < k; ++i) want += static_cast<double>(a[static_cast<size_t>(row) * k + i]) * b[static_cast<size_t>(i) * n + col];
      const double got = c[static_cast<size_t>(row) * n + col];
      if (!(std::fabs(got - want) <= 1e-4 * (1.0 + std::fabs(want)))) {
        std::printf("FAIL: %d x %d x %d, row %d, column %d: got %g, want %g\n", m, n, k, row, col, got, want);
        return false;
      }
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int m = argc > 1 ? std::atoi(argv[1]) : 128;
  const int n = argc > 2 ? std::atoi(argv[2]) : 128;
  const int k = argc > 3 ? std::atoi(argv[3]) : 128;
  if (m < 1 || n < 1 || k < 1) {
    std::fprintf(stderr, "usage: matmul_naive [m >= 1] [n >= 1] [k >= 1]\n");
    return 2;
  }
  const bool ok = run(m, n, k) && run(m / 2 + 1, n / 2 + 3, k / 2 + 5) && run(1, 17, 3);
  std::printf("%s\n", ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
