// What the runtime knows of a launch, of the block a worker runs, of its warps and threads.
// Owns the types; scheduler.cpp, warp.cpp, access.cpp, replay.cpp and races.cpp own the behaviour.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "abi.h"
#include "fiber.h"
#include "order.h"
#include "warpgroup.h"

#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

namespace emu {
constexpr int kMaxThreads = 1024, kWarp = 32, kMaxWarps = kMaxThreads / kWarp;
constexpr uint32_t kLogCapacity = 4096;
constexpr uint64_t kNever = ~0ull;
constexpr size_t kPrintedBytes = 4096;  // of what a launch's threads print, so much is kept
// A thread that polls lets the others run. After this many turns in which no thread of its block got
// anywhere the block counts as stuck; when every started block is stuck, nothing will ever change.
constexpr uint64_t kHopeless = 1 << 14;

// Kind of an access: one of the first three, or-ed with the space once that is known.
enum : uint8_t {
  kRead = 0, kWrite = 1, kAtomic = 2, kActionMask = 3, kShared = 0x10, kGlobal = 0x20,
  kVariable = 0x40,  // beside kGlobal: of a __device__ variable, which is no tensor's traffic
  kUnit = 0x80,      // beside kShared: by the tensor core, whose reads are no warp's requests
};

// Beside a time: the access is of a place by which blocks tell one another, and not of what they tell.
constexpr uint32_t kTells = 1u << 31;

// One access of one thread, as its log keeps it until the warp is replayed.
struct Event {
  uint64_t address;
  uint32_t pc;  // offset into the module
  uint8_t size, kind;
  uint8_t call_depth;
  uint8_t warp_epoch;  // warp operations the thread had passed, modulo 256
  // What a plain write to shared memory wrote, 0 where that is not known; of an access to a buffer the time of
  // its block, with kTells, while races are looked for.
  uint64_t value;
};

enum class Run : uint8_t {
  Unstarted,
  Running,
  Ready,
  AtWarpOperation,
  AtActiveMask,
  AtBarrier,
  LogFull,
  Done
};

// What a thread has asked to be copied to shared memory, in groups, and has not waited for.
struct Copies {
  std::vector<emu_copy> waiting;
  std::vector<size_t> groups;  // where each ends among those that wait
  size_t done = 0;             // of those that wait, have arrived

  void request(const emu_copy& copy);
  void commit();
  emu_copy arrived(size_t left);  // the next of all groups but the last ``left``; to null when there is none
  void clear();
};

constexpr int kAsked = 32;

struct Thread {
  void* stack_pointer = nullptr;
  Stack* stack = nullptr;
  uint64_t stack_low = 0;
  emu_index index;
  uint32_t rank;
  uint16_t lane, warp;
  Run run;
  uint8_t call_depth, warp_epoch;
  Event* log = nullptr;
  uint32_t logged, replayed;
  Event* unsettled = nullptr;  // its last write, whose value is not there before the thread goes on
  uint32_t last_pc, barrier_pc;  // its last access since the last barrier, and that barrier
  uint64_t looking;  // a place that it has just read, where others may have told something: learnt as it goes on
  uint64_t looked;   // where its last load past the first-level cache found that something was told
  Copies copies;
  bool orders_registers;    // has called wgmma.fence
  uint32_t shown_in_epoch;  // when it last let the tensor core see what it had written to shared memory
  uint32_t polls;  // atomics and volatile reads since the thread last let others run
  uint64_t asked[kAsked];  // places of its last volatile reads: to ask there again is to wait
  uint32_t asked_next;
  // What it waits for, and with which operands.
  int operation, argument, width;
  unsigned mask;
  uint64_t value;
  const void* wait_pc;
};

// Sets of lanes, one bit each.
struct Warp {
  uint32_t ready = 0, arrived = 0, asks_active_mask = 0, log_full = 0, alive = 0;
  void* pointers[kWarp];
  Multiplications multiplications;
};

// Warp requests of one access instruction.
struct Site {
  uint64_t requests = 0, lanes = 0, bytes = 0;
  uint64_t sectors = 0, ideal_sectors = 0;        // global
  uint64_t wavefronts = 0, ideal_wavefronts = 0;  // shared
  uint32_t pc = 0;
  uint8_t kind = 0, size = 0;
};

// One call copies memory: it reads and writes at the same instruction.
inline uint32_t site_key(uint32_t pc, uint8_t kind) { return pc << 1 | ((kind & kActionMask) != kRead); }

// Where a bad address lies: the index of a buffer, or one of these.
enum Place : int64_t { kNowhere = -1, kInShared = -2, kInDynamicShared = -3, kNull = -4 };

struct Fault {
  std::string kind;
  uint32_t pc = 0, other_pc = 0;
  uint64_t address = 0;
  unsigned size = 0;
  int action = -1;  // kRead, kWrite or kAtomic; -1 where no access is at fault
  emu_index thread{};
  uint64_t block = 0;     // linear index
  int other_thread = -1;  // rank in its block
  int64_t place = kNowhere, offset = 0;
  uint64_t count = 1;
  std::string message;
};

// Last accesses to one cell of shared memory (see races.cpp for the key).
struct SharedCell {
  uint64_t write = 0, plain_write = 0, read = 0, earlier_read = 0;
  uint32_t write_pc = 0, plain_write_pc = 0, read_pc = 0;
  uint32_t write_request = 0;
  uint32_t written_in_block = 0;
  uint64_t write_value = 0;
};

// Last accesses to one element of a global buffer, and after how many grid barriers they were.
struct GlobalCell {
  uint64_t write, read;
  uint32_t write_time, write_epoch;  // of the block, see order.h; the time with kTells
  uint32_t write_pc, read_pc;
  uint32_t write_request;
  uint32_t write_meeting, read_meeting;
  uint32_t read_tells;  // kTells where the last read was of a word by which blocks tell one another
};

struct Tally {
  uint64_t switches = 0, events = 0, barriers = 0, warp_operations = 0, unit_products = 0, traced_blocks = 0;
};

// A signal that the kernel's code raised (see crash.cpp).
struct Crash {
  int signal;
  uint32_t pc;
  uint64_t address;
  bool address_known, write;
};

// What a thread of some block has printed.
struct Print {
  uint64_t block;
  std::string text;
};

using FaultKey = std::tuple<std::string, uint32_t, uint32_t>;

struct Launch {
  emu_config config;
  emu_entry entry;
  void** arguments;
  std::vector<emu_buffer> buffers;  // variables behind the tensors
  std::vector<GlobalCell*> shadow;  // one array a buffer, when races are looked for
  uint64_t blocks;
  std::atomic<bool> converses{false};  // a block has looked, with races looked for, at what others may tell
  std::atomic<uint64_t> next_block{0};
  std::atomic<uint64_t> blocks_done{0};
  std::atomic<uint64_t> blocks_stuck{0};  // started, and only polling for longer than kHopeless turns
  // This block and those above it are given up. Those below still run, so that the fault that is
  // reported is the one of the lowest block, however many workers there are.
  std::atomic<uint64_t> first_given_up{kNever};
  uint32_t meeting = 0;  // grid barriers passed by the blocks of a cooperative launch
  // By block, while races are looked for: whether a thread of it has called __threadfence, and whether one
  // has looked at memory with an atomic or a volatile read.
  std::vector<std::atomic<uint8_t>> fenced, listened;
  std::unique_ptr<Order> order;  // likewise
  std::mutex merging;
  std::map<FaultKey, Fault> faults;
  std::map<uint32_t, Site> sites;  // by site_key
  std::vector<Print> prints;
  uint64_t print_calls = 0;
  Tally tally;
};

// An access to another block's shared memory since the last cluster barrier.
struct Remote {
  Event event;
  unsigned owner;  // rank of the block whose memory it is
  uint32_t rank;   // of the thread in its own block
};

// A thread that has ended without coming to a barrier, while others waited there.
struct Missed {
  uint32_t last_pc;     // its last access, which stands behind the barrier
  uint32_t barrier_pc;
  uint32_t rank;
};

struct Worker;

// Blocks that run at the same time (see cluster.cpp).
struct Cluster {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Worker*> members;  // by rank
  size_t alive = 0, arrived = 0, waiting = 0;
  uint64_t meeting = 1;  // number of the next cluster barrier
  uint64_t turn = 0;     // clusters that have ended
};

// A block between its first instruction and its last.
struct BlockState {
  Thread* threads = nullptr;
  Warp* warps = nullptr;
  int current_warp = 0;
  emu_index block_index{};
  uint64_t block = 0;          // linear index
  uint32_t block_serial = 0;   // never repeats, so that shadow memory need not be cleared
  uint32_t barrier_epoch = 0;  // likewise
  int alive = 0, at_barrier = 0, predicate_count = 0, predicate_result = 0;
  int at_grid_barrier = 0;
  bool meets_grid = false;  // all of its threads wait at a grid barrier
  bool counting = false, racing = false;  // its accesses are counted, held against those of others
  bool tracing = false;                   // one of these: its accesses are logged
  uint64_t idle_turns = 0;  // yields since a thread of this block last got anywhere
  std::vector<Missed> missed;  // of the last barrier
  std::vector<SharedCell> shared_shadow;
  uint32_t shadow_shift = 2, shadow_restarted_in = 0;
};

// One OS thread and the block it runs.
struct Worker : BlockState {
  Thread own_threads[kMaxThreads];
  Warp own_warps[kMaxWarps];
  int thread_count = 0, warp_count = 0;
  Thread* running = nullptr;
  void* scheduler_stack_pointer = nullptr;
  std::vector<Stack*> free_stacks;
  bool in_turns = false;       // runs many blocks in turns (see together.cpp)
  uint64_t progress = 0;       // grows when a thread gets anywhere
  uint32_t last_epoch = 0;     // of all barriers so far
  Stack* crash_stack = nullptr;   // where a thread that crashed ends
  Stack* signal_stack = nullptr;  // where the signal handler runs
  Crash crash{};

  Launch* launch = nullptr;
  uint64_t module_base = 0, text_bytes = 0;  // copies: every access needs them
  emu_index block_size{}, grid_size{};
  uint32_t last_serial = 0;  // of all blocks so far
  Cluster* cluster = nullptr;  // null where blocks are on their own
  unsigned cluster_rank = 0;
  int at_cluster_barrier = 0;
  uint64_t cluster_epoch = 0;  // barrier epoch since the last cluster barrier
  uint64_t left_at = kNever;   // the meeting before which the block ended
  std::vector<Remote> remotes;
  std::set<std::tuple<uint64_t, uint32_t, uint8_t>> known_remotes;  // address, pc, kind: noted once

  uint64_t tls = 0;
  std::vector<emu_range> shared;  // addresses; the dynamic array is the last one when there is one
  size_t last_shared = 0, last_buffer = 0;
  emu_range shared_span{};  // from the first static array to the end of the dynamic one
  uint64_t dynamic_low = kNever;
  uint64_t window = 0;  // where address 0 of the block's shared memory would be

  uint32_t request = 0;                // number of the warp request that is being replayed
  std::vector<Event> log_memory;       // kLogCapacity events for each lane; warps use it one after the other
  std::vector<uint32_t> site_numbers;  // by site_key; 0 for a site not seen yet
  std::vector<Site> sites;
  std::map<FaultKey, Fault> faults;
  std::set<uint32_t> absent_noted;  // shuffles that have read a lane which takes no part: noted once
  std::vector<Print> prints;        // in the order of its blocks, so that the first of a launch are among them
  size_t printed_bytes = 0;
  uint64_t print_calls = 0, clock_looks = 0;
  Tally tally;

  Worker() {
    threads = own_threads;
    warps = own_warps;
  }
  Thread* lanes_of(int warp) { return &threads[warp * kWarp]; }
  int lane_count(int warp) const {
    return thread_count - warp * kWarp < kWarp ? thread_count - warp * kWarp : kWarp;
  }
  bool given_up() const { return block >= launch->first_given_up.load(std::memory_order_relaxed); }
  Moment moment() const { return {barrier_epoch, running->warp}; }
};

// Which block, or cluster, of ``count`` is the n-th to begin.
inline uint64_t in_order(const emu_config& config, uint64_t turn, uint64_t count) {
  return static_cast<uint64_t>((config.first + static_cast<unsigned __int128>(turn) * config.step) % count);
}

// Which accesses of a block, or of the blocks of a cluster, are looked at. Races are between neighbours, mostly:
// of a launch with too many threads runs of blocks are taken.
constexpr uint64_t kRun = 16;
inline void choose_traced(BlockState& state, const emu_config& config, uint64_t number) {
  state.counting = config.checks && number % config.sample == 0;
  state.racing = config.checks & (EMU_RACES | EMU_SHARED_INITIAL) &&
                 number / kRun % config.race_sample == config.race_first;
  state.tracing = state.counting || state.racing;
}

inline void note_progress(Worker& worker) {
  worker.progress++;
  if (UNLIKELY(worker.idle_turns >= kHopeless)) worker.launch->blocks_stuck--;
  worker.idle_turns = 0;
}

// For whoever waits outside.
inline void note_ended_block(Launch& launch) {
  uint64_t done = ++launch.blocks_done;
  if (launch.config.progress) __atomic_store_n(launch.config.progress, done, __ATOMIC_RELAXED);
}

// Initial-exec: one instruction to read; the library is small enough for the static TLS reserve.
extern __thread Worker* current_worker __attribute__((tls_model("initial-exec")));

inline uint32_t lane_bit(int lane) { return 1u << lane; }
inline bool holds(const emu_range& range, uint64_t address) {
  return address - range.low < range.high - range.low;
}

// Offset of a return address into the module; 0 for code that is not the module's.
inline uint32_t module_offset(const Worker& worker, const void* pc) {
  uint64_t offset = reinterpret_cast<uint64_t>(pc) - worker.module_base;
  return offset < worker.text_bytes ? static_cast<uint32_t>(offset) : 0;
}
}  // namespace emu
