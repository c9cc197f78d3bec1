// gctl and gflowd: which GPUs the scheduler may use, and its daemon.
#include <cstdio>

#include "base/index_ranges.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/gflow/gflow_queue.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using Words = std::vector<std::string>;

constexpr std::string_view kCtlUsage =
    "gctl set-gpus SPEC|all\n       gctl show-gpus\n       gctl gpu-process ignore|unignore --gpu N --pid N\n"
    "       gctl gpu-process list\n       gctl set-limit JOB|GROUP N";
constexpr std::string_view kDaemonUsage = "gflowd up|down|restart|reload|status|init [--gpus SPEC]";

Result<wire::RestrictRequest> ParseGpuSpec(std::string_view text) {
  wire::RestrictRequest request;
  request.is_all = EqualsIgnoringCase(text, "all");
  if (request.is_all) return request;
  DIVVY_TRY(IndexRanges indices, IndexRanges::Parse(text, "set-gpus"));
  constexpr std::uint64_t kMost = 64;
  if (indices.empty() || indices.back() >= kMost)
    return InvalidArgument("set-gpus: '" + std::string(text) + "' is not a list of GPUs; write 0,2 or 0-3 or all");
  for (const IndexRanges::Range& range : indices.ranges()) {
    for (std::uint32_t gpu = range.first; gpu <= range.last; ++gpu) request.gpus.push_back(gpu);
  }
  return request;
}

int SetGpus(Api& api, const Words& words) {
  if (words.size() != 1) return Fail(InvalidArgument("which GPUs? write: gctl set-gpus 0,2 (or 0-3, or all)"));
  DIVVY_TRY_OR_FAIL(auto request, ParseGpuSpec(words[0]));
  DIVVY_TRY_OR_FAIL(auto answer, api.Restrict(request));
  std::string gpus;
  for (std::int64_t gpu : answer.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  if (request.is_all) std::printf("New jobs may use all GPUs.\n");
  else std::printf("New jobs may use GPUs %s.\n", gpus.c_str());
  return 0;
}

std::string RuleText(const wire::IgnoreRule& rule) {
  return (rule.gpu < 0 ? std::string("all GPUs") : "GPU " + std::to_string(rule.gpu)) + "  pid " +
         std::to_string(rule.pid) + (rule.user.empty() ? "" : "  " + rule.user) +
         (rule.command.empty() ? "" : "  " + rule.command) + "\n";
}

int ListProcesses(Api& api) {
  DIVVY_TRY_OR_FAIL(auto gpus, api.Gpus());
  auto rules = api.IgnoreRules();
  if (!rules) return Fail(rules.error());
  std::vector<Words> rows = {{"GPU", "PID", "USER", "MEMORY", "AGE", "IGNORED", "COMMAND"}};
  for (const wire::GpuView& gpu : gpus) {
    for (const wire::GpuProcessView& process : gpu.processes) {
      if (process.job) continue;
      rows.push_back({std::to_string(gpu.index), std::to_string(process.pid), process.user,
                      dialect::FormatSize(Bytes(process.memory_bytes)), LongClock(process.age_s),
                      process.is_ignored ? "yes" : "no", process.command});
    }
  }
  if (rows.size() > 1) std::fputs(AlignRows(rows).c_str(), stdout);
  else std::printf("No process outside divvy uses a GPU.\n");
  for (const wire::IgnoreRule& rule : rules->rules) std::printf("ignored: %s", RuleText(rule).c_str());
  return 0;
}

int GpuProcess(Api& api, const Words& words) {
  if (words.empty())
    return Fail(InvalidArgument("usage: gctl gpu-process ignore|unignore --gpu N --pid N, or gctl gpu-process list"));
  if (words[0] == "list") return ListProcesses(api);
  if (words[0] != "ignore" && words[0] != "unignore") {
    return Fail(InvalidArgument("gpu-process has no verb '" + words[0] + "'; it has ignore, unignore, list"));
  }
  wire::IgnoreRequest request;
  request.is_ignored = words[0] == "ignore";
  auto whole = [](std::int64_t& out) {
    return [&out](std::string_view value) -> Status {
      auto number = ParseInteger(value);
      if (!number || *number < 0) return InvalidArgument("'" + std::string(value) + "' is not a whole number");
      out = *number;
      return {};
    };
  };
  std::vector<Option> table = {Option::Value("gpu", 'g', "N", "On this GPU", whole(request.gpu)),
                               Option::Value("pid", 'p', "N", "The process", whole(request.pid))};
  const Words rest(words.begin() + 1, words.end());
  auto parsed = dialect::ParseOptions(table, rest);
  if (!parsed) return Fail(parsed.error());
  if (request.pid == 0) return Fail(InvalidArgument("which process? add --pid N; gctl gpu-process list shows them"));
  DIVVY_TRY_OR_FAIL(auto answer, api.Ignore(request));
  std::printf("%s\n", answer.message.empty() ? "Done." : answer.message.c_str());
  return 0;
}

int SetLimit(Api& api, const Words& words) {
  auto limit = words.size() == 2 ? ParseInteger(words[1]) : std::nullopt;
  if (!limit || *limit < 0 || *limit > 1'000'000)
    return Fail(InvalidArgument("usage: gctl set-limit JOB|GROUP N (0: no limit)"));
  wire::GroupLimitRequest request;
  request.group = words[0];
  request.limit = *limit;
  // As in gflow, a job id means the job's group. An array's id is its own group.
  if (ParseInteger(words[0]) || words[0].starts_with("@")) {
    auto job = api.Job(words[0]);
    if (!job) return Fail(job.error());
    if (!job->group.empty()) request.group = job->group;
    else request.group = ToString(job->array_id.value_or(job->id));
  }
  DIVVY_TRY_OR_FAIL(auto answer, api.SetGroupLimit(request));
  for (const wire::ActionResult& result : answer.results) {
    if (!result.is_done) return Fail(FailedPrecondition(result.message));
  }
  if (*limit == 0) std::printf("Group %s: no limit.\n", request.group.c_str());
  else std::printf("Group %s: at most %lld run together.\n", request.group.c_str(), static_cast<long long>(*limit));
  return 0;
}

/// Translates gflowd's options to "divvy up", or refuses them.
Result<Words> UpWords(const Words& words) {
  Words out = {"up"};
  std::string gpus, strategy, interval;
  bool cleans = false;
  std::vector<Option> table = {Option::Value("gpus", "SPEC", "Use only these GPUs", Keeps(gpus)),
                               Option::Value("gpu-allocation-strategy", "NAME", "", Keeps(strategy)).Hidden(),
                               Option::Value("gpu-poll-interval-secs", "N", "", Keeps(interval)).Hidden(),
                               Option::Flag("cleanup", "", Sets(cleans)).Hidden()};
  AddGlobalOptions(table);
  DIVVY_TRY(dialect::Parsed parsed, dialect::ParseOptions(table, words));
  if (!parsed.positional.empty())
    return InvalidArgument("'" + parsed.positional[0] + "' is not understood; write: " + std::string(kDaemonUsage));
  if (!strategy.empty())
    Note("--gpu-allocation-strategy is a setting of divvy.toml; a single job chooses with divvy submit --placement");
  if (!interval.empty()) Note("--gpu-poll-interval-secs does not apply: GPUs are looked at every second");
  if (!gpus.empty()) {
    out.push_back("--gpus");
    out.push_back(gpus);
  }
  return out;
}

}  // namespace

int GctlMain(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::printf("usage: %.*s\n", static_cast<int>(kCtlUsage.size()), kCtlUsage.data());
    return words.empty() ? 2 : 0;
  }
  const Words rest(words.begin() + 1, words.end());
  const std::string& verb = words[0];
  if (verb == "reserve" || verb == "reservation") {
    return Fail(FailedPrecondition(
        "gctl reserves nothing here; divvy reserve --gpus N --user NAME --start WHEN --duration TIME does, as an "
        "administrator"));
  }
  if (verb == "quota") {
    return Fail(
        FailedPrecondition("gctl sets no quotas here; divvy teams user NAME --max-gpus N --max-running N does, as an "
                           "administrator; gctl set-limit GROUP N caps a group of jobs"));
  }
  if (verb == "completion" && rest.size() == 1) return BecomeDivvy(words);
  // In older releases of gflow, gctl started the daemon.
  if (verb == "up" || verb == "start" || verb == "down" || verb == "stop" || verb == "status") return GflowdMain(words);
  bool is_known = verb == "set-gpus" || verb == "show-gpus" || verb == "gpu-process" || verb == "set-limit";
  if (!is_known) {
    static constexpr std::string_view kVerbs[] = {"set-gpus",  "show-gpus", "gpu-process",
                                                  "set-limit", "reserve",   "quota"};
    std::string_view nearest = Nearest(verb, kVerbs);
    return Fail(InvalidArgument(
        "gctl has no verb '" + verb + "'" +
        (nearest.empty() ? "; gctl --help lists them" : "; did you mean " + std::string(nearest) + "?")));
  }
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  if (verb == "set-gpus") return SetGpus(api, rest);
  if (verb == "gpu-process") return GpuProcess(api, rest);
  if (verb == "set-limit") return SetLimit(api, rest);
  if (!rest.empty()) return Fail(InvalidArgument("gctl show-gpus takes no words"));
  DIVVY_TRY_OR_FAIL(auto gpus, api.Gpus());
  std::fputs(RenderShowGpus(gpus).c_str(), stdout);
  return 0;
}

int GflowdMain(const Words& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help")) {
    std::printf("usage: %.*s\n", static_cast<int>(kDaemonUsage.size()), kDaemonUsage.data());
    return 0;
  }
  // Without a verb, gflowd starts the daemon. So do we, in the background.
  const std::string verb = words.empty() || words[0].starts_with("-") ? "up" : words[0];
  const Words rest(words.begin() + (words.empty() || words[0].starts_with("-") ? 0 : 1), words.end());
  if (verb == "init") {
    std::printf("Nothing to set up: divvy runs without a configuration. Start it with: gflowd up\n");
    return 0;
  }
  if (verb == "service") {
    return Fail(
        FailedPrecondition("divvy's packages bring their own systemd unit; write: systemctl enable --now divvy (or "
                           "divvy up for yourself)"));
  }
  if (verb == "completion" && rest.size() == 1) return BecomeDivvy(words);
  if (verb == "status" || verb == "down" || verb == "stop") return BecomeDivvy({verb == "status" ? "status" : "down"});
  if (verb != "up" && verb != "start" && verb != "restart" && verb != "reload") {
    return Fail(InvalidArgument("gflowd has no verb '" + verb + "'; write: " + std::string(kDaemonUsage)));
  }
  DIVVY_TRY_OR_FAIL(auto up, UpWords(rest));
  if (verb == "restart" || verb == "reload") {
    if (int code = RunDivvy({"down"}); code != 0 && code != 5) return code;  // 5: no daemon was running.
  }
  return BecomeDivvy(up);
}

}  // namespace divvy::cli
