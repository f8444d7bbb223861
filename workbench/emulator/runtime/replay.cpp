// The hardware runs a warp's lanes in step; fibers run them one after the other. Each lane therefore
// logs its accesses, and the logs are merged afterwards: the heads that stand at the same instruction
// form one request. Which group goes first follows stack-less SIMT reconvergence: lanes that have passed
// fewer warp operations, then the deepest call, then the lowest address (the module is compiled without
// block reordering so that addresses follow the source).
//
// Sectors and wavefronts are a model of the hardware until compared with Nsight Compute.
#include "replay.h"

#include <algorithm>
#include <cstring>

#include "races.h"

namespace emu {
namespace {

Site& site_of(Worker& worker, const Event& event) {
  uint32_t& number = worker.site_numbers[site_key(event.pc, event.kind)];
  if (!number) {
    worker.sites.emplace_back();
    worker.sites.back().pc = event.pc;
    worker.sites.back().kind = event.kind;
    number = static_cast<uint32_t>(worker.sites.size());
  }
  Site& site = worker.sites[number - 1];
  site.size = std::max(site.size, event.size);
  return site;
}

void sort_if_needed(uint64_t* values, int count) {
  if (!std::is_sorted(values, values + count)) std::sort(values, values + count);
}

// Wavefronts of some lanes: the most distinct 4-byte words that fall into one of the 32 banks.
int bank_passes(const uint64_t* addresses, int count, int size) {
  uint64_t words[kWarp * 4];
  int total = 0, words_each = size <= 4 ? 1 : size / 4;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < words_each; k++) words[total++] = (addresses[i] >> 2) + k;
  sort_if_needed(words, total);
  uint8_t in_bank[32] = {};
  int most = 0;
  uint64_t previous = kNever;
  for (int i = 0; i < total; i++) {
    if (words[i] == previous) continue;
    previous = words[i];
    most = std::max<int>(most, ++in_bank[previous & 31]);
  }
  return most;
}

// 8-byte accesses are served half a warp at a time and 16-byte ones a quarter, unless the whole request
// fits into one wavefront.
int wavefronts(const LaneEvent* lanes, const uint64_t* addresses, int count, int size) {
  int whole = bank_passes(addresses, count, size);
  if (size <= 4 || whole <= 1) return whole;
  int lanes_at_once = size == 8 ? 16 : 8, passes = 0;
  for (int start = 0, end = 0; start < count; start = end) {
    int group = lanes[start].thread->lane / lanes_at_once;
    while (end < count && lanes[end].thread->lane / lanes_at_once == group) end++;
    passes += bank_passes(addresses + start, end - start, size);
  }
  return passes;
}

void count_shared(Site& site, const LaneEvent* lanes, uint64_t* addresses, int count, int size) {
  site.wavefronts += wavefronts(lanes, addresses, count, size);
  sort_if_needed(addresses, count);
  uint64_t bytes = static_cast<uint64_t>(std::unique(addresses, addresses + count) - addresses) * size;
  site.bytes += bytes;
  site.ideal_wavefronts += (bytes + 127) / 128;
}

// Sectors are the distinct aligned 32-byte pieces that a request touches; the ideal packs the same
// bytes without gaps. Bytes that several lanes name count once.
void count_global(Site& site, uint64_t* addresses, int count, int size) {
  sort_if_needed(addresses, count);
  uint64_t last_sector = kNever, end = 0, bytes = 0;
  for (int i = 0; i < count; i++) {
    uint64_t low = addresses[i], high = low + size;
    uint64_t first = low >> 5, last = (high - 1) >> 5;
    site.sectors += (first != last_sector) + (last - first);
    last_sector = last;
    if (high <= end) continue;
    bytes += high - std::max(low, end);
    end = high;
  }
  site.bytes += bytes;
  site.ideal_sectors += (bytes + 31) / 32;
}

void count_request(Worker& worker, const LaneEvent* lanes, int count) {
  const Event& event = *lanes[0].event;
  Site& site = site_of(worker, event);
  site.requests++;
  site.lanes += count;
  uint64_t addresses[kWarp];
  for (int i = 0; i < count; i++) addresses[i] = lanes[i].event->address;
  if (event.kind & kShared) count_shared(site, lanes, addresses, count, event.size);
  else count_global(site, addresses, count, event.size);
}

void handle_request(Worker& worker, const LaneEvent* lanes, int count) {
  worker.tally.events += count;
  worker.request++;
  uint32_t checks = worker.launch->config.checks;
  bool traffic = !(lanes[0].event->kind & (kVariable | kUnit));
  if ((checks & EMU_STATISTICS) && worker.counting && traffic) count_request(worker, lanes, count);
  if (worker.racing) check_order(worker, lanes, count);
}

bool same_path(Thread* const* lanes, int count) {
  const Thread& first = *lanes[0];
  for (int i = 0; i < count; i++)
    if (lanes[i]->logged != first.logged || lanes[i]->replayed) return false;
  for (uint32_t step = 0; step < first.logged; step++) {
    const Event& event = first.log[step];
    for (int i = 1; i < count; i++)
      if (lanes[i]->log[step].pc != event.pc || lanes[i]->log[step].kind != event.kind) return false;
  }
  return true;
}

void replay_in_step(Worker& worker, Thread* const* lanes, int count) {
  LaneEvent request[kWarp];
  for (uint32_t step = 0; step < lanes[0]->logged; step++) {
    for (int i = 0; i < count; i++) request[i] = {&lanes[i]->log[step], lanes[i]};
    handle_request(worker, request, count);
  }
  for (int i = 0; i < count; i++) lanes[i]->logged = lanes[i]->replayed = 0;
}

bool goes_first(const Event& a, const Event& b) {
  if (a.warp_epoch != b.warp_epoch) return static_cast<int8_t>(a.warp_epoch - b.warp_epoch) < 0;
  if (a.call_depth != b.call_depth) return a.call_depth > b.call_depth;
  return a.pc < b.pc;
}

// The event that runs next; null when the logs are used up or one that has more to come is empty. Where nothing
// is to stay behind, as when other threads are about to use the logs' memory, that one is not waited for.
const Event* next_event(Thread* const* lanes, int count, LogEnd end) {
  const Event* best = nullptr;
  for (int i = 0; i < count; i++) {
    const Thread& lane = *lanes[i];
    if (lane.replayed == lane.logged) {
      if (lane.run == Run::LogFull && end == LogEnd::MoreToCome) return nullptr;
      continue;
    }
    const Event& head = lane.log[lane.replayed];
    if (!best || goes_first(head, *best)) best = &head;
  }
  return best;
}

void drop_replayed(Thread& lane) {
  uint32_t rest = lane.logged - lane.replayed;
  if (lane.replayed && rest) memmove(lane.log, lane.log + lane.replayed, rest * sizeof(Event));
  lane.logged = rest;
  lane.replayed = 0;
}

void replay_diverged(Worker& worker, Thread* const* lanes, int count, LogEnd end) {
  while (const Event* next = next_event(lanes, count, end)) {
    Event chosen = *next;
    LaneEvent request[kWarp];
    int together = 0;
    for (int i = 0; i < count; i++) {
      if (lanes[i]->replayed == lanes[i]->logged) continue;
      Event& head = lanes[i]->log[lanes[i]->replayed];
      if (head.pc != chosen.pc || head.kind != chosen.kind || head.call_depth != chosen.call_depth) continue;
      request[together++] = {&head, lanes[i]};
      lanes[i]->replayed++;
    }
    handle_request(worker, request, together);
  }
  for (int i = 0; i < count; i++) drop_replayed(*lanes[i]);
}

}  // namespace

NOINLINE void replay(Worker& worker, int warp, LogEnd end) {
  Thread* lanes[kWarp];
  int count = 0;
  for (int lane = 0; lane < worker.lane_count(warp); lane++) {
    Thread& thread = worker.lanes_of(warp)[lane];
    if (thread.logged) lanes[count++] = &thread;
  }
  if (!count) return;
  if (end == LogEnd::Complete && same_path(lanes, count)) replay_in_step(worker, lanes, count);
  else replay_diverged(worker, lanes, count, end);
}

}  // namespace emu
