// Every load and store of an instrumented module arrives here, before it happens.
//
// The module is compiled with -fsanitize=thread and linked without the sanitizer's library: these are
// its hooks. An access is checked against the launch's buffers and the block's shared arrays; one that
// would go astray is reported and its thread ended, so the emulator's own process is never corrupted.
#include <algorithm>
#include <cstring>

#include "access.h"
#include "cluster.h"
#include "faults.h"
#include "scheduler.h"
#include "state.h"

namespace emu {
namespace {

// Polling loops: after this many atomics or volatile reads a thread lets the others run.
constexpr uint32_t kPolls = 256;

NOINLINE void bad_access(Worker& worker, Thread& thread, const Event& event, const char* kind) {
  Fault fault{.kind = kind, .pc = event.pc, .address = event.address};
  fault.size = event.size;
  fault.action = event.kind & kActionMask;
  report(worker, &thread, fault);
  stop_after_this_block(worker);
  end_thread(worker, thread);
}

// Memory that is neither shared nor a buffer and still in order: __device__ variables and literals, C++
// initialisation guards beside the shared arrays, a fragment that another lane of the warp exchanges.
bool tolerated(const Worker& worker, const Thread& thread, uint64_t address) {
  const emu_config& config = worker.launch->config;
  if (address >= config.data_low && address < config.data_high) return true;
  for (uint32_t i = 0; i < config.guards; i++)
    if (address == worker.tls + config.guard_offsets[i]) return true;
  if (thread.stack_low - address <= kGuardBytes) return true;  // it crashes there, which tells more
  const Thread* lanes = &worker.threads[thread.warp * kWarp];
  for (int lane = 0; lane < kWarp; lane++)
    if (lanes[lane].stack && address - lanes[lane].stack_low < kStackBytes) return true;
  return false;
}

bool near_shared(const Worker& worker, uint64_t address) {
  constexpr uint64_t margin = 4096, dynamic_area = 256 << 10;
  const emu_range& span = worker.shared_span;
  if (span.low == span.high) return false;
  uint64_t high = worker.dynamic_low == kNever ? span.high : worker.dynamic_low + dynamic_area;
  return address >= span.low - margin && address < high + margin;
}

// Index of the range that holds the address, or the number of ranges. Starts with the last hit.
template <class Ranges>
ALWAYS_INLINE size_t find(const Ranges& ranges, size_t& last_hit, uint64_t address) {
  size_t count = ranges.size();
  if (LIKELY(last_hit < count &&
             address - ranges[last_hit].low < ranges[last_hit].high - ranges[last_hit].low))
    return last_hit;
  for (size_t i = 0; i < count; i++)
    if (address - ranges[i].low < ranges[i].high - ranges[i].low) return last_hit = i;
  return count;
}

// Tracks which bytes of an output or workspace have been written.
ALWAYS_INLINE void track_initialised(Worker& worker, Thread& thread, const emu_buffer& buffer,
                                     const Event& event) {
  uint8_t* marks = buffer.initialised + (event.address - buffer.low);
  if ((event.kind & kActionMask) == kWrite) {
    memset(marks, 1, event.size);
    return;
  }
  for (unsigned i = 0; i < event.size; i++) {
    if (LIKELY(marks[i])) continue;
    Fault fault{.kind = "uninitialised_global", .pc = event.pc, .address = event.address};
    fault.size = event.size;
    fault.action = event.kind & kActionMask;
    report(worker, &thread, fault);
    memset(marks, 1, event.size);  // say it once
    return;
  }
}

NOINLINE void note_written_input(Worker& worker, Thread& thread, const Event& event) {
  Fault fault{.kind = "input_written", .pc = event.pc, .address = event.address};
  fault.size = event.size;
  fault.action = event.kind & kActionMask;
  report(worker, &thread, fault);
}

ALWAYS_INLINE void check_buffer(Worker& worker, Thread& thread, const emu_buffer& buffer,
                                const Event& event) {
  if (UNLIKELY(event.address + event.size > buffer.high)) bad_access(worker, thread, event, "out_of_bounds");
  if (UNLIKELY(buffer.initialised != nullptr)) track_initialised(worker, thread, buffer, event);
  if (UNLIKELY(buffer.read_only && (event.kind & kActionMask) != kRead))
    note_written_input(worker, thread, event);
}

// Inside the span of the shared arrays there are gaps, and C++ guards that the compiler put there; false for
// these, which are no memory of the kernel's.
ALWAYS_INLINE bool check_shared_array(Worker& worker, Thread& thread, const Event& event) {
  size_t array = find(worker.shared, worker.last_shared, event.address);
  bool fits = array < worker.shared.size() && event.address + event.size <= worker.shared[array].high;
  if (LIKELY(fits)) return true;
  if (tolerated(worker, thread, event.address)) return false;
  bad_access(worker, thread, event, "out_of_bounds_shared");
  return true;
}

// Another block's shared memory: in the same array there, and aligned; what it means is judged later.
NOINLINE void remote_access(Worker& worker, Thread& thread, const Event& event, Worker& owner) {
  for (const emu_range& array : owner.shared) {
    if (event.address < array.low || event.address + event.size > array.high) continue;
    if (event.address & (event.size - 1)) bad_access(worker, thread, event, "misaligned");
    note_remote(worker, thread, event, owner.cluster_rank);
    return;
  }
  Event here = event;
  here.address += worker.tls - owner.tls;
  bad_access(worker, thread, here, "out_of_bounds_shared");
}

// The thread has come past a barrier to where one that never came to it has been.
NOINLINE void note_branched_barrier(Worker& worker, Thread& thread, uint32_t pc) {
  for (const Missed& missed : worker.missed) {
    if (missed.last_pc != pc) continue;
    Fault fault{.kind = "branched_barrier", .pc = missed.barrier_pc, .other_pc = pc};
    fault.other_thread = static_cast<int>(missed.rank);
    report(worker, &thread, fault);
    worker.missed.clear();
    return;
  }
}

ALWAYS_INLINE void log_event(Worker& worker, Thread& thread, const Event& event) {
  thread.last_pc = event.pc;
  if (UNLIKELY(!worker.missed.empty())) note_branched_barrier(worker, thread, event.pc);
  if (UNLIKELY(thread.logged == kLogCapacity)) {
    thread.run = Run::LogFull;
    worker.warps[thread.warp].log_full |= lane_bit(thread.lane);
    wait_here(worker, thread);
  }
  thread.log[thread.logged++] = event;
}

constexpr uint64_t kWidest = 16;  // bytes of one load

ALWAYS_INLINE void access(uint64_t address, unsigned size, uint8_t action, const void* return_address,
                          bool tells = false) {
  Worker* worker = current_worker;
  if (UNLIKELY(!worker || !worker->running)) return;
  Thread& thread = *worker->running;
  if (address - thread.stack_low < kStackBytes) return;  // a local variable
  settle(thread);
  Event event{address,
              module_offset(*worker, return_address),
              static_cast<uint8_t>(size),
              action,
              thread.call_depth,
              thread.warp_epoch,
              0};
  if (holds(worker->shared_span, address)) {
    if (UNLIKELY(!check_shared_array(*worker, thread, event))) return;
    event.kind |= kShared;
  } else {
    const auto& buffers = worker->launch->buffers;
    size_t buffer = find(buffers, worker->last_buffer, address);
    if (UNLIKELY(buffer == buffers.size())) {
      if (Worker* owner = owner_of(*worker, address)) {
        remote_access(*worker, thread, event, *owner);
        return;
      }
      if (tolerated(*worker, thread, address)) return;
      bad_access(*worker, thread, event,
                 near_shared(*worker, address) ? "out_of_bounds_shared" : "out_of_bounds");
    }
    check_buffer(*worker, thread, buffers[buffer], event);
    event.kind |= buffer < worker->launch->config.buffers ? kGlobal : kGlobal | kVariable;
    if (const Order* order = worker->launch->order.get())
      event.value = order->now(worker->block) | (tells || address - thread.looked < kWidest ? kTells : 0);
  }
  if (UNLIKELY(address & (size - 1))) bad_access(*worker, thread, event, "misaligned");
  if (worker->tracing) log_event(*worker, thread, event);
}

// A place that other blocks may use too.
ALWAYS_INLINE bool is_for_all(const Worker& worker, uint64_t address) {
  return !holds(worker.shared_span, address) && address - worker.running->stack_low >= kStackBytes;
}

// The order of blocks where one of them, which runs, uses such a place; else null.
ALWAYS_INLINE Order* order_at(const Worker& worker, uint64_t address) {
  if (LIKELY(!worker.launch->order)) return nullptr;
  return is_for_all(worker, address) ? worker.launch->order.get() : nullptr;
}

void tell(uint64_t address) {
  Worker* worker = current_worker;
  if (!worker || !worker->running) return;
  Order* order = order_at(*worker, address);
  if (order && order->has_fenced(worker->block)) order->tell(worker->block, worker->moment(), address, false);
}

// One store of the kernel's: unlike a copy's pieces it is done once the thread goes on.
ALWAYS_INLINE void store(uint64_t address, unsigned size, const void* return_address) {
  access(address, size, kWrite, return_address);
  tell(address);
  Worker* worker = current_worker;
  if (UNLIKELY(!worker || !worker->running || !worker->tracing)) return;
  Thread& thread = *worker->running;
  if (!thread.logged) return;
  Event& last = thread.log[thread.logged - 1];
  if (last.address == address && last.kind == (kWrite | kShared)) thread.unsettled = &last;
}

// ``again``: what was not there a moment ago another thread has to put there.
NOINLINE void poll(Worker& worker, Thread& thread, const void* return_address, bool again = false) {
  bool counts = ++thread.polls >= kPolls;
  if (!counts && !again) return;
  thread.wait_pc = return_address;
  yield(worker, thread, counts);
}

// The block has looked at what others may have published.
void listen(Worker& worker) {
  auto& listened = worker.launch->listened;
  if (!listened.empty()) listened[worker.block].store(1, std::memory_order_relaxed);
}

// Whether the thread has asked at this place a moment ago.
bool asks_again(Thread& thread, uint64_t address) {
  if (std::find(std::begin(thread.asked), std::end(thread.asked), address) != std::end(thread.asked)) return true;
  thread.asked[thread.asked_next++ % kAsked] = address;
  return false;
}

// The same read once more takes the place of the last one: how often a thread asks in vain depends on whose turn
// it is here, and says nothing of what a GPU would read.
bool replaced(Worker& worker, Thread& thread, uint64_t address, const void* return_address) {
  uint32_t pc = module_offset(worker, return_address), known = std::min<uint32_t>(thread.logged, kAsked);
  for (Event* event = thread.log + thread.logged; known--;) {
    if ((--event)->address != address || event->pc != pc || (event->kind & kActionMask) != kRead) continue;
    if (const Order* order = worker.launch->order.get()) event->value = order->now(worker.block) | kTells;
    return true;
  }
  return false;
}

void volatile_read(uint64_t address, unsigned size, const void* return_address) {
  Worker* worker = current_worker;
  if (!worker || !worker->running) return;
  listen(*worker);
  Thread& thread = *worker->running;
  // To let others run takes some stack, which a kernel that overflows its own has not.
  bool has_room = reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - thread.stack_low > kStackBytes / 8;
  bool again = has_room && is_for_all(*worker, address) && asks_again(thread, address);
  if (!again || !worker->tracing || !replaced(*worker, thread, address, return_address))
    access(address, size, kRead, return_address, true);
  poll(*worker, thread, return_address, again);
  if (order_at(*worker, address)) {
    worker->running->looking = address;
    worker->launch->converses = true;
  }
}

void volatile_write(uint64_t address, unsigned size, const void* return_address) {
  access(address, size, kWrite, return_address, true);
  tell(address);
}

}  // namespace

void read_for_unit(Worker& worker, Thread& thread, uint64_t address, unsigned size, uint32_t pc) {
  Event event{address, pc, static_cast<uint8_t>(size), kRead | kUnit, thread.call_depth, thread.warp_epoch, 0};
  size_t array = find(worker.shared, worker.last_shared, address);
  if (UNLIKELY(array == worker.shared.size() || address + size > worker.shared[array].high))
    bad_access(worker, thread, event, "out_of_bounds_shared");
  event.kind |= kShared;
  settle(thread);
  if (worker.tracing) log_event(worker, thread, event);
}

namespace {

// Copies of structures: split into the widest aligned pieces, as a GPU compiler would.
void access_range(uint64_t address, size_t bytes, uint8_t action, const void* return_address) {
  while (bytes) {
    unsigned piece = 16;
    while (piece > 1 && (piece > bytes || address % piece)) piece /= 2;
    access(address, piece, action, return_address);
    address += piece;
    bytes -= piece;
  }
}

}  // namespace
}  // namespace emu

#define CALLER __builtin_return_address(0)
#define ADDRESS(pointer) reinterpret_cast<uint64_t>(pointer)
// "Unaligned" is what the compiler says of a copy whose alignment it cannot know, such as a memcpy: it is
// split at the address's own alignment and never a fault.
#define HOOKS(size)                                                                                        \
  void __tsan_read##size(void* p) { emu::access(ADDRESS(p), size, emu::kRead, CALLER); }                   \
  void __tsan_write##size(void* p) { emu::store(ADDRESS(p), size, CALLER); }                               \
  void __tsan_unaligned_read##size(void* p) { emu::access_range(ADDRESS(p), size, emu::kRead, CALLER); }   \
  void __tsan_unaligned_write##size(void* p) { emu::access_range(ADDRESS(p), size, emu::kWrite, CALLER); } \
  void __tsan_volatile_read##size(void* p) { emu::volatile_read(ADDRESS(p), size, CALLER); }               \
  void __tsan_volatile_write##size(void* p) { emu::volatile_write(ADDRESS(p), size, CALLER); }             \
  void __tsan_unaligned_volatile_read##size(void* p) { emu::volatile_read(ADDRESS(p), size, CALLER); }     \
  void __tsan_unaligned_volatile_write##size(void* p) { emu::volatile_write(ADDRESS(p), size, CALLER); }

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void* p, size_t bytes) { emu::access_range(ADDRESS(p), bytes, emu::kRead, CALLER); }
void __tsan_write_range(void* p, size_t bytes) { emu::access_range(ADDRESS(p), bytes, emu::kWrite, CALLER); }
// The header sends a kernel's memcpy, memmove and memset here: g++ itself does not instrument them.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  emu::access_range(ADDRESS(from), bytes, emu::kRead, CALLER);
  emu::access_range(ADDRESS(to), bytes, emu::kWrite, CALLER);
  return memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  emu::access_range(ADDRESS(from), bytes, emu::kRead, CALLER);
  emu::access_range(ADDRESS(to), bytes, emu::kWrite, CALLER);
  return memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  emu::access_range(ADDRESS(to), bytes, emu::kWrite, CALLER);
  return memset(to, value, bytes);
}

void __tsan_func_entry(void*) {
  if (emu::current_worker && emu::current_worker->running) emu::current_worker->running->call_depth++;
}
void __tsan_func_exit() {
  if (emu::current_worker && emu::current_worker->running) emu::current_worker->running->call_depth--;
}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// ``again``: as with a volatile read, whatever was told by then.
void emu_looked(const void* pointer, bool again) {
  emu::Worker* worker = emu::current_worker;
  if (!worker || !worker->running) return;
  emu::poll(*worker, *worker->running, CALLER);
  emu::Order* order = emu::order_at(*worker, ADDRESS(pointer));
  if (!order || !pointer) return;
  worker->launch->converses = true;
  if (!order->look(worker->block, worker->moment(), ADDRESS(pointer)) && !again) return;
  emu::listen(*worker);
  worker->running->looked = ADDRESS(pointer);
}

// Called by the header's atomics, in plain modules too.
void emu_atomic_access(const void* address, unsigned size, const void* return_address) {
  emu::Worker& worker = *emu::current_worker;
  emu::listen(worker);
  if (worker.launch->config.checks) emu::access(ADDRESS(address), size, emu::kAtomic, return_address, true);
  emu::poll(worker, *worker.running, return_address);
  if (emu::Order* order = emu::order_at(worker, ADDRESS(address))) {
    order->tell(worker.block, worker.moment(), ADDRESS(address), true);
    worker.running->looking = ADDRESS(address);
    worker.launch->converses = true;
  }
}
}
