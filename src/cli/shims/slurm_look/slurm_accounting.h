// sacct's listing, as text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_table.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// A job, or one of its steps. For a step, `job` is the JobStep's view.
struct AccountRow {
  wire::JobView job;
  std::string step;              // "batch", "0"; empty: the job.
  bool is_step_measured = true;  // The job's measured usage is the step's usage.
  std::int64_t step_tasks = 1;
  bool is_step() const { return !step.empty(); }
  bool is_measured_step() const { return is_step() && is_step_measured; }
  // Set only if the job's full answer was fetched (NeedsDetail).
  double cpu_time_s = 0;
  std::int64_t memory_peak_bytes = 0;
  bool was_oom_killed = false;
  std::string directory;
  std::string command;
  std::string output;
  std::string error;
  std::map<std::string, std::string> labels;  // Labels that the dialect stored: "slurm.wckey".
};

struct AccountFormat {
  std::vector<std::string> fields;  // "JobID", "JobName%30", "State%-15".
  TableStyle style;
};

inline constexpr std::string_view kAccountDefault = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
inline constexpr std::string_view kAccountBrief = "JobID,State,ExitCode";
inline constexpr std::string_view kAccountLong =
    "JobID,JobIDRaw,JobName,Partition,MaxRSS,AveRSS,NTasks,AllocCPUS,Elapsed,State,ExitCode,ReqMem,ReqTRES,AllocTRES";

/// True if one of these fields needs the full answer about a job (wire::JobDetail), which must be fetched per job.
bool NeedsDetail(const std::vector<std::string>& fields);
Result<std::string> FormatAccounts(const std::vector<AccountRow>& rows, const AccountFormat& format,
                                   const Scene& scene);
/// {"jobs": [...]} with those fields of Slurm's accounting interface that exist here. Rows must have their
/// details; steps follow their jobs.
std::string AccountsJson(const std::vector<AccountRow>& rows, const Scene& scene, JsonSchema schema);
/// Returns {"steps": [...]}, each step with the fields that it has within its job in the output of sacct --json.
std::string StepsJson(const std::vector<AccountRow>& steps, const Scene& scene, JsonSchema schema);
/// The state as accounting shows it: "CANCELLED by 1000", "OUT_OF_MEMORY".
std::string AccountState(const AccountRow& row, const Scene& scene);
/// All names that --format accepts, four per line.
std::string AccountFieldNames();

}  // namespace divvy::cli::slurm
