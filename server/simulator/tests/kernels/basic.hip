// Kernels of the simulator's tests. Each is checked against a Rust reference in ../execute.rs.
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <assert.h>

extern "C" {

__global__ void vector_add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}

__global__ void reduce(const float *in, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
    sum += in[i];
  part[t] = sum;
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k)
      part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0)
    out[blockIdx.x] = part[0];
}

__global__ void shuffle(const int *in, int *out) {
  int v = in[threadIdx.x];
  int sum = v;
  for (int k = 32; k > 0; k >>= 1)
    sum += __shfl_xor(sum, k);
  out[threadIdx.x * 4] = sum;
  out[threadIdx.x * 4 + 1] = __shfl_down(v, 3);
  out[threadIdx.x * 4 + 2] = __shfl(v, 5);
  out[threadIdx.x * 4 + 3] = (int)__popcll(__ballot(v & 1));
}

__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__global__ void transpose(const float *in, float *out, int width) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * width + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    out[(y + k) * width + x] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void transpose_padded(const float *in, float *out, int width) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * width + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    out[(y + k) * width + x] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void divergent(const int *in, int *out) {
  int i = threadIdx.x;
  int x = in[i], steps = 0;
  while (x != 1) {
    if (x & 1)
      x = 3 * x + 1;
    else
      x /= 2;
    ++steps;
  }
  out[i] = steps;
}

__global__ void doubles(const double *a, const double *b, double *out) {
  int i = threadIdx.x;
  out[i] = a[i] / b[i] + sqrt(a[i]) * b[i];
}

__global__ void halves(const __half *a, const __half *b, __half *out) {
  int i = threadIdx.x;
  out[i] = __hadd(__hmul(a[i], b[i]), a[i]);
}

__global__ void private_array(const int *in, int *out) {
  int local[48];
  for (int i = 0; i < 48; ++i)
    local[(i * 7 + in[threadIdx.x]) % 48] = i * i;
  int sum = 0;
  for (int i = 0; i < 48; ++i)
    sum = sum * 3 + local[(in[threadIdx.x] * 5 + i) % 48];
  out[threadIdx.x] = sum;
}

__device__ __attribute__((noinline)) int helper(int a, int b) { return a * a - 7 * b; }

__device__ __attribute__((noinline)) int power(int base, int n) {
  return n == 0 ? 1 : base * power(base, n - 1);
}

__global__ void calls(const int *in, int *out) {
  int v = in[threadIdx.x];
  int x = helper(v, 3) + helper(3, v);
  out[threadIdx.x] = x + power(v & 7, 5);
}

__global__ void divide(const long *a, const long *b, long *out, unsigned m) {
  int i = threadIdx.x;
  out[i * 3] = a[i] / b[i];
  out[i * 3 + 1] = a[i] % b[i];
  out[i * 3 + 2] = (unsigned)a[i] / m + (unsigned)b[i] % m;
}

__global__ void table(const int *in, int *out, int uniform) {
  int v = in[threadIdx.x], r;
  switch (uniform) {
  case 0: r = v + 1; break;
  case 1: r = v * 3; break;
  case 2: r = v ^ 0x55; break;
  case 3: r = v << 2; break;
  case 4: r = -v; break;
  case 5: r = v / 7; break;
  case 6: r = ~v; break;
  default: r = 0;
  }
  switch (v & 7) {
  case 0: r += 100; break;
  case 1: r -= 5; break;
  case 2: r *= 2; break;
  case 3: r ^= 9; break;
  case 5: r += v; break;
  default: r = r;
  }
  out[threadIdx.x] = r;
}

__device__ int counter = 5;
__constant__ int weights[4] = {3, 1, 4, 1};

__global__ void globals(int *out) {
  int old = atomicAdd(&counter, 1);
  out[threadIdx.x] = weights[threadIdx.x & 3] + (old < 0);
}

__global__ void dynamic_lds(const int *in, int *out) {
  extern __shared__ int mine[];
  mine[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = mine[blockDim.x - 1 - threadIdx.x];
}

__global__ void vector_loads(const float4 *in, float4 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = in[i];
  out[i] = make_float4(v.w, v.z, v.y, v.x);
}

__global__ void ids(int *out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[i] = block * 10000 + threadIdx.x * 100 + threadIdx.y * 10 + threadIdx.z;
}

__global__ void wide_atomics(unsigned long long *sum, int *low, int *high, unsigned *turns, float *f, int *taken) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, (unsigned long long)i * 0x100000001ull);
  atomicMin(low, -i);
  atomicMax(high, i * 3);
  atomicInc(turns, 9);
  atomicAdd(f, 0.5f);
  atomicCAS(taken, 0, i + 1);
}

__global__ void spin_on_earlier_blocks(volatile int *flags, int *out) {
  // Block b waits for block b + 1: only passes if waiting blocks let others go on.
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 < gridDim.x)
      while (atomicAdd((int *)&flags[blockIdx.x + 1], 0) == 0)
        ;
    out[blockIdx.x] = blockIdx.x;
    atomicExch((int *)&flags[blockIdx.x], 1);
  }
}

__global__ void strided(const float *in, float *out, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i * stride];
}

__global__ void copy1(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}

__global__ void out_of_bounds(int *out, int n) { out[threadIdx.x + n] = 1; }

__global__ void forever(volatile int *flag) {
  while (*flag == 0)
    ;
}

__global__ void round_up(float *out) {
  // hwreg(HW_REG_MODE, 0, 2): f32 rounds towards plus infinity from here on.
  __builtin_amdgcn_s_setreg(2049, 1);
  out[0] = 1.0f;
}

__global__ void trap(int *out) {
  if (out[0] == 0)
    __builtin_trap();
  out[0] = 1;
}

__global__ void lds_wild(int *out, int at) {
  __shared__ int small[64];
  small[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = small[threadIdx.x + at];
}

__global__ void uneven_barriers(int *out) {
  __shared__ int x[128];
  x[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64) {
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x + 64];
  } else {
    out[threadIdx.x] = 7;
    __syncthreads();
  }
}
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    ta[y][x] = a[row * n + k + x];
    tb[y][x] = b[(k + y) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i)
      sum += ta[y][i] * tb[i][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// 64x64 block tile, 4x4 per thread: the shape of a real GEMM.
extern "C" __global__ void __launch_bounds__(256) matmul_blocked(const float *a, const float *b, float *c, int n) {
  __shared__ float ta[16][64], tb[16][64];
  int t = threadIdx.x, tx = t & 15, ty = t >> 4;
  float sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    for (int i = 0; i < 4; ++i) {
      int e = t + i * 256;
      ta[e & 15][e >> 4] = a[(blockIdx.y * 64 + (e >> 4)) * n + k + (e & 15)];
      tb[e >> 6][e & 63] = b[(k + (e >> 6)) * n + blockIdx.x * 64 + (e & 63)];
    }
    __syncthreads();
    for (int i = 0; i < 16; ++i) {
      float4 va = *(float4 *)&ta[i][ty * 4], vb = *(float4 *)&tb[i][tx * 4];
      float x[4] = {va.x, va.y, va.z, va.w}, y[4] = {vb.x, vb.y, vb.z, vb.w};
      for (int p = 0; p < 4; ++p)
        for (int q = 0; q < 4; ++q)
          sum[p][q] += x[p] * y[q];
    }
    __syncthreads();
  }
  for (int p = 0; p < 4; ++p)
    for (int q = 0; q < 4; ++q)
      c[(blockIdx.y * 64 + ty * 4 + p) * n + blockIdx.x * 64 + tx * 4 + q] = sum[p][q];
}

extern "C" __global__ void prints(int n) {
  if (threadIdx.x < n)
    printf("thread %d of %s: %.2f\n", (int)threadIdx.x, "many", threadIdx.x * 0.5);
}

extern "C" __global__ void asserts(const int *in) { assert(in[threadIdx.x] == 0); }

extern "C" __global__ void racy(const int *in, int *out) {
  __shared__ int x[128];
  x[threadIdx.x] = in[threadIdx.x];
  // No barrier: the other wavefront's half may not be there yet.
  out[threadIdx.x] = x[127 - threadIdx.x];
}

extern "C" __global__ void unwritten(const int *in, int *out) {
  __shared__ int x[128];
  if (threadIdx.x < 32)
    x[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = x[threadIdx.x];
}
