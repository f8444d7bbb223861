// The CUDA headers have these for NVRTC; a second definition of the macros would clash with theirs.
#pragma once
#include <cuda/std/climits>
