// What the page shows beside what the command line does: a job's environment, what a valohai.yaml becomes, and who held
// how many GPUs over time. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy::wire {

/// A variable that a job brings to its environment; what divvy adds when it starts is told by docs/environment.md.
struct VariableView {
  std::string name;
  std::string value;
  bool is_asked = false;  // By the job itself (--env, a dialect's); else it was there where it was submitted.
};
struct EnvironmentView {
  std::vector<VariableView> variables;  // By name.
};

/// An element of an array or a sweep, whether or not it has started.
struct ElementView {
  JobId id;
  std::map<std::string, std::string> parameters;  // The values that the sweep gives it.
  std::map<std::string, double> metrics;          // The last value of each number that it reported ("loss").
};
/// GET /v1/jobs/ID/elements.
struct ElementsView {
  std::vector<ElementView> elements;  // By ordinal.
  bool is_cut = false;                // The array has more elements than `limit`.
};

/// GET /v1/starts: when jobs that wait should start, in the order of the queue.
struct StartView {
  JobId id;
  std::optional<double> start;  // Seconds since 1970; none: no time can be given.
  std::string basis;            // What it rests on, or why there is none.
};
struct StartsAnswer {
  double time = 0;
  bool is_complete = true;  // Of all that wait; else the daemon is at it, and who asks again gets more.
  std::vector<StartView> starts;
};

/// A line of a job's history.
struct TimelineLine {
  double time = 0;
  std::string text;  // "queued again: ..."
};
/// GET /v1/jobs/ID.
struct JobInFull : JobDetail {
  std::vector<TimelineLine> timeline;  // `history` with moments in place of words for them.
  std::string all_indices;             // Of an array: those of all its elements, "0-99".
};

/// Of divvy queue --json.
struct ListedJob : JobView {
  double wasted_gpus = 0;  // As WastefulJob has it; 0: it wastes none.
};

/// POST /v1/jobs of a test.
struct ForecastAnswer : SubmitAnswer {
  std::vector<SeatView> seats;  // `nodes` with the GPUs that it would get there.
};

/// GET /v1/history: what happened to a job, or to a machine and its GPUs.
struct HistoryEvent {
  double time = 0;
  std::optional<JobId> id;  // Of a job.
  std::string text;         // "queued again: ...", "GPU 3 is fenced and takes no jobs: ..."
};

/// POST /v1/valohai: a text to read; with a step, what that becomes.
struct ValohaiQuestion {
  std::string text;       // Of valohai.yaml.
  std::string directory;  // Of the project, on the machine where the step will run; empty: the caller's home.
  std::string step;       // Empty: none yet.
  std::string title;
  std::map<std::string, std::vector<std::string>> parameters;  // An empty list leaves the parameter out.
  std::map<std::string, std::vector<std::string>> inputs;      // The same of an input.
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
/// A task: a step run many times, with other values each time (divvy vh task run NAME).
struct ValohaiTaskView {
  std::string name;
  std::string step;
  std::string type;                     // "grid_search", "random_search", ...
  std::vector<std::string> parameters;  // Those that it varies.
};
struct ValohaiAnswer {
  std::vector<ValohaiProblemView> problems;  // In order of lines. With an error among them there are no steps.
  std::vector<ValohaiStepView> steps;
  std::vector<ValohaiTaskView> tasks;
  std::optional<JobSpec> spec;  // What the step becomes, to be submitted by POST /v1/jobs.
  std::string refusal;          // Why it becomes nothing: a value that its parameter does not take.
};

/// Who held how many GPUs.
struct SharesRow {
  std::string group;         // A user or a team; empty: of no team.
  double gpu_hours = 0;      // In the stretch, as in the report of usage.
  std::vector<double> gpus;  // Held in each step, in the mean; a part of a GPU counts as the part.
  // Of a team, what it might hold in each step, in the mean, as it was then. Null: not known, or there was none. All
  // empty: nothing is known of the whole stretch.
  std::vector<std::optional<double>> share;
  std::vector<std::optional<double>> quota;
  std::vector<std::optional<double>> limit;
};
struct SharesReport {
  double since = 0;
  double until = 0;
  std::string by;
  double step_s = 0;            // The last may be shorter.
  bool is_cut = false;          // There are more runs than are read at once; the oldest are left out.
  std::vector<SharesRow> rows;  // Most GPU-hours first.
};

}  // namespace divvy::wire
