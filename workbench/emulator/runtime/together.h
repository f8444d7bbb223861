#pragma once
#include "state.h"

namespace emu {
// Runs all blocks of a launch on the calling OS thread, in turns; of a cooperative one all are there at once.
// `fresh` makes shared memory undefined.
void run_together(Launch&, Worker&, void (*fresh)(Worker&));
}  // namespace emu
