// What a person opens in the end-to-end test: one fault, and one kernel that is right but slow.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 256

// Right on 32 lanes, wrong on 64: the upper half of the ballot is cut off.
__global__ void count_positive(const float *x, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int mask = __ballot(i < n && x[i] > 0.0f);
    if (threadIdx.x % warpSize == 0)
        atomicAdd(count, __popc(mask));
}

// One workgroup per row: a scalar pass, a reduction in LDS, a second scalar pass.
__global__ void rmsnorm(float *out, const float *x, const float *weight, int n)
{
    __shared__ float sums[BLOCK];
    const float *row = x + blockIdx.x * n;
    float *out_row = out + blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += row[i] * row[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            sums[threadIdx.x] += sums[threadIdx.x + s];
        __syncthreads();
    }
    float scale = rsqrtf(sums[0] / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out_row[i] = row[i] * scale * weight[i];
}

static bool check(int rows, int n)
{
    std::vector<float> x(rows * n), weight(n), out(rows * n);
    for (auto &v : x)
        v = rand() / (float)RAND_MAX - 0.5f;
    for (auto &v : weight)
        v = rand() / (float)RAND_MAX;
    float *dx, *dw, *dout;
    hipMalloc(&dx, x.size() * sizeof(float));
    hipMalloc(&dw, weight.size() * sizeof(float));
    hipMalloc(&dout, out.size() * sizeof(float));
    hipMemcpy(dx, x.data(), x.size() * sizeof(float), hipMemcpyHostToDevice);
    hipMemcpy(dw, weight.data(), weight.size() * sizeof(float), hipMemcpyHostToDevice);
    rmsnorm<<<rows, BLOCK>>>(dout, dx, dw, n);
    hipMemcpy(out.data(), dout, out.size() * sizeof(float), hipMemcpyDeviceToHost);
    double worst = 0.0;
    for (int r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int i = 0; i < n; i++)
            sum += (double)x[r * n + i] * x[r * n + i];
        double scale = 1.0 / std::sqrt(sum / n + 1e-6);
        for (int i = 0; i < n; i++)
            worst = std::fmax(worst, std::fabs(x[r * n + i] * scale * weight[i] - out[r * n + i]));
    }
    hipFree(dx);
    hipFree(dw);
    hipFree(dout);
    return worst < 1e-4;
}

int main()
{
    bool right = check(64, 1024) && check(16, 512);
    puts(right ? "PASS" : "FAIL");
    return right ? 0 : 1;
}
