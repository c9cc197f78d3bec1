// What runs lost of their GPUs over a stretch of time, and how well they used them: runs of the store, and what samples
// kept of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/reports/usage_report.h"
#include "daemon/telemetry/sample_book.h"
#include "model/waste_rules.h"
#include "samples/job_use.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

/// By the beginning of the piece of time that it is of, and by job.
using JobUses = SampleBook::Uses;
/// Of an hour on a GPU of this model; null: GPUs have no prices.
using PriceOfModel = std::function<double(const std::string& model)>;

/// GPU-hours of a run, as far as its use was known; a part of a GPU counts as the part.
struct RunHours {
  double known = 0;
  double used = 0;  // Of what it has; what it borrows beyond is not counted.
  double idle = 0;  // At exactly 0%.

  double lost() const { return known - used; }
};
RunHours HoursOf(const ReportedRun& run, const samples::JobUse& use);

/// What it used of what it has: of a part of a GPU, that part; what it borrows beyond is not counted. Of a job that ran
/// several times all of its runs count. On several machines each counts alike. By hour `uses` are of hours. By job,
/// `rules` say whose loss is worth telling.
wire::WasteReport ReportWaste(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                              const ReportStretch& stretch, const PriceOfModel& price, const WasteRules& rules = {});
/// What the wasteful jobs of `report.now` lost so far, where this stretch has all of it: of the same samples up to the
/// same moment as the rows. `first_runs`: those of them that run for the first time.
void CountNowAsRows(const std::vector<ReportedRun>& runs, const JobUses& uses, const ReportStretch& stretch,
                    const PriceOfModel& price, const std::vector<JobId>& first_runs, wire::WasteReport& report);
/// To the rows by job: of running ones as `report.now` has it, of ended ones as it was kept.
void AddFindings(const std::vector<ReportedRun>& runs, const SampleBook::Kept& kept, wire::WasteReport& report);
/// Of this job; none: it is not among those that waste GPUs.
std::vector<wire::WasteFinding> FindingsNow(const wire::WasteAnswer& now, JobId job);
wire::EfficiencyReport ReportEfficiency(const std::vector<ReportedRun>& runs, const JobUses& uses, ReportBy by,
                                        const ReportStretch& stretch);

}  // namespace divvy
