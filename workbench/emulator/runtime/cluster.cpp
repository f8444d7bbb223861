// Blocks of one cluster run at the same time, each on an OS thread of its own, and meet at cluster barriers.
//
// What a block does to another's shared memory is noted and judged when all blocks have met or ended, while
// nobody runs: the verdict does not depend on which OS thread was faster. Between two meetings an access to
// another block's cell conflicts with the owner's own accesses and with those of other blocks, unless both
// read or both are atomic. A block that ends without a meeting after the last access to its shared memory is
// at fault too: on a GPU that memory is then gone.
#include "cluster.h"

#include <algorithm>

#include "faults.h"

namespace emu {
namespace {

Fault conflict(const char* kind, const Worker& reader, const Remote& remote, const Worker& owner) {
  Fault fault{.kind = kind, .pc = remote.event.pc};
  fault.address = remote.event.address - owner.tls + reader.tls;  // the same array, to be found by name
  fault.size = remote.event.size;
  fault.action = remote.event.kind & kActionMask;
  return fault;
}

std::string name_of(const Worker& worker) { return "block " + std::to_string(worker.block); }

bool conflicts(uint8_t one, uint8_t other) {
  one &= kActionMask;
  other &= kActionMask;
  return (one != kRead || other != kRead) && !(one == kAtomic && other == kAtomic);
}

// Against what the owner did itself since the last meeting.
void judge_with_owner(Worker& worker, const Remote& remote, Worker& owner) {
  const Event& event = remote.event;
  uint64_t offset = event.address - owner.shared_span.low;
  for (uint64_t i = offset >> owner.shadow_shift; i <= (offset + event.size - 1) >> owner.shadow_shift; i++) {
    if (i >= owner.shared_shadow.size()) return;
    const SharedCell& cell = owner.shared_shadow[i];
    bool reads = (event.kind & kActionMask) == kRead;
    if (reads && cell.written_in_block != owner.block_serial) {
      Fault fault = conflict("uninitialised_shared", worker, remote, owner);
      report(worker, &worker.threads[remote.rank], fault);
      return;
    }
    uint64_t mine = reads ? cell.write : std::max(cell.write, cell.read);
    if (!mine || mine >> 32 < owner.cluster_epoch) continue;
    bool written = mine == cell.write;
    uint8_t kind = !written ? kRead : mine & 1 << 16 ? kAtomic : kWrite;
    if (!conflicts(kind, event.kind)) continue;
    const char* name = reads ? "race_read_after_write" : written ? "race_write_after_write" : "race_write_after_read";
    Fault fault = conflict(name, worker, remote, owner);
    fault.other_pc = written ? cell.write_pc : cell.read_pc;
    fault.other_thread = static_cast<int>(mine & 0xffff) - 1;
    fault.message = name_of(owner);
    report(worker, &worker.threads[remote.rank], fault);
    return;
  }
}

// Against what other blocks did to the same owner's memory; each pair once.
void judge_with_others(Cluster& cluster, Worker& worker, const Remote& remote) {
  for (Worker* other : cluster.members) {
    if (other->cluster_rank <= worker.cluster_rank) continue;
    for (const Remote& theirs : other->remotes) {
      bool apart = theirs.event.address + theirs.event.size <= remote.event.address ||
                   remote.event.address + remote.event.size <= theirs.event.address;
      if (apart || !conflicts(remote.event.kind, theirs.event.kind)) continue;
      bool reads = (theirs.event.kind & kActionMask) == kRead;
      Fault fault = conflict(reads ? "race_read_after_write" : "race_write_after_write", *other, theirs,
                             *cluster.members[remote.owner]);
      fault.other_pc = remote.event.pc;
      fault.other_thread = remote.rank;
      fault.message = name_of(worker);
      report(*other, &other->threads[theirs.rank], fault);
      return;
    }
  }
}

// Nobody runs: every block waits or has ended.
void judge(Cluster& cluster) {
  bool writes = false;
  for (const Worker* worker : cluster.members)
    for (const Remote& remote : worker->remotes) writes |= (remote.event.kind & kActionMask) != kRead;
  for (Worker* worker : cluster.members) {
    for (const Remote& remote : worker->remotes) {
      Worker& owner = *cluster.members[remote.owner];
      if (owner.left_at <= cluster.meeting)
        report(*worker, &worker->threads[remote.rank], conflict("ended_block", *worker, remote, owner));
      if (!(worker->launch->config.checks & EMU_RACES) || !worker->racing) continue;
      judge_with_owner(*worker, remote, owner);
      if (writes) judge_with_others(cluster, *worker, remote);
    }
  }
  for (Worker* worker : cluster.members) {
    worker->remotes.clear();
    worker->known_remotes.clear();
    worker->cluster_epoch = worker->barrier_epoch + 1;  // the barrier that is about to be released
  }
}

void next_meeting(Cluster& cluster) {
  judge(cluster);
  cluster.arrived = 0;
  cluster.meeting++;
  cluster.changed.notify_all();
}

}  // namespace

void meet_cluster(Worker& worker) {
  Cluster& cluster = *worker.cluster;
  std::unique_lock<std::mutex> lock(cluster.mutex);
  uint64_t meeting = cluster.meeting;
  if (++cluster.arrived == cluster.alive) {
    next_meeting(cluster);
    return;
  }
  worker.launch->blocks_stuck++;  // it waits for its cluster, and writes nothing that another polls for
  cluster.changed.wait(lock, [&] { return cluster.meeting != meeting; });
  worker.launch->blocks_stuck--;
}

void leave_cluster(Worker& worker) {
  Cluster& cluster = *worker.cluster;
  std::unique_lock<std::mutex> lock(cluster.mutex);
  worker.left_at = cluster.meeting;
  cluster.alive--;
  if (cluster.arrived == cluster.alive) next_meeting(cluster);
}

void end_cluster(Worker& worker) {
  Cluster& cluster = *worker.cluster;
  std::unique_lock<std::mutex> lock(cluster.mutex);
  uint64_t turn = cluster.turn;
  if (++cluster.waiting == cluster.members.size()) {
    cluster.waiting = 0;
    cluster.alive = cluster.members.size();
    cluster.turn++;
    cluster.changed.notify_all();
    return;
  }
  cluster.changed.wait(lock, [&] { return cluster.turn != turn; });
}

Worker* owner_of(const Worker& worker, uint64_t address) {
  if (!worker.cluster) return nullptr;
  for (Worker* member : worker.cluster->members)
    if (member != &worker && holds(member->shared_span, address)) return member;
  return nullptr;
}

void note_remote(Worker& worker, const Thread& thread, const Event& event, unsigned owner) {
  if (worker.known_remotes.emplace(event.address, event.pc, event.kind).second)
    worker.remotes.push_back({event, owner, thread.rank});
}

}  // namespace emu
