#include "daemon/waste/waste_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/waste/waste_ended.h"
#include "samples/run_waste.h"

namespace divvy {
namespace {

/// The samples of a run, in the whole period or in one hour of it.
struct Seen {
  const ReportedRun& run;
  const samples::JobUse& use;
  RunHours hours;
  std::string group;  // The row that it belongs to.
};

void ForEachSeen(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                 const std::function<void(const Seen&)>& take) {
  std::vector<const ReportedRun*> by_id;
  for (const ReportedRun& run : runs) by_id.push_back(&run);
  const auto id_of = [](const ReportedRun* run) { return run->id.value(); };
  std::ranges::stable_sort(by_id, {}, id_of);
  for (const auto& [begin, jobs] : uses) {
    const std::string hour = by == ReportBy::kHour ? HourName(TimeFromSeconds(static_cast<double>(begin))) : "";
    for (const auto& [id, use] : jobs) {
      for (const ReportedRun* const run : std::ranges::equal_range(by_id, id, {}, id_of)) {
        const RunHours hours = HoursOf(*run, use);
        if (hours.known > 0) take({*run, use, hours, by == ReportBy::kHour ? hour : GroupOf(*run, by)});
      }
    }
  }
}

Duration RanUntil(const ReportedRun& run, Time until) {
  return (run.ended == kNoTime ? until : std::min(run.ended, until)) - run.started;
}

/// Sorts by value, largest first; hours keep their order.
template <typename Row, typename Value>
void SortRows(std::vector<Row>& rows, ReportBy by, const Value& value) {
  if (by == ReportBy::kHour) return;
  std::ranges::stable_sort(rows, std::greater(), value);
  if (by == ReportBy::kJob && rows.size() > kMostJobRows) rows.resize(kMostJobRows);
}

void AddCost(std::optional<double>& cost, double amount) { cost = cost.value_or(0) + amount; }

}  // namespace

wire::WasteReport ReportWaste(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                              const ReportStretch& stretch, const PriceOfModel& price, const WasteRules& rules) {
  std::map<std::string, wire::WasteRow> rows;
  wire::WasteReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  ForEachSeen(runs, uses, by, [&](const Seen& seen) {
    const RunHours& hours = seen.hours;
    wire::WasteRow& row = rows[seen.group];
    row.job = RowJobOf(seen.run, by);
    const double lost = hours.lost();
    row.is_small = row.job && !samples::IsWorthTelling(lost, RanUntil(seen.run, stretch.until), rules);
    ++row.jobs;
    row.gpu_hours += hours.known;
    row.lost_gpu_hours += lost;
    row.idle_gpu_hours += hours.idle;
    report.gpu_hours += hours.known;
    report.lost_gpu_hours += lost;
    report.idle_gpu_hours += hours.idle;
    if (!price) return;
    AddCost(row.lost_cost, lost * price(seen.run.model));
    AddCost(report.lost_cost, lost * price(seen.run.model));
  });
  for (auto& [group, row] : rows) {
    row.group = group;
    row.lost_share = row.lost_gpu_hours / row.gpu_hours;
    report.rows.push_back(std::move(row));
  }
  SortRows(report.rows, by, &wire::WasteRow::lost_gpu_hours);
  return report;
}

void CountNowAsRows(const std::vector<ReportedRun>& runs, const JobUses& uses, const ReportStretch& stretch,
                    const PriceOfModel& price, const std::vector<JobId>& first_runs, wire::WasteReport& report) {
  const std::set<JobId> firsts(first_runs.begin(), first_runs.end());
  // An index of the runs, since by hour there are many pieces.
  std::multimap<JobId, const ReportedRun*> of_firsts;
  for (const ReportedRun& run : runs) {
    if (firsts.contains(run.id)) of_firsts.emplace(run.id, &run);
  }
  for (wire::WastefulJob& job : report.now.jobs) {
    // The losses of a job with earlier runs, or one that started before the period, differ between `report.now` and the
    // rows, so they are not replaced.
    if (!firsts.contains(job.id) || job.start_time < ToSeconds(stretch.since)) continue;
    RunHours all;
    double cost = 0;
    for (const auto& [begin, jobs] : uses) {
      const auto use = jobs.find(job.id.value());
      if (use == jobs.end()) continue;
      for (auto [at, end] = of_firsts.equal_range(job.id); at != end; ++at) {
        const ReportedRun& run = *at->second;
        const RunHours hours = HoursOf(run, use->second);
        all.known += hours.known;
        all.used += hours.used;
        all.idle += hours.idle;
        if (price) cost += hours.lost() * price(run.model);
      }
    }
    if (all.known <= 0) continue;
    job.gpu_hours = all.known;
    job.lost_gpu_hours = all.lost();
    job.idle_gpu_hours = all.idle;
    if (job.lost_cost) job.lost_cost = cost;
  }
}

void AddFindings(const std::vector<ReportedRun>& runs, const MetricStore::Kept& kept, wire::WasteReport& report) {
  if (report.by != ReportByName(ReportBy::kJob)) return;
  std::map<JobId, Time> ends;
  for (const ReportedRun& run : runs) ends.insert_or_assign(run.id, run.ended);
  for (wire::WasteRow& row : report.rows) {
    if (!row.job) continue;
    row.findings = FindingsNow(report.now, row.job->id);
    const auto known = kept.find(row.job->id.value());
    if (known == kept.end()) continue;
    if (auto findings = FindingsIn(known->second, ends[row.job->id])) row.findings = *std::move(findings);
  }
}

std::vector<wire::WasteFinding> FindingsNow(const wire::WasteAnswer& now, JobId job) {
  const auto found = std::ranges::find(now.jobs, job, &wire::WastefulJob::id);
  return found == now.jobs.end() ? std::vector<wire::WasteFinding>() : found->findings;
}

wire::EfficiencyReport ReportEfficiency(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                                        const ReportStretch& stretch) {
  struct Lot {
    wire::EfficiencyRow row;
    double used = 0;
    double cpu_seconds = 0;
    double core_seconds = 0;
    double asked_seconds = 0;       // Requested cores times seconds.
    double asked_core_seconds = 0;  // CPU seconds of the jobs that requested cores.
  };
  std::map<std::string, Lot> lots;
  wire::EfficiencyReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  double used = 0;
  ForEachSeen(runs, uses, by, [&](const Seen& seen) {
    const auto& [run, use, hours, group] = seen;
    Lot& lot = lots[group];
    lot.row.job = RowJobOf(run, by);
    ++lot.row.jobs;
    lot.row.gpu_hours += hours.known;
    lot.used += hours.used;
    // For several fractions, and for tracks of older releases, the memory per GPU is not known; then the mean is used.
    lot.row.memory_peak_bytes = std::max(lot.row.memory_peak_bytes, samples::MemoryPeakOf(use, run.gpu_count));
    lot.cpu_seconds += use.cpu_seconds / use.machines;
    lot.core_seconds += use.core_seconds * run.part;
    if (run.cpus > 0) {
      lot.asked_seconds += run.cpus * run.part * use.cpu_seconds / use.machines;
      lot.asked_core_seconds += use.core_seconds * run.part;
    }
    report.gpu_hours += hours.known;
    used += hours.used;
  });
  if (report.gpu_hours > 0) report.utilization = used / report.gpu_hours;
  for (auto& [group, lot] : lots) {
    lot.row.group = group;
    lot.row.utilization = lot.used / lot.row.gpu_hours;
    if (lot.cpu_seconds > 0) lot.row.cpu_cores = lot.core_seconds / lot.cpu_seconds;
    if (lot.asked_seconds > 0) lot.row.cpu_use = lot.asked_core_seconds / lot.asked_seconds;
    report.rows.push_back(std::move(lot.row));
  }
  SortRows(report.rows, by, [by](const wire::EfficiencyRow& row) {
    return row.gpu_hours * (by == ReportBy::kJob ? 1 - row.utilization : 1);
  });
  return report;
}

}  // namespace divvy
