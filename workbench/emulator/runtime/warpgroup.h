// Multiplications of Hopper's warp groups (wgmma): what a warp has asked for, in groups, and not waited for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi.h"

namespace emu {
struct Worker;
struct Thread;

constexpr unsigned kMostColumns = 256;  // of one instruction
constexpr unsigned kTerms = 8;          // of one in tf32; in 16 bits there are two in each one's place

// Eight times 32 bits of a matrix in shared memory, row after row, where its descriptor says.
class Tile {
 public:
  explicit Tile(uint64_t descriptor)
      : start_(field(descriptor, 0)),
        leading_(field(descriptor, 16)),
        stride_(field(descriptor, 32)),
        row_bytes_(descriptor >> 62 ? 256 >> (descriptor >> 62) : 0) {}
  // Where in the shared window 16 bytes of a row begin, which lie next to each other.
  uint64_t half_row(unsigned row, unsigned half) const {
    uint64_t group = start_ + row / 8 * stride_;
    if (!row_bytes_) return group + row % 8 * 16 + half * leading_;
    uint64_t place = group + row % 8 * row_bytes_ + half * 16;
    return place ^ (place >> 3 & (row_bytes_ - 16));
  }
  // What holds the first so many rows, and perhaps a little more.
  emu_range around(unsigned rows) const;

 private:
  static uint64_t field(uint64_t descriptor, int bit) { return (descriptor >> bit & 0x3fff) << 4; }
  uint64_t start_, leading_, stride_, row_bytes_;  // bytes; no row_bytes_ where nothing is swizzled
};

// Registers of a warp's lanes that multiplications on their way add to. Until the last of these has been waited
// for, the registers themselves hold what no number is.
class Sums {
 public:
  explicit Sums(const Thread* lanes);  // that ask for a multiplication
  bool are_of(const emu_multiplication& wanted) const;  // by the first lane
  float* of_lane(unsigned lane) { return &values_[lane * stride_]; }
  void set_zero();
  void give_back() const;
  int pending = 0;

 private:
  unsigned each_, stride_;      // of a lane: how many, and how far apart the values of two lanes are
  std::vector<float*> places_;  // of each lane the first, or all
  std::vector<float> values_;
  bool in_rows() const { return places_.size() < each_ * 32; }
};

struct Multiplication {
  emu_multiplication wanted;  // of the first lane
  uint32_t a[32][4];
  std::shared_ptr<Sums> sums;
  uint32_t pc, barrier_epoch;  // where it was asked for, and after how many barriers
};

class Multiplications {
 public:
  void request(const Worker&, const Thread* lanes);
  void commit() { groups_.push_back(waiting_.size()); }
  size_t due(size_t left) const;  // of those that wait: in all groups but the last ``left``
  const Multiplication& operator[](size_t i) const { return waiting_[i]; }
  void finish(const Worker&, unsigned warp, size_t left);
  uint64_t all() const { return all_; }
  uint32_t last_pc() const { return last_pc_; }

 private:
  std::shared_ptr<Sums> sums_of(const Thread* lanes);
  std::vector<Multiplication> waiting_;
  std::vector<size_t> groups_;  // where each ends among those that wait
  uint64_t all_ = 0;            // a number that stands for all that were ever asked for
  uint32_t last_pc_ = 0;
};

// What all lanes of a warp have arrived for: 0, or the address of a text that says what is wrong.
uint64_t group_operation(Worker&, int warp, uint32_t mask, int operation);

// At a block's end: a fault where the four warps of a group have not asked for the same.
void check_groups(Worker&);
}  // namespace emu
