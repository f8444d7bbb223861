#include "order.h"

#include <algorithm>

namespace emu {
namespace {

void raise(std::unordered_map<uint64_t, uint32_t>& times, uint64_t block, uint32_t before) {
  uint32_t& known = times[block];
  known = std::max(known, before);
}

}  // namespace

void Order::fence(uint64_t number) {
  std::lock_guard lock(mutex_);
  Block& block = blocks_[number];
  block.fenced = ++block.time;
  block.known = nullptr;
}

bool Order::look(uint64_t number, uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = places_.find(address);
  if (found == places_.end()) return false;
  Block& block = blocks_[number];
  const Place& place = found->second;
  block.time++;  // accesses from here on
  bool news = learn(block, place.added);
  if (place.stored) news = learn(block, *place.stored) || news;
  if (news) block.known = nullptr;
  else block.time--;
  return true;
}

bool Order::learn(Block& block, const Times& told) {
  bool news = false;
  for (auto [other, before] : told) {
    std::vector<Learnt>& known = block.learnt[other];
    if (!known.empty() && known.back().before >= before) continue;
    known.push_back({block.time, before});
    news = true;
  }
  return news;
}

void Order::tell(uint64_t number, uint64_t address, bool atomic) {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<const Times>& known = known_to(number);
  if (known->empty() && (atomic || places_.find(address) == places_.end())) return;
  Place& place = places_[address];
  if (atomic) {
    for (auto [block, before] : *known) raise(place.added, block, before);
  } else {
    place.added.clear();
    place.stored = known;
  }
}

const std::shared_ptr<const Order::Times>& Order::known_to(uint64_t number) {
  Block& block = blocks_[number];
  if (!block.known) {
    auto times = std::make_shared<Times>();
    if (block.fenced) (*times)[number] = block.fenced;
    for (auto& [other, known] : block.learnt)
      if (other != number) (*times)[other] = known.back().before;
    block.known = std::move(times);
  }
  return block.known;
}

bool Order::knows(uint64_t number, uint32_t when, uint64_t other, uint32_t then) {
  std::lock_guard lock(mutex_);
  const Block& block = blocks_[number];
  auto known = block.learnt.find(other);
  if (known == block.learnt.end()) return false;
  return std::any_of(known->second.begin(), known->second.end(),
                     [=](const Learnt& one) { return one.at <= when && one.before > then; });
}

void Order::ended(uint64_t number) {
  std::lock_guard lock(mutex_);
  blocks_[number].learnt.clear();
}

}  // namespace emu
