// What samples have of a running job from before the daemon began, as the looks that would have been had at it; and of
// one that has ended, of each of its GPUs and of its machines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/telemetry/sample_book.h"
#include "model/job_record.h"
#include "samples/run_waste.h"
#include "samples/waste.h"

namespace divvy {

struct WastePast {
  samples::JobUse use;  // Of its run until now.
  std::vector<samples::WasteWatch::Look> looks;
  std::vector<samples::Second> idle_since;  // Of each GPU, as far back as its run; samples::WasteWatch::Past.
};

/// What curves say of a job, from `since` until `until`, a look each `every` seconds. `answers`: to the questions of
/// PastQuestions, in their order.
std::vector<samples::WasteWatch::Look> LooksOf(const JobRecord& record, const std::vector<SampleBook::Answer>& answers,
                                               const samples::Range& range, samples::Second every);
/// Since when each of its GPUs did nothing, up to the end of the range; 0: it worked. Points that nobody saw end it, as
/// what it did while it was paused does. `answers`: as of LooksOf.
std::vector<samples::Second> IdleSinceOf(const JobRecord& record, const std::vector<SampleBook::Answer>& answers,
                                         const samples::Range& range);
/// GPUs and machine of each of its seats, and the job itself. `own_node`: the name that samples have of the
/// controller's own machine.
std::vector<SampleBook::Question> PastQuestions(const JobRecord& record, const std::string& own_node,
                                                const samples::Range& range);

/// Looks at the last `back` seconds of its run. `done` is called on the loop's thread, later.
void AskPast(SampleBook& samples, const JobRecord& record, const std::string& own_node, samples::Second back,
             samples::Second now, std::function<void(WastePast)> done);

/// What GPUs and machines showed in the range. `answers`: as of LooksOf.
samples::RunDetail DetailOf(const JobRecord& record, const std::vector<SampleBook::Answer>& answers,
                            const samples::Range& range);
/// What a run that is over used from `counts_from` on. `done` is called on the loop's thread, later.
void AskEnded(SampleBook& samples, const JobRecord& record, const std::string& own_node, samples::Second counts_from,
              samples::Second now, std::function<void(const samples::JobUse&, const samples::RunDetail&)> done);

}  // namespace divvy
