// Two accesses to one cell race when they come from different threads, at least one writes, not both are
// atomic, and neither a barrier lies between them nor, inside one warp, a warp operation. The shadow
// keeps the last write and the last reads; keys hold an epoch that never repeats, so nothing is cleared
// between blocks.
//
// Two lanes that write one cell with one request do not race: the hardware keeps one of the values. Where they
// are not the same that is noted, and a run in the opposite order shows whether it matters which. Across blocks,
// what is read or written again must have been told by a flag that the block has looked at: order.h follows
// which. So it is between warps of a block that no barrier holds apart. Flags and counters of several blocks, and
// what one writes after another has read it, are ordered more generously: when one of the blocks has fenced
// (__threadfence) by then and the other has used an atomic or a volatile read.
#include "races.h"

#include "faults.h"

namespace emu {
namespace {

// Shared key: [barrier epoch : 32][warp epoch : 8][- : 7][atomic : 1][rank + 1 : 16]; 0 means never.
uint64_t shared_key(const Worker& worker, const LaneEvent& lane) {
  uint64_t atomic = (lane.event->kind & kActionMask) == kAtomic;
  return static_cast<uint64_t>(worker.barrier_epoch) << 32 |
         static_cast<uint64_t>(lane.event->warp_epoch) << 24 | atomic << 16 | (lane.thread->rank + 1);
}
int rank_in_shared_key(uint64_t key) { return static_cast<int>(key & 0xffff) - 1; }

bool conflict_in_shared(uint64_t earlier, uint64_t mine) {
  if (!earlier || earlier >> 32 != mine >> 32) return false;
  int rank = rank_in_shared_key(earlier), my_rank = rank_in_shared_key(mine);
  if (rank == my_rank || (earlier & mine & 1 << 16)) return false;
  bool same_warp = rank / kWarp == my_rank / kWarp;
  return !same_warp || (earlier >> 24 & 0xff) == (mine >> 24 & 0xff);
}

Fault race(const char* kind, const Event& event, uint32_t other_pc, int other_thread) {
  Fault fault{.kind = kind, .pc = event.pc, .other_pc = other_pc, .address = event.address};
  fault.size = event.size;
  fault.action = event.kind & kActionMask;
  fault.other_thread = other_thread;
  return fault;
}

void check_initialised(Worker& worker, const LaneEvent& lane, const SharedCell& cell) {
  uint32_t checks = worker.shadow_restarted_in == worker.block_serial ? 0 : worker.launch->config.checks;
  if ((checks & EMU_SHARED_INITIAL) && cell.written_in_block != worker.block_serial)
    report(worker, lane.thread, race("uninitialised_shared", *lane.event, 0, -1));
}

// The tensor core sees what was written to shared memory when who wrote it, or who lets the tensor core read it,
// has called fence.proxy.async since. That is asked of the thread's last call only: one too early is not told.
void check_shown(Worker& worker, const LaneEvent& lane, const SharedCell& cell) {
  if (cell.written_in_block != worker.block_serial || worker.shadow_restarted_in == worker.block_serial) return;
  int writer = rank_in_shared_key(cell.write);
  uint32_t written = static_cast<uint32_t>(cell.write >> 32);
  if (worker.threads[writer].shown_in_epoch >= written || lane.thread->shown_in_epoch >= written) return;
  report(worker, lane.thread, race("not_shown", *lane.event, cell.write_pc, writer));
}

void enter_shared_read(Worker& worker, const LaneEvent& lane, SharedCell& cell, uint64_t key) {
  const Event& event = *lane.event;
  uint32_t checks = worker.shadow_restarted_in == worker.block_serial ? 0 : worker.launch->config.checks;
  check_initialised(worker, lane, cell);
  if ((checks & EMU_RACES) && conflict_in_shared(cell.write, key))
    report(worker, lane.thread,
           race("race_read_after_write", event, cell.write_pc, rank_in_shared_key(cell.write)));
  else if ((checks & EMU_RACES) && (event.kind & kUnit))
    check_shown(worker, lane, cell);
  if (rank_in_shared_key(cell.read) != rank_in_shared_key(key)) {
    if (cell.read >> 32 == key >> 32) cell.earlier_read = cell.read;
    cell.read_pc = event.pc;
  }
  cell.read = key;
}

void enter_shared_write(Worker& worker, const LaneEvent& lane, SharedCell& cell, uint64_t key) {
  const Event& event = *lane.event;
  if ((event.kind & kActionMask) == kAtomic) check_initialised(worker, lane, cell);
  if ((worker.launch->config.checks & EMU_RACES) && worker.shadow_restarted_in != worker.block_serial) {
    // The setter's own atomic hides its plain write from the atomics of others.
    bool hidden = !conflict_in_shared(cell.write, key) && conflict_in_shared(cell.plain_write, key);
    if (hidden)
      report(worker, lane.thread,
             race("race_write_after_write", event, cell.plain_write_pc,
                  rank_in_shared_key(cell.plain_write)));
    if (conflict_in_shared(cell.write, key) && cell.write_request != worker.request)
      report(worker, lane.thread,
             race("race_write_after_write", event, cell.write_pc, rank_in_shared_key(cell.write)));
    if (conflict_in_shared(cell.write, key) && cell.write_request == worker.request &&
        cell.write_value != event.value)
      report(worker, lane.thread,
             race("one_of_two_values", event, cell.write_pc, rank_in_shared_key(cell.write)));
    uint64_t read = conflict_in_shared(cell.read, key) ? cell.read : cell.earlier_read;
    if (conflict_in_shared(read, key))
      report(worker, lane.thread,
             race("race_write_after_read", event, cell.read_pc, rank_in_shared_key(read)));
  }
  cell.write = key;
  cell.write_pc = event.pc;
  cell.write_request = worker.request;
  cell.write_value = event.value;
  if ((event.kind & kActionMask) == kWrite) {
    cell.plain_write = key;
    cell.plain_write_pc = event.pc;
  }
  cell.written_in_block = worker.block_serial;
}

void check_shared(Worker& worker, const LaneEvent& lane) {
  const Event& event = *lane.event;
  if (UNLIKELY(event.size < 1u << worker.shadow_shift)) {
    // Smaller than a cell: start again with finer cells, and judge nothing more in this block.
    reset_shared_shadow(worker, event.size == 1 ? 0 : 1);
    worker.shadow_restarted_in = worker.block_serial;
  }
  uint64_t offset = event.address - worker.shared_span.low, key = shared_key(worker, lane);
  for (uint64_t i = offset >> worker.shadow_shift; i <= (offset + event.size - 1) >> worker.shadow_shift;
       i++) {
    SharedCell& cell = worker.shared_shadow[i];
    if ((event.kind & kActionMask) == kRead) enter_shared_read(worker, lane, cell, key);
    else enter_shared_write(worker, lane, cell, key);
  }
}

// Global key: [block + 1 : 31][atomic : 1][barrier epoch : 12][warp epoch : 9][rank + 1 : 11].
uint64_t global_key(const Worker& worker, const LaneEvent& lane) {
  uint64_t atomic = (lane.event->kind & kActionMask) == kAtomic;
  return (worker.block + 1) << 33 | atomic << 32 | (worker.barrier_epoch & 0xfffull) << 20 |
         static_cast<uint64_t>(lane.event->warp_epoch) << 11 | (lane.thread->rank + 1);
}
int rank_in_global_key(uint64_t key) { return static_cast<int>(key & 0x7ff) - 1; }

bool conflict_in_global(uint64_t earlier, uint64_t mine) {
  if (!earlier || (earlier & mine & 1ull << 32)) return false;
  if (earlier >> 33 != mine >> 33) return true;
  if ((earlier >> 20 & 0xfff) != (mine >> 20 & 0xfff)) return false;
  int rank = rank_in_global_key(earlier), my_rank = rank_in_global_key(mine);
  if (rank == my_rank) return false;
  return rank / kWarp != my_rank / kWarp || (earlier >> 11 & 0x1ff) == (mine >> 11 & 0x1ff);
}

// A reader of what was published, or a publisher of what is polled.
bool published(const Launch& launch, uint64_t one, uint64_t other) {
  auto is = [](const std::atomic<uint8_t>& mark) { return mark.load(std::memory_order_relaxed) != 0; };
  return (is(launch.fenced[one]) && is(launch.listened[other])) ||
         (is(launch.fenced[other]) && is(launch.listened[one]));
}

// Of reads no time is kept: nobody can have been told of one, and blocks are ordered generously.
constexpr uint32_t kNoTime = ~0u;

// ``then``: the earlier access's time in its own block; with kTells where blocks are ordered generously.
// ``word``: both accesses are of a word by which blocks tell one another.
void note_global(Worker& worker, const LaneEvent& lane, const char* kind, uint64_t earlier,
                 uint32_t other_pc, uint32_t meeting, uint32_t then, uint32_t epoch, bool word) {
  if (meeting != worker.launch->meeting) return;  // a grid barrier lies between
  Fault fault = race(kind, *lane.event, other_pc, rank_in_global_key(earlier));
  uint64_t block = (earlier >> 33) - 1;
  uint32_t when = static_cast<uint32_t>(lane.event->value);
  Moment mine{worker.barrier_epoch, lane.thread->warp};
  Moment its{epoch, static_cast<uint32_t>(rank_in_global_key(earlier) / kWarp)};
  bool others = block != worker.block, tells = (when | then) & kTells;
  // A word may carry a value and the news of it at once, which takes no fence: where both sides say so, and of
  // __device__ variables where one does, only plain accesses are held against one another.
  if ((lane.event->kind & kVariable) && tells) return;
  if (word) return;
  if (others && tells ? published(*worker.launch, block, worker.block)
                      : worker.launch->order->knows(worker.block, mine, when & ~kTells, block, its, then & ~kTells))
    return;
  if (others) fault.message = "block " + std::to_string(block);
  report(worker, lane.thread, fault);
}

// Other workers use the same cells. A torn pair of key and instruction may name the wrong line of a race
// that exists; it cannot make one up.
void enter_global(Worker& worker, const LaneEvent& lane, GlobalCell& cell, uint64_t key) {
  bool reads = (lane.event->kind & kActionMask) == kRead;
  uint64_t write = __atomic_load_n(&cell.write, __ATOMIC_RELAXED),
           read = __atomic_load_n(&cell.read, __ATOMIC_RELAXED);
  uint32_t when = static_cast<uint32_t>(lane.event->value);
  bool one_request = !reads && cell.write_request == worker.request && write >> 33 == key >> 33;
  if (conflict_in_global(write, key) && !one_request)
    note_global(worker, lane, reads ? "race_read_after_write" : "race_write_after_write", write,
                cell.write_pc, cell.write_meeting, cell.write_time, cell.write_epoch,
                when & cell.write_time & kTells);
  if (!reads && conflict_in_global(read, key))
    note_global(worker, lane, "race_write_after_read", read, cell.read_pc, cell.read_meeting, kNoTime, 0,
                when & cell.read_tells & kTells);
  __atomic_store_n(reads ? &cell.read : &cell.write, key, __ATOMIC_RELAXED);
  (reads ? cell.read_pc : cell.write_pc) = lane.event->pc;
  (reads ? cell.read_meeting : cell.write_meeting) = worker.launch->meeting;
  if (reads) cell.read_tells = when & kTells;
  if (!reads) cell.write_time = when;
  if (!reads) cell.write_epoch = worker.barrier_epoch;
  if (!reads) cell.write_request = worker.request;
}

void check_global(Worker& worker, const LaneEvent& lane) {
  Launch& launch = *worker.launch;
  const Event& event = *lane.event;
  for (size_t i = 0; i < launch.buffers.size(); i++) {
    const emu_buffer& buffer = launch.buffers[i];
    if (event.address < buffer.low || event.address >= buffer.high) continue;
    if (!launch.shadow[i]) return;  // nobody writes it, or is told off for that alone
    uint64_t offset = event.address - buffer.low, key = global_key(worker, lane);
    for (uint64_t k = offset / buffer.item_bytes; k <= (offset + event.size - 1) / buffer.item_bytes; k++)
      enter_global(worker, lane, launch.shadow[i][k], key);
    return;
  }
}

}  // namespace

void check_order(Worker& worker, const LaneEvent* lanes, int count) {
  bool shared = lanes[0].event->kind & kShared;
  if (!shared && !(worker.launch->config.checks & EMU_RACES)) return;
  for (int i = 0; i < count; i++) {
    if (shared) check_shared(worker, lanes[i]);
    else check_global(worker, lanes[i]);
  }
}

void reset_shared_shadow(Worker& worker, uint32_t shift) {
  worker.shadow_shift = shift;
  uint64_t bytes = worker.shared_span.high - worker.shared_span.low;
  worker.shared_shadow.assign((bytes >> shift) + 16, SharedCell{});
}

}  // namespace emu
