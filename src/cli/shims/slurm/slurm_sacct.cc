// sacct: past and present jobs, from the history.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/steps/step_listing.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct CountRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool Holds(std::int64_t count) const { return least <= count && count <= most; }
};

struct SacctFlags {
  std::vector<std::string> jobs;
  std::vector<std::string> fields;
  std::vector<std::string> states;
  std::vector<std::string> users;
  std::vector<std::string> names;
  std::vector<std::string> partitions;
  std::vector<std::string> accounts;
  std::vector<std::string> qos;
  std::string since;
  std::string until;
  TableFlags table;
  bool is_all_users = false;
  bool has_no_steps = false;
  bool is_brief = false;
  bool is_long = false;
  bool lists_fields = false;
  AnswerForm form;
  bool prints_script = false;
  std::map<std::string, std::set<std::string>> steps;  // "17" -> "batch", "0": only these steps of these jobs.
  std::vector<std::string> nodes;
  std::vector<std::string> groups;
  std::vector<std::string> wckeys;
  std::vector<std::string> reasons;
  std::vector<std::string> flags;
  std::optional<CountRange> machines;
  std::optional<CountRange> cpus;
  std::optional<double> limit_least;  // In seconds.
  std::optional<double> limit_most;
};

/// "4", "2-8".
Result<CountRange> ReadCountRange(std::string_view text) {
  const auto dash = text.find('-');
  const auto least = ParseInteger(text.substr(0, dash));
  const auto most = dash == std::string_view::npos ? least : ParseInteger(text.substr(dash + 1));
  if (!least || !most || *least < 0 || *most < *least) return InvalidArgument("write a number, or a range such as 2-8");
  return CountRange{*least, *most};
}

Status CheckFlags(const std::vector<std::string>& flags) {
  constexpr std::array<std::string_view, 6> kKnown = {"none",          "schedsubmit",   "schedmain",
                                                      "schedbackfill", "startrecieved", "startreceived"};
  for (const std::string& flag : flags) {
    if (std::ranges::find(kKnown, ToLower(flag)) == kKnown.end())
      return InvalidArgument("'" + flag +
                             "' is not valid; expected one of None, SchedSubmit, SchedMain, SchedBackfill, "
                             "StartReceived");
  }
  return {};
}

void AddFilters(std::vector<dialect::Option>& options, SacctFlags& wish) {
  options.push_back(List("wckeys", 'W', "KEYS", "Jobs with these workload keys", wish.wckeys));
  options.push_back(List("reason", 'R', "REASONS", "Jobs that wait or ended for one of these reasons", wish.reasons));
  options.push_back(
      List("flags", 'F', "FLAGS", "Jobs with one of these flags; every started job has SchedMain", wish.flags));
  const auto add = [&](std::string_view name, char letter, std::string_view value_name, std::string_view help,
                       dialect::Apply apply) {
    options.push_back({.name = name,
                       .letter = letter,
                       .takes = Takes::kValue,
                       .value_name = value_name,
                       .help = help,
                       .apply = std::move(apply),
                       .aliases = {}});
  };
  for (const auto& [name, letter, help, range] : {std::tuple("nnodes", 'i', "Jobs on this many nodes", &wish.machines),
                                                  std::tuple("ncpus", 'I', "Jobs with this many CPUs", &wish.cpus)}) {
    add(name, letter, "N[-M]", help, [range = range](std::string_view value) -> Status {
      DIVVY_TRY(*range, ReadCountRange(value));
      return {};
    });
  }
  for (const auto& [name, letter, help, limit] :
       {std::tuple("timelimit-min", 'k', "Jobs with this time limit; with -K: at least this time limit",
                   &wish.limit_least),
        std::tuple("timelimit-max", 'K', "With -k: at most this time limit", &wish.limit_most)}) {
    add(name, letter, "TIME", help, [limit = limit](std::string_view value) -> Status {
      DIVVY_TRY(const Duration time, dialect::ParseSlurmTime(value));
      *limit = ToSeconds(time);
      return {};
    });
  }
  add("associations", 'x', "IDS", "Not supported; select associations with -u and -A", [](std::string_view) -> Status {
    return InvalidArgument("associations have no ids here that jobs keep; name them by --user and --accounts");
  });
}

bool PassesFilters(const wire::JobView& job, const SacctFlags& wish) {
  const auto is_one_of = [](const std::vector<std::string>& list, std::string_view value) {
    return list.empty() || std::ranges::any_of(list, [&](const auto& one) { return EqualsIgnoringCase(one, value); });
  };
  if (!is_one_of(wish.reasons, ReasonCode(job))) return false;
  if (!is_one_of(wish.flags, job.start_time ? "SchedMain" : "None")) return false;
  if (wish.machines && !wish.machines->Holds(NodeCountOf(job))) return false;
  if (wish.cpus && !wish.cpus->Holds(CpusOf(job))) return false;
  const double limit = job.request.time_limit_s > 0 ? job.request.time_limit_s : HUGE_VAL;
  if (wish.limit_least && wish.limit_most) return *wish.limit_least <= limit && limit <= *wish.limit_most;
  return !wish.limit_least || *wish.limit_least == limit;
}

std::vector<dialect::Option> SacctTable(SacctFlags& wish) {
  dialect::Option jobs{.name = "jobs",
                       .letter = 'j',
                       .takes = Takes::kValue,
                       .value_name = "IDS",
                       .help = "These jobs",
                       .apply = [&wish](std::string_view value) -> Status {
                         DIVVY_TRY(const std::vector<std::string> ids, SplitJobIds(value));
                         for (const std::string& id : ids) {
                           const auto dot = id.find('.');
                           wish.jobs.push_back(id.substr(0, dot));
                           if (dot != std::string::npos) wish.steps[wish.jobs.back()].insert(id.substr(dot + 1));
                         }
                         return {};
                       },
                       .aliases = {}};
  std::vector<dialect::Option> options = {
      std::move(jobs),
      List("format", 'o', "FIELDS", "Fields, optionally with %WIDTH; --helpformat lists them", wish.fields),
      List("state", 's', "STATES", "Jobs in these states", wish.states),
      List("user", 'u', "NAMES", "Jobs of these users", wish.users),
      List("name", 0, "NAMES", "Jobs of these names", wish.names),
      List("partition", 'r', "NAMES", "Jobs of these partitions", wish.partitions),
      List("accounts", 'A', "NAMES", "Jobs of these accounts", wish.accounts),
      List("qos", 'q', "NAMES", "Jobs of these QOSs", wish.qos),
      Text("starttime", 'S', "TIME", "Start time (default: midnight; with -j all jobs)", wish.since),
      Text("endtime", 'E', "TIME", "End time (default: now)", wish.until),
      Text("delimiter", 0, "TEXT", "Separator between fields, for -p and -P", wish.table.delimiter),
      Flag("allusers", 'a', "Jobs of all users", wish.is_all_users),
      Flag("allocations", 'X', "No steps", wish.has_no_steps),
      Flag("noheader", 'n', "No header", wish.table.has_no_header),
      Flag("parsable", 'p', "Fields with | after each", wish.table.is_parsable),
      Flag("parsable2", 'P', "Fields with | between them", wish.table.is_parsable2),
      Flag("brief", 'b', "JobID, State, ExitCode", wish.is_brief),
      Flag("long", 'l', "More fields", wish.is_long),
      Flag("helpformat", 'e', "Names of all fields", wish.lists_fields),
      Flag("batch-script", 'B', "The script of each job", wish.prints_script),
      List("nodelist", 'N', "HOSTS", "Jobs that ran on these hosts", wish.nodes),
      List("group", 'g', "NAMES", "Jobs of these groups", wish.groups),
  };
  options[3].aliases = {"uid"};
  options.back().aliases = {"gid"};
  AddFilters(options, wish);
  AddAnswerForms(options, wish.form, true);
  struct Silent {
    std::string_view name;
    char letter;
    Takes takes;
  };
  for (const Silent& one : {Silent{"allclusters", 'L', Takes::kNothing}, Silent{"clusters", 'M', Takes::kValue},
                            Silent{"completion", 'c', Takes::kNothing}, Silent{"duplicates", 'D', Takes::kNothing},
                            Silent{"noconvert", 0, Takes::kNothing}, Silent{"units", 0, Takes::kValue},
                            Silent{"truncate", 'T', Takes::kNothing}, Silent{"verbose", 'v', Takes::kNothing},
                            Silent{"local", 0, Takes::kNothing}, Silent{"federation", 0, Takes::kNothing},
                            Silent{"whole-hetjob", 0, Takes::kOptionalValue}, Silent{"env-vars", 0, Takes::kNothing},
                            Silent{"expand-patterns", 0, Takes::kNothing}, Silent{"use-local-uid", 0, Takes::kNothing},
                            Silent{"array", 0, Takes::kNothing}}) {
    options.push_back(Ignored(one.name, one.letter, one.takes));
  }
  return options;
}

double Midnight() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  local.tm_hour = local.tm_min = local.tm_sec = 0;
  return static_cast<double>(::mktime(&local));
}

/// Parses times in the past: "2026-03-01", "now-2days", "midnight", "today".
Result<double> ReadPast(const std::string& text) {
  const dialect::ParseContext around = CallerParseContext();
  const std::string lower = ToLower(text);
  if (lower == "now") return ToSeconds(around.now);
  if (lower == "today" || lower == "midnight") return Midnight();
  if (lower.starts_with("now-")) {
    std::string length = lower.substr(4);
    for (const std::string_view word :
         {"seconds", "second", "minutes", "minute", "hours", "hour", "days", "day", "weeks", "week"}) {
      if (length.ends_with(word)) {
        length = length.substr(0, length.size() - word.size()) + word.front();
        break;
      }
    }
    DIVVY_TRY(const Duration duration, dialect::ParseDuration(length, 1s));
    return ToSeconds(around.now) - ToSeconds(duration);
  }
  // "16:00" means the last 16:00 here, not the next one.
  DIVVY_TRY(const Time moment, dialect::ParsePastMoment(text, around.now, around.utc_offset));
  return ToSeconds(moment);
}

Result<wire::JobSelector> SelectorOf(const SacctFlags& wish) {
  wire::JobSelector select;
  select.includes_final = true;
  select.ids = wish.jobs;
  select.pools = PoolsOf(wish.partitions);
  select.accounts = wish.accounts;
  select.qos = wish.qos;
  const bool sees_all = wish.is_all_users || ::getuid() == 0 || !wish.jobs.empty() || wish.users.size() > 1;
  select.user = wish.users.size() == 1 ? wish.users.front() : sees_all ? "all" : "";
  DIVVY_TRY(select.states, ReadStates(wish.states));
  if (!wish.since.empty()) {
    DIVVY_TRY(select.since, ReadPast(wish.since));
  } else if (wish.jobs.empty()) {
    select.since = Midnight();
  }
  return select;
}

/// Adds the job and its steps, or only the requested steps. Without a list of steps, a job has just the batch step.
void AddRows(AccountRow row, std::vector<JobStep> steps, const SacctFlags& wish, std::vector<AccountRow>& rows) {
  auto alone = wish.steps.find(JobIdText(row.job));
  if (alone == wish.steps.end()) alone = wish.steps.find(ToString(row.job.id));
  const bool has_alone = alone != wish.steps.end();
  if (!has_alone) rows.push_back(row);
  if (wish.has_no_steps || !row.job.start_time) return;
  const bool has_batch = !row.job.is_foreground && ComponentNumber(row.job).value_or(0) == 0;
  if (steps.empty() && has_batch) steps.push_back(BatchStepOf(row.job));
  for (JobStep& step : steps) {
    if (has_alone && !alone->second.contains(step.id)) continue;
    row.step = step.id;
    row.is_step_measured = step.is_measured;
    row.step_tasks = step.tasks;
    row.job = std::move(step.job);
    rows.push_back(row);
  }
}

/// Adds a line for each component that `is_wanted` accepts, with its steps. Measurements are shown with the first
/// component.
void AddComponents(AccountRow row, const wire::JobView& job, std::vector<JobStep> steps, const SacctFlags& wish,
                   const std::function<bool(const wire::JobView& component)>& is_wanted,
                   std::vector<AccountRow>& rows) {
  std::map<std::size_t, std::vector<JobStep>> of_component;
  for (JobStep& step : steps) {
    const std::size_t number = step.id == "batch" ? 0 : ComponentOfStep(job, step.job);
    step.job.display_id = job.display_id + "+" + std::to_string(number);
    of_component[number].push_back(std::move(step));
  }
  for (const wire::JobView& component : SplitComponents({job}, wish.jobs)) {
    if (!is_wanted(component)) continue;
    const std::size_t number = ComponentNumber(component).value_or(0);
    row.job = component;
    if (number > 0) {
      row.cpu_time_s = 0;
      row.memory_peak_bytes = 0;
    }
    AddRows(row, std::move(of_component[number]), wish, rows);
  }
}

Result<std::vector<AccountRow>> Rows(Api& api, const SacctFlags& wish, bool needs_detail, Scene& scene) {
  DIVVY_TRY(const wire::JobSelector select, SelectorOf(wish));
  DIVVY_TRY(std::vector<wire::JobView> jobs, FetchJobs(api, select));
  double until = 0;
  if (!wish.until.empty()) {
    DIVVY_TRY(until, ReadPast(wish.until));
  }
  std::ranges::sort(jobs, {}, &wire::JobView::id);
  const std::set<std::string> names(wish.names.begin(), wish.names.end());
  const std::set<std::string> users(wish.users.begin(), wish.users.end());
  const std::set<std::string> groups(wish.groups.begin(), wish.groups.end());
  scene = SceneOf(api, jobs);
  DIVVY_TRY(const std::vector<std::string> hosts, HostNames(wish.nodes));
  const auto is_there = [&](const wire::JobView& job) { return hosts.empty() || IsOnOneOf(job, hosts, scene); };
  std::vector<AccountRow> rows;
  for (wire::JobView& job : jobs) {
    if (!names.empty() && !names.contains(job.name)) continue;
    if (!users.empty() && !users.contains(job.user)) continue;
    if (!wish.states.empty() && !IsInSlurmState(job, wish.states)) continue;
    if (!is_there(job) || !PassesFilters(job, wish)) continue;
    if (!groups.empty()) {
      const auto [name, number] = scene.group_of(job.user);
      if (!groups.contains(name) && !groups.contains(std::to_string(number))) continue;
    }
    if (until > 0 && job.start_time.value_or(job.submit_time) > until) continue;
    AccountRow row;
    // An ended job knows its number of steps; a running one must be queried.
    const bool may_have_steps =
        !wish.has_no_steps && job.start_time && (job.step_count > 0 || !IsFinal(job) || job.is_foreground);
    std::vector<JobStep> steps;
    if (needs_detail || may_have_steps) {
      if (const auto detail = api.Job(ToString(job.id))) {
        steps = JobStepsOf(*detail, StepsOf(api, *detail));
        row.cpu_time_s = detail->cpu_time_s;
        row.memory_peak_bytes = detail->memory_peak_bytes;
        row.was_oom_killed = detail->was_oom_killed;
        row.directory = detail->directory;
        row.command = detail->command;
        row.output = detail->output;
        row.error = detail->error;
        row.labels = detail->labels;
      }
    }
    if (!wish.wckeys.empty() && std::ranges::count(wish.wckeys, LabelOf(row.labels, "wckey", "")) == 0) continue;
    if (IsHeterogeneous(job)) {
      const auto is_wanted = [&](const wire::JobView& one) { return is_there(one) && IsInOneOf(wish.partitions, one); };
      AddComponents(row, job, std::move(steps), wish, is_wanted, rows);
      continue;
    }
    row.job = std::move(job);
    AddRows(std::move(row), std::move(steps), wish, rows);
  }
  return rows;
}

int PrintScripts(Api& api, const SacctFlags& wish) {
  for (const std::string& id : wish.jobs) {
    const auto job = api.Job(id);
    if (!job) return FailAs("sacct", job.error());
    std::printf("Batch Script for %s\n%s\n%s\n", id.c_str(), std::string(80, '-').c_str(),
                job->script.empty() ? "NONE" : job->script.c_str());
  }
  return 0;
}

}  // namespace

int SacctMain(const std::vector<std::string>& words) {
  SacctFlags wish;
  const std::vector<dialect::Option> options = SacctTable(wish);
  if (Greets("sacct", "[OPTIONS]", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  NameUsers(wish.users);
  if (!parsed) return FailAs("sacct", parsed.error().message);
  if (!parsed->positional.empty())
    return FailAs("sacct", "unexpected word '" + parsed->positional.front() + "'; jobs are named with -j");
  if (const Status flags = CheckFlags(wish.flags); !flags) return FailAs("sacct", flags.error().message);
  if (wish.limit_most && !wish.limit_least) return FailAs("sacct", "--timelimit-max works only with --timelimit-min");
  if (wish.form.lists_parsers) return PrintParsers();
  if (wish.lists_fields) {
    std::fputs(AccountFieldNames().c_str(), stdout);
    return 0;
  }
  AccountFormat format{.fields = wish.fields, .style = wish.table.style()};
  if (format.fields.empty()) {
    const char* preferred = std::getenv("SACCT_FORMAT");
    const std::string_view list = wish.is_brief                             ? kAccountBrief
                                  : wish.is_long                            ? kAccountLong
                                  : preferred != nullptr && *preferred != 0 ? preferred
                                                                            : kAccountDefault;
    for (const std::string_view name : Split(list, ',')) format.fields.emplace_back(name);
  }
  auto api = Api::Connect();
  if (!api) return FailAs("sacct", api.error());
  if (wish.prints_script) return PrintScripts(*api, wish);
  Scene scene = SceneOfServer();
  auto rows = Rows(*api, wish, wish.form.any() || !wish.wckeys.empty() || NeedsDetail(format.fields), scene);
  if (!rows && rows.error().code == ErrorCode::kNotFound)
    rows = std::vector<AccountRow>();  // Slurm prints only the header.
  if (!rows) return FailAs("sacct", rows.error());
  if (wish.form.any()) {
    PrintAnswer(AccountsJson(*rows, scene, wish.form.schema), wish.form);
    return 0;
  }
  const auto text = FormatAccounts(*rows, format, scene);
  if (!text) return FailAs("sacct", text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace divvy::cli
