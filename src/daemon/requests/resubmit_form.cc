#include "daemon/requests/resubmit_form.h"

#include <algorithm>
#include <utility>

#include "dialect/options/portion_options.h"
#include "dialect/options/spec_to_options.h"
#include "dialect/options/task_options.h"

namespace divvy {
namespace {

/// The page's name for a script that it has as text.
constexpr std::string_view kScript = "script.sh";

/// Applies changes that are stored only in the job's record.
void TakeChanges(const JobRecord& record, JobSpec& spec) {
  spec.name = record.name;
  spec.request = record.request;
  spec.priority = record.priority;
  spec.time_limit = record.full_limit >= Duration(0) ? record.full_limit : record.time_limit;
  spec.end_by = record.end_by;
  spec.project = record.project;
  spec.team = record.team;
  spec.comment = record.comment;
  spec.group = record.group;
  spec.dependencies = record.dependencies;
  spec.needs_any_dependency = record.needs_any_dependency;
  spec.keeps_waiting = record.keeps_waiting;
  spec.retries = record.retries;
  spec.retry_delay = record.retry_delay;
  spec.placement = record.placement;
  spec.is_placement_set = record.is_placement_set;
  spec.preemptible = record.preemptible;
  spec.is_preemptible_set = record.is_preemptible_set;
  spec.requeues_after_reboot = record.requeues_after_reboot;
  spec.stale_grace = record.stale_grace;
  if (record.array_count > 0 && spec.array) spec.array->at_once = record.array_at_once;
}

/// Reduces the specification to one element of the array or sweep.
void TakeElement(const JobRecord& record, JobSpec& spec) {
  const auto element = dialect::ElementAt(spec, record.array_ordinal);
  if (spec.array) spec.array = ArraySpec{*IndexRanges::Parse(std::to_string(element.index), "--array"), 0};
  for (Parameter& one : spec.parameters) {
    const auto value = element.parameters.find(one.name);
    if (value != element.parameters.end()) one.values = {value->second};
    one.row_group = -1;
  }
}

}  // namespace

wire::AgainView AskedAgain(const JobRecord& record, const JobSpec& spec, Duration default_grace, Time now) {
  wire::AgainView view{spec, {}};
  JobSpec& again = view.spec;
  TakeChanges(record, again);
  if (record.array.is_set()) TakeElement(record, again);
  again.notes.clear();
  if (again.grace == default_grace) again.grace = JobSpec().grace;
  if (again.begin != kNoTime && again.begin <= now) {
    view.left_out.emplace_back("--begin: the time has passed");
    again.begin = kNoTime;
  }
  if (again.end_by != kNoTime && again.end_by <= now) {
    view.left_out.emplace_back("--deadline: the time has passed");
    again.end_by = kNoTime;
  }
  if (std::exchange(again.is_foreground, false)) {
    view.left_out.emplace_back("its caller's terminal: this one prints to a log");
    again.wants_pty = false;
  }
  return view;
}

wire::WordsAnswer SaidInWords(JobSpec spec, const dialect::ParseContext& around) {
  wire::WordsAnswer answer;
  // A job submitted here without a directory runs in its user's home; divvy submit uses the current directory.
  if (spec.directory.empty()) spec.directory = around.home;
  JobSpec own;
  if (!spec.script.empty() && !dialect::ReadScript(spec.script, kScript, around, own)) own = JobSpec();
  const std::vector<dialect::SpecWord> beyond = dialect::WordsOf(spec, own);
  for (const dialect::SpecWord& word : dialect::WordsOf(spec, JobSpec())) {
    const bool is_of_script = std::ranges::find(beyond, word.text, &dialect::SpecWord::text) == beyond.end();
    answer.words.push_back({word.text, word.members, word.is_option, is_of_script});
  }
  if (auto line = dialect::CommandLineOf(spec, kScript, around)) answer.line = *std::move(line);
  else answer.refusal = line.error().message;
  return answer;
}

wire::ScriptAnswer ReadScriptLines(const wire::ScriptQuestion& question, dialect::ParseContext around) {
  if (!question.directory.empty()) around.directory = question.directory;
  wire::ScriptAnswer answer;
  if (const Status read = dialect::ReadScript(question.text, kScript, around, answer.spec); !read) {
    answer.spec = JobSpec();
    answer.refusal = read.error().message;
    return answer;
  }
  dialect::CompleteTasks(answer.spec);
  dialect::CompletePortion(answer.spec);
  if (answer.spec.name == kScript) answer.spec.name.clear();
  return answer;
}

}  // namespace divvy
