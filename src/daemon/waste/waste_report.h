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

/// How much each job has used, by the period's begin and by job.
using JobUses = MetricStore::Uses;
/// Returns the price of one hour on a GPU of this model. Null: GPUs have no prices.
using PriceOfModel = std::function<double(const std::string& model)>;

/// Reports how well runs used their own GPUs; for a GPU fraction, that fraction without borrowed capacity. All runs of
/// a job count. The use of a run on several nodes is divided equally among the nodes. If the rows are hours, `uses`
/// must be per hour. If the rows are jobs, `rules` decide which losses are worth reporting.
wire::WasteReport ReportWaste(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                              const ReportStretch& stretch, const PriceOfModel& price, const WasteRules& rules = {});
/// Recomputes the losses of the jobs in `report.now`, which waste GPUs at present, if the report's period contains
/// their whole runs. These losses then agree with the rows, because both are from the same samples up to the same time.
/// `first_runs`: the jobs among them that run for the first time.
void CountNowAsRows(const std::vector<ReportedRun>& runs, const JobUses& uses, const ReportStretch& stretch,
                    const PriceOfModel& price, const std::vector<JobId>& first_runs, wire::WasteReport& report);
/// Adds findings to the rows of a report by job: those in `report.now` for running jobs, the stored ones (`kept`) for
/// ended jobs.
void AddFindings(const std::vector<ReportedRun>& runs, const MetricStore::Kept& kept, wire::WasteReport& report);
/// Returns the job's findings; none if it is not among those that waste GPUs.
std::vector<wire::WasteFinding> FindingsNow(const wire::WasteAnswer& now, JobId job);
wire::EfficiencyReport ReportEfficiency(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                                        const ReportStretch& stretch);

}  // namespace divvy
