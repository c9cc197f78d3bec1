#include "cli/shims/slurm_look/slurm_view.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <tuple>

#include "base/index_ranges.h"
#include "base/text.h"
#include "cli/client/places.h"
#include "dialect/slurm/slurm_environment.h"
#include "model/reason_words.h"

namespace divvy::cli::slurm {
namespace {

struct StateWords {
  std::string_view state;
  std::string_view name;
  std::string_view code;
};
constexpr auto kStates = std::to_array<StateWords>({
    {"held", "PENDING", "PD"},
    {"queued", "PENDING", "PD"},
    {"starting", "CONFIGURING", "CF"},
    {"running", "RUNNING", "R"},
    {"paused", "SUSPENDED", "S"},
    {"stopping", "COMPLETING", "CG"},
    {"succeeded", "COMPLETED", "CD"},
    {"failed", "FAILED", "F"},
    {"cancelled", "CANCELLED", "CA"},
    {"timed_out", "TIMEOUT", "TO"},
    {"lost", "NODE_FAIL", "NF"},
});
/// Slurm's states that jobs here never have. They are still valid filters.
constexpr auto kOtherStates = std::to_array<std::string_view>(
    {"PREEMPTED", "PR", "BOOT_FAIL",    "BF", "REQUEUED",    "RQ", "RESIZING",      "RS",
     "REVOKED",   "RV", "STOPPED",      "ST", "SIGNALING",   "SI", "SPECIAL_EXIT",  "SE",
     "STAGE_OUT", "SO", "REQUEUE_HOLD", "RH", "REQUEUE_FED", "RF", "RESV_DEL_HOLD", "RD"});

bool IsDeadline(std::string_view slurm_state) {
  return EqualsIgnoringCase(slurm_state, "DEADLINE") || EqualsIgnoringCase(slurm_state, "DL");
}

bool IsOutOfMemory(std::string_view slurm_state) {
  return EqualsIgnoringCase(slurm_state, "OUT_OF_MEMORY") || EqualsIgnoringCase(slurm_state, "OOM");
}

/// The rank of the job's state in squeue's listing.
int StateOrder(const wire::JobView& job) {
  if (IsPending(job)) return 0;
  if (job.state == "running") return 1;
  if (job.state == "paused") return 2;
  return IsFinal(job) ? 4 : 3;
}

bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string Clock(std::int64_t seconds, bool is_long) {
  const std::int64_t total = std::max<std::int64_t>(seconds, 0);
  char text[64];
  const long long d = total / 86'400;
  const long long h = total / 3600 % 24;
  const long long m = total / 60 % 60;
  const long long s = total % 60;
  if (d > 0) {
    std::snprintf(text, sizeof text, "%lld-%02lld:%02lld:%02lld", d, h, m, s);
  } else if (is_long) {
    std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld", h, m, s);
  } else if (h > 0) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", h, m, s);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", m, s);
  }
  return text;
}

/// "NVIDIA H100 80GB HBM3" -> "nvidia_h100_80gb_hbm3", as Slurm names detected GPUs.
std::string TypeName(std::string_view model) {
  std::string name = ToLower(model);
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::map<std::string, std::vector<std::int64_t>> ByType(const std::vector<wire::GpuView>& gpus) {
  std::map<std::string, std::vector<std::int64_t>> types;
  for (const wire::GpuView& gpu : gpus) types[TypeName(gpu.model)].push_back(gpu.index);
  return types;
}

}  // namespace

wire::JobView ViewOf(const wire::JobDetail& d) {
  wire::JobView v;
  v.id = d.id;
  v.display_id = d.display_id;
  v.name = d.name;
  v.user = d.user;
  v.state = d.state;
  v.gpus = d.gpus;
  v.request = d.request;
  v.submit_time = d.submit_time;
  v.eligible_time = d.eligible_time;
  v.start_time = d.start_time;
  v.end_time = d.end_time;
  v.exit_code = d.exit_code;
  v.signal = d.signal;
  v.reason = d.reason;
  v.start_reason = d.start_reason;
  v.priority = d.priority;
  v.project = d.project;
  v.group = d.group;
  v.pool = d.pool;
  v.account = d.account;
  v.qos = d.qos;
  v.comment = d.comment;
  v.dialect = d.dialect;
  v.array_id = d.array_id;
  v.array_index = d.array_index;
  v.count = d.count;
  v.array_indices = d.array_indices;
  v.array_at_once = d.array_at_once;
  v.dependencies = d.dependencies;
  v.restarts = d.restarts;
  v.step_count = d.step_count;
  v.is_foreground = d.is_foreground;
  v.position = d.position;
  v.team = d.team;
  v.preemptible = d.preemptible;
  v.progress = d.progress;
  v.node = d.node;
  v.allocations = d.allocations;
  return v;
}

bool RanOutOfMemory(const wire::JobView& job) { return job.state == "failed" && job.reason.starts_with(kOutOfMemory); }

bool MissedDeadline(const wire::JobView& job) {
  return job.state == "timed_out" && (job.reason == kReachedDeadline || job.reason == kTooLateForDeadline);
}

std::string StateName(const wire::JobView& job) {
  if (MissedDeadline(job)) return "DEADLINE";
  if (RanOutOfMemory(job)) return "OUT_OF_MEMORY";
  const auto found = std::ranges::find(kStates, std::string_view(job.state), &StateWords::state);
  return found == kStates.end() ? job.state : std::string(found->name);
}

std::string StateCode(const wire::JobView& job) {
  if (MissedDeadline(job)) return "DL";
  if (RanOutOfMemory(job)) return "OOM";
  const auto found = std::ranges::find(kStates, std::string_view(job.state), &StateWords::state);
  return found == kStates.end() ? job.state : std::string(found->code);
}

bool IsInSlurmState(const wire::JobView& job, const std::vector<std::string>& slurm_states) {
  return std::ranges::any_of(slurm_states, [&](const std::string& name) {
    const std::vector<std::string> states = StatesOf(name);
    const bool is_all = EqualsIgnoringCase(name, "all");
    return std::ranges::find(states, job.state) != states.end() &&
           (is_all || (IsOutOfMemory(name) == RanOutOfMemory(job) && IsDeadline(name) == MissedDeadline(job)));
  });
}

std::vector<std::string> StatesOf(std::string_view slurm_state) {
  std::vector<std::string> states;
  for (const StateWords& words : kStates) {
    if (EqualsIgnoringCase(words.name, slurm_state) || EqualsIgnoringCase(words.code, slurm_state) ||
        EqualsIgnoringCase(slurm_state, "all")) {
      states.emplace_back(words.state);
    }
  }
  // Slurm also counts a job whose processes are just starting or ending as running.
  if (EqualsIgnoringCase(slurm_state, "R") || EqualsIgnoringCase(slurm_state, "RUNNING"))
    states.emplace_back("starting");
  if (IsOutOfMemory(slurm_state)) states.emplace_back("failed");
  if (IsDeadline(slurm_state)) states.emplace_back("timed_out");
  for (const std::string_view other : kOtherStates) {
    if (EqualsIgnoringCase(other, slurm_state)) states.emplace_back("none");
  }
  return states;
}

bool IsPending(const wire::JobView& job) { return job.state == "held" || job.state == "queued"; }

bool IsFinal(const wire::JobView& job) {
  constexpr std::array<std::string_view, 5> kFinal = {"succeeded", "failed", "cancelled", "timed_out", "lost"};
  return std::ranges::find(kFinal, std::string_view(job.state)) != kFinal.end();
}

bool HoldsGpus(const wire::JobView& job) { return !IsPending(job) && !IsFinal(job); }

std::int64_t PriorityOf(const wire::JobView& job) {
  return job.state == "held" ? 0 : std::max<std::int64_t>(job.priority, 1);
}

std::string ReasonCode(const wire::JobView& job) {
  if (job.state == "held") return "JobHeldUser";
  if (RanOutOfMemory(job)) return "OutOfMemory";
  if (job.state == "failed") return "NonZeroExitCode";
  if (MissedDeadline(job)) return "DeadLine";
  if (job.state == "timed_out") return "TimeLimit";
  if (job.state == "lost") return "NodeDown";
  if (job.state != "queued") return "None";
  const std::string text = ToLower(job.reason);
  if (Has(text, "starts no jobs: its state is "))
    return Has(text, "its state is inactive") ? "PartitionInactive" : "PartitionDown";
  if (Has(text, "(never: ") && !job.dependencies.empty()) return "DependencyNeverSatisfied";
  if (!job.eligible_time) return job.dependencies.empty() ? "BeginTime" : "Dependency";
  if (Has(text, "begin") || Has(text, "not before") || Has(text, "waits before the next try")) return "BeginTime";
  if (Has(text, "waits for job") || Has(text, "earlier jobs of the same name")) return "Dependency";
  const bool is_quota = Has(text, " quota of team ") || Has(text, "'s quota of ");
  if (is_quota || Has(text, " gpu of at most ") || Has(text, " gpus of at most ")) return "AssocGrpGRES";
  if (Has(text, "of at most")) return text.starts_with("array ") ? "JobArrayTaskLimit" : "AssocGrpJobsLimit";
  if (Has(text, "restricted") || Has(text, "fenced") || Has(text, "unmanaged") || Has(text, "drain"))
    return "ReqNodeNotAvail";
  return job.position <= 1 ? "Resources" : "Priority";
}

std::string JobIdText(const wire::JobView& job) {
  std::string text = job.display_id.empty() ? ToString(job.id) : job.display_id;
  if (text.ends_with(']') && job.array_at_once > 0)
    text.insert(text.size() - 1, "%" + std::to_string(job.array_at_once));
  return text;
}

std::string ArrayJobId(const wire::JobView& job) { return ToString(job.array_id.value_or(job.id)); }

std::string ArrayTaskId(const wire::JobView& job) {
  if (job.array_index) return std::to_string(*job.array_index);
  if (job.array_indices.empty()) return "N/A";
  return job.array_indices + (job.array_at_once > 0 ? "%" + std::to_string(job.array_at_once) : "");
}

std::string Moment(std::optional<double> time, std::string_view none) {
  if (!time || *time <= 0) return std::string(none);
  const auto seconds = static_cast<std::time_t>(*time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const char* wanted = std::getenv("SLURM_TIME_FORMAT");
  const bool is_own = wanted != nullptr && std::string_view(wanted).find('%') != std::string_view::npos;
  char text[256];
  if (std::strftime(text, sizeof text, is_own ? wanted : "%Y-%m-%dT%H:%M:%S", &local) == 0) return std::string(none);
  return text;
}

std::string Elapsed(double seconds) { return Clock(static_cast<std::int64_t>(seconds), false); }
std::string LongElapsed(double seconds) { return Clock(static_cast<std::int64_t>(seconds), true); }

double RunTime(const wire::JobView& job, double now) {
  if (!job.start_time) return 0;
  return std::max(job.end_time.value_or(now) - *job.start_time, 0.0);
}

std::string TimeLimit(const wire::JobView& job) {
  return job.request.time_limit_s > 0 ? Elapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
}

std::string ExitCode(const wire::JobView& job) {
  if (RanOutOfMemory(job)) return "0:125";
  const std::int64_t signal = job.signal.value_or(0);
  return std::to_string(signal != 0 ? 0 : job.exit_code.value_or(0)) + ":" + std::to_string(signal);
}

std::int64_t CpusOf(const wire::JobView& job) {
  const std::int64_t nodes = std::max<std::int64_t>(job.request.nodes, 1);
  return std::max<std::int64_t>({job.request.cpus * nodes, job.request.tasks, 1});
}

std::int64_t CpusPerNode(const wire::JobView& job) {
  const std::int64_t nodes = std::max<std::int64_t>(job.request.nodes, 1);
  return std::max<std::int64_t>({job.request.cpus, (job.request.tasks + nodes - 1) / nodes, 1});
}

std::int64_t MemoryOf(const wire::JobView& job) {
  return job.request.memory_bytes * std::max<std::int64_t>(job.request.nodes, 1);
}

std::int64_t GpusAskedBy(const wire::JobView& job) { return GpusOnAllNodes(job.request); }

std::int64_t GpusOf(const wire::JobView& job) {
  auto held = static_cast<std::int64_t>(job.gpus.size());
  if (!job.allocations.empty()) held = 0;
  for (const wire::AllocationView& allocation : job.allocations)
    held += static_cast<std::int64_t>(allocation.gpus.size());
  return std::max(GpusAskedBy(job), job.start_time ? held : 0);
}

std::string GresOf(const wire::JobView& job, std::int64_t gpus) {
  if (gpus == 0) return "";
  std::string type = job.request.gpu_type;
  std::ranges::replace(type, '&', '_');
  return "gpu:" + (type.empty() ? "" : type + ":") + std::to_string(gpus);
}

bool HasEqualNodes(const wire::RequestView& request) { return !request.spreads_tasks && request.short_nodes == 0; }

std::string TresPerNode(const wire::JobView& job) {
  if (job.request.gpus == 0 || !HasEqualNodes(job.request)) return "N/A";
  return "gres:" + GresOf(job, job.request.nodes > 1 ? job.request.gpus : GpusOf(job));
}

std::int64_t NodeCountOf(const wire::JobView& job) {
  if (!job.allocations.empty() && !IsPending(job)) return static_cast<std::int64_t>(job.allocations.size());
  return std::max<std::int64_t>(job.request.nodes, 1);
}

std::string Tres(const wire::JobView& job, std::int64_t gpus) {
  std::string text = "cpu=" + std::to_string(CpusOf(job));
  if (job.request.memory_bytes > 0) text += ",mem=" + Megabytes(MemoryOf(job));
  text += ",node=" + std::to_string(NodeCountOf(job)) + ",billing=" + std::to_string(CpusOf(job));
  if (gpus > 0) text += ",gres/gpu=" + std::to_string(gpus);
  return text;
}

std::string Megabytes(std::int64_t bytes) {
  if (bytes <= 0) return "0";
  const std::int64_t mib = bytes >> 20;
  if (mib >= 1024 && mib % 1024 == 0) return std::to_string(mib / 1024) + "G";
  return std::to_string(std::max<std::int64_t>(mib, 1)) + "M";
}

std::string Partition(const wire::JobView& job) {
  return job.pool.empty() ? std::string(dialect::kSlurmPartition) : job.pool;
}

bool IsInOneOf(const std::vector<std::string>& partitions, const wire::JobView& job) {
  const std::string own = Partition(job);
  return partitions.empty() || std::ranges::any_of(Split(own, ','), [&](std::string_view one) {
           return std::ranges::find(partitions, one) != partitions.end();
         });
}

std::vector<std::string> PoolsOf(const std::vector<std::string>& partitions) {
  std::vector<std::string> pools = partitions;
  // A job that named no partition is in "main".
  if (std::ranges::find(pools, dialect::kSlurmPartition) != pools.end()) pools.emplace_back();
  return pools;
}

std::string LabelOf(const std::map<std::string, std::string>& labels, const std::string& name,
                    const std::string& none) {
  const auto found = labels.find("slurm." + name);
  return found == labels.end() || found->second.empty() ? none : found->second;
}

std::string OrNull(const std::string& text) { return text.empty() ? "(null)" : text; }

std::string FeaturesOf(const wire::JobView& job) {
  const wire::RequestView& request = job.request;
  if (request.gpu_type.empty() || request.constraint.empty()) return OrNull(request.gpu_type + request.constraint);
  return request.gpu_type + "&" + request.constraint;
}

std::string HeldGpus(const std::vector<std::int64_t>& gpus) {
  if (gpus.empty()) return "";
  IndexRanges indices;
  for (const std::int64_t gpu : gpus) indices.Insert(static_cast<std::uint32_t>(gpu));
  return "gpu:" + std::to_string(gpus.size()) + "(IDX:" + indices.ToString() + ")";
}

std::string Gres(const std::vector<wire::GpuView>& gpus) {
  std::string text;
  for (const auto& [type, indices] : ByType(gpus)) {
    text += (text.empty() ? "" : ",") + std::string("gpu:") + (type.empty() ? "" : type + ":") +
            std::to_string(indices.size());
  }
  return text.empty() ? "(null)" : text;
}

std::string GresUsed(const std::vector<wire::GpuView>& gpus) {
  std::string text;
  for (const auto& [type, indices] : ByType(gpus)) {
    IndexRanges used;
    for (const wire::GpuView& gpu : gpus) {
      if (TypeName(gpu.model) == type && gpu.state == "allocated") used.Insert(static_cast<std::uint32_t>(gpu.index));
    }
    text += (text.empty() ? "" : ",") + std::string("gpu:") + (type.empty() ? "" : type + ":") +
            std::to_string(used.size()) + "(IDX:" + (used.empty() ? "N/A" : used.ToString()) + ")";
  }
  return text.empty() ? "gpu:0" : text;
}

void SortLikeSqueue(std::vector<wire::JobView>& jobs) {
  const auto key = [](const wire::JobView& job) {
    const std::int64_t place = !IsPending(job) ? 0 : job.position > 0 ? job.position : INT64_MAX;
    return std::tuple(StateOrder(job), place, job.id);
  };
  std::ranges::stable_sort(jobs, {}, key);
}

std::vector<wire::JobView> SplitArrays(const std::vector<wire::JobView>& jobs) {
  std::vector<wire::JobView> out;
  for (const wire::JobView& job : jobs) {
    const auto indices =
        job.array_indices.empty() ? Result<IndexRanges>(IndexRanges()) : IndexRanges::Parse(job.array_indices, "array");
    if (!indices || indices->empty() || job.array_index) {
      out.push_back(job);
      continue;
    }
    for (const auto& range : indices->ranges()) {
      for (std::uint32_t index = range.first;; ++index) {
        wire::JobView one = job;
        one.array_id = job.array_id.value_or(job.id);
        one.array_index = index;
        one.display_id = ToString(*one.array_id) + "_" + std::to_string(index);
        one.count = 1;
        one.array_indices.clear();
        out.push_back(std::move(one));
        if (index == range.last) break;
      }
    }
  }
  return out;
}

}  // namespace divvy::cli::slurm
