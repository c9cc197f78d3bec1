#include "dialect/gflow/gflow.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/text.h"
#include "dialect/options/conda.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kShared = "gflow.shared";
constexpr std::string_view kConda = "gflow.conda_env";
constexpr std::string_view kConcurrent = "gflow.max_concurrent";
constexpr std::string_view kNotifyEmail = "gflow.notify_email";
constexpr std::string_view kNotifyOn = "gflow.notify_on";

void Keep(JobSpec& spec, std::string_view label, std::string_view value) { spec.labels[std::string(label)] = value; }

std::string Kept(const JobSpec& spec, std::string_view label) {
  const auto found = spec.labels.find(std::string(label));
  return found == spec.labels.end() ? std::string() : found->second;
}

/// Parses --gpus: "2", or "gpu:2" for the alias --gres, as Slurm users write it.
Result<int> ReadGpus(std::string_view text) {
  if (Trim(text) == "gpu") return 1;
  if (Trim(text).starts_with("gpu:")) text = Trim(text).substr(4);
  return ReadGpuCount(text);
}

/// "12", "12,13", "@", "@~1": all must succeed, or with `any` one of them.
Status ApplyJobs(std::string_view text, bool any, const ParseContext& around, JobSpec& spec) {
  JobSpec read;
  for (std::string_view part : Split(text, ',')) {
    part = Trim(part);
    if (part.find_first_of("?+:") != std::string_view::npos && !part.starts_with("after")) {
      return InvalidArgument(Quoted(text) + ": separate jobs by ',', as in 12,13");
    }
    JobSpec one;
    DIVVY_CHECK(ParseDependencies(part, around, one));
    for (const Dependency& dependency : one.dependencies) {
      if (std::ranges::find(read.dependencies, dependency) == read.dependencies.end())
        read.dependencies.push_back(dependency);
    }
  }
  spec.dependencies = std::move(read.dependencies);
  spec.needs_any_dependency = any && spec.dependencies.size() > 1;
  return {};
}

Status ApplyNotifyOn(std::string_view text, JobSpec& spec) {
  constexpr std::string_view kEvents[] = {"job_submitted", "job_updated", "job_started", "job_completed", "job_failed",
                                          "job_cancelled", "job_timeout", "job_held",    "job_released"};
  for (std::string_view event : Split(text, ',')) {
    event = Trim(event);
    if (std::ranges::find(kEvents, event) != std::end(kEvents)) continue;
    if (std::ranges::find(kEvents, "job_" + std::string(event)) != std::end(kEvents)) continue;
    const std::string_view near = event.size() > 32 ? std::string_view() : Nearest(event, kEvents);
    return InvalidArgument(Quoted(event) + " is not an event" +
                           (near.empty() ? "; write job_started, job_completed, job_failed, ..."
                                         : "; did you mean " + std::string(near) + "?"));
  }
  Keep(spec, kNotifyOn, text);
  return {};
}

using Table = std::vector<Option>;

void AddResources(Table& table, JobSpec& spec) {
  table.push_back(Option::Value("gpus", 'g', "N", "number of GPUs", Reads(spec.request.gpus, ReadGpus), {"gres"}));
  table.push_back(Option::Flag("shared",
                               "share the GPUs: use only --gpu-memory of each and leave the rest to other jobs",
                               [&spec](std::string_view) -> Status {
                                 Keep(spec, kShared, "1");
                                 return {};
                               }));
  table.push_back(Option::Value("gpu-memory", "SIZE", "memory needed on each GPU, such as 24G; a bare number means MB",
                                Reads(spec.request.gpu_memory, ParseSize, kMebibyte),
                                {"max-gpu-mem", "max-gpu-memory"}));
  table.push_back(Option::Value("memory", 'm', "SIZE", "host memory; a bare number means MB",
                                Reads(spec.request.memory, ParseSize, kMebibyte), {"max-mem", "max-memory"}));
  table.push_back(
      Option::Value("conda-env", 'c', "ENV", "conda environment to run in", [&spec](std::string_view value) -> Status {
        DIVVY_TRY(const std::string name, ReadPath(value));
        Keep(spec, kConda, name);
        return {};
      }));
}

void AddWhen(Table& table, JobSpec& spec, const ParseContext& around) {
  table.push_back(Option::Value("time", 't', "TIME", "time limit: HH:MM:SS, MM:SS or minutes",
                                Reads(spec.time_limit, ReadTimeLimit), {"time-limit", "timelimit"}));
  table.push_back(Option::Value("begin", "WHEN", "earliest start time: now+1h, 16:00, 2026-03-01T16:00",
                                [&spec, &around](std::string_view value) -> Status {
                                  DIVVY_TRY(spec.begin, ParseMoment(value, around.now, around.utc_offset));
                                  if (spec.begin < around.now)
                                    AddNote(spec,
                                            "--begin " + std::string(value) + " has passed: starts as soon as it can");
                                  return {};
                                }));
  table.push_back(Option::Value("priority", 'p', "N", "priority from 0 to 255; higher runs first (default: 10)",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_TRY(const int priority, ReadCount(value, 0, 255, "priority"));
                                  spec.priority = priority - kGflowDefaultPriority;
                                  return {};
                                },
                                {"nice"}));
  const auto jobs = [&spec, &around](bool any) {
    return [&spec, &around, any](std::string_view value) { return ApplyJobs(value, any, around, spec); };
  };
  table.push_back(Option::Value("depends-on", 'd', "JOB", "start after this job succeeded: 12, @ (my last), @~1",
                                jobs(false), {"dependency"}));
  table.push_back(Option::Value("depends-on-all", "JOBS", "start after all of these succeeded: 12,13", jobs(false)));
  table.push_back(Option::Value("depends-on-any", "JOBS", "start after one of these succeeded: 12,13", jobs(true)));
  table.push_back(
      Option::Flag("no-auto-cancel", "stay in the queue if the job waited for fails", Sets(spec.keeps_waiting)));
}

void AddMany(Table& table, JobSpec& spec, const ParseContext& around) {
  const auto seen = std::make_shared<std::set<std::string, std::less<>>>();
  table.push_back(Option::Value("array", "RANGE", "one job for each index: 1-10", Reads(spec.array, ReadArray)));
  table.push_back(Option::Value(
      "param", "NAME=VALUES", "one job for each value, which replaces {NAME} in the command: lr=1e-3,1e-4 or seed=0:9",
      [&spec, seen](std::string_view value) -> Status {
        const std::string name(Trim(value.substr(0, value.find('='))));
        JobSpec trial;
        trial.parameters = spec.parameters;
        if (!seen->contains(name)) {
          std::erase_if(trial.parameters, [&](const Parameter& other) { return other.name == name; });
        }
        DIVVY_CHECK(ParseParameter(value, trial));
        spec.parameters = std::move(trial.parameters);
        seen->insert(name);
        return {};
      }));
  table.push_back(Option::Value("param-file", "CSV",
                                "one job for each row of the file; its header names the parameters",
                                [&spec, &around](std::string_view value) -> Status {
                                  DIVVY_TRY(const std::string csv, ReadNamedFile(value, around));
                                  return ParseParameterFile(csv, value, spec);
                                }));
  table.push_back(Option::Value("name-template", "TEXT", "name of each job of a sweep: train-{lr}",
                                Reads(spec.name_template, ReadLabel, 256u)));
  table.push_back(Option::Value("max-concurrent", "N", "how many jobs of this submission may run at once",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_TRY(const int limit, ReadCount(value, 1, 1'000'000, "jobs"));
                                  Keep(spec, kConcurrent, std::to_string(limit));
                                  return {};
                                }));
  table.push_back(Option::Value("max-retries", "N", "restart the job up to N times if it fails",
                                Reads(spec.retries, ReadCount, 0, 1000, "retries")));
}

void AddGflowLabels(Table& table, JobSpec& spec) {
  table.push_back(
      Option::Value("name", 'n', "NAME", "name of the job", Reads(spec.name, ReadLabel, 256u), {"job-name"}));
  table.push_back(
      Option::Value("job-name-letter", 'J', "NAME", "the same as --name", Reads(spec.name, ReadLabel, 256u)).Hidden());
  table.push_back(
      Option::Value("project", 'P', "CODE", "project that the job belongs to", Reads(spec.project, ReadLabel, 64u)));
  const auto mails = std::make_shared<std::string>();
  table.push_back(Option::Value("notify-email", "ADDRESS",
                                "mail address to notify when the job ends, or on the events of --notify-on",
                                [&spec, mails](std::string_view value) -> Status {
                                  DIVVY_TRY(const std::string address, ReadLabel(value, 256));
                                  if (address.find('@') == std::string::npos)
                                    return InvalidArgument(Quoted(value) + " is not a mail address");
                                  *mails += (mails->empty() ? "" : ",") + address;
                                  Keep(spec, kNotifyEmail, *mails);
                                  return {};
                                }));
  table.push_back(Option::Value("notify-on", "EVENTS", "events to send to --notify-email",
                                [&spec](std::string_view value) { return ApplyNotifyOn(value, spec); }));
  table.push_back(Option::Flag("auto-close", "nothing to close: jobs run without tmux",
                               [](std::string_view) -> Status { return {}; }));
}

/// A unique group name: the time of this submission in nanoseconds.
std::string FreshGroup(const ParseContext& around) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string out;
  for (auto rest = static_cast<std::uint64_t>(around.now.time_since_epoch().count()); rest > 0; rest /= 36) {
    out.insert(out.begin(), kDigits[rest % 36]);
  }
  return (around.user.empty() ? "gflow" : around.user) + "-" + (out.empty() ? "0" : out);
}

}  // namespace

std::vector<Option> GflowOptions(JobSpec& spec, const ParseContext& around) {
  Table table;
  AddResources(table, spec);
  AddWhen(table, spec, around);
  AddMany(table, spec, around);
  AddGflowLabels(table, spec);
  return table;
}

Status FinishGflow(JobSpec& spec, const ParseContext& around) {
  spec.dialect = Dialect::kGflow;
  if (!Kept(spec, kShared).empty()) {
    if (spec.request.gpu_memory == Bytes(0) && !spec.request.portion.is_by_memory())
      return InvalidArgument("--shared needs --gpu-memory SIZE, the memory to request on each GPU");
    if (spec.request.gpus == 0) return InvalidArgument("--shared needs a GPU; add --gpus 1");
    // FinishGflow may be called twice, so do nothing the second time.
    if (spec.request.gpu_memory > Bytes(0))
      spec.request.portion.memory = std::exchange(spec.request.gpu_memory, Bytes());
  }
  if (const std::string limit = Kept(spec, kConcurrent); !limit.empty()) {
    if (spec.group.empty()) spec.group = FreshGroup(around);
    spec.group_limit = static_cast<int>(ParseInteger(limit).value_or(0));
  }
  if (const std::string environment = Kept(spec, kConda); !environment.empty()) RunInsideConda(environment, spec);
  return {};
}

}  // namespace divvy::dialect
