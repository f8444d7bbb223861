// size_t and ptrdiff_t are built into NVRTC; this adds their names in namespace std.
#pragma once
#define offsetof(type, member) __builtin_offsetof(type, member)
#ifndef NULL
#define NULL 0
#endif
namespace std {
using ::ptrdiff_t;
using ::size_t;
using nullptr_t = decltype(nullptr);
}  // namespace std
