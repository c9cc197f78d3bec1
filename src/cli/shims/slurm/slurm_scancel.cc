// scancel: ends jobs or sends them a signal.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/steps/step_listing.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

const std::string kKillError = "Kill job error on job id ";
constexpr std::string_view kNoSuchJob = "Invalid job id specified";
constexpr std::string_view kHasEnded = "Job/step already completing or completed";

using namespace slurm;
using dialect::Takes;

struct ScancelFlags {
  std::vector<std::string> names;
  std::vector<std::string> states;
  std::vector<std::string> steps;  // "17.0".
  std::vector<std::string> ids;
  std::string user;
  std::string signal;
  bool is_mine = false;
  bool is_quiet = false;
  bool is_verbose = false;
  std::vector<std::string> partitions;
  std::vector<std::string> accounts;
  std::vector<std::string> qos;
  std::vector<std::string> nodes;
  bool asks = false;              // -i
  bool is_batch = false;          // -b
  bool is_full = false;           // -f
  bool has_other_filter = false;  // -R, --wckey: no job here matches them.
};

std::vector<dialect::Option> ScancelTable(ScancelFlags& wish) {
  const auto filter = [&wish](std::string_view name, char letter) {
    dialect::Option option = Ignored(name, letter, Takes::kValue);
    option.apply = dialect::Sets(wish.has_other_filter);
    return option;
  };
  std::vector<dialect::Option> options = {
      List("jobname", 'n', "NAMES", "Jobs of these names", wish.names),
      List("state", 't', "STATES", "Jobs in these states: PENDING, RUNNING, SUSPENDED", wish.states),
      Text("user", 'u', "NAME", "Jobs of this user", wish.user),
      Text("signal", 's', "SIGNAL", "Send this signal instead of ending the job", wish.signal),
      Flag("me", 0, "My jobs", wish.is_mine),
      Flag("quiet", 'Q', "Do not report jobs that have ended", wish.is_quiet),
      Flag("verbose", 'v', "Print each action", wish.is_verbose),
      List("partition", 'p', "NAMES", "Jobs of these partitions", wish.partitions),
      List("account", 'A', "NAMES", "Jobs of these accounts", wish.accounts),
      List("qos", 'q', "NAMES", "Jobs of these QOSs", wish.qos),
      List("nodelist", 'w', "HOSTS", "Jobs on these hosts", wish.nodes),
      Flag("interactive", 'i', "Ask before each job", wish.asks),
      filter("reservation", 'R'),
      filter("wckey", 0),
      Flag("batch", 'b', "Signal only the process of the batch script", wish.is_batch),
      Flag("full", 'f', "Also signal the batch script", wish.is_full),
      Ignored("hurry", 'H', Takes::kNothing),
      Ignored("ctld", 0, Takes::kNothing),
      Ignored("cron", 0, Takes::kNothing),
      Ignored("clusters", 'M', Takes::kValue),
      Ignored("sibling", 0, Takes::kValue),
  };
  options.front().aliases = {"name"};
  return options;
}

/// Asks the user a question on the terminal. nullopt: the input has ended.
std::optional<bool> IsConfirmed(const std::string& question) {
  std::printf("%s [y/n]? ", question.c_str());
  std::fflush(stdout);
  std::array<char, 64> answer{};
  if (std::fgets(answer.data(), answer.size(), stdin) == nullptr) return std::nullopt;
  return answer[0] == 'y' || answer[0] == 'Y';
}

/// -i: the jobs of a selection for which the user answered "y".
Result<wire::JobSelector> AskFor(Api& api, const wire::JobSelector& select) {
  wire::JobSelector known = select;
  known.includes_final = !select.ids.empty();
  DIVVY_TRY(const std::vector<wire::JobView> jobs, api.Jobs(known));
  wire::JobSelector chosen;
  for (const wire::JobView& job : jobs) {
    if (IsFinal(job)) {
      if (!select.ids.empty()) FailAs("scancel", kKillError + JobIdText(job) + ": " + std::string(kHasEnded));
      continue;
    }
    const auto is_confirmed =
        IsConfirmed("Cancel job_id=" + JobIdText(job) + " name=" + job.name + " partition=" + Partition(job));
    if (!is_confirmed) break;
    if (*is_confirmed) chosen.ids.push_back(ToString(job.id));
  }
  chosen.user = "all";
  return chosen;
}

/// The selected jobs that have an allocation on one of the hosts.
Result<wire::JobSelector> OnHosts(Api& api, const wire::JobSelector& select, const std::vector<std::string>& hosts) {
  DIVVY_TRY(const std::vector<std::string> names, HostNames(hosts));
  DIVVY_TRY(const std::vector<wire::JobView> jobs, api.Jobs(select));
  const Scene scene = SceneOf(api, jobs);
  wire::JobSelector chosen;
  chosen.user = "all";
  for (const wire::JobView& job : jobs) {
    if (HoldsGpus(job) && IsOnOneOf(job, names, scene)) chosen.ids.push_back(ToString(job.id));
  }
  return chosen;
}

/// Which processes of a job --signal reaches. Without -b and -f, the script's own process is excluded, as in Slurm.
std::string ReachOf(const ScancelFlags& wish) {
  if (wish.is_batch && !wish.is_full) return "script";
  return wish.is_full ? "" : "others";
}

/// The components that may have all of a step's tasks: each of its nodes and GPUs belongs to them.
std::vector<std::size_t> ComponentsOfStep(const wire::JobDetail& job, const wire::StepView& step) {
  std::vector<std::size_t> holders;
  for (std::size_t i = 0; i <= job.request.others.size(); ++i) {
    const wire::JobDetail one = ComponentDetail(job, i);
    const auto has = [&](const std::string& node, const std::vector<std::int64_t>& gpus) {
      return std::ranges::any_of(one.allocations, [&](const wire::AllocationView& own) {
        return (node.empty() || own.node == node) && std::ranges::all_of(gpus, [&](std::int64_t gpu) {
                 return std::ranges::find(own.gpus, gpu) != own.gpus.end();
               });
      });
    };
    std::vector<std::int64_t> gpus;
    for (const std::string_view gpu : Split(step.gpus, ',')) {
      if (const auto index = ParseInteger(gpu)) gpus.push_back(*index);
    }
    const bool is_all_there =
        step.allocations.empty()
            ? has("", gpus)
            : std::ranges::all_of(step.allocations, [&](const auto& its) { return has(its.node, its.gpus); });
    if (is_all_there) holders.push_back(i);
  }
  return holders;
}

/// Ends one component of a running job: the steps that run only there. Its resources stay with the job. A job that has
/// ended needs nothing.
int EndComponent(Api& api, const wire::JobDetail& job, std::size_t component, int signal, const ScancelFlags& wish) {
  const std::string id = job.display_id + "+" + std::to_string(component);
  if (IsFinal(ViewOf(job))) {
    if (wish.is_verbose) FailAs("scancel", kKillError + id + ": " + std::string(kHasEnded));
    return 0;
  }
  if (IsPending(ViewOf(job)))
    return FailAs("scancel", kKillError + id +
                                 ": Operation not permitted on individual component of heterogeneous job; scancel " +
                                 job.display_id + " cancels all of it");
  if (wish.asks && !IsConfirmed("Cancel job_id=" + id).value_or(false)) return 0;
  int found = 0;
  for (const wire::StepView& step : StepsOf(api, job)) {
    if (step.end_time || ComponentsOfStep(job, step) != std::vector<std::size_t>{component}) continue;
    const Status stopped = ApplyToStep(job.id, job.user, {StepWord::kStop, static_cast<int>(step.number), signal});
    if (!stopped && stopped.error().code != ErrorCode::kNotFound)
      return FailAs("scancel", kKillError + id + ": " + stopped.error().message);
    ++found;
  }
  if (found == 0)
    return FailAs("scancel", kKillError + id + ": no step is known to run in this component alone; scancel " +
                                 job.display_id + " cancels the job, scancel " + job.display_id + ".0 a step of it");
  if (!wish.is_quiet)
    std::fprintf(stderr, "scancel: %s: signalled %s; its resources stay with job %s\n", id.c_str(),
                 Plural(found, "step").c_str(), job.display_id.c_str());
  return 0;
}

/// Applies one action to one selection and reports every job for which it failed. Returns the exit code.
int Act(const wire::JobSelector& select, int signal, const ScancelFlags& wish) {
  auto api = Api::Connect();
  if (!api) return FailAs("scancel", api.error());
  wire::ActionRequest request;
  request.select = select;
  if (!wish.nodes.empty()) {
    const auto chosen = OnHosts(*api, select, wish.nodes);
    if (!chosen && chosen.error().code == ErrorCode::kNotFound && select.ids.empty()) return 0;
    if (!chosen) return FailAs("scancel", chosen.error());
    if (chosen->ids.empty()) return 0;
    request.select = *chosen;
  }
  // The first component stands for the whole job, as in Slurm.
  if (select.ids.size() == 1) {
    const auto job = api->Job(select.ids.front());
    const auto lines = job ? SplitComponents({ViewOf(*job)}, select.ids) : std::vector<wire::JobView>();
    const bool is_one = job && IsHeterogeneous(ViewOf(*job)) && lines.size() == 1;
    if (const auto component = is_one ? ComponentNumber(lines.front()) : std::nullopt; component.value_or(0) > 0) {
      wire::JobSelector filter = select;
      filter.includes_final = filter.states.empty();
      const auto matching = api->Jobs(filter);
      if (!matching && matching.error().code != ErrorCode::kNotFound) return FailAs("scancel", matching.error());
      if (matching && !matching->empty())
        return EndComponent(*api, *job, *component, signal != 0 ? signal : SIGTERM, wish);
      if (wish.is_verbose) FailAs("scancel", "No active jobs match ALL job filters");
      return 0;
    }
  }
  if (wish.asks) {
    const auto chosen = AskFor(*api, request.select);
    if (!chosen) return FailAs("scancel", chosen.error());
    if (chosen->ids.empty()) return 0;
    request.select = *chosen;
  }
  request.signal = signal;
  const bool ends = wish.signal.empty() || (signal == SIGKILL && !wish.is_batch);
  if (!ends) request.reach = ReachOf(wish);
  // If the caller's own job is cancelled, SIGTERM arrives before the daemon's response. Ignore it, so that the response
  // is still printed.
  if (ends) ::signal(SIGTERM, SIG_IGN);
  const auto answer = ends ? api->Cancel(request) : api->Signal(request);
  const std::string ids = Join(select.ids, ",");
  if (!answer) {
    // A missing job needs no cancelling: a filter that matches nothing, or an old job. Slurm 22.05 reports that only
    // with -v.
    if (answer.error().code == ErrorCode::kNotFound) {
      if (wish.is_verbose)
        FailAs("scancel", ids.empty() ? "No active jobs match ALL job filters"
                                      : kKillError + ids + ": " + std::string(kNoSuchJob));
      return 0;
    }
    return FailAs("scancel", answer.error().message);
  }
  if (answer->results.empty() && wish.is_verbose) FailAs("scancel", "No active jobs match ALL job filters");
  int code = 0;
  for (const wire::ActionResult& result : answer->results) {
    if (result.is_done) {
      const char* id = result.display_id.c_str();
      if (wish.is_verbose && ends) std::fprintf(stderr, "scancel: Terminating job %s\n", id);
      if (wish.is_verbose && !ends)
        std::fprintf(stderr, "scancel: Signal %d to %sjob %s\n", signal, wish.is_batch ? "batch " : "", id);
      continue;
    }
    // Cancelling an ended or missing job counts as success.
    const std::string refusal = RefusalOf(result);
    const bool has_ended = refusal == kNoSuchJob || result.message.find("has ended") != std::string::npos ||
                           result.message.find("already") != std::string::npos;
    if (has_ended && !wish.is_verbose) continue;
    if (!wish.is_quiet || !has_ended)
      FailAs("scancel", kKillError + (result.display_id.empty() ? ids : result.display_id) + ": " + refusal);
    if (!has_ended) code = 1;
  }
  return code;
}

/// Signals steps such as "17.0", on any node.
int StopSteps(const std::vector<std::string>& steps, int signal, const ScancelFlags& wish) {
  auto api = Api::Connect();
  int code = 0;
  for (const std::string& id : steps) {
    if (wish.asks && !IsConfirmed("Cancel step_id=" + id).value_or(false)) continue;
    const auto dot = id.find('.');
    const auto number = ParseInteger(std::string_view(id).substr(dot + 1));
    if (!api) {
      // On an agent's node, the daemon may be unreachable although the step runs here.
      const auto own = ParseInteger(std::string_view(id).substr(0, dot));
      const bool is_one = own && *own > 0 && number && *number >= 0;
      const bool is_done = is_one && ApplyToStep(JobId(static_cast<std::uint64_t>(*own)), CallerName(),
                                                 {StepWord::kStop, static_cast<int>(*number), signal});
      if (!is_done) return FailAs("scancel", api.error());
      continue;
    }
    const auto job = api->Job(id.substr(0, dot));
    Status stopped = NotFound("Invalid job step id specified");
    if (job && number && *number >= 0)
      stopped = ApplyToStep(job->id, job->user, {StepWord::kStop, static_cast<int>(*number), signal});
    if (stopped) {
      if (wish.is_verbose && wish.signal.empty()) std::fprintf(stderr, "scancel: Terminating step %s\n", id.c_str());
      if (wish.is_verbose && !wish.signal.empty())
        std::fprintf(stderr, "scancel: Signal %d to step %s\n", signal, id.c_str());
      continue;
    }
    code = FailAs("scancel", "Kill job error on job step id " + id + ": " + stopped.error().message);
  }
  return code;
}

}  // namespace

int ScancelMain(const std::vector<std::string>& words) {
  ScancelFlags wish;
  const std::vector<dialect::Option> options = ScancelTable(wish);
  if (Greets("scancel", "[OPTIONS] [JOBID[_ELEMENTS]...]", options, words)) return 0;
  auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("scancel", parsed.error().message);
  parsed->positional.insert(parsed->positional.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
  for (const std::string& word : parsed->positional) {
    const auto ids = SplitJobIds(word);
    if (!ids) return FailAs("scancel", ids.error().message);
    for (std::string id : *ids) {
      if (id == "0") return FailAs("scancel", "Invalid job id 0");
      const auto dot = id.find('.');
      const bool is_step = dot != std::string::npos && id.compare(dot, std::string::npos, ".batch") != 0;
      if (is_step) wish.steps.push_back(std::move(id));
      else wish.ids.push_back(id.substr(0, dot));
      wish.is_batch = wish.is_batch || (!is_step && dot != std::string::npos);
    }
  }
  int signal = 0;
  if (!wish.signal.empty()) {
    const auto number = dialect::ParseSignal(wish.signal);
    if (!number) return FailAs("scancel", "Unknown job signal: " + wish.signal);
    signal = *number;
  }
  if (!wish.steps.empty()) {
    const int stopped = StopSteps(wish.steps, signal != 0 ? signal : SIGTERM, wish);
    if (stopped != 0 || wish.ids.empty()) return stopped;
  }
  std::vector<std::string> user = {wish.user};
  NameUsers(user);
  if (!wish.user.empty() && !MayBeUser(wish.user)) return FailAs("scancel", "Invalid user name: " + wish.user);
  const auto states = ReadStates(wish.states);
  if (!states)
    return FailAs("scancel", "Invalid job state specified: " + Join(wish.states, ",") +
                                 "\nValid job states are PENDING, RUNNING, and SUSPENDED");
  if (wish.ids.empty() && wish.names.empty() && wish.states.empty() && wish.user.empty() && !wish.is_mine &&
      wish.partitions.empty() && wish.accounts.empty() && wish.qos.empty() && wish.nodes.empty() &&
      !wish.has_other_filter) {
    return FailAs("scancel", "No job identification provided");
  }
  wire::JobSelector select;
  select.user = wish.is_mine ? "@me" : user.front();
  select.states = *states;
  // Only running jobs are on a host.
  if (!wish.nodes.empty() && select.states.empty()) select.states = {"starting", "running", "paused", "stopping"};
  select.pools = PoolsOf(wish.partitions);
  select.accounts = wish.accounts;
  select.qos = wish.qos;
  if (wish.ids.empty() && wish.names.empty()) {
    select.is_all = wish.is_mine || select.user.empty();
    return Act(select, signal, wish);
  }
  int code = 0;
  for (const std::string& name : wish.names) {
    wire::JobSelector one = select;
    one.name = name;
    one.ids = wish.ids;
    code = std::max(code, Act(one, signal, wish));
  }
  if (!wish.names.empty()) return code;
  // Cancel ids one by one, so that a wrong id does not affect the others.
  for (const std::string& id : wish.ids) {
    wire::JobSelector one = select;
    one.ids = {id};
    code = std::max(code, Act(one, signal, wish));
  }
  return code;
}

}  // namespace divvy::cli
