#include "order.h"

#include <algorithm>

namespace emu {

Order::Told Order::joined(const Told& one, const Told& other) {
  Told both{std::max(one.before, other.before), std::max(one.epoch, other.epoch), 0};
  for (const Told& told : {one, other})
    if (told.epoch == both.epoch) both.warps |= told.warps;
  return both;
}

void Order::fence(uint64_t number) {
  std::lock_guard lock(mutex_);
  Block& block = blocks_[number];
  block.fenced = ++block.time;
  block.known = nullptr;
}

bool Order::look(uint64_t number, Moment moment, uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = places_.find(address);
  if (found == places_.end()) return false;
  Block& block = blocks_[number];
  const Place& place = found->second;
  block.time++;  // accesses from here on
  bool news = learn(block, moment, place.added);
  if (place.stored) news = learn(block, moment, *place.stored) || news;
  if (news) block.known = nullptr;
  else block.time--;
  return true;
}

bool Order::learn(Block& block, Moment moment, const Times& told) {
  bool news = false;
  for (const auto& [other, its] : told) {
    std::vector<Learnt>& known = block.learnt[other];
    Told all = known.empty() ? its : joined(known.back().told, its);
    bool old = std::any_of(known.begin(), known.end(), [&](const Learnt& one) {
      return one.told == all && (one.by.epoch < moment.epoch || one.by.warp == moment.warp);
    });
    if (old) continue;
    known.push_back({block.time, moment, all});
    news = true;
  }
  return news;
}

void Order::tell(uint64_t number, Moment moment, uint64_t address, bool atomic) {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<const Times>& known = known_to(number, moment);
  if (known->empty() && (atomic || places_.find(address) == places_.end())) return;
  Place& place = places_[address];
  if (atomic) {
    for (const auto& [block, told] : *known) place.added[block] = joined(place.added[block], told);
  } else {
    place.added.clear();
    place.stored = known;
  }
}

const std::shared_ptr<const Order::Times>& Order::known_to(uint64_t number, Moment moment) {
  Block& block = blocks_[number];
  if (!block.known || block.known_at.epoch != moment.epoch || block.known_at.warp != moment.warp) {
    auto times = std::make_shared<Times>();
    if (block.fenced) (*times)[number] = {block.fenced, moment.epoch, 1u << moment.warp};
    for (auto& [other, known] : block.learnt)
      if (other != number) (*times)[other] = known.back().told;
    block.known = std::move(times);
    block.known_at = moment;
  }
  return block.known;
}

bool Order::knows(uint64_t number, Moment mine, uint32_t when, uint64_t other, Moment its, uint32_t then) {
  std::lock_guard lock(mutex_);
  const Block& block = blocks_[number];
  auto known = block.learnt.find(other);
  if (known == block.learnt.end()) return false;
  return std::any_of(known->second.begin(), known->second.end(), [=](const Learnt& one) {
    bool heard = one.at <= when && (one.by.epoch < mine.epoch || one.by.warp == mine.warp);
    bool done = its.epoch < one.told.epoch || (one.told.warps >> its.warp & 1);
    return heard && one.told.before > then && done;
  });
}

void Order::ended(uint64_t number) {
  std::lock_guard lock(mutex_);
  blocks_[number].learnt.clear();
}

}  // namespace emu
