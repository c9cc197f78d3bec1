// What samples have of a running job from before the daemon began, as the looks that would have been had at it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/sample_book.h"
#include "model/job_record.h"
#include "samples/waste.h"

namespace divvy {

struct WastePast {
  samples::JobUse use;  // Of its run until now.
  std::vector<samples::WasteWatch::Look> looks;
};

/// What curves say of a job, from `since` until `until`, a look each `every` seconds. `answers`: to the questions of
/// PastQuestions, in their order.
std::vector<samples::WasteWatch::Look> LooksOf(const JobRecord& record, const std::vector<SampleBook::Answer>& answers,
                                               const samples::Range& range, samples::Second every);
/// GPUs and machine of each of its seats, and the job itself. `own_node`: the name that samples have of the
/// controller's own machine.
std::vector<SampleBook::Question> PastQuestions(const JobRecord& record, const std::string& own_node,
                                                const samples::Range& range);

/// Looks at the last `back` seconds of its run. `done` is called on the loop's thread, later.
void AskPast(SampleBook& samples, const JobRecord& record, const std::string& own_node, samples::Second back,
             samples::Second now, std::function<void(WastePast)> done);

}  // namespace divvy
