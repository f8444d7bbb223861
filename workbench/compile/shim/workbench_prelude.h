// Included before every kernel: the names that nvcc gives without an #include because its host
// compiler's headers bring them (uint32_t, INFINITY, FLT_MAX, INT_MAX, std::sqrt, ...).
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
