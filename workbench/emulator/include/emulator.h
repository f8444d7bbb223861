// Makes g++ accept CUDA C++ device code. Precompiled, and included before the kernel's source.
#pragma once
#include <bits/c++config.h>
// std::legendre and the like, which NVRTC has not: g++ would compile all of them again with every kernel.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cfloat>
#include <climits>
#include <cmath>
#include <math.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cassert>
#include <limits>
#include <type_traits>
#include <utility>
#include <bits/stl_algobase.h>  // std::min, max, swap; <algorithm> would be twenty times as much
#include <vector_types.h>
#include <vector_functions.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include "abi.h"
#include "device_language.h"
#include "synchronization.h"
#include "memory.h"
#include "float_math.h"
#include "integer_math.h"
#include "half_math.h"
#include "atomics.h"
// Here rather than where the kernel includes them: a macro of the plan, such as N, must not reach them.
#include "../shim/math_constants.h"
#include "../shim/cooperative_groups.h"
#include "../shim/cub_collectives.h"
#include "../shim/mma.h"
#include "warpgroup.h"
#include "warp_matrices.h"
#include "entry_points.h"
