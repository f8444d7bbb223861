// Blocks that take turns on one OS thread, as on a card that has room for so many: another one begins when one
// has ended. Of a cooperative launch all are there at the same time. A block's turn ends when all of its threads
// wait at a grid barrier, when they only poll, or when it has ended; its shared memory is then put aside, since
// the next block has the same addresses. In which order they begin the launch says, so that a verdict never
// depends on which OS thread was faster.
#include "together.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "faults.h"
#include "scheduler.h"

namespace emu {
namespace {

// Rounds over all blocks in which nobody got anywhere, until nothing is expected of a further one.
constexpr int kIdleRounds = 512;
constexpr size_t kSmallStackBytes = 32 << 10, kStacksAtOnce = 1024, kPage = 4096;

// Stacks of many thousand threads: without a guard page each, of which the system has too few. A stack whose
// last page has ever been touched was too small.
class SmallStacks {
 public:
  ~SmallStacks() {
    for (char* slab : slabs_) munmap(slab, kSmallStackBytes * kStacksAtOnce);
  }
  void give(std::vector<Stack*>& free) {
    void* memory = mmap(nullptr, kSmallStackBytes * kStacksAtOnce, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      perror("emulator: no memory for the stacks of a cooperative launch");
      abort();
    }
    slabs_.push_back(static_cast<char*>(memory));
    for (size_t i = 0; i < kStacksAtOnce; i++) {
      char* top = slabs_.back() + (i + 1) * kSmallStackBytes;
      stacks_.push_back(std::make_unique<Stack>(Stack{top - kStackBytes}));
      free.push_back(stacks_.back().get());
    }
  }
  static bool overrun(const Stack& stack) {
    unsigned char touched = 0;
    return mincore(stack.base + kStackBytes - kSmallStackBytes, kPage, &touched) == 0 && touched & 1;
  }

 private:
  std::vector<char*> slabs_;
  std::vector<std::unique_ptr<Stack>> stacks_;
};

// A block that waits for its turn.
struct Waiting {
  BlockState state;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<char> shared;
  bool begun = false, ended = false;

  // Of an ended block only who it was is asked for.
  void forget() {
    std::vector<Thread>().swap(threads);
    std::vector<Warp>().swap(warps);
    std::vector<char>().swap(shared);
    std::vector<SharedCell>().swap(state.shared_shadow);
  }
};

class Together {
 public:
  Together(Launch& launch, Worker& worker, void (*fresh)(Worker&))
      : launch_(launch), worker_(worker), fresh_(fresh), blocks_(launch.blocks) {
    std::swap(idle_, static_cast<BlockState&>(worker));
    idle_stacks_.swap(worker.free_stacks);
    worker.in_turns = true;
  }
  ~Together() {
    std::swap(idle_, static_cast<BlockState&>(worker_));
    idle_stacks_.swap(worker_.free_stacks);
    worker_.in_turns = false;
  }

  void run() {
    int idle_rounds = 0;
    while (idle_rounds < kIdleRounds) {
      uint64_t before = worker_.progress;
      bool ran = false;
      for (; on_card_.size() < launch_.config.resident && begun_ < blocks_.size(); begun_++)
        on_card_.push_back(in_order(launch_.config, begun_, blocks_.size()));
      for (uint64_t number : on_card_) {
        if (blocks_[number].state.meets_grid) continue;
        take_turn(number);
        ran = true;
      }
      std::erase_if(on_card_, [&](uint64_t number) { return blocks_[number].ended; });
      if (!ran && !all_meet()) return;
      idle_rounds = worker_.progress == before ? idle_rounds + 1 : 0;
    }
    for (uint64_t number : on_card_) {
      if (blocks_[number].state.meets_grid) continue;
      report_waiting(blocks_[number]);
      return;
    }
  }

 private:
  Launch& launch_;
  Worker& worker_;
  void (*fresh_)(Worker&);
  std::vector<Waiting> blocks_;
  std::vector<uint64_t> on_card_;  // their numbers, in the order in which they began
  uint64_t begun_ = 0;
  SmallStacks stacks_;
  BlockState idle_;
  std::vector<Stack*> idle_stacks_;

  void* shared() const { return reinterpret_cast<void*>(worker_.shared_span.low); }
  size_t shared_bytes() const { return worker_.shared_span.high - worker_.shared_span.low; }

  void swap_in(Waiting& block) {
    std::swap(block.state, static_cast<BlockState&>(worker_));
    if (!block.shared.empty()) memcpy(shared(), block.shared.data(), block.shared.size());
  }
  void swap_out(Waiting& block) {
    block.shared.resize(shared_bytes());
    if (!block.shared.empty()) memcpy(block.shared.data(), shared(), block.shared.size());
    std::swap(block.state, static_cast<BlockState&>(worker_));
  }

  void begin(Waiting& block, uint64_t number) {
    block.begun = true;
    block.threads.resize(worker_.warp_count * kWarp);
    block.warps.resize(worker_.warp_count);
    const emu_config& config = launch_.config;
    uint64_t row = config.grid[0], plane = row * config.grid[1];
    worker_.threads = block.threads.data();
    worker_.warps = block.warps.data();
    worker_.block = number;
    worker_.block_index = {static_cast<unsigned>(number % row), static_cast<unsigned>(number % plane / row),
                           static_cast<unsigned>(number / plane)};
    choose_traced(worker_, config, number);
    worker_.shared_shadow = idle_.shared_shadow;
    worker_.shadow_shift = idle_.shadow_shift;
    worker_.tally.traced_blocks += worker_.counting;
    fresh_(worker_);
    if (worker_.free_stacks.size() < static_cast<size_t>(worker_.thread_count)) stacks_.give(worker_.free_stacks);
    begin_block(worker_);
  }

  void take_turn(uint64_t number) {
    Waiting& block = blocks_[number];
    swap_in(block);
    if (!block.begun) begin(block, number);
    if (!worker_.given_up()) go_on(worker_);
    bool over = worker_.given_up() || !worker_.alive;
    if (over || worker_.meets_grid) look_at_stacks();
    if (over) {
      end_block(worker_);
      block.ended = true;
      worker_.meets_grid = false;
      worker_.progress++;
      note_ended_block(launch_);
    }
    swap_out(block);
    if (over) block.forget();
  }

  // Nobody on the card gets anywhere; who has not begun yet finds no room.
  void report_waiting(Waiting& block) {
    swap_in(block);
    const Thread* thread = worker_.threads;
    while (thread->run == Run::Done) thread++;
    if (begun_ < blocks_.size())
      report(worker_, thread, {.kind = "waits_for_later_block", .pc = module_offset(worker_, thread->wait_pc)});
    report_deadlock(worker_);
    swap_out(block);
  }

  void look_at_stacks() {
    for (int i = 0; i < worker_.thread_count; i++) {
      const Thread& thread = worker_.threads[i];
      if (!thread.stack || !SmallStacks::overrun(*thread.stack)) continue;
      Fault fault{.kind = "trap"};
      fault.message = "more than 24 KB of local memory where blocks wait for one another, which the emulator has not,";
      report(worker_, &thread, fault);
      stop_after_this_block(worker_);
      return;
    }
  }

  // Nobody can go on but by a grid barrier: lets all blocks through when they are all there. False at the end.
  bool all_meet() {
    uint64_t ended = 0;
    Waiting *first = nullptr, *gone = nullptr;
    for (Waiting& block : blocks_) {
      if (block.ended && !gone) gone = &block;
      if (!block.ended && !first) first = &block;
      ended += block.ended;
    }
    if (!first) return false;
    if (ended) {
      if (launch_.first_given_up.load() == kNever) report_missing(*first, *gone, ended);
      return false;
    }
    launch_.meeting++;
    for (Waiting& block : blocks_) {
      swap_in(block);
      worker_.meets_grid = false;
      release_barrier(worker_);
      swap_out(block);
    }
    return true;
  }

  void report_missing(Waiting& waits, const Waiting& gone, uint64_t ended) {
    swap_in(waits);
    const Thread* thread = worker_.threads;
    while (thread->run == Run::Done) thread++;
    const emu_index& at = gone.state.block_index;
    Fault fault{.kind = "missing_blocks", .pc = module_offset(worker_, thread->wait_pc)};
    char text[128];
    snprintf(text, sizeof text, "%llu of %llu blocks never come, block (%u, %u, %u) among them",
             static_cast<unsigned long long>(ended), static_cast<unsigned long long>(blocks_.size()), at.x,
             at.y, at.z);
    fault.message = text;
    report(worker_, thread, fault);
    stop_after_this_block(worker_);
    swap_out(waits);
  }
};

}  // namespace

void run_together(Launch& launch, Worker& worker, void (*fresh)(Worker&)) {
  Together(launch, worker, fresh).run();
}

}  // namespace emu
