// printf is built into NVRTC; this adds its name in namespace std.
#pragma once
namespace std {
using ::printf;
}
