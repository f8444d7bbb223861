#pragma once
#include "state.h"

namespace emu {
// All threads of this worker's block wait: returns when every block of its cluster does, or has ended.
void meet_cluster(Worker& worker);

// The block has ended; the others no longer wait for it.
void leave_cluster(Worker& worker);

// Waits until all blocks of the cluster have ended, so that the next one may have their shared memory.
void end_cluster(Worker& worker);

// The worker whose block owns a shared address that is not this block's own; null where there is none.
Worker* owner_of(const Worker& worker, uint64_t address);

void note_remote(Worker& worker, const Thread& thread, const Event& event, unsigned owner);
}  // namespace emu
