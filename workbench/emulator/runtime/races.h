// Shadow memory: who touched a cell last, to find accesses that nothing orders.
#pragma once
#include "state.h"

namespace emu {
struct LaneEvent {
  const Event* event;
  const Thread* thread;
};

// Checks one warp request against the shadow memory (races, shared memory read before it was written)
// and enters it there.
void check_order(Worker&, const LaneEvent* lanes, int count);

// Gives a worker shadow memory for its block's shared arrays.
void reset_shared_shadow(Worker&, uint32_t shift);
}  // namespace emu
