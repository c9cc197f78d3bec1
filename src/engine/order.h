// Who is looked at first. A policy is a comparison of two jobs; QueueMerge walks the lines of all classes in that order
// and touches only the heads.
//
//   small-first  priority (higher first), escalated (oldest first among them), fewer GPUs, since, id
//   fifo         priority, since, id
//
// Both agree with the order inside a line, which is what makes the merge possible.
// Source: small-first with escalation after an hour is the order that Valohai documents for its GPU queues.
#pragma once

#include <optional>
#include <vector>

#include "engine/queue.h"
#include "engine/schedule.h"

namespace divvy {

/// "escalated": has waited so long that smaller jobs no longer pass it.
bool IsEscalated(const Policy& policy, Time since, Time now);
/// When it becomes so; kNever where it never does.
Time EscalatesAt(const Policy& policy, Time since);

struct OrderKey {
  Place place;
  int gpus = 0;
  bool is_escalated = false;
};
bool GoesBefore(const Policy& policy, const OrderKey& a, const OrderKey& b);

/// A question of the kind "what if this entry asked for something else": `without` is passed over, and `instead` is a
/// class of its own beside the others.
struct WhatIf {
  JobId without;
  const JobClass* instead = nullptr;
};

/// Walks members in order. The entry at the top is one job; an array's entry stays there until all its members are
/// gone.
class QueueMerge {
 public:
  QueueMerge(const Cluster::Queue& queue, const Policy& policy, Time now, const WhatIf& what_if = {});

  bool IsEmpty() const { return heap_.empty(); }
  const JobClass& job_class() const { return *heap_.front().job_class; }
  const OrderKey& key() const { return heap_.front().key; }
  /// The entry's members that still wait, this one included.
  std::uint32_t members_left() const { return heap_.front().count; }

  void NextMember();
  void NextEntry();
  /// Past every job of this class with this priority.
  void NextPriority();
  /// This class is done with.
  void DropClass();

 private:
  struct Cursor {
    const JobClass* job_class = nullptr;
    Line::Position at;
    OrderKey key;
    std::uint32_t count = 0;
  };

  // Moves on to the first entry at or after cursor.at that is in line now; false when there is none.
  bool Settle(Cursor& cursor) const;
  // Takes the front out, moves its position with `step`, and puts it back where it then belongs.
  template <typename Step>
  void MoveFront(Step step);

  const Policy& policy_;
  Time now_;
  JobId without_;
  std::vector<Cursor> heap_;
};

}  // namespace divvy
