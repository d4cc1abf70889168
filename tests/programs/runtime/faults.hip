// One mistake for each first argument; prints the code that the runtime answers with.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void add_one(int *data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

__global__ void never_ends(volatile int *flag) {
  while (*flag == 0) {
  }
}

__global__ __launch_bounds__(64) void bounded(int *data) { data[threadIdx.x] = 1; }

int main(int argc, char **argv) {
  const char *mistake = argc > 1 ? argv[1] : "none";
  int *data = nullptr;
  if (hipMalloc(&data, 64 * sizeof(int)) != hipSuccess || hipMemset(data, 0, 64 * sizeof(int)) != hipSuccess) return 3;
  if (!std::strcmp(mistake, "none")) add_one<<<1, 64>>>(data, 64);
  if (!std::strcmp(mistake, "out-of-bounds")) add_one<<<2, 64>>>(data, 65);
  if (!std::strcmp(mistake, "null")) add_one<<<1, 64>>>(nullptr, 64);
  if (!std::strcmp(mistake, "never-ends")) never_ends<<<1, 64>>>(data);
  if (!std::strcmp(mistake, "large-block")) add_one<<<1, 1025>>>(data, 64);
  if (!std::strcmp(mistake, "launch-bounds")) bounded<<<1, 128>>>(data);
  if (!std::strcmp(mistake, "large-lds")) add_one<<<1, 64, 65537>>>(data, 64);
  if (!std::strcmp(mistake, "empty-grid")) add_one<<<0, 64>>>(data, 64);
  if (!std::strcmp(mistake, "no-launch")) return 0;
  if (!std::strcmp(mistake, "crash")) *reinterpret_cast<volatile int *>(std::strlen(mistake) - 5) = 1;
  std::printf("launch: %s\n", hipGetErrorName(hipGetLastError()));
  std::printf("afterwards: %s\n", hipGetErrorName(hipDeviceSynchronize()));
  return argc > 2 ? std::atoi(argv[2]) : 0;
}
