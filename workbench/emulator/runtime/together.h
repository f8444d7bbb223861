#pragma once
#include "state.h"

namespace emu {
// Runs all blocks of a cooperative launch on the calling OS thread, none of which ends before it has to.
// `fresh` makes shared memory undefined.
void run_together(Launch&, Worker&, void (*fresh)(Worker&));
}  // namespace emu
