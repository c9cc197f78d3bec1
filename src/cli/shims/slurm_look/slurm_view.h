// What divvy knows of a job or of the server, in Slurm's words: state letters, reason codes, times, ids, GRES strings.
// Pure functions of messages, so that every listing can be tested without a daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// What a listing needs besides the jobs.
struct Scene {
  std::string hostname;  // The controller's own machine.
  double now = 0;
  int cpus = 1;  // Of the server.
  std::int64_t memory_mib = 0;
  std::int64_t memory_free_mib = 0;
  double load = 0;
  std::function<std::int64_t(const std::string& user)> uid_of = [](const std::string&) { return 0; };
  /// "staff(50)" of a user: the name and the number of the first group.
  std::function<std::pair<std::string, std::int64_t>(const std::string& user)> group_of = [](const std::string&) {
    return std::pair<std::string, std::int64_t>("(null)", 0);
  };
};

/// The parts of a job in full that listings show as well.
wire::JobView ViewOf(const wire::JobDetail& detail);

std::string StateName(const wire::JobView& job);  // "PENDING", "OUT_OF_MEMORY"
std::string StateCode(const wire::JobView& job);  // "PD", "OOM"
/// It failed by the limit of its memory, which Slurm has a state for.
bool RanOutOfMemory(const wire::JobView& job);
/// It had to be over by a time, and was not started, or stopped, for it.
bool MissedDeadline(const wire::JobView& job);
/// Whether it is one of Slurm's states that are named, by name or letters.
bool IsInSlurmState(const wire::JobView& job, const std::vector<std::string>& slurm_states);
/// The divvy states that a Slurm state's name or letters stand for ("PD" -> held, queued); empty: no such state.
std::vector<std::string> StatesOf(std::string_view slurm_state);
inline constexpr std::string_view kStateNames =
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,COMPLETING,CONFIGURING";

bool IsPending(const wire::JobView& job);
bool IsFinal(const wire::JobView& job);
bool HoldsGpus(const wire::JobView& job);

/// "Resources", "Priority", "Dependency", "JobHeldUser", "BeginTime", "JobArrayTaskLimit", "NonZeroExitCode", "None",
/// ...
std::string ReasonCode(const wire::JobView& job);
/// The host list, or "(Reason)" where Slurm shows that instead.
std::string NodesOrReason(const wire::JobView& job, const Scene& scene);

/// "17", "17_3", "17_[4-99%8]".
std::string JobIdText(const wire::JobView& job);
std::string ArrayJobId(const wire::JobView& job);
std::string ArrayTaskId(const wire::JobView& job);  // "3", "4-99%8", "N/A".

/// Local time, "2026-03-01T16:00:00", or as SLURM_TIME_FORMAT has it ("%F %T"); `none` for no time.
std::string Moment(std::optional<double> time, std::string_view none = "N/A");
/// "0:05", "1:02:03", "1-02:03:04": as squeue has it.
std::string Elapsed(double seconds);
/// "00:00:05", "1-02:03:04": as sacct and scontrol have it.
std::string LongElapsed(double seconds);
double RunTime(const wire::JobView& job, double now);
/// "UNLIMITED" without a limit.
std::string TimeLimit(const wire::JobView& job);
/// "0:0", "3:0", "0:9": exit code and signal.
std::string ExitCode(const wire::JobView& job);
/// The CPUs that it counts for: those it asks for, one for each task at least.
std::int64_t CpusOf(const wire::JobView& job);
/// Of each of its nodes.
std::int64_t CpusPerNode(const wire::JobView& job);
/// Bytes, of all its nodes; 0: it asks for none.
std::int64_t MemoryOf(const wire::JobView& job);
/// The GPUs that it asks for on all its nodes; of an elastic job the fewest.
std::int64_t GpusAskedBy(const wire::JobView& job);
/// The GPUs that it asks for, or has got: an elastic job may have more.
std::int64_t GpusOf(const wire::JobView& job);
/// "gpu:2", "gpu:h100:2" for that many of the job's GPUs; "" for none.
std::string GresOf(const wire::JobView& job, std::int64_t gpus);
/// "gres:gpu:2", "gres:gpu:h100:2"; "N/A" without GPUs.
std::string TresPerNode(const wire::JobView& job);
/// "cpu=4,mem=16G,node=1,gres/gpu=2" with that many GPUs.
std::string Tres(const wire::JobView& job, std::int64_t gpus);
/// "16G", "512M"; "0" for none.
std::string Megabytes(std::int64_t bytes);
/// What the job named with -p; "main" where it named none.
std::string Partition(const wire::JobView& job);
/// It is in one of these partitions, or waits for one of them; with none, it is in any.
bool IsInOneOf(const std::vector<std::string>& partitions, const wire::JobView& job);
/// A selector's pools for a list of partitions ("-p main,gpu").
std::vector<std::string> PoolsOf(const std::vector<std::string>& partitions);
/// "(null)" for an empty text.
std::string OrNull(const std::string& text);

/// What the job said for --NAME, by its labels; `none` where it said nothing.
std::string LabelOf(const std::map<std::string, std::string>& labels, const std::string& name,
                    const std::string& none = "(null)");
inline std::string LabelOf(const wire::JobDetail& job, const std::string& name, const std::string& none = "(null)") {
  return LabelOf(job.labels, name, none);
}

/// The GPUs' model and the machines' features that it asks for: "a100", "a100&ib"; "(null)" for none.
std::string FeaturesOf(const wire::JobView& job);

/// "gpu:3(IDX:0-1,3)": the GPUs that a job holds; "" for none.
std::string HeldGpus(const std::vector<std::int64_t>& gpus);

/// "gpu:nvidia_h100_80gb_hbm3:8": what sinfo's GRES column shows. Different models are joined with ','.
std::string Gres(const std::vector<wire::GpuView>& gpus);
/// The same with how many are in use, and which: "gpu:h100:2(IDX:0,3)".
std::string GresUsed(const std::vector<wire::GpuView>& gpus);

/// Jobs in Slurm's order: those that wait first, in the queue's order, then those that run, then the rest.
void SortLikeSqueue(std::vector<wire::JobView>& jobs);
/// One line for each waiting element of an array (squeue -r).
std::vector<wire::JobView> SplitArrays(const std::vector<wire::JobView>& jobs);

}  // namespace divvy::cli::slurm
