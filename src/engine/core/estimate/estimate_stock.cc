#include "engine/core/estimate/estimate_stock.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace divvy::core {

Stock::Stock(std::vector<Chunk> all, std::int64_t owed) {
  for (const Chunk& chunk : all) left_ += chunk.amount;
  coming_ = decltype(coming_)(std::greater<>(), std::move(all));
  if (owed <= 0) return;
  clear_ = From(owed);
  if (clear_ == kNever) left_ = 0;
  else TakeFirst(owed);
}

bool Stock::Reach() {
  if (coming_.empty()) return false;
  reached_ = coming_.top().at;
  there_.push_back(coming_.top());
  coming_.pop();
  return true;
}

Time Stock::From(std::int64_t amount) {
  if (amount > left_ || clear_ == kNever) return kNever;
  Time at = clear_;
  for (std::size_t i = 0; amount > 0; ++i) {
    if (i == there_.size() && !Reach()) return kNever;
    amount -= there_[i].amount;
    at = std::max(at, there_[i].at);
  }
  return at;
}

void Stock::TakeFirst(std::int64_t amount) {
  left_ -= amount;
  while (amount > 0 && (!there_.empty() || Reach())) {
    Chunk& first = there_.front();
    const std::int64_t taken = std::min(amount, first.amount);
    amount -= taken;
    first.amount -= taken;
    if (first.amount == 0) there_.pop_front();
  }
}

void Stock::TakeLast(std::int64_t amount, Time by) {
  left_ -= amount;
  while (!coming_.empty() && coming_.top().at <= by) Reach();
  const auto later =
      std::upper_bound(there_.begin(), there_.end(), by, [](Time time, const Chunk& chunk) { return time < chunk.at; });
  auto from = later;
  while (amount > 0 && from != there_.begin()) {
    Chunk& last = *std::prev(from);
    const std::int64_t taken = std::min(amount, last.amount);
    amount -= taken;
    last.amount -= taken;
    if (last.amount == 0) --from;
  }
  there_.erase(from, later);
}

void Stock::GiveBack(Time at, std::int64_t amount) {
  left_ += amount;
  if (at > reached_) {
    coming_.push({at, amount});
    return;
  }
  const auto later =
      std::upper_bound(there_.begin(), there_.end(), at, [](Time time, const Chunk& chunk) { return time < chunk.at; });
  there_.insert(later, {at, amount});
}

std::optional<Stock::Chunk> Stock::First() {
  if (there_.empty() && !Reach()) return std::nullopt;
  return there_.front();
}

void Stock::DropFirst() {
  left_ -= there_.front().amount;
  there_.pop_front();
}

}  // namespace divvy::core
