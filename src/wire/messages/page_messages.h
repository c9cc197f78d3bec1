// Messages of the web page that the command line does not use: a job's environment, the result of a valohai.yaml, and
// GPU usage by user or team over time. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy::wire {

/// A variable that a job adds to its environment. docs/environment.md lists those that divvy adds at the start.
struct VariableView {
  std::string name;
  std::string value;
  bool is_asked = false;  // Set explicitly (--env, or by a dialect). False: captured at submission.
};
struct EnvironmentView {
  std::vector<VariableView> variables;  // Sorted by name.
};

/// An element of an array or a sweep, whether or not it has started.
struct ElementView {
  JobId id;
  std::map<std::string, std::string> parameters;  // The values that the sweep gives it.
  std::map<std::string, double> metrics;          // The last value of each number that it reported ("loss").
};
/// GET /v1/jobs/ID/elements.
struct ElementsView {
  std::vector<ElementView> elements;  // Sorted by ordinal.
  bool is_cut = false;                // The array has more elements than `limit`.
};

/// GET /v1/starts: the predicted starts of waiting jobs, in queue order.
struct StartView {
  JobId id;
  std::optional<double> start;  // Seconds since 1970. Absent: no prediction is possible.
  std::string basis;            // The basis of the prediction, or why there is none.
};
struct StartsAnswer {
  double time = 0;
  bool is_complete = true;  // All waiting jobs are included. False: the daemon still computes; the next request gets
                            // more.
  std::vector<StartView> starts;
};

/// A line of a job's history.
struct TimelineLine {
  double time = 0;
  std::string text;  // "queued again: ..."
};
/// GET /v1/jobs/ID.
struct JobInFull : JobDetail {
  std::vector<TimelineLine> timeline;  // `history` with a time instead of text for it.
  std::string all_indices;             // For an array: the indices of all its elements, "0-99".
};

/// A row of divvy queue --json.
struct ListedJob : JobView {
  double wasted_gpus = 0;  // WastefulJob::wasted_gpus. 0: it wastes none.
};

/// The answer of POST /v1/jobs for a dry run.
struct ForecastAnswer : SubmitAnswer {
  std::vector<AllocationView> allocations;  // `nodes` with the GPUs that the job would get there.
};

/// GET /v1/history: an event of a job, or of a node and its GPUs.
struct HistoryEvent {
  double time = 0;
  std::optional<JobId> id;  // Set for events of a job.
  std::string text;         // "queued again: ...", "GPU 3 is fenced and takes no new jobs: ..."
};

/// POST /v1/valohai: parses a text. With `step`, also converts that step.
struct ValohaiQuestion {
  std::string text;       // The text of valohai.yaml.
  std::string directory;  // The project's directory on the node where the step will run. Empty: the caller's home.
  std::string step;       // Empty: only parse the text.
  std::string title;
  std::map<std::string, std::vector<std::string>> parameters;  // An empty list leaves the parameter out.
  std::map<std::string, std::vector<std::string>> inputs;      // An empty list leaves the input out.
  std::map<std::string, std::string> variables;                // VH_GPUS and the like.
};

struct ValohaiProblemView {
  std::int64_t line = 0;  // From 1.
  bool is_warning = false;
  std::string text;
};
struct ValohaiParameterView {
  std::string name;
  std::string type;  // "string" | "integer" | "float" | "flag"
  std::optional<std::vector<std::string>> defaults;
  bool is_optional = false;
  bool is_multiple = false;
  std::optional<double> min;
  std::optional<double> max;
  std::vector<std::string> choices;
  std::string description;
};
struct ValohaiInputView {
  std::string name;
  std::vector<std::string> defaults;
  bool is_optional = false;
  std::string description;
};
struct ValohaiVariableView {
  std::string name;
  std::optional<std::string> value;
  bool is_optional = true;
};
struct ValohaiStepView {
  std::string name;
  std::string image;
  std::string description;
  std::string environment;
  double time_limit_s = 0;  // 0: none.
  std::vector<std::string> commands;
  std::vector<ValohaiParameterView> parameters;
  std::vector<ValohaiInputView> inputs;
  std::vector<ValohaiVariableView> variables;
};
/// A Valohai task: it runs a step many times with different parameter values (divvy vh task run NAME).
struct ValohaiTaskView {
  std::string name;
  std::string step;
  std::string type;                     // "grid_search", "random_search", ...
  std::vector<std::string> parameters;  // The parameters that it varies.
};
struct ValohaiAnswer {
  std::vector<ValohaiProblemView> problems;  // In line order. If one of them is an error, there are no steps.
  std::vector<ValohaiStepView> steps;
  std::vector<ValohaiTaskView> tasks;
  std::optional<JobSpec> spec;  // The step as a job spec, for POST /v1/jobs.
  std::string refusal;          // Why the step cannot be converted, such as a value that its parameter does not accept.
};

/// GPUs that one user or team held.
struct SharesRow {
  std::string group;         // A user or a team. Empty: jobs without a team.
  double gpu_hours = 0;      // GPU-hours in the period, as in the usage report.
  std::vector<double> gpus;  // Mean number of GPUs held in each step. A GPU fraction counts as that fraction.
  // For teams: the mean fair share, quota and limit that applied in each step. Null: unknown, or there was none. The
  // list is empty if nothing is known about the period.
  std::vector<std::optional<double>> share;
  std::vector<std::optional<double>> quota;
  std::vector<std::optional<double>> limit;
};
struct SharesReport {
  double since = 0;
  double until = 0;
  std::string by;
  double step_s = 0;            // Step length in seconds. The last step may be shorter.
  bool is_cut = false;          // Only the newest runs were read, because there are too many.
  std::vector<SharesRow> rows;  // Most GPU-hours first.
};

}  // namespace divvy::wire
