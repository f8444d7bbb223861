// The logs of a warp's lanes, replayed as the requests the hardware would make, with statistics.
#pragma once
#include "state.h"

namespace emu {
// MoreToCome: some lane stopped only because its log was full, and must not be taken for one that has
// left the common path.
enum class LogEnd { Complete, MoreToCome };

void replay(Worker&, int warp, LogEnd);
}  // namespace emu
