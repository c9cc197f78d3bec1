#include "daemon/waste_report.h"

#include <algorithm>

namespace divvy {
namespace {

constexpr double kHourS = 3600;

/// GPU-hours of a run.
struct Hours {
  double known = 0;
  double used = 0;
  double idle = 0;
};

Hours HoursOf(const ReportedRun& run, const samples::JobUse& use) {
  if (use.machines == 0 || run.gpus <= 0 || run.share <= 0) return {};
  const double worth = run.gpus / use.machines / kHourS;
  // Who borrows beside its part uses no more than all of it, and nothing of it while it is idle.
  const double used = std::min(use.use_seconds / run.share, use.seconds - use.idle_seconds);
  return {worth * use.seconds, worth * used, worth * use.idle_seconds};
}

/// Those of which something was seen, with what was.
void ForEachSeen(const std::vector<ReportedRun>& runs, const JobUses& uses,
                 const std::function<void(const ReportedRun&, const samples::JobUse&, const Hours&)>& take) {
  for (const ReportedRun& run : runs) {
    const auto use = uses.find(run.id.value());
    if (use == uses.end()) continue;
    const Hours hours = HoursOf(run, use->second);
    if (hours.known > 0) take(run, use->second, hours);
  }
}

void AddCost(std::optional<double>& cost, double amount) { cost = cost.value_or(0) + amount; }

}  // namespace

wire::WasteReport ReportWaste(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                              const ReportStretch& stretch, const PriceOfModel& price) {
  std::map<std::string, wire::WasteRow> rows;
  wire::WasteReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  ForEachSeen(runs, uses, [&](const ReportedRun& run, const samples::JobUse&, const Hours& hours) {
    wire::WasteRow& row = rows[GroupOf(run, by)];
    const double lost = hours.known - hours.used;
    ++row.jobs;
    row.gpu_hours += hours.known;
    row.lost_gpu_hours += lost;
    row.idle_gpu_hours += hours.idle;
    report.gpu_hours += hours.known;
    report.lost_gpu_hours += lost;
    report.idle_gpu_hours += hours.idle;
    if (!price) return;
    AddCost(row.lost_cost, lost * price(run.model));
    AddCost(report.lost_cost, lost * price(run.model));
  });
  for (auto& [group, row] : rows) {
    row.group = group;
    row.lost_share = row.lost_gpu_hours / row.gpu_hours;
    report.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(report.rows, std::greater(), &wire::WasteRow::lost_gpu_hours);
  return report;
}

wire::EfficiencyReport ReportEfficiency(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                                        const ReportStretch& stretch) {
  struct Lot {
    wire::EfficiencyRow row;
    double used = 0;
    double cpu_seconds = 0;
    double core_seconds = 0;
    double asked_seconds = 0;       // Cores that were asked for x seconds,
    double asked_core_seconds = 0;  // and the CPU time of those who asked.
  };
  std::map<std::string, Lot> lots;
  wire::EfficiencyReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  double used = 0;
  ForEachSeen(runs, uses, [&](const ReportedRun& run, const samples::JobUse& use, const Hours& hours) {
    Lot& lot = lots[GroupOf(run, by)];
    ++lot.row.jobs;
    lot.row.gpu_hours += hours.known;
    lot.used += hours.used;
    // Of several parts, and of tracks of before, what was on each is not known: then it is their mean.
    const double gpus_of_machine = std::max(1.0, static_cast<double>(run.gpu_count) / use.machines);
    const double peak = use.memory_most > 0 ? use.memory_most : use.memory_peak / gpus_of_machine;
    lot.row.memory_peak_bytes = std::max(lot.row.memory_peak_bytes, peak);
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
  std::ranges::stable_sort(report.rows, std::greater(), &wire::EfficiencyRow::gpu_hours);
  return report;
}

}  // namespace divvy
