// Matrix transpose, naive on purpose: neighbouring lanes read neighbours but write a column apart.
// Usage: transpose [width] [height]; runs three shapes and checks each against the CPU.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define TILE 32

__global__ void transpose(const float *__restrict__ in, float *__restrict__ out, int width, int height) {
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  if (x < width && y < height) {
    out[x * height + y] = in[y * width + x];
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

static bool run(int width, int height) {
  const size_t count = static_cast<size_t>(width) * height;
  std::vector<float> in(count), out(count);
  for (size_t i = 0; i < count; ++i) in[i] = static_cast<float>(i % 65521);

  float *din, *dout;
  CHECK(hipMalloc(&din, count * sizeof(float)));
  CHECK(hipMalloc(&dout, count * sizeof(float)));
  CHECK(hipMemcpy(din, in.data(), count * sizeof(float), hipMemcpyHostToDevice));
  const dim3 block(TILE, TILE);
  const dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
  transpose<<<grid, block>>>(din, dout, width, height);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(out.data(), dout, count * sizeof(float), hipMemcpyDeviceToHost));
  CHECK(hipFree(din));
  CHECK(hipFree(dout));

  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float want = in[static_cast<size_t>(y) * width + x];
      const float got = out[static_cast<size_t>(x) * height + y];
      if (got != want) {
        std::printf("FAIL: %d x %d, x %d, y %d: got %g, want %g\n", width, height, x, y, got, want);
        return false;
      }
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int width = argc > 1 ? std::atoi(argv[1]) : 512;
  const int height = argc > 2 ? std::atoi(argv[2]) : 512;
  if (width < 1 || height < 1) {
    std::fprintf(stderr, "usage: transpose [width >= 1] [height >= 1]\n");
    return 2;
  }
  // The second shape fills no tile at its edges, the third is a single column of tiles.
  const bool ok = run(width, height) && run(width / 2 + 5, height / 4 + 3) && run(7, 129);
  std::printf("%s\n", ok ? "PASS" : "FAIL");
  return ok ? 0 : 1;
}
