#include "cli/shims/slurm_look/slurm_reservations.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "dialect/options/slurm_hostlist.h"

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

/// The present or next occurrence of a reservation.
struct ShownOccurrence {
  std::string name;
  double start = 0;
  double end = 0;
  bool is_active = false;
  std::vector<std::string> nodes;
};

ShownOccurrence ShownOccurrenceOf(const wire::ReservationView& view, double now, const std::string& own) {
  ShownOccurrence occurrence;
  occurrence.name = view.name.empty() ? std::to_string(view.number) : view.name;
  occurrence.start = view.occurrences.empty() ? view.start : view.occurrences.front().start;
  occurrence.end = view.occurrences.empty() ? occurrence.start + view.duration_s : view.occurrences.front().end;
  occurrence.is_active = !view.occurrences.empty() && view.occurrences.front().is_held && occurrence.start <= now;
  if (view.occurrences.empty()) return occurrence;
  for (const wire::ReservedPlace& place : view.occurrences.front().places)
    occurrence.nodes.push_back(place.node.empty() ? own : place.node);
  return occurrence;
}

}  // namespace

std::string ShowReservation(const wire::ReservationView& view, double now, const std::string& own, bool is_one_line) {
  const auto [name, start, end, is_active, nodes] = ShownOccurrenceOf(view, now, own);
  const std::vector<std::string> lines = {
      "ReservationName=" + name + " StartTime=" + Moment(start) + " EndTime=" + Moment(end) +
          " Duration=" + LongElapsed(end - start),
      "Nodes=" + OrNull(dialect::FoldHostList(nodes)) + " NodeCnt=" + std::to_string(nodes.size()) +
          " CoreCnt=0 Features=(null) PartitionName=(null) Flags=" + Flags(view),
      "TRES=gres/gpu=" + std::to_string(view.gpus),
      "Users=" + OrNull(view.user) + " Groups=(null) Accounts=" + OrNull(view.team) +
          " Licenses=(null) State=" + (is_active ? "ACTIVE" : "INACTIVE") + " BurstBuffer=(null) Watts=n/a"};
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

std::string ReservationsJson(const std::vector<wire::ReservationView>& views, double now, const std::string& own) {
  std::string out;
  JsonWriter json(out);
  JsonFields fields(json);
  json.BeginObject();
  AddMeta(json, "scontrol");
  json.Key("reservations");
  json.BeginArray();
  for (const wire::ReservationView& view : views) {
    const ShownOccurrence occurrence = ShownOccurrenceOf(view, now, own);
    json.BeginObject();
    fields.Text("name", occurrence.name);
    fields.Number("start_time", static_cast<std::int64_t>(occurrence.start));
    fields.Number("end_time", static_cast<std::int64_t>(occurrence.end));
    fields.Text("node_list", dialect::FoldHostList(occurrence.nodes));
    fields.Number("node_count", static_cast<std::int64_t>(occurrence.nodes.size()));
    fields.Text("flags", Flags(view));
    fields.Text("tres", "gres/gpu=" + std::to_string(view.gpus));
    fields.Text("users", view.user);
    fields.Text("accounts", view.team);
    fields.Text("state", occurrence.is_active ? "ACTIVE" : "INACTIVE");
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

std::string ListReservations(const std::vector<wire::ReservationView>& views, double now, const std::string& own,
                             bool has_header) {
  if (views.empty()) return "No reservations in the system\n";
  std::string out;
  const auto line = [&out](const std::array<std::string_view, 6>& cells) {
    constexpr std::array<int, 5> kWidths = {-10, 9, 20, 20, 12};
    for (std::size_t i = 0; i < kWidths.size(); ++i) {
      const auto width = static_cast<std::size_t>(std::abs(kWidths[i]));
      out += FitTo(cells[i], std::max(width, cells[i].size()), kWidths[i] > 0);
    }
    out += "  " + std::string(cells.back()) + "\n";
  };
  if (has_header) line({"RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"});
  for (const wire::ReservationView& view : views) {
    const ShownOccurrence occurrence = ShownOccurrenceOf(view, now, own);
    line({occurrence.name, occurrence.is_active ? "ACTIVE" : "INACTIVE", Moment(occurrence.start),
          Moment(occurrence.end), LongElapsed(occurrence.end - occurrence.start),
          dialect::FoldHostList(occurrence.nodes)});
  }
  return out;
}

}  // namespace divvy::cli::slurm
