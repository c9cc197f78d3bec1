// sstat: the running steps of jobs, with sacct's fields.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/steps/step_listing.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

constexpr std::string_view kSstatDefault = "JobID,NTasks,AveCPU,AveRSS,MaxRSS,MaxRSSNode,MaxRSSTask";

struct SstatFlags {
  std::vector<std::string> jobs;
  std::vector<std::string> fields;
  TableFlags table;
  bool has_all_steps = false;
  bool lists_fields = false;
};

std::vector<dialect::Option> SstatTable(SstatFlags& wish) {
  return {
      List("jobs", 'j', "IDS", "These jobs, or steps of them (17.0)", wish.jobs),
      List("format", 'o', "FIELDS", "Fields, optionally with %WIDTH; --helpformat lists them", wish.fields),
      Flag("allsteps", 'a', "All running steps of a job named without a step (default: the first)", wish.has_all_steps),
      Flag("noheader", 'n', "No header", wish.table.has_no_header),
      Flag("parsable", 'p', "Fields with | after each", wish.table.is_parsable),
      Flag("parsable2", 'P', "Fields with | between them", wish.table.is_parsable2),
      Flag("helpformat", 'e', "Names of all fields", wish.lists_fields),
      Ignored("noconvert", 0, Takes::kNothing),
      Ignored("pidformat", 'i', Takes::kNothing),
      Ignored("verbose", 'v', Takes::kNothing),
  };
}

/// The running steps that `id` selects: "17" the first or all of them, "17.0" that one.
Result<std::vector<AccountRow>> RowsOf(Api& api, const std::string& id, bool has_all_steps) {
  const auto dot = id.find('.');
  const std::string job_id = id.substr(0, dot);
  const auto detail = api.Job(job_id);
  const Error none = NotFound("no steps running for job " + job_id);
  if (!detail) return detail.error().code == ErrorCode::kNotFound ? none : detail.error();
  std::vector<AccountRow> rows;
  for (JobStep& step : JobStepsOf(*detail, StepsOf(api, *detail))) {
    if (IsFinal(step.job) || !step.job.start_time) continue;
    const bool is_wanted = dot != std::string::npos ? id.substr(dot + 1) == step.id
                           : has_all_steps          ? true
                                                    : step.id != "batch" && rows.empty();
    if (!is_wanted) continue;
    rows.push_back({.job = std::move(step.job),
                    .step = step.id,
                    .is_step_measured = step.is_measured,
                    .step_tasks = step.tasks,
                    .cpu_time_s = detail->cpu_time_s,
                    .memory_peak_bytes = detail->memory_peak_bytes,
                    .labels = detail->labels});
  }
  if (rows.empty()) return none;
  return rows;
}

}  // namespace

int SstatMain(const std::vector<std::string>& words) {
  SstatFlags wish;
  const std::vector<dialect::Option> options = SstatTable(wish);
  if (Greets("sstat", "[OPTIONS] -j JOB[.STEP]", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("sstat", parsed.error().message);
  if (wish.lists_fields) {
    std::fputs(AccountFieldNames().c_str(), stdout);
    return 0;
  }
  wish.jobs.insert(wish.jobs.end(), parsed->positional.begin(), parsed->positional.end());
  const auto ids = SplitJobIds(Join(wish.jobs, ","));
  if (wish.jobs.empty()) return FailAs("sstat", "You didn't give me any jobs to stat.");
  if (!ids) return FailAs("sstat", ids.error().message);
  AccountFormat format{.fields = wish.fields, .style = wish.table.style()};
  if (format.fields.empty()) {
    for (const std::string_view name : Split(kSstatDefault, ',')) format.fields.emplace_back(name);
  }
  auto api = Api::Connect();
  if (!api) return FailAs("sstat", api.error());
  std::vector<AccountRow> rows;
  int code = 0;
  for (const std::string& id : *ids) {
    auto some = RowsOf(*api, id, wish.has_all_steps);
    if (!some) code = FailAs("sstat", some.error().message);
    else std::ranges::move(*some, std::back_inserter(rows));
  }
  std::vector<wire::JobView> jobs;
  for (const AccountRow& row : rows) jobs.push_back(row.job);
  const auto text = FormatAccounts(rows, format, SceneOf(*api, jobs));
  if (!text) return FailAs("sstat", text.error());
  std::fputs(text->c_str(), stdout);
  return code;
}

}  // namespace divvy::cli
