// memcpy and memset are built into NVRTC; this adds their names in namespace std.
#pragma once
namespace std {
using ::memcpy;
using ::memset;
}  // namespace std
