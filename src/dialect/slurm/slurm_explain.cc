// `divvy explain` for Slurm scripts: the meaning of each option, each mistake with its fix, and the complete request.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_noted_options.h"
#include "model/warn_time.h"

namespace divvy::dialect {
namespace {

struct Said {
  std::string option;
  std::string value;
};

std::string OfType(const slurm::GpuOption& ask) {
  return Plural(ask.count, "GPU") + (ask.type.empty() ? "" : " of type " + ask.type);
}

std::string ExplainGpus(const Said& said) {
  if (said.option == "gres") {
    const auto ask = slurm::ParseGres(said.value);
    if (!ask || !ask->gpus) return "no GPU";
    return OfType(*ask->gpus) + " (--gres counts per node)";
  }
  const auto ask = slurm::ParseGpuCount(said.value);
  if (!ask) return "";
  if (said.option == "gpus") return OfType(*ask) + " in total";
  if (said.option == "gpus-per-node") return OfType(*ask) + " on each node";
  if (said.option == "gpus-per-task") {
    return OfType(*ask) + " for each task; in srun's tasks, they come first in CUDA_VISIBLE_DEVICES";
  }
  return OfType(*ask) + " for each socket";
}

std::string ExplainMemory(const Said& said) {
  const auto size = ParseSize(said.value, 1 << 20);
  if (!size) return "";
  const std::string each = said.option == "mem-per-cpu"   ? " for each CPU"
                           : said.option == "mem-per-gpu" ? " for each GPU"
                                                          : "";
  if (size->count() == 0) return "all of the node's memory; no amount is reserved";
  return FormatSize(*size) + " of host memory" + each;
}

std::string ExplainConstraint(const Said& said) {
  const auto ask = slurm::ParseConstraint(said.value);
  if (!ask) return "";
  std::string text;
  if (!ask->gpu_type.empty()) text = "a GPU whose model matches " + ask->gpu_type;
  if (ask->gpu_memory_gigabytes > 0) {
    text += (text.empty() ? "a GPU" : ",") + std::string(" with at least ") +
            std::to_string(ask->gpu_memory_gigabytes) + " GB";
  }
  for (const std::string& feature : ask->unknown) {
    text += (text.empty() ? "" : "; ") + feature + " is a node feature";
  }
  return text.empty() ? "any GPU" : text;
}

std::string ExplainOption(const Said& said, const JobSpec& spec) {
  const std::string& name = said.option;
  if (name == "gres" || name.starts_with("gpus")) return ExplainGpus(said);
  if (name.starts_with("mem") && name != "mem-bind") return ExplainMemory(said);
  if (name == "constraint") return ExplainConstraint(said);
  if (name == "nodes") {
    const auto range = slurm::ParseNodes(said.value);
    return range && range->least > 1 ? Plural(range->least, "node") : "one node";
  }
  if (name == "time") {
    return spec.time_limit == Duration(0) ? "no time limit" : "a time limit of " + FormatDuration(spec.time_limit);
  }
  if (name == "array" && spec.array) {
    return Plural(static_cast<std::int64_t>(spec.array->indices.size()), "job") +
           (spec.array->at_once > 0 ? ", " + std::to_string(spec.array->at_once) + " at once" : "");
  }
  if (name == "signal") {
    const Duration before = WarnBefore(spec.time_limit, spec.warn.before);
    return SignalName(spec.warn.signal) + " " + FormatDuration(before) + " before the time limit" +
           (before != spec.warn.before ? ", adjusted to the short time limit" : "") +
           (spec.warn.batch_only ? ", to the batch script only" : "");
  }
  static const std::map<std::string, std::string, std::less<>> kPlain = {
      {"job-name", "the job's name"},
      {"account", "a label"},
      {"partition", "the pool of nodes (only a label if there are no pools)"},
      {"qos", "a label"},
      {"comment", "a label"},
      {"wckey", "a label"},
      {"output", "the output file"},
      {"error", "the error file"},
      {"input", "the input file"},
      {"open-mode", "how the output file is opened"},
      {"chdir", "the working directory"},
      {"export", "the exported variables"},
      {"ntasks", "tasks that srun starts"},
      {"ntasks-per-node", "tasks that srun starts on each node"},
      {"ntasks-per-gpu", "tasks that srun starts for each GPU"},
      {"cpus-per-task", "CPUs of each task"},
      {"cpus-per-gpu", "CPUs for each GPU"},
      {"exclusive", "all GPUs of its nodes"},
      {"dependency", "waits for other jobs"},
      {"begin", "does not start before"},
      {"hold", "waits until it is released"},
      {"requeue", "requeued after a reboot"},
      {"no-requeue", "not requeued after a reboot"},
      {"nice", "lowers its priority"},
      {"priority", "its priority"},
      {"mail-user", "the recipient of mail"},
      {"mail-type", "the events that send mail"},
      {"time-min", "has no effect: --time is used in full"},
      {"deadline", "the latest end time; the job does not start if it would end later"},
      {"exclude", "does not run on these nodes"},
      {"nodelist", "runs on these nodes"},
      {"container-image", "runs in a container of this image"},
      {"container-mounts", "the mounts of the container"},
      {"container-workdir", "the working directory in the container"},
      {"container-env", "the variables passed to the container"},
      {"container-mount-home", "mounts the home directory into the container"},
  };
  if (const auto plain = kPlain.find(name); plain != kPlain.end()) return plain->second;
  const std::string_view why = slurm::WhyNoted(name);
  return why.empty() ? "nothing to do in divvy" : "has no effect: " + std::string(why);
}

/// Returns the same option table, changed so that each parsed option is recorded.
std::vector<Option> Recording(std::vector<Option> options, std::vector<Said>& said) {
  for (Option& option : options) {
    option.apply = [inner = std::move(option.apply), name = std::string(option.name),
                    &said](std::string_view value) -> Status {
      DIVVY_CHECK(inner(value));
      said.push_back({name, std::string(value)});
      return {};
    };
  }
  return options;
}

void AddRow(std::string& text, int line, const std::string& left, const std::string& right) {
  constexpr std::size_t kColumn = 36;
  std::string row = "  line " + std::to_string(line);
  row.resize(std::max<std::size_t>(row.size(), 11), ' ');
  row += left;
  row.resize(std::max(row.size() + 2, kColumn + 11), ' ');
  text += row + right + "\n";
}

}  // namespace

void ExplainSlurmLines(std::string_view text, std::string_view path, const ParseContext& around,
                       ScriptExplanation& explanation) {
  JobSpec spec;
  spec.dialect = Dialect::kSlurm;
  std::vector<Said> said;
  std::vector<Option> options = Recording(SbatchOptions(spec, around), said);
  JobSpec component;
  std::size_t number = 0;
  const SlurmLines found = FindSlurmLines(text);
  const auto fail = [&](int line, const std::string& message) {
    explanation.had_errors = true;
    AddRow(explanation.text, line, "ERROR", message);
  };
  for (const SlurmLine& line : found.lines) {
    if (!line.error.empty()) {
      fail(line.number, line.error);
      continue;
    }
    if (BeginsComponent(line)) {
      ++number;
      AddRow(explanation.text, line.number, line.words.front(),
             "starts component " + std::to_string(number) + " of the job");
      component = JobSpec();
      component.dialect = Dialect::kSlurm;
      options = Recording(SbatchOptions(component, around), said);
      continue;
    }
    said.clear();
    JobSpec noted;
    const auto parsed = ParseOptions(options, line.words, {.take_unknown = slurm::TakeSiteOptions(noted, true)});
    for (const Said& one : said) {
      AddRow(explanation.text, line.number, "--" + one.option + (one.value.empty() ? "" : "=" + one.value),
             ExplainOption(one, number == 0 ? spec : component));
    }
    for (const std::string& note : noted.notes) {
      const auto colon = note.find(": ");
      AddRow(explanation.text, line.number, note.substr(0, colon), note.substr(colon + 2));
    }
    if (!parsed) {
      fail(line.number, parsed.error().message);
      continue;
    }
    for (const std::string& word : parsed->positional) {
      AddRow(explanation.text, line.number, word, "does not belong to an option; quote values that contain spaces");
    }
  }
  for (const SlurmLines::Unread& unread : found.unread) {
    AddRow(explanation.text, unread.number, unread.text, "ignored: " + unread.why);
  }
  if (explanation.had_errors) return;
  spec = JobSpec();
  Status finished = ApplySlurmLines(text, path, around, spec);
  if (finished) finished = ApplySbatchEnvironment(around, spec);
  if (finished) finished = FinishSlurm(spec);
  if (!finished) {
    explanation.had_errors = true;
    explanation.text += "  ERROR " + std::string(path) + ": " + finished.error().message + "\n";
  }
}

}  // namespace divvy::dialect
