#include "control/start_reason.h"

#include <algorithm>

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

Reason StateReason(const Controller& controller, const JobRecord& record) {
  if (IsWaiting(record.state)) return controller.WaitingReason(record);
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
  return unready.empty() ? record.reason : unready;
}

}  // namespace divvy
