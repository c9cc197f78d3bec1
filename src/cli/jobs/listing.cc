// divvy queue and show.
#include <algorithm>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/answer_options.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/metrics_text.h"
#include "cli/client/places.h"
#include "cli/client/process_text.h"
#include "cli/client/table.h"
#include "cli/client/tenant_lines.h"
#include "cli/reports/waste_text.h"
#include "cli/steps/step_listing.h"
#include "dialect/options/quantities.h"
#include "model/job_record.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

using dialect::Option;

// Most rows shown to users by default; the rest is counted. --limit 0 prints all.
constexpr std::int64_t kRowsForPeople = 200;

struct QueueFlags {
  ListingOptions listing;
  wire::JobSelector select;
  bool has_limit = false;
};

std::vector<Option> QueueTable(QueueFlags& flags) {
  std::vector<Option> table = ListingOptionTable(flags.listing);
  table.push_back(Option::Flag("all", 'a', "Include jobs that have ended, newest first",
                               dialect::Sets(flags.select.includes_final)));
  table.push_back(Option::Value("user", 'u', "NAME", "Only this user's jobs", dialect::Keeps(flags.select.user)));
  table.push_back(Option::Flag("mine", 'm', "Only my jobs",
                               [&flags](std::string_view) -> Status {
                                 flags.select.user = "@me";
                                 return {};
                               },
                               {"me"}));
  table.push_back(Option::Value("state", 's', "A,B", "Only jobs in these states",
                                [&flags](std::string_view value) -> Status {
                                  for (std::string_view part : Split(value, ',')) {
                                    const std::string name = ToLower(Trim(part));
                                    const auto state = JobStateFromName(name);
                                    if (!state)
                                      return InvalidArgument(
                                          "unknown job state '" + name +
                                          "': expected held, queued, starting, running, paused, stopping, succeeded, "
                                          "failed, cancelled, timed_out or lost");
                                    if (IsFinal(*state)) flags.select.includes_final = true;
                                    flags.select.states.push_back(name);
                                  }
                                  return {};
                                },
                                {"states"}));
  table.push_back(Option::Value("name", 'n', "NAME", "Only jobs with this name", dialect::Keeps(flags.select.name)));
  table.push_back(
      Option::Value("project", 'P', "NAME", "Only jobs in this project", dialect::Keeps(flags.select.project)));
  table.push_back(Option::Value("group", "NAME", "Only jobs in this group", dialect::Keeps(flags.select.group)));
  table.push_back(Option::Value("pool", "A,B", "Only jobs submitted for these pools (Slurm's partitions)",
                                [&flags](std::string_view value) -> Status {
                                  for (std::string_view part : Split(value, ','))
                                    flags.select.pools.emplace_back(Trim(part));
                                  return {};
                                },
                                {"partition"}));
  table.push_back(Option::Value("since", "TIME",
                                "Only jobs that ended or were submitted after this time: 2h ago, 16:00, 2026-03-01; a "
                                "bare number means hours ago",
                                [&flags](std::string_view value) -> Status {
                                  DIVVY_TRY(flags.select.since, AgoOrMoment(value));
                                  flags.select.includes_final = true;
                                  return {};
                                }));
  table.push_back(Option::Value(
      "limit", 'l', "N", "At most N rows; 0 means all (default: 200; all with --json and --csv)",
      [&flags](std::string_view value) -> Status {
        const auto limit = ParseInteger(value);
        if (!limit || *limit < 0)
          return InvalidArgument("'" + std::string(value) + "' is not a number of rows; write 0 (all) or more");
        flags.select.limit = *limit;
        flags.has_limit = true;
        return {};
      }));
  return table;
}

constexpr std::string_view kNodeColumn = "NODE";
constexpr std::string_view kWaste = "WASTE";  // The GPUs that a job wastes; shown only if some job wastes any.

constexpr Column InSeconds(std::string_view title, std::string_view csv_title, bool is_shown) {
  return {title, true, is_shown, false, false, false, csv_title};
}

const std::vector<Column>& QueueColumns() {
  static const std::vector<Column> columns = {{"ID", true, true, false},
                                              {"NAME", false, true, true},
                                              {"USER", false, true, false},
                                              {"STATE", false, true, false},
                                              {"GPUS", true, true, false},
                                              {kNodeColumn, false, false, true},
                                              {"ON", false, true, false},
                                              InSeconds("TIME", "time_s", true),
                                              InSeconds("LIMIT", "limit_s", true),
                                              {kWaste, true, false, false, false, false, "wasted_gpus"},
                                              {"REASON", false, true, true},
                                              {"PRIORITY", true, false, false},
                                              {"SUBMITTED", false, false, false},
                                              {"STARTED", false, false, false},
                                              {"ENDED", false, false, false},
                                              {"EXIT", true, false, false},
                                              InSeconds("WAITED", "waited_s", false),
                                              {"PROJECT", false, false, false},
                                              {"GROUP", false, false, false},
                                              {"POSITION", true, false, false},
                                              {"RESTARTS", true, false, false},
                                              {"DIALECT", false, false, false},
                                              {"COMMENT", false, false, true},
                                              {"DEPENDS", false, false, false},
                                              {"POOL", false, false, false},
                                              {"ACCOUNT", false, false, false},
                                              {"QOS", false, false, false},
                                              {"PROGRESS", false, false, false},
                                              {"STAGE", false, false, false},
                                              InSeconds("LOST", "lost_s", false)};
  return columns;
}

/// "35%", "step 1200 of 100000 (1.2%)".
std::string ProgressText(const wire::ProgressView& progress) {
  // Round down, so that 100% means completely done.
  const auto tenths = static_cast<std::int64_t>(progress.fraction * 1000 + 1e-6);
  const std::string percent =
      std::to_string(tenths / 10) + (tenths % 10 > 0 ? "." + std::to_string(tenths % 10) : "") + "%";
  if (progress.steps == 0) return percent;
  return "step " + std::to_string(progress.step) + " of " + std::to_string(progress.steps) + " (" + percent + ")";
}

/// For a running job: "35%, about 2 h to go"; empty if it reports no progress.
std::string OutlookText(const std::optional<wire::ProgressView>& progress, double now) {
  if (!progress) return "";
  std::string text = ProgressText(*progress);
  if (progress->expected_end && *progress->expected_end > now)
    text += ", about " + InWords(*progress->expected_end - now) + " to go";
  return text;
}

/// Where the job is. For a job with GPU fractions: where the share daemon has it at the moment.
std::string OnText(const wire::JobView& job) {
  if (!job.start_time) return "";
  if (!job.share || job.share->gpus.empty()) return GpuList(job.gpus);
  if (IsOnHost(job.share->state)) return "host";
  std::vector<std::int64_t> gpus;
  for (const wire::SharedGpuView& one : job.share->gpus) gpus.push_back(one.gpu);
  return GpuList(gpus);
}

/// "settled, has lost 12 min while parked". `with_place`: also says for whom it is parked now.
std::string TimeSharingText(const wire::TimeSharingView& view, bool with_place) {
  std::vector<std::string> parts;
  if (view.stage == "trial") parts.emplace_back("on trial");
  else if (with_place) parts.emplace_back(view.stage == "settled" ? "settled" : "its trial is over");
  if (with_place && view.is_parked)
    parts.push_back((view.parked_for.empty() ? "parked by its sweep" : "parked for job " + view.parked_for) +
                    (view.returns_by ? " until " + When(view.returns_by) + " at the latest" : ""));
  if (view.lost_s >= 1) parts.push_back("has lost " + InWords(view.lost_s) + " while parked");
  if (with_place && !view.why_kept.empty()) parts.push_back("cannot be parked: " + view.why_kept);
  return Join(parts, ", ");
}

/// For a running job: that its node cannot be reached, otherwise its progress; and notes about its GPUs.
std::string RunningText(const wire::JobView& job, double now) {
  std::vector<std::string> parts = {job.reason != job.start_reason ? job.reason : OutlookText(job.progress, now)};
  if (job.share) parts.push_back(job.share->note);
  if (job.time_sharing) parts.push_back(TimeSharingText(*job.time_sharing, false));
  std::erase(parts, "");
  return Join(parts, "; ");
}

/// For a paused or stopping job: the reason, and the note about its GPU fractions.
std::string ReasonText(const wire::JobView& job) {
  const std::string note = job.share ? job.share->note : "";
  return job.reason + (job.reason.empty() || note.empty() ? "" : "; ") + note;
}

/// True if the job has a MIG instance. Its share is then shown instead of the request, because it has more details.
bool HasSlice(const wire::JobView& job) { return !job.request.slice.empty() && job.share; }

/// The time since which it waited for its present run, or waits for its next one. Works for both job views.
template <typename View>
double WaitsSince(const View& job) {
  const bool ran_before = job.restarts > 0 && job.eligible_time;
  return ran_before ? std::max(job.submit_time, *job.eligible_time) : job.submit_time;
}

/// How many seconds a job waited until it started, or until it ended without a start, or until `now`.
template <typename View>
double Waited(const View& job, double now) {
  return std::max(job.start_time.value_or(job.end_time.value_or(now)) - WaitsSince(job), 0.0);
}

std::vector<Cell> QueueRow(const wire::JobView& job, double now, const std::string& own, const WastedGpus& wasted,
                           bool is_csv) {
  const auto span = [is_csv](double seconds) {
    return is_csv ? std::to_string(static_cast<std::int64_t>(std::max(seconds, 0.0))) : Span(seconds);
  };
  const auto moment = [is_csv](std::optional<double> time) { return is_csv ? Moment(time) : When(time); };
  const bool has_started = job.start_time.has_value();
  const bool is_by_deadline = !is_csv && EndsByDeadline(job.request, job.start_time);
  const std::string limit = is_by_deadline                 ? "deadline"
                            : job.request.time_limit_s > 0 ? span(job.request.time_limit_s)
                                                           : "";
  const double until = job.end_time.value_or(now);
  std::string depends;
  for (const std::string& dependency : job.dependencies) depends += (depends.empty() ? "" : ",") + dependency;
  return {{job.display_id, Colour::kBold},
          {job.name, Colour::kNone},
          {job.user, Colour::kNone},
          {job.state, StateColour(job.state)},
          {HasSlice(job) ? job.share->part : GpuCount(job.request), Colour::kNone},
          {NodeText(job, own), Colour::kNone},
          {OnText(job), Colour::kBlue},
          {span(has_started ? until - *job.start_time : Waited(job, now)), has_started ? Colour::kNone : Colour::kDim},
          {limit, Colour::kNone},
          {WasteCell(wasted, job.id), Colour::kYellow},
          {job.state == "running" ? RunningText(job, now) : ReasonText(job), Colour::kDim},
          {std::to_string(job.priority), Colour::kNone},
          {moment(job.submit_time), Colour::kNone},
          {moment(job.start_time), Colour::kNone},
          {moment(job.end_time), Colour::kNone},
          {job.exit_code ? std::to_string(*job.exit_code) : "",
           job.exit_code.value_or(0) == 0 ? Colour::kNone : Colour::kRed},
          {span(Waited(job, now)), Colour::kNone},
          {job.project, Colour::kNone},
          {job.group, Colour::kNone},
          {job.position > 0 ? std::to_string(job.position) : "", Colour::kNone},
          {std::to_string(job.restarts), Colour::kNone},
          {job.dialect, Colour::kNone},
          {job.comment, Colour::kNone},
          {depends, Colour::kNone},
          {job.pool, Colour::kNone},
          {job.account, Colour::kNone},
          {job.qos, Colour::kNone},
          {job.progress ? ProgressText(*job.progress) : "", Colour::kNone},
          {job.time_sharing ? job.time_sharing->stage : "", Colour::kNone},
          {job.time_sharing ? span(job.time_sharing->lost_s) : "", Colour::kNone}};
}

constexpr std::size_t kMostProcesses = 8;  // In divvy show.

Result<std::string> DrawQueue(Api& api, const QueueFlags& flags) {
  wire::JobSelector select = flags.select;
  const bool is_for_people = !flags.listing.json && !flags.listing.csv;
  if (is_for_people && !flags.has_limit) select.limit = kRowsForPeople;
  if (flags.listing.json) {
    DIVVY_TRY(std::vector<wire::JobView> jobs, api.Jobs(select));
    return wire::Encode(JobsWithWaste(std::move(jobs), WastedBy(AskWaste(api)))) + "\n";
  }
  // Request one more than is shown, to detect whether there are more.
  const auto shown = static_cast<std::size_t>(select.limit);
  if (select.limit > 0) select.limit += 1;
  DIVVY_TRY(std::vector<wire::JobView> jobs, api.Jobs(select));
  const bool is_cut = shown > 0 && jobs.size() > shown;
  if (is_cut) jobs.resize(shown);
  std::vector<std::vector<Cell>> rows;
  rows.reserve(jobs.size());
  const double now = NowSeconds();
  // With a single node, the column is not needed.
  const bool is_elsewhere = std::ranges::any_of(
      jobs, [](const wire::JobView& job) { return !job.node.empty() || job.allocations.size() > 1; });
  const bool has_started =
      std::ranges::any_of(jobs, [](const wire::JobView& job) { return job.start_time.has_value(); });
  const std::string own = is_elsewhere ? OwnName(api) : has_started ? NameAmongSeveral(api) : "";
  const bool has_nodes = !own.empty();
  const bool do_run = std::ranges::any_of(jobs, [](const wire::JobView& job) { return job.state == "running"; });
  const wire::WasteAnswer wasteful = do_run ? AskWaste(api) : wire::WasteAnswer();
  const WastedGpus wasted = WastedBy(wasteful);
  const bool has_waste = std::ranges::any_of(jobs, [&](const wire::JobView& job) { return wasted.contains(job.id); });
  for (const wire::JobView& job : jobs) rows.push_back(QueueRow(job, now, own, wasted, flags.listing.csv));
  std::vector<Column> columns = QueueColumns();
  for (Column& column : columns)
    column.is_shown_by_default |= (has_nodes && column.title == kNodeColumn) || (has_waste && column.title == kWaste);
  DIVVY_TRY(std::string text, RenderTable(columns, rows, flags.listing));
  // If the user chose columns or left out the header, a program reads this.
  if (!is_for_people || !flags.listing.has_header || !flags.listing.columns.empty()) return text;
  if (jobs.empty() && select.ids.empty()) {
    const std::string of = select.user.empty() || select.user == "all" ? "" : " of " + select.user;
    text = select.includes_final
               ? "No jobs" + of + ".\n"
               : "No jobs" + of + " are queued or running. (divvy queue --all also lists ended jobs.)\n";
  }
  if (is_cut) {
    DIVVY_TRY(const wire::StatusView status, api.Status());
    text += "... and more (" + Plural(status.jobs_queued + status.jobs_held + status.jobs_running, "job") +
            " in total that have not ended); --limit 0 lists all of them.\n";
  }
  if (!do_run) return text;
  // Also count jobs that waste GPUs but are cut off by the limit.
  const bool is_of_all = (select.user.empty() || select.user == "all") && select.ids.empty() && select.states.empty() &&
                         select.pools.empty() && select.name.empty();
  const std::string waste = WasteLine(wasteful, [&](JobId id) {
    return (is_cut && is_of_all) || std::ranges::any_of(jobs, [id](const wire::JobView& job) { return job.id == id; });
  });
  if (!waste.empty()) text += waste + "\n";
  return text;
}

/// Where the job's output is; a description if that is not one file, or not known yet.
std::string OutputText(const wire::JobDetail& job) {
  const bool may_be_told = !job.command.empty() && !job.is_foreground;
  if (!job.output.empty() || !may_be_told) return job.output;
  if (!job.elements.empty()) return "one file for each element: divvy logs --path " + ToString(job.id);
  if (job.start_time) return "on " + job.node + ", which has not reported the path yet";
  return job.end_time ? "" : "known when the job starts on a node";
}

/// "end, waste to phone"; empty if the job has no settings of its own.
std::string NotifyText(const std::map<std::string, std::string>& labels) {
  const auto label = [&](const char* name) {
    const auto at = labels.find(name);
    return at == labels.end() ? std::string() : at->second;
  };
  for (const auto& [when, whom] : {std::pair("notify", "notify-to"), std::pair("slurm.mail-type", "slurm.mail-user"),
                                   std::pair("gflow.notify_on", "gflow.notify_email")}) {
    const std::string events = label(when);
    const std::string to = label(whom);
    if (!events.empty() || !to.empty()) return (events.empty() ? "end" : events) + (to.empty() ? "" : " to " + to);
  }
  return "";
}

std::string ShowText(const wire::JobDetail& job, const std::string& own, const std::vector<std::string>& waste,
                     const std::vector<std::pair<std::string, std::string>>& troubles,
                     const std::vector<std::string>& processes, const std::string& numbers) {
  const double now = NowSeconds();
  std::string out = Paint(Colour::kBold, "job " + job.display_id) + "  " + job.name + "  " +
                    Paint(StateColour(job.state), job.state) + "\n";
  if (job.reason != job.start_reason) AddField(out, "reason", job.reason);
  std::string exit = job.exit_code ? std::to_string(*job.exit_code) : "";
  if (job.signal) exit += " (signal " + dialect::SignalName(static_cast<int>(*job.signal)) + ")";
  if (job.was_oom_killed) exit += " (out of memory)";
  AddField(out, "exit code", exit);
  AddField(out, "user", job.user);
  const bool is_by_deadline = EndsByDeadline(job.request, job.start_time);
  if (job.request.others.empty()) {
    wire::RequestView request = job.request;
    if (is_by_deadline) request.time_limit_s = 0;  // Shown below instead.
    AddField(out, "requests", AsksFor(request));
  } else {
    std::size_t component = 0;
    for (const std::string& line : ComponentLines(job.request))
      AddField(out, "component " + std::to_string(component++), line);
    if (job.request.time_limit_s > 0 && !is_by_deadline) AddField(out, "time limit", Span(job.request.time_limit_s));
  }
  AddField(out, "speeds", job.speeds);
  for (const std::string& line : AllocationLines(job, own)) AddField(out, "node", line);
  if (job.share && !job.share->gpus.empty()) {
    for (const auto& [name, value] : ShareFields(*job.share)) AddField(out, name, value);
  } else if (!job.gpus.empty() && job.allocations.empty()) {
    AddField(out, "GPUs", GpuList(job.gpus));
  }
  if (job.time_sharing) AddField(out, "time-sharing", TimeSharingText(*job.time_sharing, true));
  for (const auto& [gpu, trouble] : troubles) AddField(out, gpu, trouble);
  for (const std::string& line : processes) AddField(out, "process", line);
  for (const std::string& line : waste) AddField(out, "waste", line);
  if (const auto on_waste = job.labels.find("on-waste"); on_waste != job.labels.end())
    AddField(out, "on waste", on_waste->second);
  AddField(out, "notify", NotifyText(job.labels));
  AddField(out, "isolation", job.isolation);
  if (job.start_time) AddField(out, "start reason", job.start_reason);
  AddField(out, "submitted", When(job.submit_time));
  if (job.start_time)
    AddField(out, "started",
             When(job.start_time) + (job.restarts > 0 ? ", again after waiting " : ", after waiting ") +
                 Span(Waited(job, now)));
  if (job.start_time)
    AddField(out, job.end_time ? "ran for" : "runs for", Span(job.end_time.value_or(now) - *job.start_time));
  if (job.progress) AddField(out, "progress", ProgressText(*job.progress) + ", reported " + When(job.progress->time));
  if (job.progress && job.progress->expected_end)
    AddField(out, "expected end", When(job.progress->expected_end) + ", by its progress");
  AddField(out, "own metrics", numbers);
  AddField(out, "ended", When(job.end_time));
  if (job.deadline) AddField(out, "ends by", When(job.deadline) + (is_by_deadline ? ", its deadline" : ""));
  if (job.request.end_by && !job.deadline) AddField(out, "deadline", When(job.request.end_by));
  // From the last run; a job that waits for its next run has no values now.
  if (job.start_time && job.cpu_time_s > 0) AddField(out, "CPU time", Span(job.cpu_time_s));
  if (job.start_time && job.memory_peak_bytes > 0)
    AddField(out, "memory peak", dialect::FormatSize(Bytes(job.memory_peak_bytes)));
  if (job.pid > 0) AddField(out, "pid", std::to_string(job.pid));
  if (job.priority != 0) AddField(out, "priority", std::to_string(job.priority));
  AddField(out, "placement", job.request.placement);
  AddField(out, "preemptible", job.preemptible);
  AddField(out, "project", job.project);
  AddField(out, "team", job.team);
  AddField(out, "group", job.group);
  AddField(out, "pool", job.pool);
  AddField(out, "account", job.account);
  AddField(out, "QOS", job.qos);
  AddField(out, "comment", job.comment);
  std::string depends;
  for (const std::string& dependency : job.dependencies) depends += (depends.empty() ? "" : ", ") + dependency;
  AddField(out, "depends on", depends);
  if (job.restarts > 0) AddField(out, "restarts", std::to_string(job.restarts));
  std::string elements;
  for (const auto& [state, count] : job.elements) {
    if (count > 0) elements += (elements.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  }
  AddField(out, "elements", elements);
  for (const auto& [name, value] : job.parameters) AddField(out, "parameter", name + " = " + value);
  AddField(out, "command", job.command);
  AddField(out, "directory", job.directory);
  AddField(out, "output", OutputText(job));
  AddField(out, "error", job.error);
  for (const std::string& note : job.notes) AddField(out, "note", note);
  out += "\n";
  for (const std::string& line : job.history)
    out += Paint(Colour::kDim, line.substr(0, 23)) + line.substr(std::min<std::size_t>(line.size(), 23)) + "\n";
  return out;
}

}  // namespace

std::vector<Option> QueueOptions() {
  static QueueFlags scratch;
  return QueueTable(scratch);
}

int QueueMain(const Words& words) {
  QueueFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(QueueTable(flags), words));
  flags.select.ids = parsed.positional;
  if (!flags.select.ids.empty()) flags.select.includes_final = true;
  if (flags.select.user.empty()) flags.select.user = "all";
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return ShowListing(flags.listing, [&] { return DrawQueue(api, flags); });
}

std::vector<Option> ShowOptions() {
  static ListingOptions scratch;
  return AnswerOptionTable(scratch);
}

int ShowMain(const Words& words) {
  ListingOptions listing;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(AnswerOptionTable(listing), words));
  if (parsed.positional.empty())
    return Fail(InvalidArgument("name a job: divvy show ID (17, 17_3, a name, or @ for your last)"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const Words ids, EachJob(api, parsed.positional));
    std::string out;
    for (const std::string& id : ids) {
      DIVVY_TRY(wire::JobDetail job, api.Job(id));
      job.steps = StepsOf(api, job);
      if (!out.empty() && !listing.json) out += "\n";
      const std::string own = job.allocations.empty() ? NameAmongSeveral(api) : OwnName(api);
      std::vector<std::string> waste;
      std::vector<std::pair<std::string, std::string>> troubles;
      std::vector<std::string> processes;
      if (!listing.json && job.state == "running" && !job.gpus.empty()) {
        waste = WasteOf(AskWaste(api), job.id);
        DIVVY_TRY(const std::vector<wire::GpuView> gpus, api.Gpus());
        troubles = GpuTroubles(gpus, job.id);
        processes = ProcessLines(ProcessesOf(job.id, AskLatest(api), gpus), kMostProcesses);
      } else if (!listing.json && job.end_time && job.start_time && job.elements.empty()) {
        if (const auto lost = AskJobWaste(api, job.id)) waste = WasteOf(*lost);
      }
      const std::string numbers = !listing.json && job.start_time ? OwnNumbersText(AskLastOwn(api, job)) : "";
      const auto width = static_cast<std::size_t>(TerminalWidth());
      out += listing.json ? wire::Encode(job) + "\n"
                          : Folded(ShowText(job, own, waste, troubles, processes, numbers), width);
      if (listing.json) continue;
      out += Folded(StepsText(job.steps, NowSeconds(), own), width);
    }
    return out;
  });
}

}  // namespace divvy::cli
