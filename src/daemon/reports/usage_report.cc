#include "daemon/reports/usage_report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "base/text.h"
#include "engine/scheduler/translate.h"

namespace divvy {
namespace {

constexpr std::array<std::pair<std::string_view, ReportBy>, 8> kNames = {{{"user", ReportBy::kUser},
                                                                          {"team", ReportBy::kTeam},
                                                                          {"name", ReportBy::kName},
                                                                          {"model", ReportBy::kModel},
                                                                          {"pool", ReportBy::kPool},
                                                                          {"node", ReportBy::kNode},
                                                                          {"hour", ReportBy::kHour},
                                                                          {"job", ReportBy::kJob}}};
constexpr double kSecondsPerHour = 3600;
/// For shorter runs, the slowdown depends more on the run than on the wait.
constexpr double kShortestRunS = 10;

/// Returns the quantile of a sorted list by the nearest-rank method; 0 for an empty list.
double Quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Jain's index; 1 for an empty list.
double Evenness(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares <= 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

struct Lot {
  std::vector<JobId> jobs;  // One entry per run of a job.
  std::int64_t running = 0;
  std::int64_t failed = 0;
  double gpu_hours = 0;
  double failed_gpu_hours = 0;
  double nodes_cost = 0;
  double whole_nodes_cost = 0;  // The price of these nodes while its runs were there.
  std::vector<double> waits;
  std::vector<double> slowdowns;
  std::optional<wire::RowJob> job;
};

/// The time from which the run counts: its start, or, if it never started, its queue time.
Time BeginOf(const ReportedRun& run) { return run.started != kNoTime ? run.started : run.queued; }

Time EndOf(const ReportedRun& run, Time until) { return run.ended == kNoTime ? until : std::min(run.ended, until); }

bool StartsIn(const ReportedRun& run, const ReportStretch& stretch) {
  return run.started != kNoTime && run.started >= stretch.since && run.started < stretch.until;
}

/// Returns true if it ran in the period, or waited in it without ever having been started.
bool LiesIn(const ReportedRun& run, const ReportStretch& stretch) {
  return BeginOf(run) < stretch.until && (run.ended == kNoTime || run.ended > stretch.since);
}

double GpuHoursBetween(const ReportedRun& run, Time begin, Time end) {
  if (run.started == kNoTime) return 0;
  const Time from = std::max(run.started, begin);
  const Time to = EndOf(run, end);
  return to <= from ? 0 : ToSeconds(to - from) / kSecondsPerHour * run.gpus;
}

void AddTime(Lot& lot, const ReportedRun& run, Time begin, Time end) {
  const double hours = GpuHoursBetween(run, begin, end);
  lot.gpu_hours += hours;
  if (run.has_failed) lot.failed_gpu_hours += hours;
  for (const RunCost& cost : run.costs) {
    const Time from = std::max({run.started, begin, cost.from}), to = std::min(EndOf(run, end), cost.until);
    if (run.started == kNoTime || to <= from) continue;
    lot.nodes_cost += CostOf(cost.hourly, to - from).units();
    lot.whole_nodes_cost += CostOf(cost.node_hourly, to - from).units();
  }
}

/// Adds the run except its GPU time. `until` limits how far a run is followed, which may be beyond the period.
void AddRun(Lot& lot, const ReportedRun& run, const ReportStretch& stretch, Time until) {
  lot.jobs.push_back(run.id);
  if (run.started != kNoTime && (run.ended == kNoTime || run.ended > stretch.until)) ++lot.running;
  if (run.has_failed && !run.is_past) ++lot.failed;
  if (!StartsIn(run, stretch)) return;
  const double wait = ToSeconds(run.started - std::min(run.queued, run.started));
  const double ran = std::max(ToSeconds(EndOf(run, until) - run.started), kShortestRunS);
  lot.waits.push_back(wait);
  lot.slowdowns.push_back((wait + ran) / ran);
}

/// Each hour gets the values that a report of that hour alone would have.
void AddByHour(std::map<std::string, Lot>& lots, const ReportedRun& run, const ReportStretch& stretch) {
  const Time end = EndOf(run, stretch.until);
  const Time first = std::max(BeginOf(run), stretch.since);
  for (Time hour = std::chrono::floor<std::chrono::hours>(first); hour < end; hour += std::chrono::hours(1)) {
    Lot& lot = lots[HourName(hour)];
    const ReportStretch piece = {std::max(hour, stretch.since),
                                 std::min<Time>(hour + std::chrono::hours(1), stretch.until)};
    AddTime(lot, run, piece.since, piece.until);
    AddRun(lot, run, piece, stretch.until);
  }
}

std::map<std::string, Lot> LotsOf(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch) {
  std::map<std::string, Lot> lots;
  for (const ReportedRun& run : runs) {
    if (!LiesIn(run, stretch)) continue;
    if (by == ReportBy::kHour) {
      AddByHour(lots, run, stretch);
      continue;
    }
    Lot& lot = lots[GroupOf(run, by)];
    // For a job with several runs, the last one decides its state.
    if (!lot.job || !run.is_past) lot.job = RowJobOf(run, by);
    AddTime(lot, run, stretch.since, stretch.until);
    AddRun(lot, run, stretch, stretch.until);
  }
  for (auto& [group, lot] : lots) {
    std::ranges::sort(lot.waits);
    std::ranges::sort(lot.slowdowns);
  }
  return lots;
}

std::int64_t CountOf(std::vector<JobId> jobs) {
  std::ranges::sort(jobs);
  return std::ranges::unique(jobs).begin() - jobs.begin();
}

double AllHours(const std::map<std::string, Lot>& lots) {
  double all = 0;
  for (const auto& [group, lot] : lots) all += lot.gpu_hours;
  return all;
}

}  // namespace

std::optional<ReportBy> ReportByFromName(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, ReportBy>::first);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::string ReportByNames(std::span<const ReportBy> which) {
  std::string text;
  for (std::size_t i = 0; i < which.size(); ++i)
    text += (i == 0 ? "" : i + 1 == which.size() ? " or " : ", ") + ReportByName(which[i]);
  return text;
}

std::string HourName(Time at) {
  const auto hour = std::chrono::floor<std::chrono::hours>(at);
  const auto day = std::chrono::floor<std::chrono::days>(hour);
  const std::chrono::year_month_day date{std::chrono::sys_days(day.time_since_epoch())};
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>((hour - day).count()));
  return text;
}

const std::string& GroupOf(const ReportedRun& run, ReportBy by) {
  switch (by) {
    case ReportBy::kTeam:
      return run.team;
    case ReportBy::kName:
      return run.name;
    case ReportBy::kModel:
      return run.model;
    case ReportBy::kPool:
      return run.pool;
    case ReportBy::kNode:
      return run.node;
    case ReportBy::kJob:
      return run.display_id;
    case ReportBy::kUser:
    case ReportBy::kHour:
      break;
  }
  return run.user;
}

std::optional<wire::RowJob> RowJobOf(const ReportedRun& run, ReportBy by) {
  if (by != ReportBy::kJob) return std::nullopt;
  return wire::RowJob{run.id, run.name, run.user, std::string(Name(run.state))};
}

std::string ReportByName(ReportBy by) {
  return std::string(std::ranges::find(kNames, by, &std::pair<std::string_view, ReportBy>::second)->first);
}

namespace {

/// Returns false for a job that waits for its next run, or ended while waiting for it.
bool HasBegun(const JobRecord& record) {
  if (!IsFinal(record.state)) return !IsWaiting(record.state);
  return record.restarts == 0 || record.started >= record.waits_since;
}

ReportedRun RunOf(const JobRecord& record) {
  ReportedRun run;
  run.id = record.id;
  run.display_id = DisplayId(record);
  run.state = record.state;
  run.user = record.user.name;
  run.team = record.team;
  run.name = record.name;
  run.model = record.gpu_model;
  run.pool = record.pool_of_run.empty() ? record.pool : record.pool_of_run;
  run.gpus = GpusWorthOf(record);
  run.gpu_count = GpuCountOf(record);
  if (run.gpu_count > 0) run.share = run.gpus / run.gpu_count;
  if (!record.request.is_heterogeneous() && !record.request.spreads_tasks)
    run.cpus = record.request.cpus * record.request.nodes;
  run.queued = std::max(record.waits_since, record.begin);
  if (HasBegun(record)) run.started = record.started;  // Otherwise the start belongs to an earlier run.
  if (IsFinal(record.state)) run.ended = record.ended;
  run.has_failed =
      record.state == JobState::kFailed || record.state == JobState::kTimedOut || record.state == JobState::kLost;
  return run;
}

RunPlace PlaceOn(const JobRecord& record, const NodeAllocation& allocation) {
  const int cpus = PlaceOf(record.request, 0, allocation.gpus, allocation.tasks, allocation.parts).cpus;
  return {allocation.node, allocation.gpus.size(), cpus};
}

}  // namespace

void AddRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs) {
  ReportedRun run = RunOf(record);
  // A waiting job, for its first run or another, is on no node.
  if (run.started == kNoTime) return runs.push_back(std::move(run));
  const std::vector<NodeAllocation> allocations = AllocationsOf(record);
  if (by != ReportBy::kNode) {
    for (const NodeAllocation& allocation : allocations) run.places.push_back(PlaceOn(record, allocation));
    return runs.push_back(std::move(run));
  }
  for (const NodeAllocation& allocation : allocations) {
    ReportedRun& here = runs.emplace_back(run);
    here.places = {PlaceOn(record, allocation)};
    here.node = allocation.node.empty() ? own_node : allocation.node;
    here.part = 1 / static_cast<double>(allocations.size());
    if (run.gpu_count > 0) here.gpus = run.gpus * allocation.gpus.size() / run.gpu_count;
  }
}

void AddPastRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs) {
  const std::size_t first = runs.size();
  AddRunOf(record, by, own_node, runs);
  for (std::size_t i = first; i < runs.size(); ++i) runs[i].is_past = true;
}

void AddCosts(std::span<const providers::PricedNode> nodes, std::span<ReportedRun> runs) {
  const auto order = [](const providers::PricedNode& node) {
    return std::pair(std::string_view(node.node), node.gone);
  };
  for (ReportedRun& run : runs) {
    for (const RunPlace& place : run.places) {
      const auto first =
          std::ranges::upper_bound(nodes, std::pair(std::string_view(place.node), run.started), {}, order);
      for (const providers::PricedNode& node : std::span(first, nodes.end())) {
        if (node.node != place.node || (run.ended != kNoTime && node.requested >= run.ended)) break;
        const double part = node.gpus > 0   ? place.gpus * run.share / node.gpus
                            : node.cpus > 0 ? static_cast<double>(place.cpus) / node.cpus
                                            : 0;
        const Money hourly(std::llround(static_cast<double>(node.hourly.micros()) * std::min(part, 1.0)));
        run.costs.push_back({node.requested, node.gone, hourly, node.hourly});
      }
    }
  }
}

wire::UsageReport ReportUsage(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                              std::span<const providers::PricedNode> nodes) {
  const std::map<std::string, Lot> lots = LotsOf(runs, by, stretch);
  wire::UsageReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  report.gpu_hours = AllHours(lots);
  double all_cost = 0, used_cost = 0;
  for (const providers::PricedNode& node : nodes) {
    // The first part of the period may belong to a billing period that began before, while jobs use the node in it.
    const Duration there = std::min(node.gone, stretch.until) - std::max(node.requested, stretch.since);
    all_cost +=
        std::max(CostBetween(node, stretch.since, stretch.until), CostOf(node.hourly, std::max(there, Duration(0))))
            .units();
  }
  if (!nodes.empty()) report.nodes_cost = all_cost;
  for (const auto& [group, lot] : lots) {
    wire::UsageRow row;
    row.group = group;
    if (report.nodes_cost) {
      row.nodes_cost = lot.nodes_cost;
      used_cost += lot.nodes_cost;
      if (lot.whole_nodes_cost > 0) row.nodes_share = lot.nodes_cost / lot.whole_nodes_cost;
    }
    row.jobs = CountOf(lot.jobs);
    row.running = lot.running;
    row.failed = lot.failed;
    row.gpu_hours = lot.gpu_hours;
    row.failed_gpu_hours = lot.failed_gpu_hours;
    row.share = report.gpu_hours > 0 ? lot.gpu_hours / report.gpu_hours : 0;
    if (!lot.waits.empty()) {
      row.wait_mean_s = Mean(lot.waits);
      row.wait_median_s = Quantile(lot.waits, 0.5);
      row.wait_p95_s = Quantile(lot.waits, 0.95);
    }
    row.job = lot.job;
    report.rows.push_back(std::move(row));
  }
  if (report.nodes_cost) {
    report.nodes_cost = std::max(all_cost, used_cost);
    report.unused_nodes_cost = *report.nodes_cost - used_cost;
  }
  if (by != ReportBy::kHour) std::ranges::stable_sort(report.rows, std::greater(), &wire::UsageRow::gpu_hours);
  if (by == ReportBy::kJob) {
    std::ranges::stable_sort(report.rows, std::greater(), &wire::UsageRow::failed_gpu_hours);
    if (report.rows.size() > kMostJobRows) report.rows.resize(kMostJobRows);
  }
  return report;
}

wire::FairnessReport ReportFairness(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch) {
  const std::map<std::string, Lot> lots = LotsOf(runs, by, stretch);
  const double all = AllHours(lots);
  wire::FairnessReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  std::vector<double> hours;
  std::vector<double> slowdowns;
  for (const auto& [group, lot] : lots) {
    if (lot.waits.empty()) continue;
    wire::FairnessRow row;
    row.group = group;
    row.jobs = static_cast<std::int64_t>(lot.waits.size());
    row.gpu_hours = lot.gpu_hours;
    row.share = all > 0 ? lot.gpu_hours / all : 0;
    row.wait_median_s = Quantile(lot.waits, 0.5);
    row.wait_longest_s = lot.waits.back();
    row.slowdown_median = Quantile(lot.slowdowns, 0.5);
    row.slowdown_p95 = Quantile(lot.slowdowns, 0.95);
    hours.push_back(row.gpu_hours);
    slowdowns.push_back(row.slowdown_median);
    report.rows.push_back(std::move(row));
  }
  report.evenness_of_share = Evenness(hours);
  report.evenness_of_slowdown = Evenness(slowdowns);
  if (by != ReportBy::kHour) std::ranges::stable_sort(report.rows, std::greater(), &wire::FairnessRow::slowdown_median);
  return report;
}

}  // namespace divvy
