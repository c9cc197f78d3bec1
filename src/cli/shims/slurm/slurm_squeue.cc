// squeue: fetches the jobs and prints FormatQueue's text.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_fetch.h"
#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/shims/slurm_look/slurm_queue.h"
#include "cli/steps/step_listing.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct SqueueFlags {
  QueueFormat format;
  std::vector<std::string> jobs;
  std::vector<std::string> users;
  std::vector<std::string> states;
  std::vector<std::string> names;
  std::vector<std::string> partitions;
  std::vector<std::string> accounts;
  std::vector<std::string> qos;
  std::vector<std::string> nodes;
  std::string interval;
  bool is_mine = false;
  bool is_long = false;
  bool splits_arrays = false;
  bool shows_steps = false;
  std::vector<std::string> steps;  // "17.0", or "17" for all steps of job 17. Empty: any.
  bool shows_start = false;
  bool has_no_header = false;
  AnswerForm form;
  std::vector<std::string> reservations;
  std::vector<std::string> licenses;
  bool is_verbose = false;
};

Status TakeSteps(std::string_view list, SqueueFlags& wish) {
  DIVVY_TRY(const std::vector<std::string> ids, SplitJobIds(list));
  for (const std::string& id : ids) {
    wish.steps.push_back(id);
    wish.jobs.push_back(id.substr(0, id.find('.')));
  }
  return {};
}

std::vector<dialect::Option> SqueueTable(SqueueFlags& wish) {
  dialect::Option jobs{.name = "jobs",
                       .letter = 'j',
                       .takes = Takes::kValue,
                       .value_name = "IDS",
                       .help = "These jobs only",
                       .apply = [&wish](std::string_view value) -> Status {
                         DIVVY_TRY(const std::vector<std::string> ids, SplitJobIds(value));
                         wish.jobs.insert(wish.jobs.end(), ids.begin(), ids.end());
                         return {};
                       },
                       .aliases = {"job"}};
  dialect::Option steps{.name = "steps",
                        .letter = 's',
                        .takes = Takes::kOptionalValue,
                        .value_name = "IDS",
                        .help = "Steps: all running ones, or these (17.0)",
                        .apply = [&wish](std::string_view value) -> Status {
                          wish.shows_steps = true;
                          return TakeSteps(value, wish);
                        },
                        .aliases = {"step"}};
  std::vector<dialect::Option> options = {
      Text("format", 'o', "FORMAT", "Columns by letter: \"%.18i %.9P %j\"", wish.format.letters),
      Text("Format", 'O', "NAMES", "Columns by name: jobid,name:30", wish.format.names),
      std::move(jobs),
      List("user", 'u', "NAMES", "Jobs of these users", wish.users),
      List("states", 't', "STATES", "Jobs in these states: PD, R, CD, all", wish.states),
      List("name", 'n', "NAMES", "Jobs of these names", wish.names),
      List("partition", 'p', "NAMES", "Jobs of these partitions", wish.partitions),
      List("account", 'A', "NAMES", "Jobs of these accounts", wish.accounts),
      List("qos", 'q', "NAMES", "Jobs of these QOSs", wish.qos),
      Text("sort", 'S', "LETTERS", "Order, by the letters of --format", wish.format.sort),
      Text("iterate", 'i', "SECONDS", "Refresh interval", wish.interval),
      Flag("me", 0, "My jobs", wish.is_mine),
      Flag("long", 'l', "More columns", wish.is_long),
      Flag("array", 'r', "One line for each element of an array", wish.splits_arrays),
      std::move(steps),
      Flag("start", 0, "Expected starts of queued jobs", wish.shows_start),
      Flag("noheader", 'h', "No header", wish.has_no_header),
      Ignored("array-unique", 0, Takes::kNothing),
      Ignored("all", 'a', Takes::kNothing),
      List("nodelist", 'w', "HOSTS", "Jobs on these hosts", wish.nodes),
      List("reservation", 'R', "NAMES", "Jobs that named one of these reservations", wish.reservations),
      List("licenses", 'L', "NAMES", "Jobs that requested one of these licences", wish.licenses),
      Ignored("clusters", 'M', Takes::kValue),
      Ignored("priority", 'P', Takes::kNothing),
      Ignored("hide", 0, Takes::kNothing),
      Ignored("local", 0, Takes::kNothing),
      Ignored("federation", 0, Takes::kNothing),
      Ignored("sibling", 0, Takes::kNothing),
      Ignored("noconvert", 0, Takes::kNothing),
      Ignored("only-job-state", 0, Takes::kNothing),
      Ignored("expand-patterns", 0, Takes::kNothing),
      Flag("verbose", 'v', "Also print how the options are read", wish.is_verbose),
  };
  for (dialect::Option& option : options) {
    if (option.name == "partition") option.aliases = {"partitions"};
  }
  AddAnswerForms(options, wish.form, true);
  return options;
}

constexpr auto kVariables = std::to_array<EnvironmentOption>({
    {"SQUEUE_ACCOUNT", "account"},
    {"SQUEUE_ARRAY", "array", true},
    {"SQUEUE_FORMAT", "format"},
    {"SQUEUE_FORMAT2", "Format"},
    {"SQUEUE_NAMES", "name"},
    {"SQUEUE_PARTITION", "partition"},
    {"SQUEUE_QOS", "qos"},
    {"SQUEUE_SORT", "sort"},
    {"SQUEUE_STATES", "states"},
    {"SQUEUE_USERS", "user"},
});

void AddFromEnvironment(const SqueueFlags& around, SqueueFlags& wish) {
  const bool has_own_format = !wish.format.letters.empty() || !wish.format.names.empty() || wish.is_long ||
                              wish.shows_start || wish.shows_steps;
  if (!has_own_format) {
    wish.format.letters = around.format.letters;
    wish.format.names = around.format.names;
  }
  OrElse(wish.format.sort, around.format.sort);
  OrElse(wish.accounts, around.accounts);
  OrElse(wish.names, around.names);
  OrElse(wish.partitions, around.partitions);
  OrElse(wish.qos, around.qos);
  OrElse(wish.states, around.states);
  if (!wish.is_mine) OrElse(wish.users, around.users);
  wish.splits_arrays = wish.splits_arrays || around.splits_arrays;
}

/// Fails if none of the users is known. Otherwise reports the unknown ones and keeps the rest.
Status CheckUsers(std::vector<std::string>& users) {
  NameUsers(users);
  std::vector<std::string> unknown;
  for (const std::string& user : users) {
    if (!MayBeUser(user)) unknown.push_back(user);
  }
  if (unknown.empty()) return {};
  const std::string text = "Invalid user: " + Join(unknown, ",");
  if (unknown.size() == users.size()) return InvalidArgument(text);
  std::erase_if(users, [&](const std::string& user) { return std::ranges::find(unknown, user) != unknown.end(); });
  FailAs("squeue", text);
  return {};
}

Result<wire::JobSelector> SelectorOf(const SqueueFlags& wish) {
  wire::JobSelector select;
  select.ids = wish.jobs;
  // Let the server identify the caller, whose name may differ on this machine.
  select.user = wish.is_mine ? "@me" : wish.users.size() == 1 ? wish.users.front() : "all";
  DIVVY_TRY(const std::vector<std::string> states, ReadStates(wish.states));
  select.states = states;
  select.pools = PoolsOf(wish.partitions);
  select.accounts = wish.accounts;
  select.qos = wish.qos;
  wire::JobView probe;
  select.includes_final = std::ranges::any_of(states, [&](const std::string& state) {
    probe.state = state;
    return IsFinal(probe);
  });
  if (select.includes_final && wish.jobs.empty()) select.since = ToSeconds(CallerParseContext().now) - kMinJobAgeS;
  return select;
}

bool IsWanted(const wire::JobView& job, const SqueueFlags& wish) {
  const auto among = [](const std::vector<std::string>& list, const std::string& value) {
    return list.empty() || std::ranges::find(list, value) != list.end();
  };
  if (!among(wish.names, job.name)) return false;
  if (!wish.is_mine && wish.users.size() > 1 && !among(wish.users, job.user)) return false;
  // Without states, Slurm lists pending, running and completing jobs.
  return wish.states.empty() ? !IsFinal(job) : IsInSlurmState(job, wish.states);
}

/// True if the job's --reservation or --licenses is in `names`; only a job's full answer has these.
bool SaidOneOf(const QueueRow& row, const std::string& option, const std::vector<std::string>& names) {
  if (names.empty()) return true;
  if (row.detail == nullptr) return false;
  const std::string said = LabelOf(*row.detail, option, "");
  return std::ranges::any_of(Split(said, ','), [&](std::string_view one) {
    const std::string_view name = Trim(one.substr(0, one.find_first_of(":@")));
    return std::ranges::find(names, name) != names.end();
  });
}

/// The running steps of each running job.
std::vector<QueueRow> StepRows(Api& api, const SqueueFlags& wish, std::vector<QueueRow> rows) {
  const auto is_named = [&](const std::string& id) { return std::ranges::find(wish.steps, id) != wish.steps.end(); };
  std::vector<QueueRow> out;
  for (QueueRow& row : rows) {
    if (row.detail == nullptr || IsFinal(row.job)) continue;
    const std::string id = JobIdText(row.job);
    std::vector<JobStep> steps = JobStepsOf(*row.detail, StepsOf(api, *row.detail));
    // Sort by number; in Slurm the batch step has the highest.
    if (!steps.empty() && steps.front().id == "batch") std::ranges::rotate(steps, steps.begin() + 1);
    for (JobStep& step : steps) {
      if (IsFinal(step.job)) continue;
      if (!wish.steps.empty() && !is_named(id) && !is_named(id + "." + step.id)) continue;
      QueueRow line = row;
      line.job = std::move(step.job);
      line.job.display_id = id + "." + step.id;
      line.step_tasks = step.tasks;
      out.push_back(std::move(line));
    }
  }
  return out;
}

QueueFormat FormatOf(const SqueueFlags& wish) {
  QueueFormat format = wish.format;
  if (format.letters.empty()) {
    format.letters = wish.shows_steps   ? kQueueSteps
                     : wish.shows_start ? kQueueStart
                     : wish.is_long     ? kQueueLong
                                        : kQueueDefault;
  }
  format.has_header = !wish.has_no_header;
  format.is_of_steps = wish.shows_steps;
  return format;
}

Result<std::string> Draw(Api& api, const SqueueFlags& wish) {
  DIVVY_TRY(const wire::JobSelector select, SelectorOf(wish));
  DIVVY_TRY(std::vector<wire::JobView> jobs, FetchJobs(api, select));
  const double forgotten = ToSeconds(CallerParseContext().now) - kMinJobAgeS;
  const auto is_forgotten = [&](const wire::JobView& job) {
    return wish.jobs.empty() && IsFinal(job) && job.end_time.value_or(forgotten) < forgotten;
  };
  std::erase_if(jobs, [&](const wire::JobView& job) { return !IsWanted(job, wish) || is_forgotten(job); });
  std::map<std::string, std::size_t> components;  // By the id of the whole job.
  for (const wire::JobView& job : jobs) components[ToString(job.id)] = 1 + job.request.others.size();
  // Steps belong to the whole job, so do not split jobs for them.
  if (!wish.shows_steps) {
    jobs = SplitComponents(jobs, wish.jobs);
    std::erase_if(jobs, [&](const wire::JobView& job) { return !IsInOneOf(wish.partitions, job); });
  }
  const Scene scene = SceneOf(api, jobs);
  if (!wish.nodes.empty()) {
    // A waiting job is on no host.
    DIVVY_TRY(const std::vector<std::string> hosts, HostNames(wish.nodes));
    DIVVY_TRY(const std::vector<NodeRow> nodes, FetchNodes());
    for (const std::string& host : hosts) {
      if (NodesNamed(nodes, {host}).empty()) return InvalidArgument("Invalid node name " + host);
    }
    std::erase_if(jobs, [&](const wire::JobView& job) { return !IsOnOneOf(job, hosts, scene); });
  }
  SortLikeSqueue(jobs);
  if (wish.splits_arrays) jobs = SplitArrays(jobs);
  if (wish.shows_start) std::erase_if(jobs, [](const wire::JobView& job) { return !IsPending(job); });
  const QueueFormat format = FormatOf(wish);
  const bool needs_detail = wish.form.any() || wish.shows_steps || !wish.reservations.empty() ||
                            !wish.licenses.empty() || QueueNeedsDetail(format);
  std::vector<QueueRow> rows;
  constexpr std::size_t kMostPredictions = 200;  // Each costs a request to the daemon.
  for (wire::JobView& job : jobs) {
    QueueRow row{.job = std::move(job), .predicted_start = std::nullopt, .detail = nullptr};
    row.components = components[LeaderId(row.job)];
    if (wish.shows_start && rows.size() < kMostPredictions) {
      if (const auto why = api.Why(LeaderId(row.job))) row.predicted_start = why->predicted_start;
    }
    if (needs_detail) {
      if (auto detail = api.Job(LeaderId(row.job)))
        row.detail = std::make_shared<const wire::JobDetail>(*std::move(detail));
    }
    if (SaidOneOf(row, "reservation", wish.reservations) && SaidOneOf(row, "licenses", wish.licenses))
      rows.push_back(std::move(row));
  }
  if (wish.form.any()) return QueueJson(rows, scene, wish.form.schema);
  std::string text;
  if (format.has_header && (wish.is_long || !wish.interval.empty())) {
    text = DateLine();
  }
  DIVVY_TRY(const std::string table,
            FormatQueue(wish.shows_steps ? StepRows(api, wish, std::move(rows)) : std::move(rows), format, scene));
  return text + table;
}

}  // namespace

int SqueueMain(const std::vector<std::string>& words) {
  SqueueFlags wish;
  const std::vector<dialect::Option> options = SqueueTable(wish);
  if (Greets("squeue", "[OPTIONS]", options, words)) return 0;
  SqueueFlags around;
  if (const Status read = ReadEnvironment(SqueueTable(around), kVariables); !read)
    return FailAs("squeue", read.error());
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("squeue", parsed.error().message);
  if (wish.form.lists_parsers) return PrintParsers();
  for (const std::string& word : parsed->positional) {
    // Like squeue, also take stray words as ids: "-s 17.0", "-j 17" and "-u me".
    if (wish.shows_steps) {
      if (const Status taken = TakeSteps(word, wish); !taken) return FailAs("squeue", "Unrecognized option: " + word);
      continue;
    }
    auto ids = SplitJobIds(word);
    if (!ids) return FailAs("squeue", "Unrecognized option: " + word);
    wish.jobs.insert(wish.jobs.end(), ids->begin(), ids->end());
  }
  AddFromEnvironment(around, wish);
  if (const Status named = CheckUsers(wish.users); !named) return FailAs("squeue", named.error().message);
  if (wish.is_verbose)
    PrintOptions(wish.interval, {{"jobs", wish.jobs}, {"users", wish.users}, {"states", wish.states}});
  for (;;) {
    auto api = Api::Connect();
    if (!api) return FailAs("squeue", api.error());
    const auto text = Draw(*api, wish);
    if (!text) {
      if (text.error().code != ErrorCode::kNotFound) return FailAs("squeue", text.error());
      std::fprintf(stderr, "slurm_load_jobs error: Invalid job id specified\n");
      return 1;
    }
    PrintAnswer(*text, wish.form);
    std::fflush(stdout);
    if (!WaitForNextRound(wish.interval)) return 0;
  }
}

}  // namespace divvy::cli
