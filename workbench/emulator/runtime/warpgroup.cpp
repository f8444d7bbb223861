// A multiplication may read its tiles and write its sums at any time between its request and the wait for its
// group. It is done when the wait lets it be complete, the latest time there is: who writes over a tile or looks
// at the sums before that is told by the numbers. For races the tiles count as read at both ends.
#include "warpgroup.h"

#include <algorithm>
#include <cstring>

#include "access.h"
#include "faults.h"
#include "warp.h"

namespace emu {
namespace {

constexpr unsigned kRows = 16, kGroupThreads = 128;  // rows of a warp; threads of a warp group
typedef uint32_t FourWords __attribute__((vector_size(16)));  // half a row of a tile, or what a lane has of a
typedef float FourTerms __attribute__((vector_size(16)));     // of each word one
typedef FourTerms Terms(FourWords);
// Two times a lane's four sums of eight columns: pairs of neighbours in two rows.
typedef float Eight __attribute__((vector_size(32), aligned(4)));
typedef uint64_t FourPairs __attribute__((vector_size(32)));

const emu_multiplication& wanted_by(const Thread& lane) {
  return *reinterpret_cast<const emu_multiplication*>(lane.value);
}

float* sum_of(const emu_multiplication& wanted, unsigned i) {
  return wanted.apart ? wanted.apart[i] : wanted.sums + i;
}

bool same(const emu_multiplication& one, const emu_multiplication& other) {
  return one.factors == other.factors && one.columns == other.columns && one.adds == other.adds &&
         one.a_in_shared == other.a_in_shared && one.a_tile == other.a_tile && one.b_tile == other.b_tile &&
         !one.apart == !other.apart;
}

// What the unit sees of one term in each word. It looks at 19 bits of a tf32 operand.
FourTerms tf32_in(FourWords words) { return reinterpret_cast<FourTerms>(words & ~0x1fffu); }
FourTerms low_bf16_in(FourWords words) { return reinterpret_cast<FourTerms>(words << 16); }
FourTerms high_bf16_in(FourWords words) { return reinterpret_cast<FourTerms>(words & 0xffff0000u); }

// A float has the same bits 13 places up, and an exponent that is larger by 112. The product does that for
// subnormal numbers, too; an infinity and what is no number keep an exponent of ones.
FourTerms low_f16_in(FourWords words) {
  FourWords bits = (words & 0x7fff) << 13;
  FourWords value = reinterpret_cast<FourWords>(reinterpret_cast<FourTerms>(bits) * 0x1p112f);
  value |= (bits >= 0x7c00u << 13) & 0x7f800000;
  return reinterpret_cast<FourTerms>(value | (words & 0x8000) << 16);
}
FourTerms high_f16_in(FourWords words) { return low_f16_in(words >> 16); }

// Calls ``put(row, place, term)`` for all of a tile.
template <Terms terms_in, class Put>
ALWAYS_INLINE void read_tile(const Worker& worker, const Tile& tile, unsigned first, unsigned rows, Put put) {
  for (unsigned row = 0; row < rows; row++) {
    for (unsigned half = 0; half < 2; half++) {
      FourWords words;
      memcpy(&words, reinterpret_cast<void*>(worker.window + tile.half_row(first + row, half)), sizeof words);
      FourTerms terms = terms_in(words);
      for (unsigned i = 0; i < 4; i++) put(row, 4 * half + i, terms[i]);
    }
  }
}

// Lane 4 * r + q has rows r and r + 8 of its warp's, and words q and q + 4 of each.
template <Terms terms_in>
void gather_rows(const Multiplication& asked, float (*rows)[kTerms]) {
  for (unsigned lane = 0; lane < kWarp; lane++) {
    FourWords words;
    memcpy(&words, asked.a[lane], sizeof words);
    FourTerms terms = terms_in(words);
    for (unsigned i = 0; i < 4; i++) rows[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = terms[i];
  }
}

// Of each eight columns lane 4 * r + q has the sums of 2 * q and 2 * q + 1, in row r and then in row r + 8: the
// terms of b are laid out like that, once for all eight r.
void add_products(const float (*a)[kTerms], const float (*b)[kMostColumns], unsigned vectors, Sums& sums) {
  Eight left[kRows / 2][kTerms], right[kMostColumns / 16][kTerms];
  for (unsigned r = 0; r < kRows / 2; r++)
    for (unsigned term = 0; term < kTerms; term++)
      for (unsigned i = 0; i < 8; i++) left[r][term][i] = a[r + i / 2 % 2 * 8][term];
  for (unsigned q = 0; q < 4; q++) {
    for (unsigned v = 0; v < vectors; v++) {
      for (unsigned term = 0; term < kTerms; term++) {
        uint64_t one, other;  // a pair of columns each
        memcpy(&one, &b[term][16 * v + 2 * q], sizeof one);
        memcpy(&other, &b[term][16 * v + 8 + 2 * q], sizeof other);
        right[v][term] = reinterpret_cast<Eight>(FourPairs{one, one, other, other});
      }
    }
    for (unsigned r = 0; r < kRows / 2; r++) {
      float* values = sums.of_lane(4 * r + q);
      for (unsigned v = 0; v < vectors; v++) {
        Eight sum = *reinterpret_cast<Eight*>(values + 8 * v);
#pragma GCC unroll 8
        for (unsigned term = 0; term < kTerms; term++) sum += left[r][term] * right[v][term];
        *reinterpret_cast<Eight*>(values + 8 * v) = sum;
      }
    }
  }
}

// Adds the products of one term in each word of a row.
template <Terms terms_in>
void add_terms(const Worker& worker, unsigned warp, const Multiplication& asked) {
  float a[kRows][kTerms], b[kTerms][kMostColumns];
  unsigned columns = asked.wanted.columns, vectors = (columns + 15) / 16;
  auto to_a = [&](unsigned row, unsigned term, float value) { a[row][term] = value; };
  auto to_b = [&](unsigned column, unsigned term, float value) { b[term][column] = value; };
  for (unsigned term = 0; term < kTerms; term++)
    std::fill(b[term] + columns, b[term] + 16 * vectors, 0.0f);
  Tile a_tile(asked.wanted.a_tile), b_tile(asked.wanted.b_tile);
  if (asked.wanted.a_in_shared) read_tile<terms_in>(worker, a_tile, warp % 4 * kRows, kRows, to_a);
  else gather_rows<terms_in>(asked, a);
  read_tile<terms_in>(worker, b_tile, 0, columns, to_b);
  add_products(a, b, vectors, *asked.sums);
}

// In 16 bits it adds the terms with even numbers first: a card does not say in which order it does.
void carry_out(const Worker& worker, unsigned warp, const Multiplication& asked) {
  if (!asked.wanted.adds) asked.sums->set_zero();
  if (asked.wanted.factors == EMU_TF32) {
    add_terms<tf32_in>(worker, warp, asked);
  } else if (asked.wanted.factors == EMU_F16) {
    add_terms<low_f16_in>(worker, warp, asked);
    add_terms<high_f16_in>(worker, warp, asked);
  } else {
    add_terms<low_bf16_in>(worker, warp, asked);
    add_terms<high_bf16_in>(worker, warp, asked);
  }
}

bool in_one_array(const Worker& worker, const emu_range& range) {
  for (const emu_range& array : worker.shared)
    if (worker.window + range.low >= array.low && worker.window + range.high <= array.high) return true;
  return false;
}

// Enters the reads of one lane: together the 32 read all of the tile. Where nobody keeps a list of them, a tile
// that lies in an array as a whole is in order.
void look(Worker& worker, Thread& thread, uint64_t descriptor, unsigned first, unsigned rows, uint32_t pc) {
  Tile tile(descriptor);
  if (!worker.tracing && in_one_array(worker, tile.around(first + rows))) return;
  for (unsigned piece = thread.lane; piece < 4 * rows; piece += kWarp) {
    uint64_t place = tile.half_row(first + piece / 4, piece / 2 % 2) + piece % 2 * 8;
    read_for_unit(worker, thread, worker.window + place, 8, pc);
  }
}

void look_at_tiles(Worker& worker, Thread& thread, const emu_multiplication& wanted, uint32_t pc) {
  if (wanted.a_in_shared) look(worker, thread, wanted.a_tile, thread.warp % 4 * kRows, kRows, pc);
  look(worker, thread, wanted.b_tile, 0, wanted.columns, pc);
}

// A register has no address; what is not on the thread's stack is none.
bool all_local(const Thread& thread, const emu_multiplication& wanted) {
  unsigned count = wanted.columns / 2;
  auto local = [&](const float* sum) { return reinterpret_cast<uint64_t>(sum) - thread.stack_low < kStackBytes; };
  if (wanted.apart) return std::all_of(wanted.apart, wanted.apart + count, local);
  return local(wanted.sums) && local(wanted.sums + count - 1);
}

const char* request(Worker& worker, int warp, uint32_t mask) {
  const Thread* lanes = worker.lanes_of(warp);
  if (mask != ~0u) return "wgmma without all lanes of its warp";
  for (int lane = 1; lane < kWarp; lane++)
    if (!same(wanted_by(lanes[0]), wanted_by(lanes[lane])))
      return "wgmma with operands that are not the same in all lanes of its warp";
  worker.warps[warp].multiplications.request(worker, lanes);
  const emu_multiplication& wanted = wanted_by(lanes[0]);
  worker.tally.unit_products += kRows * kTerms * (wanted.factors == EMU_TF32 ? 1 : 2) * wanted.columns;
  return nullptr;
}

}  // namespace

emu_range Tile::around(unsigned rows) const {
  uint64_t last = start_ + (rows - 1) / 8 * stride_;
  if (!row_bytes_) return {start_, last + leading_ + 128};
  // Pieces change places inside a row's bytes only.
  return {start_ / row_bytes_ * row_bytes_, (last + 31) / row_bytes_ * row_bytes_ + 8 * row_bytes_};
}

Sums::Sums(const Thread* lanes) {
  const emu_multiplication& first = wanted_by(lanes[0]);
  each_ = first.columns / 2;
  stride_ = (each_ + 7) / 8 * 8;
  values_.resize(kWarp * stride_);
  for (int lane = 0; lane < kWarp; lane++) {
    const emu_multiplication& wanted = wanted_by(lanes[lane]);
    if (wanted.apart) places_.insert(places_.end(), wanted.apart, wanted.apart + each_);
    else places_.push_back(wanted.sums);
    for (unsigned i = 0; i < each_; i++) {
      float* place = sum_of(wanted, i);
      if (wanted.adds) values_[lane * stride_ + i] = *place;
      memset(place, 0xff, sizeof *place);
    }
  }
}

bool Sums::are_of(const emu_multiplication& wanted) const {
  if (each_ != wanted.columns / 2 || in_rows() != !wanted.apart) return false;
  return in_rows() ? places_[0] == wanted.sums : std::equal(wanted.apart, wanted.apart + each_, places_.begin());
}

void Sums::set_zero() { std::fill(values_.begin(), values_.end(), 0.0f); }

void Sums::give_back() const {
  for (unsigned lane = 0; lane < kWarp; lane++)
    for (unsigned i = 0; i < each_; i++)
      (in_rows() ? places_[lane][i] : *places_[lane * each_ + i]) = values_[lane * stride_ + i];
}

std::shared_ptr<Sums> Multiplications::sums_of(const Thread* lanes) {
  for (const Multiplication& other : waiting_)
    if (other.sums->are_of(wanted_by(lanes[0]))) return other.sums;
  return std::make_shared<Sums>(lanes);
}

void Multiplications::request(const Worker& worker, const Thread* lanes) {
  Multiplication asked{.wanted = wanted_by(lanes[0]), .barrier_epoch = worker.barrier_epoch};
  asked.pc = last_pc_ = module_offset(worker, lanes[0].wait_pc);
  const uint64_t kind = (asked.wanted.columns * 2 + asked.wanted.adds) * 4 + asked.wanted.factors;
  for (uint64_t part : {asked.wanted.a_tile, asked.wanted.b_tile, kind})
    all_ = (all_ + part + 1) * 0x9e3779b97f4a7c15;
  for (int lane = 0; lane < kWarp; lane++) memcpy(asked.a[lane], wanted_by(lanes[lane]).a, sizeof asked.a[lane]);
  asked.sums = sums_of(lanes);
  asked.sums->pending++;
  waiting_.push_back(std::move(asked));
}

size_t Multiplications::due(size_t left) const {
  return groups_.size() > left ? groups_[groups_.size() - left - 1] : 0;
}

void Multiplications::finish(const Worker& worker, unsigned warp, size_t left) {
  size_t done = due(left);
  for (size_t i = 0; i < done; i++) {
    carry_out(worker, warp, waiting_[i]);
    if (!--waiting_[i].sums->pending) waiting_[i].sums->give_back();
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + done);
  if (groups_.size() > left) groups_.erase(groups_.begin(), groups_.end() - left);
  for (size_t& end : groups_) end -= done;
}

uint64_t group_operation(Worker& worker, int warp, uint32_t mask, int operation) {
  Multiplications& multiplications = worker.warps[warp].multiplications;
  if (operation == EMU_MULTIPLY) return reinterpret_cast<uint64_t>(request(worker, warp, mask));
  if (operation == EMU_COMMIT) multiplications.commit();
  // Where lanes are missing, which has been told, their registers may be anything by now.
  if (operation == EMU_FINISH && mask == ~0u)
    multiplications.finish(worker, warp, worker.lanes_of(warp)[0].value);
  return 0;
}

// On a card all four have to, and one that does not may keep the others waiting for ever.
void check_groups(Worker& worker) {
  if (worker.alive || worker.given_up()) return;
  for (int warp = 0; warp < worker.warp_count; warp++) {
    int first = warp / 4 * 4;
    const Multiplications &mine = worker.warps[warp].multiplications, &other = worker.warps[first].multiplications;
    if (mine.all() == other.all()) continue;
    bool asked = mine.last_pc();
    Fault fault{.kind = "missing_lanes", .pc = asked ? mine.last_pc() : other.last_pc()};
    fault.message = "the warps of its warp group do not ask for the same multiplications";
    report(worker, worker.lanes_of(asked ? warp : first), fault);
    return;
  }
}
}  // namespace emu

extern "C" {
void emu_multiply(const emu_multiplication* wanted) {
  emu::Worker& worker = *emu::current_worker;
  emu::Thread& thread = *worker.running;
  const void* place = __builtin_return_address(0);
  thread.wait_pc = place;
  if (worker.thread_count % emu::kGroupThreads)
    emu::trap(place, "wgmma in a block that is not made of whole warp groups, of 128 threads each");
  if (!thread.orders_registers) emu::trap(place, "wgmma before any wgmma.fence");
  if (!emu::all_local(thread, *wanted)) emu::trap(place, "wgmma with sums that are no local variables");
  emu::look_at_tiles(worker, thread, *wanted, emu::module_offset(worker, place));
  uint64_t wrong = emu::warp_operation(worker, thread, EMU_MULTIPLY, ~0u, reinterpret_cast<uint64_t>(wanted));
  if (wrong) emu::trap(place, reinterpret_cast<const char*>(wrong));
}

void emu_commit_multiplications() {
  emu::Thread& thread = *emu::current_worker->running;
  thread.wait_pc = __builtin_return_address(0);
  emu::warp_operation(*emu::current_worker, thread, EMU_COMMIT, ~0u, 0);
}

void emu_finish_multiplications(size_t left) {
  emu::Worker& worker = *emu::current_worker;
  emu::Thread& thread = *worker.running;
  thread.wait_pc = __builtin_return_address(0);
  const emu::Multiplications& waiting = worker.warps[thread.warp].multiplications;
  for (size_t i = 0; i < waiting.due(left); i++)
    if (waiting[i].barrier_epoch != worker.barrier_epoch)
      emu::look_at_tiles(worker, thread, waiting[i].wanted, waiting[i].pc);
  emu::warp_operation(worker, thread, EMU_FINISH, ~0u, left);
}

void emu_order_registers() { emu::current_worker->running->orders_registers = true; }

void emu_show_unit() { emu::current_worker->running->shown_in_epoch = emu::current_worker->barrier_epoch; }

uint64_t emu_shared_address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer) - emu::current_worker->window;
}

void* emu_shared_place(uint64_t address) {
  return reinterpret_cast<void*>(emu::current_worker->window + address);
}
}
