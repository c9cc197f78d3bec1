// valohai.yaml: the contents of a project, and the jobs that its steps become. Schema and interpolation follow the
// public schema of valohai-yaml; docs/valohai.md says which parts are supported.
//
// Nothing here reads a file or a clock: the text, the caller's context and the ids are arguments. Setup for the
// commands (configuration files, inputs) becomes a prologue of the job's script. So it runs on the job's node when the
// job starts, and again after a requeue.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "model/job.h"

namespace divvy::dialect {

enum class ValohaiType { kString, kInteger, kFloat, kFlag };
/// How to pass several values of a parameter: not possible, joined by the separator, or the template once per value.
enum class ValohaiMultiple { kNone, kSeparate, kRepeat };

struct ValohaiParameter {
  int line = 0;  // In the file, from 1; the same in every struct below.
  std::string name;
  ValohaiType type = ValohaiType::kString;
  std::optional<std::vector<std::string>> defaults;  // One value unless it is multiple.
  bool is_optional = false;
  std::optional<double> min, max;
  std::vector<std::string> choices;
  std::string description;
  ValohaiMultiple multiple = ValohaiMultiple::kNone;
  std::string separator = ",";
  std::string pass_as;                      // Empty: "--{name}={value}", or "--{name}" for a flag.
  std::optional<std::string> pass_true_as;  // Flags only.
  std::optional<std::string> pass_false_as;
};

struct ValohaiInput {
  int line = 0;
  std::string name;
  std::vector<std::string> defaults;  // Urls or paths.
  bool is_optional = false;
  std::string description;
  std::string keep_directories = "none";  // "none" | "full" | "suffix"
  std::string filename;
  bool is_on_demand = false;
};

struct ValohaiVariable {
  int line = 0;
  std::string name;
  std::optional<std::string> value;
  bool is_optional = true;
};

struct ValohaiStep {
  int line = 0;
  std::string name, image, description, environment, source_path, upload_store, stop_condition, preset;
  std::vector<std::string> commands;
  std::vector<ValohaiVariable> variables;
  std::vector<std::string> variable_groups, outputs, mounts, cache_volumes;
  std::vector<ValohaiParameter> parameters;
  std::vector<ValohaiInput> inputs;
  Duration time_limit{0};  // 0: none.
  Duration no_output_timeout{0};
  std::optional<double> cpus_min, cpus_max, memory_mb_min, memory_mb_max;
  std::map<std::string, int> devices;  // "nvidia.com/gpu" -> count.
};

/// One parameter of a task with all its values, independent of the style.
struct ValohaiTaskParameter {
  int line = 0;
  std::string name;
  std::vector<std::string> values;  // Empty for the random style.
  bool is_random = false;
  double min = 0, max = 0;
  int count = 0;
  std::string distribution = "uniform";  // "uniform" | "integer" | "log-uniform"
  std::optional<std::int64_t> seed;
  bool is_integer = false;
};

struct ValohaiTask {
  int line = 0;
  std::string name, step, type = "grid_search";
  std::vector<ValohaiTaskParameter> parameters;
  std::vector<std::map<std::string, std::string>> parameter_sets;
  int execution_count = 0, batch_size = 0, queued_at_most = 0;
  std::string on_child_error, stop_condition, target_metric;
};

struct ValohaiNode {
  int line = 0;
  std::string name, type, step, task, on_error;
};
struct ValohaiEdge {
  int line = 0;
  std::string source, target;  // "node.kind.key"
};
struct ValohaiPipeline {
  int line = 0;
  std::string name;
  std::vector<ValohaiNode> nodes;
  std::vector<ValohaiEdge> edges;
};

struct ValohaiEndpoint {
  int line = 0;
  std::string name, image, server_command, wsgi;
  int port = 8000;
};

struct ValohaiProject {
  std::string path;  // As the caller wrote it; every message begins with it.
  std::vector<ValohaiStep> steps;
  std::vector<ValohaiTask> tasks;
  std::vector<ValohaiPipeline> pipelines;
  std::vector<ValohaiEndpoint> endpoints;
};

/// `text` names the object and the mistake: "step 'train': unknown key 'imge'; did you mean 'image'?".
struct ValohaiProblem {
  int line = 0;
  bool is_warning = false;
  std::string text;
};
/// The largest number of problems that are reported for one file. The limit bounds the cost of a bad file: each unknown
/// key is compared with all known ones.
inline constexpr std::size_t kMostProblems = 100;

/// "valohai.yaml:12: step 'train': ...".
std::string FormatProblem(std::string_view path, const ValohaiProblem& problem);

struct ValohaiReading {
  ValohaiProject project;
  std::vector<ValohaiProblem> problems;  // In line order. If none is an error, the project is complete.
};
/// Parses the text and collects all problems, for `vh lint`. Refuses texts above 1 MiB.
ValohaiReading ReadValohaiYaml(std::string_view text, std::string_view path);
/// Parses the text. Returns the project, or the first error in it.
Result<ValohaiProject> ParseValohaiYaml(std::string_view text, std::string_view path);
/// Parses a file of parameters (JSON or YAML): a map of names to a value or a list of values.
Result<std::map<std::string, std::vector<std::string>>> ParseValohaiValues(std::string_view text,
                                                                           std::string_view path);

/// The part of ReadValohaiYaml that needs no YAML: finds duplicates, defaults outside choices, and dangling references.
void CheckValohaiProject(const ValohaiProject& project, std::vector<ValohaiProblem>& problems);
/// "90", "1h 30m 5s", "2 hours": a number without a unit counts seconds; only the first letter of a unit matters (s m h
/// d w).
Result<Duration> ParseValohaiDuration(std::string_view text);
/// Refuses a value that violates the parameter's type, choices or bounds. The message names the parameter.
Status CheckValohaiValue(const ValohaiParameter& parameter, std::string_view value);

struct ExecutionRequest {
  std::vector<std::pair<std::string, std::string>> variables;  // --var and bare NAME=VALUE; the last one wins.
  std::map<std::string, std::vector<std::string>> parameters;  // An empty list leaves the parameter out.
  std::map<std::string, std::vector<std::string>> inputs;      // An empty list leaves the input out.
  std::string title, image, environment, project;
  std::vector<std::string> tags;
  int priority = 0;
  bool restarts = false;     // --autorestart
  std::string repository;    // Directory of the code. Empty: the caller's.
  std::string root;          // Directory for config, inputs and outputs. Empty: below the caller's home.
  std::string execution_id;  // A UUID. Empty: derived from `around.now`.
  std::string task_id;       // The task that this execution belongs to.
  int default_gpus = 1;      // Used without VH_GPUS: 1 on a machine with GPUs.
  /// For the sweep of a task: the parameters whose values differ between its executions. VariedMark takes the place of
  /// each value. `root` and `execution_id` are then those of the task. The job's script derives the execution's own
  /// from its number: root/N, and the UUID with N + 1 in its last group.
  std::set<std::string> varied;
};

/// Returns the text that takes the place of a value that differs between executions. The shell needs no quotes for it.
std::string VariedMark(std::string_view name);

/// Finds a step by its exact name, else by a unique prefix or a unique part of its name.
Result<const ValohaiStep*> FindValohaiStep(const ValohaiProject& project, std::string_view name);
Result<const ValohaiTask*> FindValohaiTask(const ValohaiProject& project, std::string_view name);

/// Returns the job that runs `step` as `request` says. The result lacks the caller's environment, limits and directory,
/// which cli::CaptureInto adds.
Result<JobSpec> MakeExecution(const ValohaiProject& project, std::string_view step, const ExecutionRequest& request,
                              const ParseContext& around);
/// One job per execution of the task, at most 10,000, each with its own id and directory (request.root/0, /1, ...).
/// They share a group, whose limit is the task's batch size. Random draws depend only on the task's seed.
Result<std::vector<JobSpec>> MakeTask(const ValohaiProject& project, std::string_view task,
                                      const ExecutionRequest& request, const ParseContext& around);

/// Turns the executions of MakeTask into one job array, which is a sweep (sweep/sweep_rule.h). It compares the task's
/// optimization-target-metric. The maximum number of executions at once is the task's batch size. Fails if the
/// executions differ in a way that an array cannot express, such as in a flag; the error names it. They then run as
/// separate jobs.
Result<JobSpec> MakeTaskSweep(const ValohaiProject& project, std::string_view task, const ExecutionRequest& request,
                              const ParseContext& around);

/// Returns the UUID of a task's execution: that of the task, with `index` + 1 as its last group.
std::string ExecutionOfTask(const std::string& task_id, std::size_t index);

/// Fills {parameters}, {parameter:NAME}, {parameter-value:NAME} and {source-path} in the command; other braces stay.
/// `values` has the parameters with a value.
std::string FillValohaiCommand(std::string_view command, const ValohaiStep& step,
                               const std::map<std::string, std::vector<std::string>>& values);

/// The output of `divvy explain valohai.yaml`.
ScriptExplanation ExplainValohai(std::string_view text, std::string_view path);

}  // namespace divvy::dialect
