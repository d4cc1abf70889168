// y = a * x + y as it should be written: 16 bytes a lane, a grid-stride loop, a scalar tail. Nothing left to win.
// Usage: saxpy_good [elements]; runs three sizes and checks each against the CPU.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBlock = 256;

__global__ __launch_bounds__(kBlock) void saxpy(const float *__restrict__ x, float *__restrict__ y, float a, int n) {
  const float4 *x4 = reinterpret_cast<const float4 *>(x);
  float4 *y4 = reinterpret_cast<float4 *>(y);
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  const int step = gridDim.x * blockDim.x;
  for (int i = first; i < n / 4; i += step) {
    const float4 xv = x4[i];
    float4 yv = y4[i];
    yv.x += a * xv.x;
    yv.y += a * xv.y;
    yv.z += a * xv.z;
    yv.w += a * xv.w;
    y4[i] = yv;
  }
  const int rest = n / 4 * 4 + first;
  if (rest < n) {
    y[rest] += a * x[rest];
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

static bool run(int n) {
  const float a = 1.5f;
  std::vector<float> x(n), y(n), result(n);
  for (int i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 1021) * 0.25f;
    y[i] = static_cast<float>(i % 509) - 200.0f;
  }
  float *dx, *dy;
  CHECK(hipMalloc(&dx, n * sizeof(float)));
  CHECK(hipMalloc(&dy, n * sizeof(float)));
  CHECK(hipMemcpy(dx, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(dy, y.data(), n * sizeof(float), hipMemcpyHostToDevice));
  const int blocks = (n / 4 + kBlock - 1) / kBlock;
  saxpy<<<blocks > 0 ? blocks : 1, kBlock>>>(dx, dy, a, n);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(result.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipFree(dx));
  CHECK(hipFree(dy));

  for (int i = 0; i < n; ++i) {
    const float want = a * x[i] + y[i];
    if (!(std::fabs(result[i] - want) <= 1e-5f * (1.0f + std::fabs(want)))) {
      std::printf("FAIL: n %d, element %d: got %g, want %g\n", n, i, result[i], want);
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 262144;
  if (n < 1) {
    std::fprintf(stderr, "usage: saxpy_good [elements >= 1]\n");
    return 2;
  }
  const bool ok = run(n) && run(n / 2 + 3) && run(1);
  std::printf("%s\n", ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
