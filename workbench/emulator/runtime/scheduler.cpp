// Threads are fibers of one OS thread; a fiber runs until it reaches a barrier, a warp operation or its
// end. One warp runs as far as it can before the next one starts: its lanes' logs are then replayed
// together, as the warp's requests.
#include "scheduler.h"

#include <algorithm>
#include <cstring>

#include "cluster.h"
#include "faults.h"
#include "replay.h"
#include "warp.h"

namespace emu {
namespace {

bool reverse(const Worker& worker) { return worker.launch->config.reverse; }

Stack* take_stack(Worker& worker) {
  if (worker.free_stacks.empty()) return map_stack();
  Stack* stack = worker.free_stacks.back();
  worker.free_stacks.pop_back();
  return stack;
}

void switch_to(Worker& worker, Thread* from, Thread* to) {
  worker.tally.switches++;
  emu_switch(from ? &from->stack_pointer : &worker.scheduler_stack_pointer,
             to ? to->stack_pointer : worker.scheduler_stack_pointer);
}

void thread_main();

void adopt_stack(Thread& thread, Stack* stack) {
  thread.stack = stack;
  thread.stack_low = reinterpret_cast<uint64_t>(stack->base);
}

// Makes `next` the running thread (null: the scheduler) and continues there.
void hand_over(Worker& worker, Thread* from, Thread* next) {
  worker.running = next;
  if (next) {
    if (next->run == Run::Unstarted) {
      adopt_stack(*next, take_stack(worker));
      next->stack_pointer = first_stack_pointer(*next->stack, next->lane, thread_main);
    }
    next->run = Run::Running;
  }
  switch_to(worker, from, next);
}

// Of several lanes the one that comes first in the order of this launch.
int first_of(const Worker& worker, uint32_t lanes) {
  return reverse(worker) ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
}

// Of several lanes those that come after one.
uint32_t after(const Worker& worker, int lane, uint32_t lanes) {
  uint32_t below = lane_bit(lane) - 1;
  return lanes & (reverse(worker) ? below : ~(below | lane_bit(lane)));
}

Thread* take_ready(Worker& worker) {
  uint32_t& ready = worker.warps[worker.current_warp].ready;
  if (!ready) return nullptr;
  int lane = first_of(worker, ready);
  ready &= ~lane_bit(lane);
  return worker.lanes_of(worker.current_warp) + lane;
}

bool drain_full_logs(Worker& worker) {
  Warp& warp = worker.warps[worker.current_warp];
  if (!warp.log_full) return false;
  replay(worker, worker.current_warp, LogEnd::MoreToCome);
  Thread* lanes = worker.lanes_of(worker.current_warp);
  for (uint32_t rest = warp.log_full; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    if (lanes[lane].logged == kLogCapacity) continue;
    warp.ready |= lane_bit(lane);
    warp.log_full &= ~lane_bit(lane);
  }
  return true;
}

// The next other warp that has something to do; -1 where there is none.
int runnable_warp(const Worker& worker) {
  int count = worker.warp_count;
  for (int step = 1; step < count; step++) {
    int warp = (worker.current_warp + (reverse(worker) ? count - step : step)) % count;
    const Warp& candidate = worker.warps[warp];
    if (candidate.ready | candidate.asks_active_mask | candidate.log_full) return warp;
  }
  return -1;
}

bool move_to_runnable_warp(Worker& worker) {
  int warp = runnable_warp(worker);
  if (warp >= 0) worker.current_warp = warp;
  return warp >= 0;
}

void note_divergent_barrier(Worker& worker) {
  const Thread* first = nullptr;
  for (int i = 0; i < worker.thread_count; i++) {
    const Thread& thread = worker.threads[i];
    if (thread.run != Run::AtBarrier) continue;
    if (!first) first = &thread;
    if (thread.wait_pc == first->wait_pc) continue;
    Fault fault{.kind = "divergent_barrier"};
    fault.pc = module_offset(worker, thread.wait_pc);
    fault.other_pc = module_offset(worker, first->wait_pc);
    fault.other_thread = static_cast<int>(first->rank);
    report(worker, &thread, fault);
    return;
  }
}

}  // namespace

namespace {

// A thread that has returned is not waited for. One that has gone on behind the barrier and ended there is
// another matter: where those that waited then do what it did last, the barrier stands in a branch.
void note_missed(Worker& worker) {
  worker.missed.clear();
  if (!worker.tracing || worker.alive == worker.thread_count) return;
  uint32_t barrier = 0;
  for (int i = 0; i < worker.thread_count && !barrier; i++)
    if (worker.threads[i].run == Run::AtBarrier) barrier = module_offset(worker, worker.threads[i].wait_pc);
  for (int i = 0; i < worker.thread_count; i++) {
    Thread& thread = worker.threads[i];
    if (thread.run != Run::Done || !thread.last_pc) continue;
    if (thread.last_pc > barrier && thread.barrier_pc != barrier)
      worker.missed.push_back({thread.last_pc, barrier, thread.rank});
    thread.last_pc = 0;
  }
}

}  // namespace

// Threads that have returned do not count, as on the hardware.
void release_barrier(Worker& worker) {
  note_divergent_barrier(worker);
  note_missed(worker);
  if (worker.at_cluster_barrier == worker.at_barrier) meet_cluster(worker);
  worker.at_cluster_barrier = worker.at_grid_barrier = 0;
  for (int i = 0; i < worker.thread_count; i++) {
    Thread& thread = worker.threads[i];
    if (thread.run != Run::AtBarrier) continue;
    thread.run = Run::Ready;
    thread.barrier_pc = module_offset(worker, thread.wait_pc);
    thread.last_pc = 0;
    worker.warps[thread.warp].ready |= lane_bit(thread.lane);
  }
  worker.predicate_result = worker.predicate_count;
  worker.predicate_count = worker.at_barrier = 0;
  worker.barrier_epoch = ++worker.last_epoch;
  worker.tally.barriers++;
  note_progress(worker);
  worker.current_warp = reverse(worker) ? worker.warp_count - 1 : 0;
}

namespace {

const char* name_of(Run run) {
  switch (run) {
    case Run::AtBarrier: return "deadlock_at_barrier";
    case Run::AtWarpOperation: return "deadlock_in_warp_operation";
    default: return "deadlock_polling";
  }
}

}  // namespace

// One fault for each place at which threads wait; its message is the number of threads there.
void report_deadlock(Worker& worker) {
  std::map<std::pair<const char*, const void*>, std::pair<const Thread*, int>> places;
  for (int i = 0; i < worker.thread_count; i++) {
    const Thread& thread = worker.threads[i];
    if (thread.run == Run::Done || thread.run == Run::Unstarted) continue;
    auto [place, added] = places.try_emplace({name_of(thread.run), thread.wait_pc}, &thread, 0);
    place->second.second++;
  }
  for (const auto& [place, waiting] : places) {
    Fault fault{.kind = place.first, .pc = module_offset(worker, place.second)};
    fault.message = std::to_string(waiting.second);
    report(worker, waiting.first, fault);
  }
  stop_after_this_block(worker);
}

namespace {

// The next thread to run; null when the block has ended, is given up, or waits for other blocks.
NOINLINE Thread* next_thread(Worker& worker) {
  for (;;) {
    if (worker.given_up()) return nullptr;
    if (Thread* thread = take_ready(worker)) return thread;
    if (answer_active_mask(worker, worker.current_warp) || drain_full_logs(worker)) continue;
    if (worker.tracing) replay(worker, worker.current_warp, LogEnd::Complete);
    if (move_to_runnable_warp(worker)) continue;
    if (!worker.alive) return nullptr;
    if (worker.at_barrier == worker.alive && worker.at_grid_barrier == worker.at_barrier) {
      worker.meets_grid = true;
      return nullptr;
    }
    if (worker.at_barrier == worker.alive) {
      release_barrier(worker);
    } else if (!force_incomplete_operation(worker)) {
      report_deadlock(worker);
      return nullptr;
    }
  }
}

void mark_done(Worker& worker, Thread& thread) {
  settle(thread);
  thread.run = Run::Done;
  worker.alive--;
  worker.warps[thread.warp].alive &= ~lane_bit(thread.lane);
  note_progress(worker);
}

// Where every fiber starts. When the thread has ended and the next one has not started yet, that one
// runs on the same stack: a block without barriers needs no switch at all.
void thread_main() {
  for (;;) {
    current_worker->launch->entry(current_worker->launch->arguments);
    Worker& worker = *current_worker;
    Thread& thread = *worker.running;
    mark_done(worker, thread);
    Thread* next = next_thread(worker);
    if (next && next->run == Run::Unstarted) {
      adopt_stack(*next, thread.stack);
      thread.stack = nullptr;
      next->run = Run::Running;
      worker.running = next;
      continue;
    }
    worker.free_stacks.push_back(thread.stack);
    thread.stack = nullptr;
    hand_over(worker, &thread, next);
  }
}

void start_threads(Worker& worker) {
  const uint32_t* size = worker.launch->config.block;
  for (int i = 0; i < worker.warp_count; i++) {
    int lanes = worker.lane_count(i);
    worker.warps[i] = Warp{};
    worker.warps[i].ready = worker.warps[i].alive = lanes == kWarp ? ~0u : lane_bit(lanes) - 1;
  }
  for (unsigned rank = 0; rank < static_cast<unsigned>(worker.thread_count); rank++) {
    Thread& thread = worker.threads[rank];
    thread.index = {rank % size[0], rank / size[0] % size[1], rank / (size[0] * size[1])};
    thread.rank = rank;
    thread.lane = rank % kWarp;
    thread.warp = rank / kWarp;
    thread.run = Run::Unstarted;
    thread.call_depth = thread.warp_epoch = 0;
    thread.looking = thread.looked = 0;
    thread.copies.clear();
    thread.orders_registers = false;
    thread.shown_in_epoch = 0;
    thread.logged = thread.replayed = thread.polls = thread.asked_next = 0;
    std::fill(std::begin(thread.asked), std::end(thread.asked), 0);
    thread.last_pc = thread.barrier_pc = 0;
    thread.unsettled = nullptr;
    if (!worker.log_memory.empty()) thread.log = &worker.log_memory[thread.lane * kLogCapacity];
  }
}

// True when no block that has started can still write the value that this one waits for.
bool hopeless(Worker& worker) {
  Launch& launch = *worker.launch;
  if (++worker.idle_turns == kHopeless) launch.blocks_stuck++;
  if (worker.idle_turns < kHopeless) return false;
  uint64_t started = std::min(launch.next_block.load(), launch.blocks);
  return launch.blocks_done.load() + launch.blocks_stuck.load() >= started;
}

// Every thread of the block has had its turn, and what it waits for may be another block's to write.
void leave_to_others(Worker& worker, Thread& thread) {
  worker.idle_turns = 0;
  if (worker.tracing) replay(worker, thread.warp, LogEnd::Complete);
  worker.warps[thread.warp].ready |= lane_bit(thread.lane);
  thread.run = Run::Ready;
  hand_over(worker, &thread, nullptr);
}

void give_up_waiting(Worker& worker, Thread& thread) {
  if (worker.launch->next_block.load() < worker.launch->blocks)
    report(worker, &thread, {.kind = "waits_for_later_block", .pc = module_offset(worker, thread.wait_pc)});
  report_deadlock(worker);
  hand_over(worker, &thread, nullptr);
}

}  // namespace

void run_block(Worker& worker) {
  begin_block(worker);
  go_on(worker);
  end_block(worker);
}

void begin_block(Worker& worker) {
  worker.block_serial = ++worker.last_serial;
  worker.barrier_epoch = ++worker.last_epoch;
  worker.alive = worker.thread_count;
  worker.at_barrier = worker.at_cluster_barrier = worker.at_grid_barrier = worker.predicate_count = 0;
  worker.cluster_epoch = worker.barrier_epoch;
  worker.idle_turns = 0;
  worker.missed.clear();
  start_threads(worker);
  worker.current_warp = reverse(worker) ? worker.warp_count - 1 : 0;
}

void go_on(Worker& worker) {
  if (Thread* first = next_thread(worker)) hand_over(worker, nullptr, first);
  worker.running = nullptr;
}

void end_block(Worker& worker) {
  if (worker.launch->order) worker.launch->order->ended(worker.block);
  check_groups(worker);
  for (int i = 0; i < worker.thread_count; i++) {  // threads that were given up still hold a stack
    Thread& thread = worker.threads[i];
    if (thread.stack) worker.free_stacks.push_back(thread.stack);
    thread.stack = nullptr;
  }
}

void settle(Thread& thread) {
  if (thread.looking) {
    Worker& worker = *current_worker;
    worker.launch->order->look(worker.block, {worker.barrier_epoch, thread.warp}, thread.looking);
    thread.looking = 0;
  }
  if (!thread.unsettled) return;
  uint64_t halves[2] = {};
  memcpy(halves, reinterpret_cast<const void*>(thread.unsettled->address), thread.unsettled->size);
  thread.unsettled->value = halves[0] ^ halves[1] * 0x9e3779b97f4a7c15;
  thread.unsettled = nullptr;
}

NOINLINE void wait_here(Worker& worker, Thread& thread) {
  settle(thread);
  Thread* next = next_thread(worker);
  if (next == &thread) {
    thread.run = Run::Running;
    return;
  }
  hand_over(worker, &thread, next);
}

void end_thread(Worker& worker, Thread& thread) {
  mark_done(worker, thread);
  hand_over(worker, &thread, next_thread(worker));
  __builtin_unreachable();
}

NOINLINE void yield(Worker& worker, Thread& thread, bool counts) {
  settle(thread);
  if (counts) thread.polls = 0;
  if (worker.given_up()) hand_over(worker, &thread, nullptr);
  if (worker.in_turns && worker.idle_turns >= static_cast<uint64_t>(worker.alive)) {
    leave_to_others(worker, thread);
    return;
  }
  if (worker.in_turns) worker.idle_turns++;
  else if (UNLIKELY(counts && hopeless(worker))) give_up_waiting(worker, thread);
  Warp& warp = worker.warps[thread.warp];
  if (!warp.ready) drain_full_logs(worker);
  uint32_t later = after(worker, thread.lane, warp.ready);
  // What several lanes wait for may be another warp's to write: it has its turn when each of them has had one.
  if (warp.ready && (later || runnable_warp(worker) < 0)) {
    int lane = first_of(worker, later ? later : warp.ready);
    warp.ready = (warp.ready & ~lane_bit(lane)) | lane_bit(thread.lane);
    thread.run = Run::Ready;
    hand_over(worker, &thread, worker.lanes_of(thread.warp) + lane);
    return;
  }
  // The lanes' log memory is about to be used by another warp.
  if (worker.tracing) replay(worker, thread.warp, LogEnd::Complete);
  if (!move_to_runnable_warp(worker)) {
    if (worker.in_turns) leave_to_others(worker, thread);
    return;
  }
  warp.ready |= lane_bit(thread.lane);
  thread.run = Run::Ready;
  Thread* next = next_thread(worker);
  hand_over(worker, &thread, next);
}

}  // namespace emu
