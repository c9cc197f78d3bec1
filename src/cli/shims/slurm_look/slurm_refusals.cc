#include "cli/shims/slurm_look/slurm_refusals.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"

namespace divvy::cli::slurm {
namespace {

using Translate = std::string (*)(std::string_view value, const JobSpec& asked);

bool Says(const JobSpec& asked, std::string_view option) { return dialect::slurm::Value(asked, option).has_value(); }

/// The number of GPUs as the job counts them. Fractions stay in divvy's form, because Slurm's commands cannot request
/// them.
std::string Gpus(std::string_view value, const JobSpec& asked) {
  const auto count = ParseInteger(value);
  if (!count) return "--gpus " + std::string(value);
  const auto per_machine = std::to_string(*count);
  if (Says(asked, "gres")) return "--gres=gpu:" + per_machine;
  if (Says(asked, "gpus-per-node") || Says(asked, "gpus-per-task") || Says(asked, "tres-per-task"))
    return "--gpus-per-node=" + per_machine;
  if (Says(asked, "gpus")) return "--gpus=" + std::to_string(*count * std::max(asked.request.nodes, 1));
  return "--gres=gpu:" + per_machine;
}

/// divvy counts the CPUs of all tasks on a node.
std::string Cpus(std::string_view value, const JobSpec& asked) {
  const auto count = ParseInteger(value);
  const int machines = std::max(asked.request.nodes, 1);
  const int tasks = std::max((asked.request.tasks + machines - 1) / machines, 1);
  if (!count || tasks == 1) return "--cpus-per-task=" + std::string(value);
  if (*count < tasks) return "--ntasks=" + std::string(value) + " with --cpus-per-task=1";
  return "--cpus-per-task=" + std::to_string(*count / tasks);
}

std::string CheckTime(std::string_view value, const JobSpec&) {
  const auto limit = dialect::ParseDuration(value, std::chrono::minutes(1));
  if (!limit) return "--time=" + std::string(value);
  return "--time=" + LongElapsed(std::chrono::duration<double>(*limit).count());
}

template <char const* kName>
std::string Named(std::string_view value, const JobSpec&) {
  return kName + std::string(value);
}
constexpr char kMemory[] = "--mem=";
constexpr char kTasks[] = "--ntasks=";
constexpr char kNodes[] = "--nodes=";
constexpr char kGpusPerTask[] = "--gpus-per-task=";

/// Options followed by a suggested value, and how to translate the value.
constexpr std::pair<std::string_view, Translate> kWithValues[] = {{"--gpus ", Gpus},
                                                                  {"--cpus ", Cpus},
                                                                  {"--time ", CheckTime},
                                                                  {"--memory ", Named<kMemory>},
                                                                  {"--tasks ", Named<kTasks>},
                                                                  {"--nodes ", Named<kNodes>},
                                                                  {"--gpus-per-task ", Named<kGpusPerTask>}};

/// Other phrases and their replacements. Longer ones come first.
constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
    {"name another pool with --pool", "name another with --partition"},
    {"leave --gpu-type out", "leave the type of the GPUs out"},
    {"leave --gpus out to run without GPUs", "ask for no GPUs"},
    {"leave --gpus out", "ask for no GPUs"},
    {"--gpu-type ", "the type "},
    {"--pool", "--partition"}};

}  // namespace

std::string WithSlurmsOptions(std::string text, const JobSpec& asked) {
  for (const auto& [ours, translate] : kWithValues) {
    std::size_t at = 0;
    while ((at = text.find(ours, at)) != std::string::npos) {
      const std::size_t begin = at + ours.size();
      const std::size_t end = std::min(text.find_first_of(" ,;:)", begin), text.size());
      at = begin;
      if (begin >= text.size() || text[begin] < '0' || text[begin] > '9') continue;
      const std::string theirs = translate(std::string_view(text).substr(begin, end - begin), asked);
      text.replace(begin - ours.size(), end - begin + ours.size(), theirs);
      at = begin - ours.size() + theirs.size();
    }
  }
  for (const auto& [ours, theirs] : kPhrases) {
    for (std::size_t at = text.find(ours); at != std::string::npos; at = text.find(ours, at + theirs.size()))
      text.replace(at, ours.size(), theirs);
  }
  return text;
}

std::string InSlurmsWords(const std::string& said, const JobSpec& asked) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"--mem: ", "Invalid --mem specification"},
      {"--mem-per-cpu: ", "Invalid --mem-per-cpu specification"},
      {"--mem-per-gpu: ", "Invalid --mem-per-gpu specification"},
      {"in the environment: --thread-spec: it cannot be together",
       "Both --core-spec and --thread-spec set using environment variables. Those options are mutually exclusive"},
      // The misspelling "thred-spec" is Slurm's.
      {"--core-spec): it cannot be together", "-S/--core-spec and --thred-spec options are mutually exclusive"},
      {"--thread-spec: it cannot be together", "-S/--core-spec and --thred-spec options are mutually exclusive"},
      {"--cpus-per-task: it cannot be together", "--cpus-per-gpu is mutually exclusive with --cpus-per-task"},
      {"--gres: ", "Invalid generic resource (gres) specification"},
      {"--gres=", "Invalid generic resource (gres) specification"},
      {"--deadline: ", "Requested time limit is invalid (missing or exceeds some limit)"},
      {"(--distribution): ", "Invalid --distribution specification"},
      {"tasks are too many", "More processors requested than permitted"},
      {" CPUs are too many", "More processors requested than permitted"},
      {"but this server is a single node", "Requested node configuration is not available"},
      {"array or sweep of heterogeneous jobs", "Invalid job array specification"},
      {"--mincpus: ", "Requested node configuration is not available"},
      {"there is no pool '", "Invalid partition name specified"},
      {"there is no node in pool ", "Invalid partition name specified"},
      {"there is no node '", "Invalid node name specified"},
      {" takes no jobs: its state is ", "Required partition not available (inactive or drain)"},
      {" is not theirs; name another", "User's group not permitted to use this partition"},
      {" runs a job for ", "Requested time limit is invalid (missing or exceeds some limit)"},
      {" nodes, but pool ", "Node count specification invalid"},
      {" GPU, but pool ", "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"},
      {" GPUs, but pool ", "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"},
      {", but this server has ", "Requested node configuration is not available"},
      {", but no node has ", "Requested node configuration is not available"}};
  const std::string refusal = WithSlurmsOptions(said, asked);
  // Some messages already have Slurm's wording. Slurm prints these without the name of the option and the component.
  for (const std::string_view theirs : {"Failed to validate job spec", "Failed to ensure", "Requested node config"}) {
    if (said.find(theirs) != std::string::npos) return refusal;
  }
  for (const std::string_view theirs : {"Failed to validate ", "Invalid --gpu-bind argument", "Invalid --gpu-freq"}) {
    const auto at = refusal.find(theirs);
    if (at != std::string::npos) return refusal.substr(at) + (at > 0 ? " (" + refusal.substr(0, at - 2) + ")" : "");
  }
  for (const auto& [ours, theirs] : kWords) {
    if (said.find(ours) != std::string::npos) return std::string(theirs) + ": " + refusal;
  }
  return refusal;
}

}  // namespace divvy::cli::slurm
