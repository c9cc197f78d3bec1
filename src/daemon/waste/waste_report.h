// Reports how much GPU time runs lost over a period, and how well they used their GPUs, from the store's runs and their
// samples.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/reports/usage_report.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/waste/run_hours.h"
#include "model/waste_rules.h"
#include "samples/job_use.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

/// By the start of the period, and by job.
using JobUses = MetricStore::Uses;
/// Returns the price of one hour on a GPU of this model. Null: GPUs have no prices.
using PriceOfModel = std::function<double(const std::string& model)>;

/// Reports the use of each run's own GPUs; for a GPU fraction, of that fraction without borrowed capacity. All runs of
/// a job count. Each node of a run counts alike. By hour, `uses` must be per hour. By job, `rules` decide which losses
/// are worth reporting.
wire::WasteReport ReportWaste(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                              const ReportStretch& stretch, const PriceOfModel& price, const WasteRules& rules = {});
/// Replaces the losses of the wasteful jobs in `report.now`, if this period covers them fully: they are then computed
/// from the same samples, up to the same time, as the rows. `first_runs`: those jobs that run for the first time.
void CountNowAsRows(const std::vector<ReportedRun>& runs, const JobUses& uses, const ReportStretch& stretch,
                    const PriceOfModel& price, const std::vector<JobId>& first_runs, wire::WasteReport& report);
/// Adds findings to the rows by job: for running jobs from `report.now`, for ended ones as stored.
void AddFindings(const std::vector<ReportedRun>& runs, const MetricStore::Kept& kept, wire::WasteReport& report);
/// Returns the job's findings; none if it is not among those that waste GPUs.
std::vector<wire::WasteFinding> FindingsNow(const wire::WasteAnswer& now, JobId job);
wire::EfficiencyReport ReportEfficiency(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                                        const ReportStretch& stretch);

}  // namespace divvy
