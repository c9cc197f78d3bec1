// Reads past samples for waste detection. For a running job, these are the samples from before the daemon's start,
// converted to the looks (samples of a job, taken every ten seconds) that WasteTracker would have taken then. For an
// ended job, they are the samples of each of its GPUs and nodes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/telemetry/metric_store.h"
#include "model/job_record.h"
#include "samples/run_waste.h"
#include "samples/waste.h"

namespace divvy {

struct WastePast {
  samples::JobUse use;  // The use of the run until now.
  std::vector<samples::WasteWatch::Look> looks;
  // For each GPU, since when it has been idle, not before the start of the run; see samples::WasteWatch::Past.
  std::vector<samples::Second> idle_since;
};

/// Converts a job's curves to looks, one each `every` seconds within `range`. `answers` belong to the questions of
/// PastQuestions, in the same order.
std::vector<samples::WasteWatch::Look> LooksOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                                               const samples::Range& range, samples::Second every);
/// Returns for each GPU since when it had been idle at the end of the range; 0 if it was working then. Idle time does
/// not reach back beyond a gap of more than a minute in which the job was not sampled or was paused. `answers` are as
/// in LooksOf.
std::vector<samples::Second> IdleSinceOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                                         const samples::Range& range);
/// Returns the questions to the metric store about all GPUs and nodes of the job, and about the job itself. `own_node`
/// is the name of the controller's own node in samples.
std::vector<MetricStore::Question> PastQuestions(const JobRecord& record, const std::string& own_node,
                                                 const samples::Range& range);

/// Collects the last `back` seconds of the job's run. `done` is called later on the loop's thread.
void AskPast(MetricStore& samples, const JobRecord& record, const std::string& own_node, samples::Second back,
             samples::Second now, std::function<void(WastePast)> done);

/// Summarises the samples of GPUs and nodes in the range. `answers` as in LooksOf.
samples::RunDetail DetailOf(const JobRecord& record, const std::vector<MetricStore::Answer>& answers,
                            const samples::Range& range);
/// Collects the use of a finished run from `counts_from` on. `done` is called later on the loop's thread.
void AskEnded(MetricStore& samples, const JobRecord& record, const std::string& own_node, samples::Second counts_from,
              samples::Second now, std::function<void(const samples::JobUse&, const samples::RunDetail&)> done);

}  // namespace divvy
