// Converts the controller's records to the messages that clients read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/shares/sharing_snapshot.h"
#include "engine/scheduler/explain.h"
#include "model/batch.h"
#include "wire/messages/messages.h"
#include "wire/messages/page_messages.h"

namespace divvy {

class IdleGpus;

/// Labels in listings that only a job's specification holds.
struct SpecLabels {
  std::string pool;
  std::string account;
  std::string qos;

  friend bool operator==(const SpecLabels&, const SpecLabels&) = default;
};
SpecLabels LabelsOf(const JobSpec& spec);
/// Returns the pool to display: the one in which the job runs; for a waiting job all pools that it may run in, "a,b".
std::string PoolOf(const JobRecord& record, const SpecLabels& labels);

/// The job's public id: "17", or "17_3" for an element of an array; never "17_[4-99]".
std::string PublicId(const JobRecord& record);
/// The engine and the controller name jobs by internal ids. Replaces the id of each array element after "job", "jobs"
/// or "divvy release" in `text` by its public id; keeps the rest.
std::string WithPublicIds(const std::string& text, const FindOutcome& find);

/// For a job on several nodes: its allocation on each, ordered by rank.
std::vector<wire::AllocationView> AllocationViewsOf(const JobRecord& record);
/// `find` must know the jobs that the texts mention.
wire::JobView ViewOf(const JobRecord& record, const Reason& reason, const SpecLabels& labels, const FindOutcome& find);
/// `spec` may be null; fields that only it holds are then empty.
wire::JobDetail DetailOf(const JobRecord& record, const JobSpec* spec, const Reason& reason, const SpecLabels& labels,
                         const FindOutcome& find, const std::vector<GpuFacts>& gpus,
                         const std::vector<Batch::HistoryLine>& history);
/// Adds the fields that only the web page shows.
wire::JobInFull InFull(wire::JobDetail detail, const JobRecord& record, const FindOutcome& find,
                       const std::vector<Batch::HistoryLine>& history);
/// The present GPUs of a job with GPU fractions, as the keeper reported them last; a null `tenant` means that it is not
/// there yet. Returns nullopt for a job with whole GPUs, or one that does not run.
std::optional<wire::ShareView> ShareViewOf(const JobRecord& record, const wire::KeptTenant* tenant);
/// Marks the displayed data of a disconnected node as old. `absence` is the text of Controller::DisconnectReason; if it
/// is empty, the node is connected and nothing is done.
void MarkAbsent(const std::string& absence, std::string& state, std::string& note);
wire::TenantView TenantViewOf(const JobRecord* record, const RunningJob& job, const wire::KeptTenant* tenant,
                              const GpuFacts& gpu);
/// Sentences for "divvy why" about a running job; the first one has a leading space.
std::string ShareSentences(const wire::ShareView& share);
/// Returns " on GPU 1 for now (its guaranteed fraction is on GPU 0)"; empty if the tenant is on the host.
std::string WhereItIs(const wire::ShareView& share);
/// Returns the fraction as a number from 0 to 1.
double PartOfWhole(GpuShare share);
/// Returns why a job waits or what it does; the job must not have ended. `find` gives the names of the jobs that block
/// it.
wire::WhyView WhyOf(const JobRecord& record, const core::Explanation& explanation, const Reason& reason,
                    const FindOutcome& find, Time now, std::optional<wire::ShareView> share = {});
wire::WhyView WhyFinal(const JobRecord& record, const FindOutcome& find, Time now);
/// All GPUs with their jobs. `now` is used for the age of foreign processes.
std::vector<wire::GpuView> GpuViews(const Controller& controller, std::string_view isolation,
                                    const SharingSnapshot& shares, Time now);
/// Returns the number of GPUs that count as free for new jobs, although jobs with GPU fractions use them beyond their
/// request until another job needs them.
int LentCount(const Controller& controller, const IdleGpus& idle, const SharingSnapshot& shares);
wire::ErrorView ErrorViewOf(const Error& error);
int HttpStatusOf(ErrorCode code);
std::string_view Name(ErrorCode code);

}  // namespace divvy
