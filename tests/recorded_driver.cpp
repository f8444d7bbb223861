// Stands in for libcuda: takes cuLaunchKernelEx with the real header's types, notes the configuration and
// calls the "kernel", a host function that does the work of the whole grid.
#include <cstring>
#include <unistd.h>
#include <cuda.h>

extern "C" {
CUlaunchConfig seen;
unsigned seen_cluster[3], seen_cooperative;
long launches;
int answer;  // error code of the next launch, then 0 again
int slow_us;

typedef void (*Kernel)(void** parameters);

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
    if (answer) {
        CUresult code = (CUresult)answer;
        answer = 0;
        return code;
    }
    if (extra) return CUDA_ERROR_INVALID_VALUE;
    seen = *config;
    memset(seen_cluster, 0, sizeof seen_cluster);
    seen_cooperative = 0;
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            seen_cooperative = config->attrs[i].value.cooperative;
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(seen_cluster, &config->attrs[i].value.clusterDim, sizeof seen_cluster);
    __sync_fetch_and_add(&launches, 1);
    if (slow_us) usleep(slow_us);
    ((Kernel)function)(parameters);
    return CUDA_SUCCESS;
}

unsigned geometry(int i) {
    const unsigned fields[] = {seen.gridDimX, seen.gridDimY, seen.gridDimZ, seen.blockDimX, seen.blockDimY,
                               seen.blockDimZ, seen.sharedMemBytes, seen.numAttrs, seen_cluster[0],
                               seen_cluster[1], seen_cluster[2], seen_cooperative};
    return fields[i];
}

// affine(const float* x, float* y, int count, float factor, double shift, bool negate, unsigned char more)
void affine(void** p) {
    const float* x = *(const float**)p[0];
    float* y = *(float**)p[1];
    int count = *(int*)p[2];
    float factor = *(float*)p[3];
    double shift = *(double*)p[4];
    bool negate = *(bool*)p[5];
    unsigned char more = *(unsigned char*)p[6];
    for (int i = 0; i < count; ++i) {
        float value = factor * x[i] + (float)shift + (float)more;
        y[i] = negate ? -value : value;
    }
}

// twice(const float* x, float* y, int count)
void twice(void** p) {
    const float* x = *(const float**)p[0];
    float* y = *(float**)p[1];
    int count = *(int*)p[2];
    for (int i = 0; i < count; ++i) y[i] = 2.0f * x[i];
}

// leave(float* y, long long count): writes nothing
void leave(void** p) { (void)p; }
}
