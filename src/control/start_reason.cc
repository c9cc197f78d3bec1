#include "control/start_reason.h"

#include <algorithm>

#include "base/text.h"
#include "control/pool_parts.h"
#include "control/record_parts.h"
#include "model/reason_words.h"

namespace divvy {
namespace {

/// Of a gang that is not let go: which machines are not ready.
std::string UnreadyText(const std::vector<Seat>& seats) {
  const auto is_unready = [](const Seat& seat) { return seat.port == 0 && !seat.exit; };
  const auto first = std::ranges::find_if(seats, is_unready);
  if (first == seats.end()) return "";
  const auto others = std::count_if(first + 1, seats.end(), is_unready);
  const auto most = std::chrono::duration_cast<std::chrono::seconds>(Controller::kPrepareWithin).count();
  return "waits for " + (first->node.empty() ? "the controller's machine" : "node " + first->node) +
         (others > 0 ? " and " + std::to_string(others) + " more to prepare their parts, " : " to prepare its part, ") +
         std::to_string(most) + " s at most";
}

}  // namespace

Reason WaitingReasonOf(const Controller& controller, const JobRecord& record, IdleTexts& idle) {
  const Server& cluster = controller.cluster();
  if (record.is_held) return record.reason.empty() ? "held: divvy release " + ToString(record.id) : record.reason;
  const WaitingEntry* entry = cluster.waiting(record.id);
  // An element that has no record of its own yet waits as its array does.
  if (entry == nullptr && record.array.is_set()) entry = cluster.waiting(record.array);
  if (entry == nullptr) return record.reason;
  if (!entry->unmet_dependencies.empty()) return "waits for " + Join(entry->unmet_dependencies, " and ");
  for (const GroupName& group : entry->groups) {
    const int limit = cluster.group_limit(group);
    if (limit > 0 && cluster.group_running(group) >= limit) {
      return group + " runs " + std::to_string(limit) + " of at most " + std::to_string(limit);
    }
    const int most = cluster.group_gpu_limit(group);
    const int held = cluster.group_gpus(group);
    if (most > 0 && record.request.gpus_in_all() > 0 && held + record.request.gpus_in_all() > most)
      return group + " holds " + std::to_string(held) + " of at most " + Plural(most, "GPU");
  }
  if (record.restarts > 0 && entry->begin != kNoTime)
    return "waits before the next try" + (record.reason.empty() ? "" : ": " + record.reason);
  if (entry->begin != kNoTime && entry->begin > record.queued_at) return "waits for its begin time";
  if (std::string bar = cluster.TeamBar(record.id); !bar.empty()) return bar;
  if (std::string gone = WhyNoPool(controller.pools(), cluster, record); !gone.empty()) return gone;
  if (const int asked = record.request.gpus_in_all(); asked > 0) {
    const std::string& resting = idle.OfNodes(*entry);
    if (!record.request.slice.empty())
      return "waits for a slice " + record.request.slice + (resting.empty() ? "" : "; " + resting);
    if (record.request.is_portioned()) {
      const std::string part =
          record.request.portion.is_by_memory() ? PortionText(record.request.portion) : GpuCountText(record.request);
      return "waits for " + part + (record.request.gpus > 1 ? " of GPUs" : " of a GPU") +
             (resting.empty() ? "" : "; " + resting);
    }
    const auto is_its = [&](std::uint64_t booking) {
      const auto number = controller.ReservationOfBooking(booking);
      return number && IsFor(controller.reservations().all().at(*number), record.user.name, record.team);
    };
    return "waits for " + Plural(asked, "GPU") + ", " + idle.OfGpus(*entry, is_its) +
           (resting.empty() ? "" : "; " + resting);
  }
  return "waits for CPUs or memory";
}

Reason StateReason(const Controller& controller, const JobRecord& record, IdleTexts* idle) {
  if (IsWaiting(record.state))
    return idle == nullptr ? controller.WaitingReason(record) : WaitingReasonOf(controller, record, *idle);
  if (!IsActive(record.state) || record.array_count > 0) return record.reason;
  const bool is_stopping = record.state == JobState::kStopping;
  const bool has_begun = !is_stopping && record.state != JobState::kStarting;
  const bool may_run = record.gang.empty() || record.was_let_go;
  const std::vector<Seat> seats = SeatsOf(record);
  // It was told to start, and only the machine knows whether it has: a start is not kept (Controller::OnStarted).
  for (const Seat& seat : seats) {
    const std::string absence = controller.AbsenceOf(seat.node);
    if (!absence.empty() && is_stopping) return record.reason + "; " + absence;
    if (!absence.empty())
      return absence + (has_begun ? "; " + std::string(kMayGoOn) : may_run ? "; the job may run there" : "");
  }
  for (const Seat& seat : seats) {
    if (std::string drain = controller.DrainOf(seat.node); has_begun && !drain.empty()) return drain;
  }
  if (is_stopping || has_begun) return record.reason;
  const std::string unready = may_run ? "" : UnreadyText(seats);
  const bool is_delayed = record.reason != record.start_reason;
  return unready.empty() || is_delayed ? record.reason : unready;
}

}  // namespace divvy
