// Accesses that no instruction of the kernel's makes, and that are checked all the same.
#pragma once
#include "state.h"

namespace emu {
// The tensor core reads shared memory for a thread, which is ended where there is none.
void read_for_unit(Worker&, Thread&, uint64_t address, unsigned size, uint32_t pc);
}  // namespace emu
