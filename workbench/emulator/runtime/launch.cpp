// One launch from configuration to JSON: hands blocks to workers, and the entry points that kernels call.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cluster.h"
#include "crash.h"
#include "faults.h"
#include "races.h"
#include "scheduler.h"
#include "state.h"
#include "together.h"
#include "warp.h"

namespace emu {
__thread Worker* current_worker __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

// Workers are kept between launches: each owns up to 1024 stacks.
std::mutex idle_workers_mutex;
std::vector<Worker*> idle_workers;

Worker* take_worker() {
  std::lock_guard<std::mutex> lock(idle_workers_mutex);
  if (idle_workers.empty()) return new Worker;
  Worker* worker = idle_workers.back();
  idle_workers.pop_back();
  return worker;
}

void give_back(Worker* worker) {
  std::lock_guard<std::mutex> lock(idle_workers_mutex);
  idle_workers.push_back(worker);
}

struct TlsQuery {
  uint64_t module_base, tls;
};

int find_tls(dl_phdr_info* info, size_t, void* data) {
  auto* query = static_cast<TlsQuery*>(data);
  if (info->dlpi_addr != query->module_base) return 0;
  query->tls = reinterpret_cast<uint64_t>(info->dlpi_tls_data);
  return 1;
}

// __shared__ variables are thread-local to the worker's OS thread: finds their addresses.
void find_shared_arrays(Worker& worker) {
  const emu_config& config = worker.launch->config;
  worker.shared.clear();
  worker.shared_span = {};
  worker.dynamic_low = kNever;
  worker.window = 0;
  worker.last_shared = worker.last_buffer = 0;
  config.touch_tls();
  TlsQuery query{config.module_base, 0};
  dl_iterate_phdr(find_tls, &query);
  worker.tls = query.tls;
  if (!query.tls) return;
  for (uint32_t i = 0; i < config.shared_arrays; i++)
    worker.shared.push_back({query.tls + config.shared[i].low, query.tls + config.shared[i].high});
  if (config.dynamic_offset != kNever) {
    worker.dynamic_low = query.tls + config.dynamic_offset;
    worker.shared.push_back({worker.dynamic_low, worker.dynamic_low + config.dynamic_shared_bytes});
  }
  if (worker.shared.empty()) return;
  worker.shared_span = worker.shared[0];
  for (const emu_range& array : worker.shared) {
    worker.shared_span.low = std::min(worker.shared_span.low, array.low);
    worker.shared_span.high = std::max(worker.shared_span.high, array.high);
  }
  // As on a card the first 1024 bytes are the system's, and a place is aligned there as it is here.
  worker.window = (worker.shared_span.low & ~1023ull) - 1024;
}

void prepare(Worker& worker, Launch& launch) {
  const emu_config& config = launch.config;
  worker.launch = &launch;
  worker.module_base = config.module_base;
  worker.text_bytes = config.text_bytes;
  current_worker = &worker;
  find_shared_arrays(worker);
  worker.block_size = {config.block[0], config.block[1], config.block[2]};
  worker.grid_size = {config.grid[0], config.grid[1], config.grid[2]};
  worker.thread_count = static_cast<int>(config.block[0] * config.block[1] * config.block[2]);
  worker.warp_count = (worker.thread_count + kWarp - 1) / kWarp;
  worker.sites.clear();
  worker.faults.clear();
  worker.absent_noted.clear();
  worker.prints.clear();
  worker.printed_bytes = worker.print_calls = worker.clock_looks = 0;
  worker.tally = {};
  if (!config.checks) return;
  worker.site_numbers.assign(2 * config.text_bytes + 2, 0);
  if (worker.log_memory.empty()) worker.log_memory.resize(kWarp * kLogCapacity);
  if (config.checks & (EMU_RACES | EMU_SHARED_INITIAL)) reset_shared_shadow(worker, config.shadow_shift);
}

// Shared memory starts undefined: all ones is a NaN in every float format and -1 as an integer, the same
// in every block, so that a kernel which reads it early fails in the same way each time.
void poison_shared(Worker& worker) {
  for (const emu_range& array : worker.shared)
    memset(reinterpret_cast<void*>(array.low), 0xff, array.high - array.low);
}

void run_one(Launch& launch, Worker& worker) {
  worker.tally.traced_blocks += worker.counting;
  run_block(worker);
  note_progress(worker);
  note_ended_block(launch);
}

void run_blocks(Launch& launch, Worker& worker) {
  prepare(worker, launch);
  worker.cluster = nullptr;
  CrashGuard guard(worker);
  const emu_config& config = launch.config;
  for (;;) {
    uint64_t turn = launch.next_block++;
    if (turn >= launch.blocks) break;
    worker.block = in_order(config, turn, launch.blocks);
    if (worker.given_up()) {
      launch.blocks_done++;  // nobody waits for it: it counts as started, and will write nothing
      break;
    }
    uint64_t row = config.grid[0], plane = row * config.grid[1];
    worker.block_index = {static_cast<unsigned>(worker.block % row),
                          static_cast<unsigned>(worker.block % plane / row),
                          static_cast<unsigned>(worker.block / plane)};
    choose_traced(worker, config, worker.block);
    poison_shared(worker);
    run_one(launch, worker);
  }
  merge_results(launch, worker);
  current_worker = nullptr;
}

// Block number `rank` of every cluster, one cluster after the other, together with the other ranks' workers.
void run_rank(Launch& launch, Cluster& cluster, unsigned rank) {
  Worker& worker = *cluster.members[rank];
  prepare(worker, launch);
  worker.cluster = &cluster;
  worker.cluster_rank = rank;
  worker.remotes.clear();
  worker.known_remotes.clear();
  CrashGuard guard(worker);
  const uint32_t *size = launch.config.cluster, *grid = launch.config.grid;
  uint64_t row = grid[0] / size[0], plane = row * (grid[1] / size[1]);
  uint64_t clusters = launch.blocks / cluster.members.size();
  for (uint64_t turn = 0; turn < clusters; turn++) {
    uint64_t number = in_order(launch.config, turn, clusters);
    worker.block_index = {static_cast<unsigned>(number % row * size[0] + rank % size[0]),
                          static_cast<unsigned>(number % plane / row * size[1] + rank / size[0] % size[1]),
                          static_cast<unsigned>(number / plane * size[2] + rank / (size[0] * size[1]))};
    worker.block = worker.block_index.x + static_cast<uint64_t>(grid[0]) * worker.block_index.y +
                   static_cast<uint64_t>(grid[0]) * grid[1] * worker.block_index.z;
    choose_traced(worker, launch.config, number);
    poison_shared(worker);
    launch.next_block++;
    worker.left_at = kNever;
    end_cluster(worker);  // the others' shared memory is ready too
    if (!worker.given_up()) run_one(launch, worker);
    leave_cluster(worker);
    end_cluster(worker);
  }
  merge_results(launch, worker);
  current_worker = nullptr;
}

void* map_zeroed(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("emulator: no memory for the shadow of a buffer");
    abort();
  }
  return memory;
}

size_t shadow_bytes(const emu_buffer& buffer) {
  return ((buffer.high - buffer.low) / buffer.item_bytes + 2) * sizeof(GlobalCell);
}

void run_clusters(Launch& launch) {
  const uint32_t* size = launch.config.cluster;
  Cluster cluster;
  cluster.alive = static_cast<size_t>(size[0]) * size[1] * size[2];
  for (size_t rank = 0; rank < cluster.alive; rank++) cluster.members.push_back(take_worker());
  std::vector<std::thread> others;
  for (unsigned rank = 1; rank < cluster.members.size(); rank++)
    others.emplace_back([&launch, &cluster, rank] { run_rank(launch, cluster, rank); });
  run_rank(launch, cluster, 0);
  for (std::thread& other : others) other.join();
  for (Worker* worker : cluster.members) {
    worker->cluster = nullptr;
    give_back(worker);
  }
}

// Blocks on one OS thread, in turns.
void run_in_turns(Launch& launch) {
  Worker& worker = *take_worker();
  prepare(worker, launch);
  worker.cluster = nullptr;
  {
    CrashGuard guard(worker);
    run_together(launch, worker, poison_shared);
  }
  merge_results(launch, worker);
  current_worker = nullptr;
  give_back(&worker);
}

void run_on_all_cores(Launch& launch) {
  uint64_t count = std::min<uint64_t>(std::max(1u, launch.config.workers), launch.blocks);
  std::vector<Worker*> workers;
  for (uint64_t i = 0; i < count; i++) workers.push_back(take_worker());
  std::vector<std::thread> others;
  for (uint64_t i = 1; i < count; i++)
    others.emplace_back([&launch, worker = workers[i]] { run_blocks(launch, *worker); });
  run_blocks(launch, *workers[0]);
  for (std::thread& other : others) other.join();
  for (Worker* worker : workers) give_back(worker);
}

}  // namespace
}  // namespace emu

using emu::current_worker;

extern "C" {

emu_index emu_thread_index() { return current_worker->running->index; }
emu_index emu_block_index() { return current_worker->block_index; }
emu_index emu_block_size() { return current_worker->block_size; }
emu_index emu_grid_size() { return current_worker->grid_size; }
emu_index emu_cluster_size() {
  const uint32_t* size = current_worker->launch->config.cluster;
  return {size[0], size[1], size[2]};
}
unsigned emu_cluster_rank() { return current_worker->cluster ? current_worker->cluster_rank : 0; }
void* emu_map_shared(const void* address, unsigned rank) {
  emu::Worker& worker = *current_worker;
  auto own = reinterpret_cast<uint64_t>(address);
  if (rank == emu_cluster_rank()) return reinterpret_cast<void*>(own);
  if (!worker.cluster || rank >= worker.cluster->members.size())
    emu_trap("map_shared_rank: the cluster has no block of that rank");
  return reinterpret_cast<void*>(own - worker.tls + worker.cluster->members[rank]->tls);
}
unsigned emu_is_cooperative() { return current_worker->launch->config.cooperative; }
unsigned emu_thread_rank() { return current_worker->running->rank; }
unsigned emu_dynamic_shared_bytes() { return current_worker->launch->config.dynamic_shared_bytes; }

int emu_barrier(int predicate) {
  emu::Worker& worker = *current_worker;
  emu::Thread& thread = *worker.running;
  thread.wait_pc = __builtin_return_address(0);
  thread.run = emu::Run::AtBarrier;
  worker.predicate_count += predicate;
  worker.at_barrier++;
  emu::wait_here(worker, thread);
  return worker.predicate_result;
}

void emu_cluster_barrier() {
  emu::Worker& worker = *current_worker;
  emu::Thread& thread = *worker.running;
  thread.wait_pc = __builtin_return_address(0);
  thread.run = emu::Run::AtBarrier;
  worker.at_barrier++;
  worker.at_cluster_barrier += worker.cluster != nullptr;
  emu::wait_here(worker, thread);
}

void emu_grid_barrier() {
  emu::Worker& worker = *current_worker;
  emu::Thread& thread = *worker.running;
  thread.wait_pc = __builtin_return_address(0);
  if (!worker.launch->config.cooperative) {
    emu::report(worker, &thread, {.kind = "not_cooperative", .pc = emu::module_offset(worker, thread.wait_pc)});
    emu::stop_after_this_block(worker);
    emu::end_thread(worker, thread);
  }
  thread.run = emu::Run::AtBarrier;
  worker.at_barrier++;
  worker.at_grid_barrier++;
  emu::wait_here(worker, thread);
}

uint64_t emu_warp_operation(int operation, unsigned mask, uint64_t value, int argument, int width) {
  emu::Thread& thread = *current_worker->running;
  thread.wait_pc = __builtin_return_address(0);
  thread.argument = argument;
  thread.width = width;
  return emu::warp_operation(*current_worker, thread, operation, mask, value);
}

void** emu_warp_exchange(void* pointer, unsigned products, const char* instruction) {
  emu::Worker& worker = *current_worker;
  emu::Thread& thread = *worker.running;
  const void* place = __builtin_return_address(0);
  thread.wait_pc = place;
  uint64_t value = reinterpret_cast<uint64_t>(pointer);
  if (emu::warp_operation(worker, thread, EMU_EXCHANGE, ~0u, value) != ~0u) {
    char text[64];
    snprintf(text, sizeof text, "%s without all lanes of its warp", instruction);
    emu::trap(place, text);
  }
  worker.tally.unit_products += products;
  return worker.warps[thread.warp].pointers;
}

unsigned emu_active_mask() {
  emu::Worker& worker = *current_worker;
  emu::Thread& thread = *worker.running;
  thread.wait_pc = __builtin_return_address(0);
  thread.run = emu::Run::AtActiveMask;
  worker.warps[thread.warp].asks_active_mask |= emu::lane_bit(thread.lane);
  emu::wait_here(worker, thread);
  return static_cast<unsigned>(thread.value);
}

void emu_device_fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  emu::Launch& launch = *current_worker->launch;
  if (!launch.fenced.empty()) launch.fenced[current_worker->block].store(1, std::memory_order_relaxed);
  emu::settle(*current_worker->running);
  if (launch.order) launch.order->fence(current_worker->block);
  emu_looked(nullptr, false);  // a loop that fences and reads may be waiting
}

void emu_yield() {
  current_worker->running->wait_pc = __builtin_return_address(0);
  emu::yield(*current_worker, *current_worker->running);
}

long long emu_clock64() {
  constexpr long long step = 37;  // like a card's; a launch that is repeated sees the same
  if (!current_worker) return step;
  return static_cast<long long>(current_worker->launch->config.clock_start) + step * ++current_worker->clock_looks;
}

void emu_trap(const char* message) { emu::trap(__builtin_return_address(0), message); }

int emu_print(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  emu::Worker& worker = *current_worker;
  worker.print_calls++;
  if (length < 0 || worker.printed_bytes >= emu::kPrintedBytes) return length;
  worker.prints.push_back({worker.block, text});
  worker.printed_bytes += worker.prints.back().text.size();
  return length;
}

char* emu_launch(const emu_config* config, emu_entry entry, void** arguments, const emu_buffer* buffers) {
  emu::Launch launch;
  launch.config = *config;
  launch.entry = entry;
  launch.arguments = arguments;
  launch.buffers.assign(buffers, buffers + config->buffers + config->variables);
  launch.blocks = static_cast<uint64_t>(config->grid[0]) * config->grid[1] * config->grid[2];
  bool races = config->checks & EMU_RACES;
  if (races) {
    launch.fenced = std::vector<std::atomic<uint8_t>>(launch.blocks);
    launch.listened = std::vector<std::atomic<uint8_t>>(launch.blocks);
    launch.order = std::make_unique<emu::Order>(launch.blocks);
  }
  for (const emu_buffer& buffer : launch.buffers) {
    void* shadow = races && !buffer.read_only ? emu::map_zeroed(emu::shadow_bytes(buffer)) : nullptr;
    launch.shadow.push_back(static_cast<emu::GlobalCell*>(shadow));
  }
  if (config->cluster[0] * config->cluster[1] * config->cluster[2] > 1) emu::run_clusters(launch);
  else if (config->resident) emu::run_in_turns(launch);
  else emu::run_on_all_cores(launch);
  for (size_t i = 0; i < launch.buffers.size(); i++)
    if (launch.shadow[i]) munmap(launch.shadow[i], emu::shadow_bytes(launch.buffers[i]));
  return strdup(emu::to_json(launch).c_str());
}

void emu_release(char* text) { free(text); }
}
