// Stacks and the context switch. Knows nothing of kernels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emu {
constexpr size_t kStackBytes = 128 << 10;
// Below each stack; nobody may touch it. More than a page: a frame with a large array steps over one.
constexpr uint64_t kGuardBytes = 64 << 10;

struct Stack {
  char* base;
};

Stack* map_stack();

// Stack pointer of a fiber that will start in `entry`; `lane` shifts it (see the definition).
void* first_stack_pointer(const Stack& stack, unsigned lane, void (*entry)());
}  // namespace emu

// Saves the callee-saved registers and the stack pointer to *save, then continues at `to`.
extern "C" void emu_switch(void** save, void* to);
