// Signals raised by a kernel's own code: turned into faults, so that the process goes on.
#pragma once
#include <signal.h>

#include "state.h"

namespace emu {
struct Seat;

// While it lives, crashes of the kernel on this OS thread end the block instead of the process.
class CrashGuard {
 public:
  explicit CrashGuard(Worker&);
  ~CrashGuard();

 private:
  Seat* seat_ = nullptr;  // where a deadline's signal finds this thread; null where there are too many
  stack_t previous_;
};
}  // namespace emu
