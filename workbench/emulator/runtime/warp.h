// Warp operations: shuffles, votes, reductions, __syncwarp, __activemask.
#pragma once
#include "state.h"

namespace emu {
// The calling thread's share of a warp operation; returns its result once all named lanes have arrived.
uint64_t warp_operation(Worker&, Thread&, int operation, unsigned mask, uint64_t value);

// Gives the lanes of a warp that ask for the active mask the set of those that ask at the same place.
// Called when every other lane is blocked, so that the set is as large as it can be.
bool answer_active_mask(Worker&, int warp);

// When the whole block is stuck and some lanes wait for lanes that will never come: reports it and goes
// on with those that are there, as the hardware would. False when no lane waits in a warp operation.
bool force_incomplete_operation(Worker&);
}  // namespace emu
