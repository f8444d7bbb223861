// What the blocks of a launch know of one another: whose fenced accesses lie before their own.
//
// A block's time grows with its fences and with what it learns. A fence covers all that the block has done by
// then; an atomic or a store behind it tells whoever looks at that place with an atomic, a volatile read or a
// load past the first-level cache. What has been learnt is passed on. Used while races are looked for.
//
// A thread speaks for its warp, and for the whole block only up to the last barrier: other warps may not have
// got so far. In the same way what one warp has learnt the others know behind the next barrier.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace emu {

// Who of a block does something, and behind how many barriers.
struct Moment {
  uint32_t epoch, warp;
};

class Order {
 public:
  explicit Order(uint64_t blocks) : blocks_(blocks) {}

  // Of a block's next access. Only ever asked by the block's own OS thread.
  uint32_t now(uint64_t block) const { return blocks_[block].time; }
  bool has_fenced(uint64_t block) const { return blocks_[block].fenced != 0; }

  void fence(uint64_t block);
  // The block learns what was told at a place; true if anything was.
  bool look(uint64_t block, Moment moment, uint64_t address);
  // What others have told there stays for an atomic, and is gone for a store.
  void tell(uint64_t block, Moment moment, uint64_t address, bool atomic);
  // Whether a warp of the block knew at ``when`` that an access of another block's warp at ``then`` was done.
  bool knows(uint64_t block, Moment mine, uint32_t when, uint64_t other, Moment its, uint32_t then);
  // The block will ask nothing more.
  void ended(uint64_t block);

 private:
  // What a block did before a time is done: by the warps in the mask, and by all of them before the epoch.
  struct Told {
    uint32_t before = 0, epoch = 0, warps = 0;
    bool operator==(const Told&) const = default;
  };
  using Times = std::unordered_map<uint64_t, Told>;  // by block
  struct Learnt {
    uint32_t at;
    Moment by;
    Told told;
  };
  struct Block {
    uint32_t time = 1, fenced = 0;
    std::unordered_map<uint64_t, std::vector<Learnt>> learnt;  // by the block that it is about
    std::shared_ptr<const Times> known;  // what it would tell at this moment; null when that has changed
    Moment known_at{};
  };
  struct Place {
    Times added;                          // by atomics
    std::shared_ptr<const Times> stored;  // by the last store
  };

  static Told joined(const Told& one, const Told& other);
  bool learn(Block& block, Moment moment, const Times& told);
  const std::shared_ptr<const Times>& known_to(uint64_t number, Moment moment);

  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::unordered_map<uint64_t, Place> places_;
};

}  // namespace emu
