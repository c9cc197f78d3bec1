#include "cli/shims/slurm_reservations.h"

#include <array>
#include <string_view>

#include "base/text.h"
#include "cli/shims/slurm_view.h"
#include "dialect/slurm_hostlist.h"

namespace divvy::cli::slurm {
namespace {

std::string Flags(const wire::ReservationView& view) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFlags = {
      {{"day", "DAILY"}, {"weekday", "WEEKDAY"}, {"week", "WEEKLY"}}};
  for (const auto& [every, flag] : kFlags) {
    if (view.every == every) return std::string(flag);
  }
  return "";
}

}  // namespace

std::string ShowReservation(const wire::ReservationView& view, double now, const std::string& own, bool is_one_line) {
  const double start = view.turns.empty() ? view.start : view.turns.front().start;
  const double end = view.turns.empty() ? start + view.duration_s : view.turns.front().end;
  const bool is_active = !view.turns.empty() && view.turns.front().is_held && start <= now;
  std::vector<std::string> nodes;
  for (const wire::ReservedPlace& place :
       view.turns.empty() ? std::vector<wire::ReservedPlace>() : view.turns.front().places)
    nodes.push_back(place.node.empty() ? own : place.node);
  const std::vector<std::string> lines = {
      "ReservationName=" + (view.name.empty() ? std::to_string(view.number) : view.name) +
          " StartTime=" + Moment(start) + " EndTime=" + Moment(end) + " Duration=" + LongElapsed(end - start),
      "Nodes=" + OrNull(dialect::FoldHostList(nodes)) + " NodeCnt=" + std::to_string(nodes.size()) +
          " CoreCnt=0 Features=(null) PartitionName=(null) Flags=" + Flags(view),
      "TRES=gres/gpu=" + std::to_string(view.gpus),
      "Users=" + OrNull(view.user) + " Groups=(null) Accounts=" + OrNull(view.team) +
          " Licenses=(null) State=" + (is_active ? "ACTIVE" : "INACTIVE") + " BurstBuffer=(null) Watts=n/a"};
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

}  // namespace divvy::cli::slurm
