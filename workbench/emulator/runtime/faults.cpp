#include "faults.h"

#include <algorithm>

#include "scheduler.h"

namespace emu {
namespace {

constexpr uint64_t kFarAway = 16 << 20;  // farther from every buffer than this, none of them is named
constexpr uint64_t kNullPage = 64 << 10;  // nothing is ever mapped below

void locate(const Worker& worker, Fault& fault) {
  uint64_t address = fault.address;
  if (address < kNullPage) {
    fault.place = kNull;
    fault.offset = static_cast<int64_t>(address);
    return;
  }
  if (address >= worker.dynamic_low && address - worker.dynamic_low < (256 << 10)) {
    fault.place = kInDynamicShared;
    fault.offset = static_cast<int64_t>(address - worker.dynamic_low);
    return;
  }
  // Past the last array lies no array, and still the offset is what tells by how much.
  if (holds(worker.shared_span, address) || fault.kind == "out_of_bounds_shared") {
    fault.place = kInShared;
    fault.offset = static_cast<int64_t>(address - worker.tls);
    return;
  }
  uint64_t nearest = kFarAway;
  const auto& buffers = worker.launch->buffers;
  for (size_t i = 0; i < buffers.size(); i++) {
    uint64_t distance = address < buffers[i].low     ? buffers[i].low - address
                        : address >= buffers[i].high ? address - buffers[i].high
                                                     : 0;
    if (distance >= nearest) continue;
    nearest = distance;
    fault.place = static_cast<int64_t>(i);
    fault.offset = static_cast<int64_t>(address - buffers[i].low);
  }
}

bool earlier(const Fault& a, const Fault& b) {
  return std::tie(a.block, a.thread.z, a.thread.y, a.thread.x) <
         std::tie(b.block, b.thread.z, b.thread.y, b.thread.x);
}

void merge_site(Site& into, const Site& from) {
  into.pc = from.pc;
  into.kind = from.kind;
  into.size = std::max(into.size, from.size);
  into.requests += from.requests;
  into.lanes += from.lanes;
  into.bytes += from.bytes;
  into.sectors += from.sectors;
  into.ideal_sectors += from.ideal_sectors;
  into.wavefronts += from.wavefronts;
  into.ideal_wavefronts += from.ideal_wavefronts;
}

// Just enough JSON: flat objects inside arrays, numbers and strings.
class Json {
 public:
  std::string text;
  void open(char bracket) {
    separate();
    text += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text += bracket;
    first_ = false;
  }
  void key(const char* name) {
    separate();
    text += '"';
    text += name;
    text += "\":";
    first_ = true;
  }
  template <class Number>
  void number(Number value) {
    separate();
    text += std::to_string(value);
  }
  template <class Number>
  void field(const char* name, Number value) {
    key(name);
    number(value);
  }
  void field(const char* name, const std::string& value) {
    key(name);
    string(value);
  }
  void index(const char* name, emu_index value) {
    key(name);
    open('[');
    number(value.x);
    number(value.y);
    number(value.z);
    close(']');
  }

 private:
  bool first_ = true;
  void separate() {
    if (!first_) text += ',';
    first_ = false;
  }
  void string(const std::string& value) {
    separate();
    text += '"';
    for (char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      if (c == '\n') text += "\\n";
      else text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    text += '"';
  }
};

emu_index block_index(const emu_config& config, uint64_t block) {
  uint64_t row = config.grid[0], plane = row * config.grid[1];
  return {static_cast<unsigned>(block % row), static_cast<unsigned>(block % plane / row),
          static_cast<unsigned>(block / plane)};
}

// What was printed, block after block.
std::string printed(const Launch& launch) {
  std::vector<Print> prints = launch.prints;
  std::stable_sort(prints.begin(), prints.end(), [](auto& a, auto& b) { return a.block < b.block; });
  std::string text;
  for (const Print& print : prints) text += print.text;
  if (text.size() > kPrintedBytes) text.resize(kPrintedBytes);
  return text;
}

// Faults of blocks that should not have run any more are dropped.
bool stands(const Launch& launch, const Fault& fault) {
  return fault.block <= launch.first_given_up.load();
}

void write_fault(Json& json, const emu_config& config, const Fault& fault) {
  json.open('{');
  json.field("kind", fault.kind);
  json.field("pc", fault.pc);
  json.field("other_pc", fault.other_pc);
  json.field("size", fault.size);
  json.field("action", fault.action);
  json.index("thread", fault.thread);
  json.index("block", block_index(config, fault.block));
  json.field("other_thread", fault.other_thread);
  json.field("place", fault.place);
  json.field("offset", fault.offset);
  json.field("count", fault.count);
  json.field("message", fault.message);
  json.close('}');
}

void write_site(Json& json, const Site& site) {
  json.open('{');
  json.field("pc", site.pc);
  json.field("shared", site.kind & kShared ? 1 : 0);
  json.field("action", site.kind & kActionMask);
  json.field("size", static_cast<unsigned>(site.size));
  json.field("requests", site.requests);
  json.field("lanes", site.lanes);
  json.field("bytes", site.bytes);
  json.field("transactions", site.kind & kShared ? site.wavefronts : site.sectors);
  json.field("ideal", site.kind & kShared ? site.ideal_wavefronts : site.ideal_sectors);
  json.close('}');
}

}  // namespace

NOINLINE void report(Worker& worker, const Thread* thread, Fault fault) {
  if (thread) fault.thread = thread->index;
  fault.block = worker.block;
  FaultKey key{fault.kind, fault.pc, fault.other_pc};
  auto known = worker.faults.find(key);
  if (known != worker.faults.end()) {
    known->second.count++;
    return;
  }
  if (fault.address || fault.kind == "out_of_bounds") locate(worker, fault);
  worker.faults.emplace(std::move(key), std::move(fault));
}

void trap(const void* pc, const char* message) {
  Worker& worker = *current_worker;
  Fault fault{.kind = "trap", .pc = module_offset(worker, pc)};
  fault.message = message;
  report(worker, worker.running, fault);
  stop_after_this_block(worker);
  end_thread(worker, *worker.running);
}

void stop_after_this_block(Worker& worker) {
  auto& first = worker.launch->first_given_up;
  uint64_t seen = first.load();
  while (seen > worker.block && !first.compare_exchange_weak(seen, worker.block)) {
  }
}

void merge_results(Launch& launch, Worker& worker) {
  std::lock_guard<std::mutex> lock(launch.merging);
  for (auto& [key, fault] : worker.faults) {
    auto [place, added] = launch.faults.emplace(key, fault);
    if (added) continue;
    uint64_t count = place->second.count + fault.count;
    if (earlier(fault, place->second)) place->second = fault;
    place->second.count = count;
  }
  for (const Site& site : worker.sites) merge_site(launch.sites[site_key(site.pc, site.kind)], site);
  launch.prints.insert(launch.prints.end(), worker.prints.begin(), worker.prints.end());
  launch.print_calls += worker.print_calls;
  launch.tally.switches += worker.tally.switches;
  launch.tally.events += worker.tally.events;
  launch.tally.barriers += worker.tally.barriers;
  launch.tally.warp_operations += worker.tally.warp_operations;
  launch.tally.unit_products += worker.tally.unit_products;
  launch.tally.traced_blocks += worker.tally.traced_blocks;
}

std::string to_json(const Launch& launch) {
  Json json;
  json.open('{');
  json.field("stopped", launch.first_given_up.load() == kNever ? 0 : 1);
  json.field("blocks", launch.blocks);
  json.field("traced_blocks", launch.tally.traced_blocks);
  json.field("switches", launch.tally.switches);
  json.field("events", launch.tally.events);
  json.field("barriers", launch.tally.barriers);
  json.field("warp_operations", launch.tally.warp_operations);
  json.field("unit_products", launch.tally.unit_products);
  json.field("printed", printed(launch));
  json.field("print_calls", launch.print_calls);
  json.field("converses", launch.converses ? 1 : 0);
  json.key("faults");
  json.open('[');
  for (const auto& [key, fault] : launch.faults)
    if (stands(launch, fault)) write_fault(json, launch.config, fault);
  json.close(']');
  json.key("sites");
  json.open('[');
  for (const auto& [key, site] : launch.sites) write_site(json, site);
  json.close(']');
  json.close('}');
  return json.text;
}

}  // namespace emu
