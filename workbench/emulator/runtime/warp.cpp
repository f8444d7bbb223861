#include "warp.h"

#include <algorithm>
#include <cstdio>

#include "faults.h"
#include "scheduler.h"

namespace emu {
namespace {

// The value that every lane of the mask receives: votes, reductions, match_all.
uint64_t combine(const Thread* lanes, uint32_t mask, int operation) {
  uint64_t first = lanes[__builtin_ctz(mask)].value, result = 0;
  switch (operation) {
    case EMU_ALL:
    case EMU_AND:
    case EMU_MIN_UNSIGNED:
    case EMU_MAX_UNSIGNED:
    case EMU_MIN_SIGNED:
    case EMU_MAX_SIGNED: result = first; break;
    case EMU_MATCH_ALL: result = mask; break;
  }
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t value = lanes[lane].value;
    uint32_t word = static_cast<uint32_t>(value), so_far = static_cast<uint32_t>(result);
    int number = static_cast<int>(word), number_so_far = static_cast<int>(so_far);
    switch (operation) {
      case EMU_BALLOT: result |= (value & 1) << lane; break;
      case EMU_ANY:
      case EMU_OR: result |= value; break;
      case EMU_ALL:
      case EMU_AND: result &= value; break;
      case EMU_ADD: result += word; break;
      case EMU_XOR: result ^= word; break;
      case EMU_MIN_UNSIGNED: result = std::min(so_far, word); break;
      case EMU_MAX_UNSIGNED: result = std::max(so_far, word); break;
      case EMU_MIN_SIGNED: result = static_cast<uint32_t>(std::min(number_so_far, number)); break;
      case EMU_MAX_SIGNED: result = static_cast<uint32_t>(std::max(number_so_far, number)); break;
      case EMU_MATCH_ALL:
        if (value != first) result = 0;
        break;
    }
  }
  return result;
}

// The lane that a shuffle reads from; its own where the source lies outside the segment.
int source_lane(const Thread& thread) {
  int lane = thread.lane, width = thread.width, first = lane & ~(width - 1), last = first + width - 1;
  int source = lane;
  switch (thread.operation) {
    case EMU_SHFL: return first + (thread.argument & (width - 1));
    case EMU_SHFL_UP: source = lane - thread.argument; return source < first ? lane : source;
    case EMU_SHFL_DOWN: source = lane + thread.argument; return source > last ? lane : source;
    default: source = lane ^ thread.argument; return source > last ? lane : source;
  }
}

// What comes from a lane that takes no part is undefined, which is harmless as long as nobody uses it. All
// ones is a NaN; a kernel that reads such a lane is run again with the others, a large number of either sign
// in every type, and uses the value where its results are not the same.
constexpr uint64_t kUndefined[] = {~0ull, 0x7b7b7b7b7b7b7b7bull, 0xfbfbfbfbfbfbfbfbull};

NOINLINE uint64_t undefined_value(Worker& worker, const Thread& thread, int source) {
  uint32_t pc = module_offset(worker, thread.wait_pc);
  if (worker.absent_noted.insert(pc).second) {
    char text[96];
    int lanes = worker.lane_count(thread.warp);
    if (source >= lanes)
      snprintf(text, sizeof text, "lane %d, which does not exist: the warp has %d threads", source, lanes);
    else if (thread.mask >> source & 1)
      snprintf(text, sizeof text, "lane %d, which has returned", source);
    else
      snprintf(text, sizeof text, "lane %d, which is not in the mask 0x%08x", source, thread.mask);
    Fault fault{.kind = "absent_lane", .pc = pc};
    fault.message = text;
    report(worker, &thread, fault);
  }
  return kUndefined[worker.launch->config.undefined];
}

uint64_t shuffled(Worker& worker, const Thread& thread, const uint64_t* given, uint32_t mask) {
  int source = source_lane(thread);
  return LIKELY(mask >> source & 1) ? given[source] : undefined_value(worker, thread, source);
}

uint64_t matching(const uint64_t* given, int lane, uint32_t mask) {
  uint64_t result = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int other = __builtin_ctz(rest);
    if (given[other] == given[lane]) result |= 1ull << other;
  }
  return result;
}

// All lanes of the mask have arrived: computes their results and makes all but `self` ready.
void complete(Worker& worker, int warp_number, uint32_t mask, int operation, const Thread* self) {
  Warp& warp = worker.warps[warp_number];
  Thread* lanes = worker.lanes_of(warp_number);
  uint64_t given[kWarp];
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    given[__builtin_ctz(rest)] = lanes[__builtin_ctz(rest)].value;
  uint64_t common = operation >= EMU_MULTIPLY ? group_operation(worker, warp_number, mask, operation)
                    : operation >= EMU_BALLOT ? combine(lanes, mask, operation)
                                              : 0;
  warp.arrived &= ~mask;
  if (operation < EMU_EXCHANGE) worker.tally.warp_operations++;  // tensor cores keep nobody waiting
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    Thread& thread = lanes[lane];
    if (operation < EMU_BALLOT) thread.value = shuffled(worker, thread, given, mask);
    else if (operation == EMU_MATCH_ANY) thread.value = matching(given, lane, mask);
    else if (operation == EMU_EXCHANGE) warp.pointers[lane] = reinterpret_cast<void*>(given[lane]);
    else thread.value = common;
    if (operation == EMU_EXCHANGE) thread.value = mask;
    thread.warp_epoch++;
    if (&thread == self) continue;
    thread.run = Run::Ready;
    warp.ready |= lane_bit(lane);
  }
}

bool all_arrived(const Worker& worker, const Thread& thread, uint32_t mask, uint32_t living) {
  const Warp& warp = worker.warps[thread.warp];
  if ((warp.arrived & mask) != mask) return false;
  const Thread* lanes = &worker.threads[thread.warp * kWarp];
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    const Thread& other = lanes[__builtin_ctz(rest)];
    if (other.operation != thread.operation || (other.mask & living) != mask) return false;
  }
  return true;
}

void note_mask_without_caller(Worker& worker, const Thread& thread) {
  Fault fault{.kind = "mask_without_caller", .pc = module_offset(worker, thread.wait_pc)};
  char text[64];
  snprintf(text, sizeof text, "mask 0x%08x", thread.mask);
  fault.message = text;
  report(worker, &thread, fault);
}

void note_missing_lanes(Worker& worker, const Thread& thread, uint32_t there) {
  Fault fault{.kind = "missing_lanes", .pc = module_offset(worker, thread.wait_pc)};
  char text[96];
  snprintf(text, sizeof text, "mask 0x%08x, but only lanes 0x%08x arrived", thread.mask, there);
  fault.message = text;
  report(worker, &thread, fault);
}

}  // namespace

uint64_t warp_operation(Worker& worker, Thread& thread, int operation, unsigned mask, uint64_t value) {
  settle(thread);
  Warp& warp = worker.warps[thread.warp];
  int lanes = worker.lane_count(thread.warp);
  uint32_t existing = lanes == kWarp ? ~0u : lane_bit(lanes) - 1;
  thread.operation = operation;
  thread.mask = mask;
  thread.value = value;
  if (UNLIKELY(!(mask >> thread.lane & 1))) {
    note_mask_without_caller(worker, thread);
    return value;
  }
  // Lanes that have returned are not waited for: PTX asks for the non-exited threads of the mask only.
  uint32_t living = existing & warp.alive;
  mask &= living;
  warp.arrived |= lane_bit(thread.lane);
  if (all_arrived(worker, thread, mask, living)) {
    complete(worker, thread.warp, mask, operation, &thread);
  } else {
    thread.run = Run::AtWarpOperation;
    wait_here(worker, thread);
  }
  note_progress(worker);
  return thread.value;
}

bool answer_active_mask(Worker& worker, int warp_number) {
  Warp& warp = worker.warps[warp_number];
  if (!warp.asks_active_mask) return false;
  Thread* lanes = worker.lanes_of(warp_number);
  const void* place = lanes[__builtin_ctz(warp.asks_active_mask)].wait_pc;
  uint32_t group = 0;
  for (uint32_t rest = warp.asks_active_mask; rest; rest &= rest - 1)
    if (lanes[__builtin_ctz(rest)].wait_pc == place) group |= rest & -rest;
  for (uint32_t rest = group; rest; rest &= rest - 1) lanes[__builtin_ctz(rest)].value = group;
  warp.asks_active_mask &= ~group;
  warp.ready |= group;
  return true;
}

bool force_incomplete_operation(Worker& worker) {
  bool forced = false;
  for (int warp = 0; warp < worker.warp_count; warp++) {
    Thread* lanes = worker.lanes_of(warp);
    Thread* first = nullptr;
    uint32_t there = 0;
    for (int lane = 0; lane < worker.lane_count(warp); lane++) {
      if (lanes[lane].run != Run::AtWarpOperation) continue;
      if (!first) first = &lanes[lane];
      if (lanes[lane].wait_pc == first->wait_pc && lanes[lane].operation == first->operation)
        there |= lane_bit(lane);
    }
    if (!first) continue;
    if (first->mask & worker.warps[warp].alive & ~there) note_missing_lanes(worker, *first, there);
    complete(worker, warp, there, first->operation, nullptr);
    worker.current_warp = warp;
    forced = true;
  }
  return forced;
}

}  // namespace emu
