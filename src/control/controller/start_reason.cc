#include "control/controller/start_reason.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "control/state/gang_launches.h"
#include "model/reason_words.h"

namespace divvy {
namespace {

/// For a gang that has not been let go: the nodes that are not ready.
std::string UnreadyText(const std::vector<NodeAllocation>& allocations) {
  const auto is_unready = [](const NodeAllocation& allocation) { return allocation.port == 0 && !allocation.exit; };
  const auto first = std::ranges::find_if(allocations, is_unready);
  if (first == allocations.end()) return "";
  const auto others = std::count_if(first + 1, allocations.end(), is_unready);
  const auto most = std::chrono::duration_cast<std::chrono::seconds>(Controller::kPrepareWithin).count();
  return "waits for " + (first->node.empty() ? "the controller's machine" : "node " + first->node) +
         (others > 0 ? " and " + std::to_string(others) + " more to prepare their parts, " : " to prepare its part, ") +
         std::to_string(most) + " s at most";
}

}  // namespace

void NameBlocker(const Controller& controller, core::Blocker& blocker) {
  blocker.text = WithTeamNames(blocker.text);
  blocker.rule = WithTeamNames(blocker.rule);
  constexpr std::string_view kRule = "reservation ";
  if (blocker.kind != core::BlockerKind::kReservation || !blocker.rule.starts_with(kRule)) return;
  const auto advance = ParseInteger(std::string_view(blocker.rule).substr(kRule.size()));
  if (!advance || *advance <= 0) return;  // The rule is a job's reservation.
  const auto number = controller.NumberOfReservation(static_cast<std::uint64_t>(*advance));
  if (!number) return;
  const auto at = controller.reservations().all().find(*number);
  if (at == controller.reservations().all().end()) return;
  blocker.rule = NameOf(at->second);
  constexpr std::string_view kUser = " for one user ";
  if (const auto user = blocker.text.find(kUser); user != std::string::npos && !at->second.user.empty())
    blocker.text.replace(user, kUser.size(), " for user " + at->second.user + " ");
}

std::string WithTeamNames(std::string text) {
  for (const std::string_view whose : {"group team ", "group user "}) {
    if (const auto at = text.find(whose); at != std::string::npos) text.erase(at, std::string_view("group ").size());
  }
  return text;
}

std::optional<core::Blocker> PoolBlocker(const Controller& controller, const JobRecord& record) {
  std::string gone = WhyNoPool(controller.pools(), controller.scheduler(), record);
  if (gone.empty()) return std::nullopt;
  core::Blocker blocker;
  blocker.kind = core::BlockerKind::kImpossible;
  blocker.text = std::move(gone);
  return blocker;
}

Reason WaitingReasonOf(const Controller& controller, const JobRecord& record, FirstBlockers& blockers) {
  const Scheduler& cluster = controller.scheduler();
  if (record.is_held && !record.reason.empty()) return record.reason;
  // An array element without a record of its own waits for the same reasons as its array.
  const bool is_apart = cluster.waiting(record.id) != nullptr;
  const JobId entry = is_apart ? record.id : record.array;
  if (!entry.is_set() || cluster.waiting(entry) == nullptr) return record.reason;
  std::optional<core::Blocker> first = PoolBlocker(controller, record);
  if (!first) first = blockers.Find(entry);
  if (!first) return "about to start";
  if (first->kind == core::BlockerKind::kBeginTime && record.restarts > 0)
    return "waits before the next try" + (record.reason.empty() ? "" : ": " + record.reason);
  NameBlocker(controller, *first);
  return std::move(first->text);
}

Reason StateReason(const Controller& controller, const JobRecord& record, FirstBlockers* blockers) {
  if (IsWaiting(record.state))
    return blockers == nullptr ? controller.WaitingReason(record) : WaitingReasonOf(controller, record, *blockers);
  if (!IsActive(record.state) || record.array_count > 0) return record.reason;
  const bool is_stopping = record.state == JobState::kStopping;
  const bool has_begun = !is_stopping && record.state != JobState::kStarting;
  const bool may_run = record.gang.empty() || record.was_let_go;
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  // The job was told to start; only the node knows whether it has, because starts are not persisted at once
  // (RunTracker::OnStarted).
  if (Reason stale = GangLaunches::StaleReason(record); !stale.empty() && !is_stopping) return stale;
  for (const NodeAllocation& allocation : allocations) {
    const std::string absence = controller.DisconnectReason(allocation.node);
    if (!absence.empty() && is_stopping) return record.reason + "; " + absence;
    if (!absence.empty())
      return absence + (has_begun ? "; " + std::string(kMayGoOn) : may_run ? "; the job may run there" : "");
  }
  for (const NodeAllocation& allocation : allocations) {
    if (std::string drain = controller.DrainOf(allocation.node); has_begun && !drain.empty()) return drain;
  }
  if (is_stopping || has_begun) return record.reason;
  const std::string unready = may_run ? "" : UnreadyText(allocations);
  const bool is_delayed = record.reason != record.start_reason;
  return unready.empty() || is_delayed ? record.reason : unready;
}

Reason Controller::WaitingReason(const JobRecord& record) const {
  FirstBlockers blockers(scheduler_, scheduler_.decided_at());
  return WaitingReasonOf(*this, record, blockers);
}

}  // namespace divvy
