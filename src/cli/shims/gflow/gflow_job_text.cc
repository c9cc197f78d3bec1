#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow_job.h"
#include "cli/shims/gflow/gflow_queue.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using dialect::Option;

constexpr std::int64_t kMegabyte = 1 << 20;

/// Parses one job id, a list of ids, or "@" forms as dependencies ("afterok:12"). `joint` is "," if all of them must be
/// met and "?" if one is enough.
Status ReadDependencies(std::string_view value, std::string_view joint, wire::JobUpdate& update) {
  std::vector<std::string> out;
  for (std::string_view part : Split(value, ',')) {
    part = Trim(part);
    if (part.empty()) return InvalidArgument("'" + std::string(value) + "' has an empty part");
    out.push_back(part.find(':') == std::string_view::npos ? "afterok:" + std::string(part) : std::string(part));
  }
  update.dependencies = {Join(out, joint)};
  return {};
}

dialect::Apply Whole(std::optional<std::int64_t>& out, std::int64_t least, std::int64_t most) {
  return [&out, least, most](std::string_view value) -> Status {
    auto number = ParseInteger(value);
    if (!number || *number < least || *number > most) {
      return InvalidArgument("'" + std::string(value) + "' is not a whole number from " + std::to_string(least) +
                             " to " + std::to_string(most));
    }
    out = *number;
    return {};
  };
}

dialect::Apply Size(std::optional<std::int64_t>& out) {
  return [&out](std::string_view value) -> Status {
    DIVVY_TRY(Bytes size, dialect::ParseSize(value, kMegabyte));
    out = size.count();
    return {};
  };
}

template <typename T, typename Value>
dialect::Apply Clear(std::optional<T>& out, Value value) {
  return [&out, value](std::string_view) -> Status {
    out = T(value);
    return {};
  };
}

dialect::Apply Refuse(std::string_view what) {
  return [what](std::string_view) -> Status {
    return FailedPrecondition(std::string(what) +
                              " of a submitted job stays as it is; cancel the job and submit it again");
  };
}

std::string Moment(double seconds) {
  auto whole = static_cast<std::time_t>(seconds);
  std::tm local{};
  ::localtime_r(&whole, &local);
  std::array<char, 40> out{};
  std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S", &local);
  return out.data();
}

}  // namespace

std::vector<Option> GjobUpdateOptions(wire::JobUpdate& update) {
  auto depend = [&update](std::string_view value) { return ReadDependencies(value, ",", update); };
  auto any = [&update](std::string_view value) { return ReadDependencies(value, "?", update); };
  auto script = [&update](std::string_view value) -> Status {
    DIVVY_TRY(update.script, CallerParseContext().read_file(std::string(value)));
    return {};
  };
  auto time = [&update](std::string_view value) -> Status {
    DIVVY_TRY(Duration limit, dialect::ParseDuration(value, std::chrono::minutes(1)));
    update.time_limit_s = ToSeconds(limit);
    return {};
  };
  auto command = [&update](std::string_view value) -> Status {
    if (Trim(value).empty()) return InvalidArgument("the command is empty");
    update.command = std::vector<std::string>{"sh", "-c", std::string(value)};
    return {};
  };
  auto priority = [&update](std::string_view value) -> Status {
    DIVVY_CHECK(Whole(update.priority, 0, 255)(value));
    *update.priority -= dialect::kGflowDefaultPriority;
    return {};
  };
  auto text = [](std::optional<std::string>& out) { return Keeps(out); };
  return {
      Option::Value("command", 'c', "TEXT", "The command", command),
      Option::Value("gpus", 'g', "N", "GPUs", Whole(update.gpus, 0, 1024)),
      Option::Value("priority", 'p', "0-255", "Priority; higher runs first", priority, {"nice"}),
      Option::Value("time", 't', "TIME", "Time limit: HH:MM:SS, MM:SS or minutes", time, {"time-limit", "timelimit"}),
      Option::Flag("clear-time-limit", "No time limit", Clear(update.time_limit_s, 0.0)),
      Option::Value("memory", 'm', "SIZE", "Host memory", Size(update.memory_bytes),
                    {"memory-limit", "max-mem", "max-memory"}),
      Option::Flag("clear-memory-limit", "Clear the host memory request", Clear(update.memory_bytes, 0)),
      Option::Value("gpu-memory", "SIZE", "Minimum memory of each GPU", Size(update.gpu_memory_bytes),
                    {"max-gpu-mem", "max-gpu-memory"}),
      Option::Flag("clear-gpu-memory-limit", "Clear the GPU memory request", Clear(update.gpu_memory_bytes, 0)),
      Option::Value("depends-on", 'd', "ID", "Wait for this job", depend, {"dependency"}),
      Option::Value("depends-on-all", "IDS", "Wait for all of these", depend),
      Option::Value("depends-on-any", "IDS", "Wait for one of these", any),
      Option::Value("max-concurrent", "N", "How many elements of an array may run at once",
                    Whole(update.array_at_once, 1, 1'000'000)),
      Option::Flag("clear-max-concurrent", "No such cap", Clear(update.array_at_once, 0)),
      Option::Value("max-retries", "N", "Restart the job up to N times if it fails", Whole(update.retries, 0, 1000)),
      Option::Flag("clear-max-retries", "No retries", Clear(update.retries, 0)),
      Option::Value("name", 'n', "NAME", "Job name", text(update.name)),
      Option::Value("project", 'P', "CODE", "The project", text(update.project)),
      Option::Value("script", 's', "FILE", "Script; its # GFLOW lines are ignored", script),
      Option::Value("param", "NAME=VALUE", "", Refuse("a parameter")).Hidden(),
      Option::Value("conda-env", 'e', "NAME", "", Refuse("the conda environment")).Hidden(),
      Option::Flag("clear-conda-env", "", Refuse("the conda environment")).Hidden(),
      Option::Flag("auto-cancel-on-dep-failure", "Cancel the job if a dependency fails",
                   Clear(update.keeps_waiting, false)),
      Option::Flag("no-auto-cancel-on-dep-failure", "Keep the job queued if a dependency fails",
                   Clear(update.keeps_waiting, true)),
  };
}

std::string RenderGjobShow(const wire::JobDetail& job, double now) {
  std::string out = "Job " + job.display_id + "\n";
  auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out += "  " + std::string(name) + ":";
    out.append(name.size() < 14 ? 14 - name.size() : 1, ' ');
    out += value + "\n";
  };
  std::string gpus;
  for (std::int64_t gpu : job.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  GflowState state = GflowStateOf(job.state);
  add("Name", job.name);
  add("User", job.user);
  add("Project", job.project);
  add("State", std::string(state.word) + " (" + std::string(state.code) + ")");
  add("Reason", job.reason);
  add("Priority", std::to_string(dialect::GflowPriority(static_cast<int>(job.priority))));
  add("Command", job.command);
  add("WorkingDir", job.directory);
  add("Log", job.output);
  add("GPUs", std::to_string(job.request.gpus));
  add("GPUIDs", gpus);
  if (job.request.gpu_memory_bytes > 0) add("GPUMemory", dialect::FormatSize(Bytes(job.request.gpu_memory_bytes)));
  if (job.request.memory_bytes > 0) add("Memory", dialect::FormatSize(Bytes(job.request.memory_bytes)));
  add("TimeLimit", job.request.time_limit_s > 0 ? LongClock(job.request.time_limit_s) : "UNLIMITED");
  add("Dependencies", Join(job.dependencies, ", "));
  add("Group", job.group);
  if (job.retries_left > 0) add("MaxRetries", std::to_string(job.retries_left));
  for (const auto& [name, value] : job.parameters) add("Parameter", name + "=" + value);
  add("Submitted", Moment(job.submit_time));
  if (job.start_time) add("Started", Moment(*job.start_time));
  if (job.end_time) add("Finished", Moment(*job.end_time));
  if (job.start_time) add("Elapsed", LongClock(job.end_time.value_or(now) - *job.start_time));
  if (job.exit_code) add("ExitCode", std::to_string(*job.exit_code));
  if (job.pid > 0) add("PID", std::to_string(job.pid));
  return out;
}

Result<JobSpec> SpecToRedo(const wire::JobDetail& old, const wire::JobUpdate& changes) {
  if (old.is_foreground) {
    return FailedPrecondition("job " + old.display_id +
                              " ran on its caller's terminal, which is gone; write: divvy run " + old.command);
  }
  if (old.array_id || old.count > 1) {
    return FailedPrecondition("job " + old.display_id + " belongs to an array; write: divvy requeue " + old.display_id);
  }
  JobSpec spec;
  spec.dialect = Dialect::kGflow;
  const std::string script = changes.script.value_or(old.script);
  if (!script.empty() && !changes.command) spec.script = script;
  else spec.command = changes.command.value_or(std::vector<std::string>{"sh", "-c", old.command});
  spec.name = changes.name.value_or(old.name);
  spec.project = changes.project.value_or(old.project);
  spec.team = old.team;
  spec.comment = old.comment;
  spec.keeps_waiting = changes.keeps_waiting.value_or(false);
  spec.group = old.group;
  spec.directory = old.directory;
  spec.priority = static_cast<int>(changes.priority.value_or(old.priority));
  spec.request.gpus = static_cast<int>(changes.gpus.value_or(old.request.gpus));
  if (!changes.gpus) spec.request.max_gpus = static_cast<int>(old.request.max_gpus);
  if (!old.request.topology.empty()) static_cast<void>(dialect::ParseTopology(old.request.topology, spec.request));
  spec.request.gpu_type = old.request.gpu_type;
  spec.request.gpu_memory = Bytes(changes.gpu_memory_bytes.value_or(old.request.gpu_memory_bytes));
  spec.request.cpus = static_cast<int>(old.request.cpus);
  spec.request.memory = Bytes(changes.memory_bytes.value_or(old.request.memory_bytes));
  spec.request.tasks = static_cast<int>(old.request.tasks);
  spec.time_limit = Duration(static_cast<std::int64_t>(changes.time_limit_s.value_or(old.request.time_limit_s) * 1e9));
  spec.retries = static_cast<int>(changes.retries.value_or(old.retries_left));
  spec.labels = old.labels;
  spec.labels["gflow.redone-from"] = old.display_id;
  return spec;
}

std::vector<std::string> ReplaceDependency(const std::vector<std::string>& dependencies, const std::string& old_id,
                                           const std::string& new_id) {
  std::vector<std::string> out = dependencies;
  for (std::string& dependency : out) {
    auto colon = dependency.find(':');
    if (colon != std::string::npos && dependency.substr(colon + 1) == old_id)
      dependency = dependency.substr(0, colon + 1) + new_id;
  }
  return out;
}

}  // namespace divvy::cli
