// Calls most of the HIP runtime and checks every answer. Prints PASS, or FAIL with the first wrong line.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define EXPECT(what)                                          \
  do {                                                        \
    if (!(what)) {                                            \
      std::printf("FAIL: line %d: %s\n", __LINE__, #what);    \
      std::exit(1);                                           \
    }                                                         \
  } while (0)
#define OK(call) EXPECT((call) == hipSuccess)

__device__ int counter = 41;
__constant__ float weights[4];
__managed__ int shared_number = 7;

struct Pair {
  float scale;
  double shift;
};

__global__ void vector_add(const float *a, const float *b, float *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// Arguments of unlike sizes and alignments, and a struct by value.
__global__ void mixed(char tag, double *out, short small, Pair pair, bool flag) {
  if (threadIdx.x == 0) *out = tag + small + pair.scale + pair.shift + (flag ? 1000.0 : 0.0);
}

__global__ void variables(float *out) {
  if (threadIdx.x == 0) {
    counter += 1;
    shared_number *= 3;
    for (int i = 0; i < 4; ++i) out[i] = 2.0f * weights[i];
  }
}

__global__ void dynamic_lds_sum(const int *in, int *out) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += tile[i];
    *out = sum;
  }
}

__global__ __launch_bounds__(128) void small_block(int *out) { out[threadIdx.x] = 1; }

__global__ void grid_shape(unsigned *out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}

static void launches() {
  const int n = 1000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 0.5f * i;
  float *da, *db, *dc;
  OK(hipMalloc(&da, n * sizeof(float)));
  OK(hipMalloc(&db, n * sizeof(float)));
  OK(hipMalloc(&dc, n * sizeof(float)));
  OK(hipMemcpy(da, a.data(), n * sizeof(float), hipMemcpyHostToDevice));
  OK(hipMemcpy(db, b.data(), n * sizeof(float), hipMemcpyHostToDevice));
  vector_add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  OK(hipGetLastError());
  OK(hipDeviceSynchronize());
  OK(hipMemcpy(c.data(), dc, n * sizeof(float), hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(c[i] == 1.5f * i);

  double *dm, m = 0;
  OK(hipMalloc(&dm, sizeof(double)));
  mixed<<<1, 64>>>('A', dm, -5, Pair{0.25f, 0.5}, true);
  OK(hipMemcpy(&m, dm, sizeof m, hipMemcpyDefault));
  EXPECT(m == 65 - 5 + 0.25 + 0.5 + 1000);

  unsigned *ds, s[2 * 3 * 4 * 8 * 2 * 2];
  OK(hipMalloc(&ds, sizeof s));
  hipLaunchKernelGGL(grid_shape, dim3(2, 3, 4), dim3(8, 2, 2), 0, 0, ds);
  OK(hipMemcpy(s, ds, sizeof s, hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < 24 * 32; ++i) EXPECT(s[i] == 1000 * (i / 32) + i % 32);

  int in[96], *di, *dout, sum = 0;
  for (int i = 0; i < 96; ++i) in[i] = i;
  OK(hipMalloc(&di, sizeof in));
  OK(hipMalloc(&dout, sizeof sum));
  OK(hipMemcpy(di, in, sizeof in, hipMemcpyHostToDevice));
  void *args[] = {&di, &dout};
  OK(hipLaunchKernel(reinterpret_cast<const void *>(dynamic_lds_sum), dim3(1), dim3(96), args, 96 * sizeof(int), 0));
  OK(hipMemcpy(&sum, dout, sizeof sum, hipMemcpyDeviceToHost));
  EXPECT(sum == 95 * 96 / 2);
  for (void *p : std::vector<void *>{da, db, dc, dm, ds, di, dout}) OK(hipFree(p));
  OK(hipFree(nullptr));
}

static void variables_on_the_device() {
  const float host[4] = {1, 2, 3, 4};
  float out[4] = {}, *dout;
  int read = 0;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(weights), host, sizeof host));
  OK(hipMalloc(&dout, sizeof out));
  variables<<<1, 64>>>(dout);
  OK(hipMemcpy(out, dout, sizeof out, hipMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) EXPECT(out[i] == 2 * host[i]);
  OK(hipMemcpyFromSymbol(&read, HIP_SYMBOL(counter), sizeof read));
  EXPECT(read == 42);
  EXPECT(shared_number == 21);
  void *address = nullptr;
  size_t bytes = 0;
  OK(hipGetSymbolAddress(&address, HIP_SYMBOL(counter)));
  OK(hipGetSymbolSize(&bytes, HIP_SYMBOL(counter)));
  EXPECT(bytes == sizeof counter);
  read = 0;
  OK(hipMemcpy(&read, address, sizeof read, hipMemcpyDeviceToHost));
  EXPECT(read == 42);
  EXPECT(hipMemcpyFromSymbol(&read, HIP_SYMBOL(counter), sizeof read, 4) == hipErrorInvalidValue);
  EXPECT(hipGetLastError() == hipErrorInvalidValue);
  EXPECT(hipGetLastError() == hipSuccess);
  OK(hipFree(dout));
}

static void memory() {
  unsigned char *d, h[64];
  OK(hipMalloc(reinterpret_cast<void **>(&d), 64));
  OK(hipMemset(d, 0xab, 64));
  OK(hipMemsetD32(reinterpret_cast<hipDeviceptr_t>(d + 8), 0x01020304, 2));
  OK(hipMemcpy(h, d, 64, hipMemcpyDeviceToHost));
  EXPECT(h[7] == 0xab && h[8] == 4 && h[11] == 1 && h[15] == 1 && h[16] == 0xab);
  EXPECT(hipMemcpy(d + 60, h, 8, hipMemcpyHostToDevice) == hipErrorInvalidValue);
  EXPECT(hipMemset(d, 0, 65) == hipErrorInvalidValue);
  EXPECT(hipFree(d + 1) == hipErrorInvalidValue);
  (void)hipGetLastError();
  OK(hipMemcpyDtoD(reinterpret_cast<hipDeviceptr_t>(d), reinterpret_cast<hipDeviceptr_t>(d + 8), 8));
  OK(hipMemcpyDtoH(h, reinterpret_cast<hipDeviceptr_t>(d), 8));
  EXPECT(h[0] == 4 && h[7] == 1);

  size_t pitch = 0;
  unsigned char *rows, source[3][10], back[3][10] = {};
  OK(hipMallocPitch(reinterpret_cast<void **>(&rows), &pitch, 10, 3));
  EXPECT(pitch >= 10);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 10; ++c) source[r][c] = 10 * r + c;
  OK(hipMemcpy2D(rows, pitch, source, 10, 10, 3, hipMemcpyHostToDevice));
  OK(hipMemcpy2D(back, 10, rows, pitch, 10, 3, hipMemcpyDeviceToHost));
  EXPECT(std::memcmp(source, back, sizeof source) == 0);

  int *pinned, *managed, *mapped = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), 64 * sizeof(int), hipHostMallocDefault));
  OK(hipMallocManaged(reinterpret_cast<void **>(&managed), 4));
  OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&mapped), pinned, 0));
  small_block<<<1, 64>>>(mapped);
  OK(hipDeviceSynchronize());
  EXPECT(pinned[0] == 1 && pinned[63] == 1);
  hipPointerAttribute_t attributes;
  OK(hipPointerGetAttributes(&attributes, d + 3));
  EXPECT(attributes.memoryType == hipMemoryTypeDevice && attributes.device == 0);
  OK(hipPointerGetAttributes(&attributes, pinned));
  EXPECT(attributes.memoryType == hipMemoryTypeHost);
  OK(hipPointerGetAttributes(&attributes, managed));
  EXPECT(attributes.isManaged == 1);
  std::vector<int> plain(64);
  EXPECT(hipPointerGetAttributes(&attributes, plain.data()) == hipErrorInvalidValue);
  (void)hipGetLastError();
  OK(hipHostRegister(plain.data(), 64 * sizeof(int), hipHostRegisterDefault));
  small_block<<<1, 64>>>(plain.data());
  OK(hipDeviceSynchronize());
  EXPECT(plain[63] == 1);
  OK(hipHostUnregister(plain.data()));

  size_t before = 0, after = 0, total = 0;
  void *large;
  OK(hipMemGetInfo(&before, &total));
  OK(hipMalloc(&large, 1 << 20));
  OK(hipMemGetInfo(&after, &total));
  EXPECT(before - after == 1 << 20 && before <= total);
  EXPECT(hipMalloc(&large, total + 1) == hipErrorOutOfMemory);
  (void)hipGetLastError();
  OK(hipFree(d));
  OK(hipFree(rows));
  OK(hipHostFree(pinned));
  OK(hipFree(managed));
}

static void called(hipStream_t, hipError_t status, void *data) { *static_cast<int *>(data) = status == hipSuccess; }

static void streams_and_events() {
  hipStream_t stream;
  hipEvent_t start, stop, never;
  OK(hipStreamCreate(&stream));
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&stop));
  OK(hipEventCreateWithFlags(&never, hipEventDisableTiming));
  int *d, done = 0;
  OK(hipMallocAsync(reinterpret_cast<void **>(&d), 128 * sizeof(int), stream));
  OK(hipMemsetAsync(d, 0, 128 * sizeof(int), stream));
  OK(hipEventRecord(start, stream));
  small_block<<<1, 128, 0, stream>>>(d);
  OK(hipEventRecord(stop, stream));
  OK(hipStreamWaitEvent(stream, stop, 0));
  OK(hipEventSynchronize(stop));
  OK(hipStreamAddCallback(stream, called, &done, 0));
  OK(hipStreamSynchronize(stream));
  OK(hipStreamQuery(stream));
  EXPECT(done == 1);
  float milliseconds = -1;
  OK(hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT(milliseconds > 0 && milliseconds < 1);
  EXPECT(hipEventElapsedTime(&milliseconds, start, never) == hipErrorInvalidHandle);
  (void)hipGetLastError();
  OK(hipFreeAsync(d, stream));
  OK(hipStreamDestroy(stream));
  EXPECT(hipStreamSynchronize(stream) == hipErrorInvalidHandle);
  (void)hipGetLastError();
  OK(hipEventDestroy(start));
  OK(hipEventDestroy(stop));
  OK(hipEventDestroy(never));
}

static void device(const std::string &target) {
  int count = 0, value = 0;
  OK(hipGetDeviceCount(&count));
  EXPECT(count == 1);
  OK(hipSetDevice(0));
  EXPECT(hipSetDevice(1) == hipErrorInvalidDevice);
  (void)hipGetLastError();
  hipDeviceProp_t p;
  OK(hipGetDeviceProperties(&p, 0));
  EXPECT(p.warpSize == 64 && p.maxThreadsPerBlock == 1024 && p.sharedMemPerBlock == 65536);
  EXPECT(p.multiProcessorCount > 0 && p.totalGlobalMem > 0 && p.clockRate > 0);
  EXPECT(target == p.gcnArchName);
  EXPECT(std::strstr(p.name, "simulated") != nullptr);
  EXPECT(p.arch.hasDoubles && p.arch.hasWarpShuffle && p.arch.has3dGrid && !p.arch.hasDynamicParallelism);
  OK(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0));
  EXPECT(value == 64);
  OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
  EXPECT(value == p.multiProcessorCount);
  OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxSharedMemoryPerBlock, 0));
  EXPECT(value == 65536);
  EXPECT(std::string("hipErrorInvalidValue") == hipGetErrorName(hipErrorInvalidValue));

  hipFuncAttributes f;
  OK(hipFuncGetAttributes(&f, reinterpret_cast<const void *>(small_block)));
  EXPECT(f.maxThreadsPerBlock == 128 && f.sharedSizeBytes == 0 && f.numRegs > 0);
  const void *lds = reinterpret_cast<const void *>(dynamic_lds_sum);
  OK(hipFuncSetAttribute(lds, hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
  EXPECT(hipFuncSetAttribute(lds, hipFuncAttributeMaxDynamicSharedMemorySize, 65537) == hipErrorInvalidValue);
  (void)hipGetLastError();
  int blocks = 0, grid = 0, block = 0;
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vector_add, 256, 0));
  EXPECT(blocks > 1);
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic_lds_sum, 64, 40000));
  EXPECT(blocks == 1);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, vector_add, 0, 0));
  EXPECT(grid > 0 && block % 64 == 0 && block > 0 && block <= 1024);

  hipArray_t array;
  hipChannelFormatDesc format = {};
  EXPECT(hipMallocArray(&array, &format, 16, 16, 0) == hipErrorNotSupported);
  EXPECT(hipGetLastError() == hipErrorNotSupported);
}

int main(int argc, char **argv) {
  launches();
  variables_on_the_device();
  memory();
  streams_and_events();
  device(argc > 1 ? argv[1] : "gfx928");
  std::printf("PASS\n");
  return 0;
}
