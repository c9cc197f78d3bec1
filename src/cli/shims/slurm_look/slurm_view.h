// Jobs and the server in Slurm's terms: state letters, reason codes, times, ids, GRES strings. Pure functions of
// messages, so that every listing can be tested without a daemon.
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

/// The data that a listing needs in addition to the jobs: names, the time, and the size of the server.
struct Scene {
  std::string hostname;  // The controller's own machine.
  double now = 0;
  int cpus = 1;  // The server's cores.
  std::int64_t memory_mib = 0;
  std::int64_t memory_free_mib = 0;
  double load = 0;
  std::function<std::int64_t(const std::string& user)> uid_of = [](const std::string&) { return 0; };
  /// A user's first group, name and number: "staff(50)".
  std::function<std::pair<std::string, std::int64_t>(const std::string& user)> group_of = [](const std::string&) {
    return std::pair<std::string, std::int64_t>("(null)", 0);
  };
};

/// Returns the fields of a job's full answer (JobDetail) that are also in listings (JobView).
wire::JobView ViewOf(const wire::JobDetail& detail);

std::string StateName(const wire::JobView& job);  // "PENDING", "OUT_OF_MEMORY"
std::string StateCode(const wire::JobView& job);  // "PD", "OOM"
/// True if the job failed because it reached its memory limit. Slurm then shows the state OUT_OF_MEMORY.
bool RanOutOfMemory(const wire::JobView& job);
/// True if the job was not started, or was stopped, because of its deadline.
bool MissedDeadline(const wire::JobView& job);
/// True if the job is in one of the named Slurm states (names or letters).
bool IsInSlurmState(const wire::JobView& job, const std::vector<std::string>& slurm_states);
/// The divvy states for a Slurm state's name or letters ("PD" -> held, queued). Empty if there is no such state.
std::vector<std::string> StatesOf(std::string_view slurm_state);
inline constexpr std::string_view kStateNames =
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,COMPLETING,CONFIGURING";

bool IsPending(const wire::JobView& job);
bool IsFinal(const wire::JobView& job);
bool HoldsGpus(const wire::JobView& job);

/// "Resources", "Priority", "Dependency", "JobHeldUser", "BeginTime", "JobArrayTaskLimit", "NonZeroExitCode", "None",
/// ...
std::string ReasonCode(const wire::JobView& job);
/// The priority in Slurm's form: 0 for a held job, at least 1 for any other.
std::int64_t PriorityOf(const wire::JobView& job);
/// "17", "17_3", "17_[4-99%8]".
std::string JobIdText(const wire::JobView& job);
std::string ArrayJobId(const wire::JobView& job);
std::string ArrayTaskId(const wire::JobView& job);  // "3", "4-99%8", "N/A".

/// Local time, "2026-03-01T16:00:00", or formatted with SLURM_TIME_FORMAT ("%F %T"); `none` for no time.
std::string Moment(std::optional<double> time, std::string_view none = "N/A");
/// "0:05", "1:02:03", "1-02:03:04": as squeue shows it.
std::string Elapsed(double seconds);
/// "00:00:05", "1-02:03:04": as sacct and scontrol show it.
std::string LongElapsed(double seconds);
double RunTime(const wire::JobView& job, double now);
/// "UNLIMITED" without a limit.
std::string TimeLimit(const wire::JobView& job);
/// "0:0", "3:0", "0:9": exit code and signal.
std::string ExitCode(const wire::JobView& job);
/// Returns the number of nodes that the job has, or requests while it waits.
std::int64_t NodeCountOf(const wire::JobView& job);
/// Returns the number of CPUs to show for the job: as many as it requests, but at least one per task.
std::int64_t CpusOf(const wire::JobView& job);
/// Returns the number of CPUs of the job on each of its nodes.
std::int64_t CpusPerNode(const wire::JobView& job);
/// Returns the bytes of memory that the job requests on all its nodes together; 0 if it requests none.
std::int64_t MemoryOf(const wire::JobView& job);
/// Returns the number of GPUs that the job requests on all its nodes together; for an elastic job, the minimum.
std::int64_t GpusAskedBy(const wire::JobView& job);
/// Returns the number of GPUs that the job has, or requests while it waits. An elastic job may have more than its
/// minimum.
std::int64_t GpusOf(const wire::JobView& job);
/// Returns "gpu:2", or "gpu:h100:2" if the job requests a model, for that number of GPUs; "" for 0.
std::string GresOf(const wire::JobView& job, std::int64_t gpus);
/// True if the nodes of the job give equally many GPUs, so that it has a request per node.
bool HasEqualNodes(const wire::RequestView& request);
/// "gres:gpu:2", "gres:gpu:h100:2"; "N/A" without GPUs or without equal nodes.
std::string TresPerNode(const wire::JobView& job);
/// Returns the resources of the job in Slurm's TRES format, with `gpus` as the number of GPUs:
/// "cpu=4,mem=16G,node=1,gres/gpu=2".
std::string Tres(const wire::JobView& job, std::int64_t gpus);
/// "16G", "512M"; "0" for none.
std::string Megabytes(std::int64_t bytes);
/// Returns the partition that the job requested with -p, else "main".
std::string Partition(const wire::JobView& job);
/// True if the job runs in one of these partitions or waits for one of them. Always true if the list is empty.
bool IsInOneOf(const std::vector<std::string>& partitions, const wire::JobView& job);
/// Returns the pools with which a job selector finds the jobs in these partitions ("-p main,gpu").
std::vector<std::string> PoolsOf(const std::vector<std::string>& partitions);
/// "(null)" for an empty text.
std::string OrNull(const std::string& text);

/// Returns the value of Slurm's option --NAME that the job was submitted with, from its labels; `none` if the option
/// was not given.
std::string LabelOf(const std::map<std::string, std::string>& labels, const std::string& name,
                    const std::string& none = "(null)");
inline std::string LabelOf(const wire::JobDetail& job, const std::string& name, const std::string& none = "(null)") {
  return LabelOf(job.labels, name, none);
}

/// The requested GPU model and node features: "a100", "a100&ib"; "(null)" for none.
std::string FeaturesOf(const wire::JobView& job);

/// "gpu:3(IDX:0-1,3)": the GPUs that a job holds; "" for none.
std::string HeldGpus(const std::vector<std::int64_t>& gpus);

/// "gpu:nvidia_h100_80gb_hbm3:8": what sinfo's GRES column shows. Different models are joined with ','.
std::string Gres(const std::vector<wire::GpuView>& gpus);
/// Returns the number and indices of the GPUs in use, per model: "gpu:h100:2(IDX:0,3)".
std::string GresUsed(const std::vector<wire::GpuView>& gpus);

/// Sorts in Slurm's order: waiting jobs in queue order, then running jobs, then the rest.
void SortLikeSqueue(std::vector<wire::JobView>& jobs);
/// Replaces the line for the waiting elements of an array with one line per element, as squeue -r shows them.
std::vector<wire::JobView> SplitArrays(const std::vector<wire::JobView>& jobs);

}  // namespace divvy::cli::slurm
