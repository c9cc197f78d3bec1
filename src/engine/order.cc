#include "engine/order.h"

#include <algorithm>

namespace divvy {

bool IsEscalated(const Policy& policy, Time since, Time now) {
  return policy.escalate_after > Duration(0) && now - since >= policy.escalate_after;
}

Time EscalatesAt(const Policy& policy, Time since) {
  return policy.escalate_after > Duration(0) ? AddSaturating(since, policy.escalate_after) : kNever;
}

bool GoesBefore(const Policy& policy, const OrderKey& a, const OrderKey& b) {
  if (a.place.priority != b.place.priority) return a.place.priority > b.place.priority;
  if (policy.order == QueuePolicy::kSmallFirst) {
    if (a.is_escalated != b.is_escalated) return a.is_escalated;
    if (!a.is_escalated && a.gpus != b.gpus) return a.gpus < b.gpus;
  }
  return a.place < b.place;
}

QueueMerge::QueueMerge(const Cluster::Queue& queue, const Policy& policy, Time now, const WhatIf& what_if)
    : policy_(policy), now_(now), without_(what_if.without) {
  heap_.reserve(queue.classes.size() + 1);
  const auto add = [this](const JobClass& job_class) {
    Cursor cursor{&job_class, job_class.line.begin(), {}, 0};
    if (Settle(cursor)) heap_.push_back(cursor);
  };
  for (const auto& [key, job_class] : queue.classes) {
    if (key.lane != Lane::kParked) add(job_class);
  }
  if (what_if.instead != nullptr) {
    without_ = JobId();  // The stand-in has the same id.
    add(*what_if.instead);
    without_ = what_if.without;
  }
  const auto later = [this](const Cursor& a, const Cursor& b) { return GoesBefore(policy_, b.key, a.key); };
  std::make_heap(heap_.begin(), heap_.end(), later);
}

bool QueueMerge::Settle(Cursor& cursor) const {
  const Line& line = cursor.job_class->line;
  while (!line.IsEnd(cursor.at)) {
    const Line::Stand& stand = line.At(cursor.at);
    if (cursor.job_class->key.lane == Lane::kDated && stand.place.since > now_) {
      cursor.at = line.AfterPriority(stand.place.priority);  // Those behind it are due even later.
      continue;
    }
    if (stand.place.id == without_) {
      cursor.at = line.Next(cursor.at);
      continue;
    }
    cursor.count = stand.count;
    cursor.key = {stand.place, cursor.job_class->key.request.gpus, IsEscalated(policy_, stand.place.since, now_)};
    return true;
  }
  return false;
}

template <typename Step>
void QueueMerge::MoveFront(Step step) {
  const auto later = [this](const Cursor& a, const Cursor& b) { return GoesBefore(policy_, b.key, a.key); };
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Cursor& cursor = heap_.back();
  cursor.at = step(cursor);
  if (Settle(cursor)) std::push_heap(heap_.begin(), heap_.end(), later);
  else heap_.pop_back();
}

void QueueMerge::NextMember() {
  if (heap_.front().count > 1) heap_.front().count -= 1;
  else NextEntry();
}

void QueueMerge::NextEntry() {
  MoveFront([](const Cursor& cursor) { return cursor.job_class->line.Next(cursor.at); });
}

void QueueMerge::NextPriority() {
  MoveFront([](const Cursor& cursor) { return cursor.job_class->line.AfterPriority(cursor.key.place.priority); });
}

void QueueMerge::DropClass() {
  const auto later = [this](const Cursor& a, const Cursor& b) { return GoesBefore(policy_, b.key, a.key); };
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
}

}  // namespace divvy
