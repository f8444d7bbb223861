// Asynchronous copies to shared memory (cp.async): on their way until the thread waits for them.
// Owns which of a thread's copies have arrived; the module writes them (include/memory.h).
//
// A copy may arrive at any time between its request and the wait for its group. It is written when the wait
// lets it arrive, the latest time there is; until then its place holds a pattern that no kernel means.
#include "state.h"

namespace emu {
void Copies::request(const emu_copy& copy) { waiting.push_back(copy); }

void Copies::commit() { groups.push_back(waiting.size()); }

emu_copy Copies::arrived(size_t left) {
  size_t complete = groups.size() > left ? groups.size() - left : 0;
  size_t due = complete ? groups[complete - 1] : 0;
  if (done < due) return waiting[done++];
  waiting.erase(waiting.begin(), waiting.begin() + done);
  groups.erase(groups.begin(), groups.begin() + complete);
  for (size_t& end : groups) end -= done;
  done = 0;
  return emu_copy{};
}

void Copies::clear() {
  waiting.clear();
  groups.clear();
  done = 0;
}
}  // namespace emu

extern "C" {
void emu_request_copy(emu_copy copy) { emu::current_worker->running->copies.request(copy); }
void emu_commit_copies() { emu::current_worker->running->copies.commit(); }
emu_copy emu_arrived_copy(size_t left) { return emu::current_worker->running->copies.arrived(left); }
}
