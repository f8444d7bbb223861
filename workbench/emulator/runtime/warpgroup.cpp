// A multiplication may read its tiles and write its sums at any time between its request and the wait for its
// group. It is done when the wait lets it be complete, the latest time there is: who writes over a tile or looks
// at the sums before that is told by the numbers. For races the tiles count as read at both ends.
#include "warpgroup.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>

#include "access.h"
#include "faults.h"
#include "warp.h"

namespace emu {
namespace {

constexpr unsigned kRows = 16, kGroupThreads = 128;  // rows of a warp; threads of a warp group
constexpr uint32_t kSeen = ~0x1fffu;                 // bits of a tf32 operand that the unit looks at
// Two times a lane's four sums of eight columns.
typedef float Eight __attribute__((vector_size(32), aligned(4)));

const Part& part_of(const Thread& lane) { return *reinterpret_cast<const Part*>(lane.value); }

bool same(const emu_multiplication& one, const emu_multiplication& other) {
  return one.columns == other.columns && one.adds == other.adds && one.a_in_shared == other.a_in_shared &&
         one.a_tile == other.a_tile && one.b_tile == other.b_tile;
}

float seen(uint32_t bits) {
  bits &= kSeen;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

void read_tile(const Worker& worker, const Tile& tile, unsigned first, unsigned count, float (*rows)[kTerms]) {
  for (unsigned row = 0; row < count; row++) {
    uint32_t bits[kTerms];
    for (unsigned half = 0; half < 2; half++)
      memcpy(bits + 4 * half, reinterpret_cast<void*>(worker.window + tile.half_row(first + row, half)), 16);
    for (unsigned term = 0; term < kTerms; term++) rows[row][term] = seen(bits[term]);
  }
}

// Lane 4 * r + q has rows r and r + 8 of its warp's, and terms q and q + 4 of each.
void gather_rows(const Multiplication& asked, float (*rows)[kTerms]) {
  for (unsigned lane = 0; lane < kWarp; lane++)
    for (unsigned i = 0; i < 4; i++) rows[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = seen(asked.a[lane][i]);
}

// Of each eight columns lane 4 * r + q has the sums of 2 * q and 2 * q + 1, in row r and then in row r + 8: the
// columns' terms are laid out like that, once for all eight r.
void add_products(const float (*a)[kTerms], const float (*b)[kTerms], unsigned vectors, Sums& sums) {
  Eight left[kRows / 2][kTerms], right[kMostSums / 8][kTerms];
  for (unsigned r = 0; r < kRows / 2; r++)
    for (unsigned term = 0; term < kTerms; term++)
      for (unsigned i = 0; i < 8; i++) left[r][term][i] = a[r + i / 2 % 2 * 8][term];
  for (unsigned q = 0; q < 4; q++) {
    for (unsigned v = 0; v < vectors; v++)
      for (unsigned term = 0; term < kTerms; term++)
        for (unsigned i = 0; i < 8; i++) right[v][term][i] = b[16 * v + i / 4 * 8 + 2 * q + i % 2][term];
    for (unsigned r = 0; r < kRows / 2; r++) {
      float* values = &sums.values[(4 * r + q) * sums.stride];
      for (unsigned v = 0; v < vectors; v++) {
        Eight sum = *reinterpret_cast<Eight*>(values + 8 * v);
        for (unsigned term = 0; term < kTerms; term++) sum += left[r][term] * right[v][term];
        *reinterpret_cast<Eight*>(values + 8 * v) = sum;
      }
    }
  }
}

void carry_out(const Worker& worker, unsigned warp, const Multiplication& asked) {
  float a[kRows][kTerms], b[2 * kMostSums][kTerms];
  unsigned columns = asked.wanted.columns, vectors = (columns + 15) / 16;
  memset(b + columns, 0, (16 * vectors - columns) * sizeof *b);
  if (asked.wanted.a_in_shared) read_tile(worker, Tile(asked.wanted.a_tile), warp % 4 * kRows, kRows, a);
  else gather_rows(asked, a);
  read_tile(worker, Tile(asked.wanted.b_tile), 0, columns, b);
  if (!asked.wanted.adds) std::fill(asked.sums->values.begin(), asked.sums->values.end(), 0.0f);
  add_products(a, b, vectors, *asked.sums);
}

void give_back(const Sums& sums) {
  for (size_t i = 0; i < sums.places.size(); i++)
    *sums.places[i] = sums.values[i / sums.each * sums.stride + i % sums.each];
}

// Enters the reads of one lane: together the 32 read all of the tile.
void look(Worker& worker, Thread& thread, uint64_t descriptor, unsigned first, unsigned rows, uint32_t pc) {
  Tile tile(descriptor);
  for (unsigned piece = thread.lane; piece < 4 * rows; piece += kWarp) {
    uint64_t place = tile.half_row(first + piece / 4, piece / 2 % 2) + piece % 2 * 8;
    read_for_unit(worker, thread, worker.window + place, 8, pc);
  }
}

void look_at_tiles(Worker& worker, Thread& thread, const emu_multiplication& wanted, uint32_t pc) {
  if (wanted.a_in_shared) look(worker, thread, wanted.a_tile, thread.warp % 4 * kRows, kRows, pc);
  look(worker, thread, wanted.b_tile, 0, wanted.columns, pc);
}

const char* request(Worker& worker, int warp, uint32_t mask) {
  const Thread* lanes = worker.lanes_of(warp);
  if (mask != ~0u) return "wgmma without all lanes of its warp";
  for (int lane = 1; lane < kWarp; lane++)
    if (!same(part_of(lanes[0]).wanted, part_of(lanes[lane]).wanted))
      return "wgmma with operands that are not the same in all lanes of its warp";
  worker.warps[warp].multiplications.request(worker, lanes);
  return nullptr;
}

}  // namespace

std::shared_ptr<Sums> Multiplications::sums_of(const Thread* lanes) {
  const Part& first = part_of(lanes[0]);
  unsigned each = first.wanted.columns / 2;
  for (const Multiplication& other : waiting_)
    if (other.sums->each == each && std::equal(first.sums, first.sums + each, other.sums->places.begin()))
      return other.sums;
  auto sums = std::make_shared<Sums>();
  sums->each = each;
  sums->stride = (each + 7) / 8 * 8;
  sums->values.resize(kWarp * sums->stride);
  for (int lane = 0; lane < kWarp; lane++) {
    float* const* places = part_of(lanes[lane]).sums;
    sums->places.insert(sums->places.end(), places, places + each);
    for (unsigned i = 0; i < each; i++) {
      if (first.wanted.adds) sums->values[lane * sums->stride + i] = *places[i];
      memset(places[i], 0xff, sizeof(float));
    }
  }
  return sums;
}

void Multiplications::request(const Worker& worker, const Thread* lanes) {
  const Part& first = part_of(lanes[0]);
  Multiplication asked{.wanted = first.wanted, .pc = first.pc, .barrier_epoch = worker.barrier_epoch};
  for (int lane = 0; lane < kWarp; lane++) memcpy(asked.a[lane], part_of(lanes[lane]).wanted.a, sizeof asked.a[lane]);
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
    if (!--waiting_[i].sums->pending) give_back(*waiting_[i].sums);
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
}  // namespace emu

extern "C" {
void emu_multiply(emu_multiplication wanted, ...) {
  emu::Worker& worker = *emu::current_worker;
  emu::Thread& thread = *worker.running;
  const void* place = __builtin_return_address(0);
  thread.wait_pc = place;
  emu::Part part;
  part.wanted = wanted;
  part.pc = emu::module_offset(worker, place);
  if (worker.thread_count % emu::kGroupThreads)
    emu::trap(place, "wgmma in a block that is not made of whole warp groups, of 128 threads each");
  va_list sums;
  va_start(sums, wanted);
  for (unsigned i = 0; i < wanted.columns / 2; i++) part.sums[i] = va_arg(sums, float*);
  va_end(sums);
  for (unsigned i = 0; i < wanted.columns / 2; i++)
    if (reinterpret_cast<uint64_t>(part.sums[i]) - thread.stack_low >= emu::kStackBytes)
      emu::trap(place, "wgmma with sums that are no local variables");
  emu::look_at_tiles(worker, thread, wanted, part.pc);
  uint64_t wrong =
      emu::warp_operation(worker, thread, EMU_MULTIPLY, ~0u, reinterpret_cast<uint64_t>(&part));
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

uint64_t emu_shared_address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer) - emu::current_worker->window;
}
}
