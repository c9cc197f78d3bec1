#include "dialect/options/spec_to_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "dialect/options/components.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/task_options.h"
#include "model/growth_wishes.h"
#include "model/job_record.h"
#include "model/notify.h"
#include "model/waste_rules.h"

namespace divvy::dialect {
namespace {

/// Labels that an option sets to its unchanged value.
struct LabelOption {
  std::string_view label;
  std::string_view option;
  bool is_flag = false;
};
constexpr std::array kLabelOptions = {
    LabelOption{"divvy.gpus-per-task", "--gpus-per-task"},
    LabelOption{"divvy.gpu-bind", "--gpu-bind"},
    LabelOption{"divvy.cpu-bind", "--cpu-bind"},
    LabelOption{"divvy.no-kill", "--no-kill", true},
    LabelOption{"divvy.label-output", "--label-output", true},
    LabelOption{"divvy.export", "--export"},
    LabelOption{kNotifyLabel, "--notify"},
    LabelOption{kNotifyToLabel, "--notify-to"},
    LabelOption{kOnWasteLabel, "--on-waste"},
    LabelOption{"divvy.image", "--image"},
    LabelOption{"divvy.mounts", "--mount"},
    LabelOption{"divvy.container-workdir", "--container-workdir"},
    LabelOption{"divvy.private-tmp", "--private-tmp"},
    LabelOption{"divvy.private-shm", "--private-shm"},
    LabelOption{kNoGrowLabel, "--no-grow", true},
    LabelOption{kProviderLabel, "--provider"},
    LabelOption{kMaxPriceLabel, "--max-price"},
};
// Labels that are not compared: they record the notation of an option that the request also expresses, or the place of
// submission.
constexpr std::array<std::string_view, 4> kWayLabels = {"divvy.tasks", "divvy.shared", "slurm.submit-dir",
                                                        "slurm.submit-host"};

std::string SizeText(Bytes size) {
  const std::int64_t bytes = size.count();
  constexpr std::string_view kUnits = "GMK";
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const std::int64_t unit = std::int64_t{1} << (30 - 10 * static_cast<int>(i));
    if (bytes % unit == 0) return std::to_string(bytes / unit) + kUnits[i];
  }
  return std::to_string(bytes) + "B";
}

/// "2h", "90m", "18s", "1.5s": exact.
std::string LengthText(Duration length) {
  using std::chrono::seconds;
  const std::int64_t whole = std::chrono::duration_cast<seconds>(length).count();
  const Duration rest = length - seconds(whole);
  if (rest != Duration(0)) {
    char fraction[16];
    std::snprintf(fraction, sizeof fraction, "%09lld", static_cast<long long>(rest.count()));
    std::string text = std::to_string(whole) + "." + fraction;
    text.erase(text.find_last_not_of('0') + 1);
    return text + "s";
  }
  if (whole != 0 && whole % 3600 == 0) return std::to_string(whole / 3600) + "h";
  if (whole != 0 && whole % 60 == 0) return std::to_string(whole / 60) + "m";
  return std::to_string(whole) + "s";
}

std::string MomentText(Time time) {
  const auto since = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch());
  const auto day = std::chrono::floor<std::chrono::days>(since);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const auto clock = (since - day).count();
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<int>(clock / 3600),
                static_cast<int>(clock / 60 % 60), static_cast<int>(clock % 60));
  return text;
}

/// Writes the options that change one job specification into another.
class Writer {
 public:
  Writer(const JobSpec& spec, const JobSpec& before) : spec_(spec), before_(before) {}

  void Say(std::string_view option, const std::string& value, std::vector<std::string> members) {
    words_.push_back({std::string(option) + " " + ShellQuote(value), std::move(members)});
  }
  void Flag(std::string_view option, std::vector<std::string> members) {
    words_.push_back({std::string(option), std::move(members)});
  }
  /// Adds an option if a field of the request differs.
  template <typename Member, typename Text>
  void Asked(std::string_view option, Member Request::*member, std::string_view name, Text text) {
    if (spec_.request.*member == before_.request.*member) return;
    Say(option, text(spec_.request.*member), {"request/" + std::string(name)});
  }
  template <typename Member, typename Text>
  void Own(std::string_view option, Member JobSpec::*member, std::string_view name, Text text) {
    if (spec_.*member == before_.*member) return;
    Say(option, text(spec_.*member), {std::string(name)});
  }
  void OwnText(std::string_view option, std::string JobSpec::*member, std::string_view name) {
    Own(option, member, name, [](const std::string& text) { return text; });
  }
  void OwnFlag(std::string_view option, bool JobSpec::*member, std::string_view name) {
    if (spec_.*member && !(before_.*member)) Flag(option, {std::string(name)});
  }

  void Resources();
  void Portions();
  void When();
  void Many();
  void Files();
  void Labels();
  void Components();
  std::vector<SpecWord> Take() { return std::move(words_); }

 private:
  const JobSpec& spec_;
  const JobSpec& before_;
  std::vector<SpecWord> words_;
};

const auto kNumber = [](int number) { return std::to_string(number); };
const auto kSame = [](const std::string& text) { return text; };
const auto kList = [](const std::vector<std::string>& names) { return Join(names, ","); };

bool NamesGpus(const std::vector<std::string>& variables) {
  return std::ranges::any_of(variables, [](const std::string& pair) { return pair.starts_with("VH_GPUS="); });
}

void Writer::Portions() {
  const GpuPortion& now = spec_.request.portion;
  const GpuPortion& then = before_.request.portion;
  if (now.limit != then.limit) Say("--gpu-limit", PartsText(now.limit), {"request/fraction/limit"});
  if (now.memory != then.memory && now.memory > Bytes()) {
    words_.push_back({"--shared --gpu-memory " + SizeText(now.memory), {"request/fraction/memory"}});
  }
  if (now.memory_limit != then.memory_limit)
    Say("--gpu-memory-limit", SizeText(now.memory_limit), {"request/fraction/memory_limit"});
  if (now.compute != then.compute || now.compute_limit != then.compute_limit) {
    const std::string most = now.compute_limit > now.compute ? ":" + PartsText(now.compute_limit) : "";
    Say("--compute", PartsText(now.compute) + most, {"request/fraction/compute", "request/fraction/compute_limit"});
  }
  if (now.idle_park != then.idle_park) Say("--idle-park", LengthText(now.idle_park), {"request/fraction/idle_park"});
  if (now.uses_mps && !then.uses_mps) Flag("--mps", {"request/fraction/uses_mps"});
  Asked("--slice", &Request::slice, "slice", kSame);
}

void Writer::Resources() {
  const Request& now = spec_.request;
  const Request& then = before_.request;
  const bool differs =
      now.gpus != then.gpus || now.gpus_at_most() != then.gpus_at_most() || now.portion.request != then.portion.request;
  // A slice implies one GPU, and tasks without fixed nodes imply their GPUs: neither needs --gpus.
  const bool is_clear = (!now.slice.empty() && now.gpus == 1 && then.gpus == 0) || now.spreads_tasks;
  if ((differs && !is_clear) || NamesGpus(spec_.extra_environment))
    Say("--gpus", GpuCountText(now), {"request/gpus", "request/max_gpus", "request/fraction/request"});
  Portions();
  Asked("--gpu-type", &Request::gpu_type, "gpu_type", kSame);
  if (now.gpu_memory != then.gpu_memory && now.gpu_memory > Bytes())
    Say("--gpu-memory", SizeText(now.gpu_memory), {"request/gpu_memory"});
  Asked("--cpus", &Request::cpus, "cpus", kNumber);
  Asked("--memory", &Request::memory, "memory", SizeText);
  Own("--time", &JobSpec::time_limit, "time_limit",
      [](Duration limit) { return limit == Duration(0) ? std::string("none") : LengthText(limit); });
  Asked("--nodes", &Request::nodes, "nodes", kNumber);
  // Already expressed by --nodes, or by tasks with their own GPUs.
  if (now.tasks != (now.nodes != then.nodes ? std::max(now.nodes, then.tasks) : then.tasks))
    Say("--tasks", std::to_string(now.tasks), {"request/tasks", "request/spreads_tasks", "labels/divvy.tasks"});
  if (now.topology != then.topology || now.requires_topology != then.requires_topology) {
    const std::string way = TopologyText(now);
    Say("--topology", way.empty() ? "any" : way, {"request/topology", "request/requires_topology"});
  }
  if (spec_.is_placement_set && (!before_.is_placement_set || spec_.placement != before_.placement))
    Say("--placement", std::string(Name(spec_.placement)), {"placement", "is_placement_set"});
  Asked("--constraint", &Request::constraint, "constraint", kSame);
  Asked("--nodelist", &Request::node_list, "node_list", kList);
  Asked("--exclude", &Request::excluded_nodes, "excluded_nodes", kList);
  OwnFlag("--queue-anyway", &JobSpec::queues_anyway, "queues_anyway");
}

void Writer::When() {
  if (spec_.begin != before_.begin) Say("--begin", MomentText(spec_.begin), {"begin"});
  if (spec_.end_by != before_.end_by) Say("--deadline", MomentText(spec_.end_by), {"end_by"});
  if (spec_.dependencies != before_.dependencies || spec_.needs_any_dependency != before_.needs_any_dependency) {
    std::string list;
    for (const Dependency& one : spec_.dependencies)
      list += (list.empty() ? "" : spec_.needs_any_dependency ? "?" : ",") + FormatDependency(one);
    Say("--dependency", list, {"dependencies", "needs_any_dependency"});
  }
  OwnFlag("--keep-waiting", &JobSpec::keeps_waiting, "keeps_waiting");
  Own("--priority", &JobSpec::priority, "priority", kNumber);
}

void Writer::Many() {
  if (spec_.array && spec_.array != before_.array) {
    const int most = spec_.array->at_once;
    Say("--array", spec_.array->indices.ToString() + (most > 0 ? "%" + std::to_string(most) : ""), {"array"});
  }
  for (const Parameter& one : spec_.parameters) {
    if (std::ranges::find(before_.parameters, one) == before_.parameters.end())
      Say("--param", one.name + "=" + Join(one.values, ","), {"parameters"});
  }
  OwnText("--name-template", &JobSpec::name_template, "name_template");
  Own("--retries", &JobSpec::retries, "retries", kNumber);
  Own("--retry-delay", &JobSpec::retry_delay, "retry_delay", LengthText);
  OwnText("--group", &JobSpec::group, "group");
  Own("--group-limit", &JobSpec::group_limit, "group_limit", kNumber);
  if (spec_.is_preemptible_set && (!before_.is_preemptible_set || spec_.preemptible != before_.preemptible))
    Say("--preemptible", std::string(Name(spec_.preemptible)), {"preemptible", "is_preemptible_set"});
  Own("--stale-grace", &JobSpec::stale_grace, "stale_grace",
      [](Duration grace) { return grace < Duration(0) ? std::string("never") : LengthText(grace); });
  OwnFlag("--requeue-after-reboot", &JobSpec::requeues_after_reboot, "requeues_after_reboot");
}

void Writer::Files() {
  OwnText("--output", &JobSpec::output, "output");
  OwnText("--error", &JobSpec::error, "error");
  OwnText("--input", &JobSpec::input, "input");
  if (spec_.appends_output != before_.appends_output)
    Say("--open-mode", spec_.appends_output ? "append" : "truncate", {"appends_output"});
  OwnFlag("--pty", &JobSpec::wants_pty, "wants_pty");
  if (spec_.warn != before_.warn) {
    Say("--signal",
        (spec_.warn.batch_only ? "B:" : "") + SignalName(spec_.warn.signal) + "@" + LengthText(spec_.warn.before),
        {"warn"});
  }
  Own("--stop-signal", &JobSpec::stop_signal, "stop_signal", SignalName);
  Own("--resize-signal", &JobSpec::resize_signal, "resize_signal",
      [](int signal) { return signal == 0 ? std::string("none") : SignalName(signal); });
  if (spec_.grace != before_.grace) Say("--grace", LengthText(spec_.grace), {"grace"});
}

void Writer::Labels() {
  if (spec_.name != spec_.name_template) OwnText("--name", &JobSpec::name, "name");
  OwnText("--chdir", &JobSpec::directory, "directory");
  OwnText("--pool", &JobSpec::pool, "pool");
  OwnText("--team", &JobSpec::team, "team");
  OwnText("--project", &JobSpec::project, "project");
  OwnText("--comment", &JobSpec::comment, "comment");
  OwnText("--account", &JobSpec::account, "account");
  for (const auto& [name, value] : spec_.labels) {
    const auto then = before_.labels.find(name);
    if (then != before_.labels.end() && then->second == value) continue;
    if (std::ranges::find(kWayLabels, name) != kWayLabels.end()) continue;
    const auto known = std::ranges::find(kLabelOptions, name, &LabelOption::label);
    if (known == kLabelOptions.end()) words_.push_back({"label " + name + "=" + value, {"labels/" + name}, false});
    else if (known->is_flag) Flag(known->option, {"labels/" + name});
    else Say(known->option, value.empty() && name == "divvy.export" ? "ALL" : value, {"labels/" + name});
  }
  if (spec_.dialect != before_.dialect)
    words_.push_back({"the environment variables of " + std::string(Name(spec_.dialect)), {"dialect"}, false});
  if (spec_.is_run_once && !before_.is_run_once) words_.push_back({"no requeue", {"is_run_once"}, false});
  for (const std::string& pair : spec_.extra_environment) {
    if (std::ranges::find(before_.extra_environment, pair) == before_.extra_environment.end())
      Say("--env", pair, {"extra_environment"});
  }
  OwnFlag("--hold", &JobSpec::is_held, "is_held");
}

// Each component is expressed relative to an empty one, so this works only if no script sets them.
void Writer::Components() {
  if (spec_.request.others == before_.request.others) return;
  std::string text;
  for (std::size_t number = 1; number <= spec_.request.others.size(); ++number) {
    JobSpec component = SpecOfComponent(spec_, number);
    JobSpec nothing;
    component.time_limit = nothing.time_limit;
    Writer writer(component, nothing);
    writer.Resources();
    writer.OwnText("--pool", &JobSpec::pool, "pool");
    for (const LabelOption& known : kLabelOptions) {
      const auto at = component.labels.find(std::string(known.label));
      if (at == component.labels.end()) continue;
      if (known.is_flag) writer.Flag(known.option, {});
      else writer.Say(known.option, at->second, {});
    }
    text += text.empty() ? ":" : " :";
    for (const SpecWord& word : writer.Take()) text += " " + word.text;
  }
  words_.push_back({text, {"request/others"}});
}

/// Removes from the spec what is not compared: data that does not belong to it, and alternative ways to write the same
/// options.
JobSpec Plain(JobSpec spec) {
  const auto second = [](Time time) { return time == kNoTime ? time : std::chrono::floor<std::chrono::seconds>(time); };
  CompleteTasks(spec);
  CompletePortion(spec);
  const auto forget = [](std::map<std::string, std::string>& labels) {
    for (const std::string_view label : kWayLabels) labels.erase(std::string(label));
  };
  forget(spec.labels);
  for (Component& one : spec.request.others) forget(one.labels);
  spec.request.max_gpus = spec.request.is_elastic() ? spec.request.max_gpus : 0;
  spec.begin = second(spec.begin);
  spec.end_by = second(spec.end_by);
  spec.capture = Capture();
  spec.notes.clear();
  std::ranges::sort(spec.extra_environment);
  if (spec.name == spec.name_template) spec.name.clear();
  if (!spec.is_placement_set) spec.placement = JobSpec().placement;
  if (!spec.is_preemptible_set) spec.preemptible = JobSpec().preemptible;
  return spec;
}

/// Parses the words as divvy submit does.
Result<JobSpec> ReadAgain(const std::vector<SpecWord>& words, JobSpec before, const ParseContext& around) {
  std::vector<std::string> split;
  for (const SpecWord& word : words) {
    auto pieces = word.is_option ? ShellSplit(word.text) : std::vector<std::string>();
    if (!pieces) return InvalidArgument("unclosed quote in " + word.text);
    split.insert(split.end(), pieces->begin(), pieces->end());
  }
  split.emplace_back("--");
  const auto finish = [](JobSpec& component) -> Status {
    CompleteTasks(component);
    CompletePortion(component);
    return {};
  };
  DIVVY_TRY(const Parsed parsed, ReadComponents(
                                     JobOptions(before, around), split, ParseRules{true, true, false}, before,
                                     [&](JobSpec& one) { return JobOptions(one, around); }, finish));
  static_cast<void>(parsed);
  return before;
}

}  // namespace

std::vector<SpecWord> WordsOf(const JobSpec& spec, const JobSpec& before) {
  Writer writer(spec, before);
  writer.Resources();
  writer.When();
  writer.Many();
  writer.Files();
  writer.Labels();
  writer.Components();
  return writer.Take();
}

Result<std::string> CommandLineOf(const JobSpec& spec, std::string_view script, const ParseContext& around) {
  JobSpec before;
  if (!spec.script.empty()) {
    DIVVY_CHECK(ReadScript(spec.script, script, around, before));
    // Without another name, the job is named after the file.
    if (spec.name.empty()) before.name.clear();
  }
  const std::vector<SpecWord> words = WordsOf(spec, before);
  std::string unsaid;
  for (const SpecWord& word : words) {
    if (!word.is_option) unsaid += (unsaid.empty() ? "" : ", ") + word.text;
  }
  if (!unsaid.empty()) return FailedPrecondition("divvy submit has no option for: " + unsaid);
  before.command = spec.command;
  before.arguments = spec.arguments;
  auto read = ReadAgain(words, std::move(before), around);
  if (!read) return FailedPrecondition("divvy submit would reject it: " + read.error().message);
  if (spec.directory.empty()) read->directory.clear();
  if (Plain(*read) != Plain(spec)) {
    return FailedPrecondition(
        spec.script.empty() ? "divvy submit has no options for exactly this request"
                            : "the option lines in the script request more than this, and no option can undo that");
  }
  std::string line = "divvy submit";
  for (const SpecWord& word : words) line += " " + word.text;
  if (spec.script.empty()) line += " --";
  else line += " " + ShellQuote(script);
  for (const std::string& word : spec.script.empty() ? spec.command : spec.arguments) line += " " + ShellQuote(word);
  return line;
}

}  // namespace divvy::dialect
