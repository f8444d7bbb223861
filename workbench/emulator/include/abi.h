// The C interface between a compiled kernel module and the emulator's runtime.
// Both sides include this file; nothing else is shared between them.
#pragma once
#include <cstddef>
#include <cstdint>

struct emu_index {
  unsigned x, y, z;
};

enum emu_warp_code {
  EMU_SHFL,
  EMU_SHFL_UP,
  EMU_SHFL_DOWN,
  EMU_SHFL_XOR,
  EMU_BALLOT,
  EMU_ANY,
  EMU_ALL,
  EMU_SYNC,
  EMU_MATCH_ANY,
  EMU_MATCH_ALL,
  EMU_ADD,
  EMU_MIN_UNSIGNED,
  EMU_MAX_UNSIGNED,
  EMU_MIN_SIGNED,
  EMU_MAX_SIGNED,
  EMU_AND,
  EMU_OR,
  EMU_XOR,
  EMU_EXCHANGE,  // of matrices that lanes hold together: no shuffle, which a card would wait for
  // Of a warp group's multiplications, by all lanes.
  EMU_MULTIPLY,
  EMU_COMMIT,
  EMU_FINISH,
};

// Bits of emu_config.checks.
enum emu_check {
  EMU_STATISTICS = 1,      // sectors and wavefronts of every warp request
  EMU_RACES = 2,           // conflicting accesses without a barrier between them
  EMU_SHARED_INITIAL = 4,  // shared memory read before it was written
};

// Up to 16 bytes on their way to shared memory.
struct emu_copy {
  void* to;
  uint64_t low, high;
  size_t bytes;
};

// What 32 bits of a factor are: one term, or two, of which the first has the low bits.
enum emu_factors { EMU_TF32, EMU_F16, EMU_BF16 };

// A warp group's multiplication of eight times 32 bits of terms, as one lane has it.
struct emu_multiplication {
  emu_factors factors;
  uint32_t columns;
  bool adds;         // to what the sums are; else they begin at zero
  bool a_in_shared;  // there; else four times 32 bits of it come from each lane
  uint32_t a[4];
  uint64_t a_tile, b_tile;  // descriptors of shared memory
  float* sums;              // columns / 2 registers of the lane, in a row;
  float* const* apart;      // or where each of them is
};

extern "C" {
// A thread's indices never change while the kernel body runs, so the compiler may hoist these calls.
emu_index emu_thread_index() __attribute__((const));
emu_index emu_block_index() __attribute__((const));
emu_index emu_block_size() __attribute__((const));
emu_index emu_grid_size() __attribute__((const));
unsigned emu_thread_rank() __attribute__((const));  // linear index inside the block
unsigned emu_dynamic_shared_bytes() __attribute__((const));

emu_index emu_cluster_size() __attribute__((const));
unsigned emu_cluster_rank() __attribute__((const));  // linear index of the block in its cluster
void* emu_map_shared(const void* address, unsigned rank);  // the same place in another block's shared memory
void emu_cluster_barrier();
void emu_grid_barrier();  // all blocks of a cooperative launch
unsigned emu_is_cooperative() __attribute__((const));

int emu_barrier(int predicate);  // returns the number of threads whose predicate is not zero
uint64_t emu_warp_operation(int operation, unsigned mask, uint64_t value, int argument, int width);
// Every lane gives a pointer and sees all 32; none may have returned. Counts products of tensor cores, of each.
void** emu_warp_exchange(void* pointer, unsigned products, const char* instruction);
unsigned emu_active_mask();
void emu_device_fence();
// A look at what others may have written: very many in a row are a loop that waits. `again` as a volatile read.
void emu_looked(const void* where, bool again);
void emu_yield();  // lets the other threads run: for loops that wait for a value
long long emu_clock64();  // goes on with every look, so that no kernel is told from it where it runs
void emu_trap(const char* message);
int emu_print(const char* format, ...) __attribute__((format(printf, 1, 2)));
void emu_request_copy(emu_copy copy);
void emu_commit_copies();
emu_copy emu_arrived_copy(size_t left);  // the next one that a wait for all but so many groups lets arrive
void emu_multiply(const emu_multiplication* wanted);
void emu_commit_multiplications();
void emu_finish_multiplications(size_t left);      // all groups but the last so many
void emu_order_registers();                        // between the kernel's use of them and the unit's
void emu_show_unit();                              // what the thread has written to shared memory
uint64_t emu_shared_address(const void* pointer);  // in the block's shared window
void* emu_shared_place(uint64_t address);          // the way back
void emu_atomic_access(const void* address, unsigned size, const void* return_address);
}

struct emu_range {
  uint64_t low, high;
};

struct emu_buffer {
  uint64_t low, high;
  uint32_t item_bytes;
  uint32_t read_only;    // an input of the problem: a store to it is reported
  uint8_t* initialised;  // one byte for each byte of the buffer; null where all of it counts as written
};

struct emu_config {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t dynamic_shared_bytes;
  uint32_t workers;
  uint32_t checks;   // emu_check bits
  uint32_t reverse;  // threads and warps take their turns from the last to the first
  uint32_t sample;   // count accesses in every n-th block only; bounds are checked in all of them
  uint32_t race_sample, race_first;  // look for races in every n-th run of blocks only, from this one on
  uint32_t text_bytes;
  uint32_t buffers, variables;  // tensors, and __device__ variables, which follow them
  uint32_t shared_arrays, guards;
  uint32_t shadow_shift;  // log2 of the bytes that one cell of shadow memory stands for
  uint32_t cooperative;   // all blocks are there at the same time
  uint32_t undefined;     // which value a shuffle gives for a lane that takes no part (see warp.cpp)
  uint32_t resident;      // blocks that take turns, as on a card with room for so many; 0: each runs to its end
  uint64_t first, step;   // the n-th block to begin is number (first + n * step) % blocks
  uint64_t clock_start;   // what a first look at the clock gives
  uint64_t module_base;
  void (*touch_tls)();            // makes the C library create this module's TLS for the calling OS thread
  const emu_range* shared;        // static __shared__ arrays, as offsets into the module's TLS
  const uint64_t* guard_offsets;  // C++ initialisation guards that lie in the TLS beside them
  uint64_t dynamic_offset;        // TLS offset of `extern __shared__`, all ones if there is none
  uint64_t data_low, data_high;   // __device__ and __constant__ variables
  // Two numbers for whoever waits, or null: how many blocks have ended, and the offset of an instruction at
  // which a thread was when it was asked.
  uint64_t* progress;
};

typedef void (*emu_entry)(void** arguments);

extern "C" {
// Runs one launch; returns a JSON text that emu_release frees.
char* emu_launch(const emu_config*, emu_entry, void** arguments, const emu_buffer*);
void emu_release(char*);
}
