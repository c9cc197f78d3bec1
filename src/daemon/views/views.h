// The controller's records as the messages that clients read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/shares/share_board.h"
#include "engine/server/explain.h"
#include "model/batch.h"
#include "wire/messages/messages.h"
#include "wire/messages/page_messages.h"

namespace divvy {

class IdleGpus;

/// What a listing shows of a job that only its spec knows.
struct SpecLabels {
  std::string pool;
  std::string account;
  std::string qos;

  friend bool operator==(const SpecLabels&, const SpecLabels&) = default;
};
SpecLabels LabelsOf(const JobSpec& spec);
/// As it is shown: all that it waits for, "a,b", until it runs in one of them.
std::string PoolOf(const JobRecord& record, const SpecLabels& labels);

/// What people call the job: "17", and "17_3" for an element of an array; never "17_[4-99]".
std::string PublicId(const JobRecord& record);
/// The engine and the controller name jobs by their own ids. Gives each element of an array that `text` names after
/// "job", "jobs" or "divvy release" the name that people know; the rest stays.
std::string WithPublicIds(const std::string& text, const FindOutcome& find);

/// Of a job on several machines: what it has on each, in the order of its ranks.
std::vector<wire::SeatView> SeatViewsOf(const JobRecord& record);
/// `find` knows the jobs that the texts mention.
wire::JobView ViewOf(const JobRecord& record, const Reason& reason, const SpecLabels& labels, const FindOutcome& find);
/// `spec` may be null: then what only it knows stays empty.
wire::JobDetail DetailOf(const JobRecord& record, const JobSpec* spec, const Reason& reason, const SpecLabels& labels,
                         const FindOutcome& find, const std::vector<GpuFacts>& gpus,
                         const std::vector<Batch::HistoryLine>& history);
/// What beyond it the page shows.
wire::JobInFull InFull(wire::JobDetail detail, const JobRecord& record, const FindOutcome& find,
                       const std::vector<Batch::HistoryLine>& history);
/// Where a job with parts of GPUs really is, as the keeper there said it last; `tenant` null: it is not there yet.
/// Nothing for a job with whole GPUs, or that does not run.
std::optional<wire::ShareView> ShareViewOf(const JobRecord& record, const wire::KeptTenant* tenant);
/// Of a machine that says nothing now (Controller::AbsenceOf; empty: it does): what is shown is of before.
void MarkAbsent(const std::string& absence, std::string& state, std::string& note);
wire::TenantView TenantViewOf(const JobRecord* record, const RunningJob& job, const wire::KeptTenant* tenant,
                              const GpuFacts& gpu);
/// What is to be said in "divvy why" of one that runs: sentences, the first with a space before it.
std::string ShareSentences(const wire::ShareView& share);
/// " on GPU 1 for now (its guaranteed part is on GPU 0)"; empty: it is on the host.
std::string WhereItIs(const wire::ShareView& share);
/// 0..1
double PartOfWhole(GpuShare share);
/// Of a job that is not final. `find` gives the names of those that hold it back.
wire::WhyView WhyOf(const JobRecord& record, const core::Explanation& explanation, const Reason& reason,
                    const FindOutcome& find, Time now, std::optional<wire::ShareView> share = {});
wire::WhyView WhyFinal(const JobRecord& record, const FindOutcome& find, Time now);
/// Every GPU with who has it. `now` gives the age of foreign processes.
std::vector<wire::GpuView> GpuViews(const Controller& controller, std::string_view isolation, const ShareBoard& shares,
                                    Time now);
/// Of the GPUs that are free by the plan: those that parts of GPUs use beyond it, until somebody comes.
int LentCount(const Controller& controller, const IdleGpus& idle, const ShareBoard& shares);
wire::ErrorView ErrorViewOf(const Error& error);
int HttpStatusOf(ErrorCode code);
std::string_view Name(ErrorCode code);

}  // namespace divvy
