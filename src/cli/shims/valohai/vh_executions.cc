#include "cli/shims/valohai/vh_executions.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>

#include "base/index_ranges.h"
#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow_words.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using dialect::Option;

bool IsFinalState(std::string_view state) {
  return state == "succeeded" || state == "failed" || state == "cancelled" || state == "timed_out" || state == "lost";
}

std::string Elapsed(const wire::JobView& job, double now) {
  return job.start_time ? LongClock(job.end_time.value_or(now) - *job.start_time) : "-";
}

double Now() { return ToSeconds(CallerParseContext().now); }

/// The executions of tasks that have not begun: they have numbers, but no rows of their own. `array_id` is their task.
std::vector<wire::JobView> NotBegun(const std::vector<wire::JobView>& jobs) {
  std::vector<wire::JobView> out;
  for (const wire::JobView& task : jobs) {
    const auto indices = IndexRanges::Parse(task.array_indices, "a task");
    if (task.array_indices.empty() || !indices) continue;
    for (const auto& range : indices->ranges()) {
      for (std::uint64_t index = range.first; index <= range.last; ++index) {
        out.push_back(task);
        out.back().id = JobId(task.id.value() + 1 + index);
        out.back().array_id = task.id;
      }
    }
  }
  return out;
}

/// The executions that the words select.
Result<std::vector<wire::JobView>> Select(Api& api, const Words& words, const VhGlobal& global) {
  DIVVY_TRY(std::vector<wire::JobView> all, FetchExecutions(api, global.project));
  // The latest execution is one that has a row.
  const bool is_latest =
      std::ranges::any_of(words, [](const std::string& word) { return word.find("latest") != std::string::npos; });
  if (!is_latest) std::ranges::move(NotBegun(all), std::back_inserter(all));
  std::vector<std::uint64_t> ids;
  for (const wire::JobView& job : all) ids.push_back(job.id.value());
  DIVVY_TRY(std::vector<std::uint64_t> wanted, ParseCounters(words, ids));
  std::set<std::uint64_t> set(wanted.begin(), wanted.end());
  std::erase_if(all, [&](const wire::JobView& job) {
    const bool is_in_task = !job.array_indices.empty() && job.array_id && set.contains(job.array_id->value());
    return is_in_task || !set.contains(job.id.value());
  });
  std::ranges::sort(all, {}, [](const wire::JobView& job) { return job.id; });
  return all;
}

Result<wire::JobDetail> SelectOne(Api& api, const Words& words, const VhGlobal& global) {
  if (words.size() != 1) return InvalidArgument("which execution? write its number, such as 12, or latest");
  DIVVY_TRY(std::vector<wire::JobView> jobs, Select(api, words, global));
  if (jobs.size() != 1)
    return InvalidArgument("'" + words[0] + "' means " + Plural(static_cast<std::int64_t>(jobs.size()), "execution") +
                           "; name one");
  return api.Job(ToString(jobs[0].id));
}

/// The directory of the execution's files. Whatever a label says, only directories below vh's own are accepted.
Result<std::string> RootOf(const wire::JobDetail& job) {
  auto root = job.labels.find("valohai.root");
  bool is_ours = root != job.labels.end() && root->second.find("/executions/") != std::string::npos &&
                 root->second.find("/../") == std::string::npos && !root->second.ends_with("/..");
  if (!is_ours) return NotFound("execution #" + ToString(job.id) + " has no directory of its own");
  return job.array_index ? root->second + "/" + std::to_string(*job.array_index) : root->second;
}

std::vector<std::pair<std::string, std::uintmax_t>> FilesBelow(const std::string& directory) {
  std::vector<std::pair<std::string, std::uintmax_t>> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored))
      out.emplace_back(fs::relative(it->path(), directory, ignored).string(), it->file_size(ignored));
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Parsed {
  Words words;
  std::optional<int> code;  // If set, the command is finished.
};

Parsed ParseWords(std::string_view usage, std::vector<Option> table, const Words& words) {
  bool wants_help = false;
  table.push_back(Option::Flag("help", 'h', "Print this", Sets(wants_help)));
  auto parsed = dialect::ParseOptions(table, words);
  if (!parsed) return {{}, Fail(parsed.error())};
  if (wants_help) {
    std::fputs(UsageText(usage, table).c_str(), stdout);
    return {{}, 0};
  }
  return {parsed->positional, std::nullopt};
}

int PrintRows(const std::vector<Words>& rows, const VhGlobal& global) {
  std::fputs(RenderVhTable(rows, global.format).c_str(), stdout);
  return 0;
}

}  // namespace

Result<std::vector<wire::JobView>> FetchExecutions(Api& api, const std::string& project) {
  wire::JobSelector selector;
  selector.includes_final = true;
  selector.project = project;
  DIVVY_TRY(std::vector<wire::JobView> jobs, api.Jobs(selector));
  // A task whose executions have all begun has no row of its own.
  std::erase_if(jobs, [](const wire::JobView& job) { return job.dialect != "valohai" || job.count == 0; });
  std::sort(jobs.begin(), jobs.end(), [](const wire::JobView& a, const wire::JobView& b) { return a.id < b.id; });
  return jobs;
}

std::vector<Words> ExecutionRows(const std::vector<wire::JobView>& jobs, double now) {
  std::vector<Words> rows = {{"#", "Status", "Step", "Duration", "URL"}};
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    rows.push_back({ToString(job->id), std::string(VhStatusOf(job->state)), job->name, Elapsed(*job, now), "-"});
  }
  return rows;
}

std::vector<Words> SummaryRows(const std::vector<wire::JobView>& jobs,
                               const std::vector<std::map<std::string, std::string>>& metadata, double now) {
  std::set<std::string> keys;
  for (const auto& values : metadata) {
    for (const auto& [key, value] : values) {
      if (key != "_time") keys.insert(key);
    }
  }
  std::vector<Words> rows = {{"#", "Status", "Step", "Duration"}};
  rows[0].insert(rows[0].end(), keys.begin(), keys.end());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Words row = {ToString(jobs[i].id), std::string(VhStatusOf(jobs[i].state)), jobs[i].name, Elapsed(jobs[i], now)};
    for (const std::string& key : keys) {
      auto value = metadata[i].find(key);
      row.push_back(value == metadata[i].end() ? "" : value->second);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

int VhListMain(const Words& words, const VhGlobal& global) {
  std::string status, count;
  Parsed parsed = ParseWords("vh exec list [--status STATUS] [--count N]",
                             {Option::Value("status", 's', "STATUS", "Only executions with this status", Keeps(status)),
                              Option::Value("count", 'n', "N", "The newest N", Keeps(count))},
                             words);
  if (parsed.code) return *parsed.code;
  auto most = ParseInteger(count.empty() ? "9999" : count);
  if (!most || *most < 1) return Fail(InvalidArgument("--count: '" + count + "' is not a number of executions"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto jobs, FetchExecutions(api, global.project));
  if (!status.empty())
    std::erase_if(jobs, [&](const wire::JobView& job) { return VhStatusOf(job.state) != ToLower(status); });
  if (static_cast<std::int64_t>(jobs.size()) > *most)
    jobs.erase(jobs.begin(), jobs.end() - static_cast<std::ptrdiff_t>(*most));
  if (jobs.empty() && global.format == VhFormat::kHuman) {
    std::printf("No executions.\n");
    return 0;
  }
  return PrintRows(ExecutionRows(jobs, Now()), global);
}

int VhInfoMain(const Words& words, const VhGlobal& global) {
  Parsed parsed = ParseWords("vh exec info EXECUTION", {}, words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto job, SelectOne(api, parsed.words, global));
  auto label = [&](const std::string& name) {
    auto found = job.labels.find(name);
    return found == job.labels.end() ? std::string() : dialect::FillParameters(found->second, job.parameters);
  };
  std::string id = label("valohai.execution");
  if (job.array_index) id = dialect::ExecutionOfTask(id, static_cast<std::size_t>(*job.array_index));
  std::vector<Words> rows = {{"Name", "Value"}};
  auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  add("#", ToString(job.id));
  add("Id", id);
  add("Status", std::string(VhStatusOf(job.state)));
  add("Step", job.name);
  add("Title", label("valohai.title"));
  add("Task", label("valohai.task"));
  add("Reason", job.reason);
  add("GPUs", std::to_string(job.request.gpus));
  if (job.start_time) add("Duration", LongClock(job.end_time.value_or(Now()) - *job.start_time));
  if (job.exit_code) add("Exit code", std::to_string(*job.exit_code));
  for (const auto& [name, value] : FlatObject(label("valohai.parameters"))) add("Parameter " + name, value);
  add("Code", job.directory);
  add("Log", job.output);
  if (auto root = RootOf(job)) add("Outputs", *root + "/outputs");
  return PrintRows(rows, global);
}

int VhLogsMain(const Words& words, const VhGlobal& global) {
  bool streams = false, shows_all = false, only_status = false, only_out = false, only_error = false;
  Parsed parsed =
      ParseWords("vh exec logs EXECUTION [OPTIONS]",
                 {Option::Flag("stream", 's', "Follow the log until the execution has ended", Sets(streams)),
                  Option::Flag("all", "Whole log instead of the last 2000 lines", Sets(shows_all)),
                  Option::Flag("status", "Events of the execution", Sets(only_status)),
                  Option::Flag("stdout", "The log", Sets(only_out)),
                  Option::Flag("stderr", "The log, which holds both streams", Sets(only_error))},
                 words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto job, SelectOne(api, parsed.words, global));
  if (only_status) {
    for (const std::string& line : job.history) std::printf("%s\n", line.c_str());
    return 0;
  }
  if (only_error && !only_out) Note("an execution's log holds its output and its errors together");
  Words divvy = {"logs", ToString(job.id)};
  if (streams) divvy.push_back("-f");
  if (!shows_all) divvy.insert(divvy.end(), {"-n", "2000"});
  return BecomeDivvy(divvy);
}

int VhStopMain(const Words& words, const VhGlobal& global) {
  Parsed parsed = ParseWords("vh exec stop EXECUTIONS    (12, '1-5 !3', latest)", {}, words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto jobs, Select(api, parsed.words, global));
  wire::ActionRequest request;
  for (const wire::JobView& job : jobs) {
    if (IsFinalState(job.state))
      std::printf("#%s: has ended already (%s)\n", ToString(job.id).c_str(),
                  std::string(VhStatusOf(job.state)).c_str());
    else request.select.ids.push_back(ToString(job.id));
  }
  if (request.select.ids.empty()) return 0;
  DIVVY_TRY_OR_FAIL(auto answer, api.Cancel(request));
  int code = 0;
  for (const wire::ActionResult& result : answer.results) {
    std::printf("#%s: %s\n", result.display_id.c_str(), result.is_done ? "stopping" : result.message.c_str());
    if (!result.is_done) code = 1;
  }
  return code;
}

int VhDeleteMain(const Words& words, const VhGlobal& global) {
  bool purges = false, keeps = false;
  Parsed parsed = ParseWords("vh exec delete EXECUTIONS [--purge-outputs]",
                             {Option::Flag("purge-outputs", "Also delete its outputs", Sets(purges)),
                              Option::Flag("no-purge-outputs", "", Sets(keeps)).Hidden()},
                             words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto jobs, Select(api, parsed.words, global));
  int code = 0;
  for (const wire::JobView& job : jobs) {
    std::string id = ToString(job.id);
    if (!IsFinalState(job.state)) {
      code = Fail(FailedPrecondition("execution #" + id + " is " + std::string(VhStatusOf(job.state)) +
                                     "; stop it first: vh exec stop " + id));
      continue;
    }
    auto detail = api.Job(id);
    if (!detail) return Fail(detail.error());
    auto root = RootOf(*detail);
    if (!root) {
      code = Fail(root.error());
      continue;
    }
    std::error_code error;
    if (purges && !keeps) fs::remove_all(*root, error);
    for (const char* part : {"repository", "config", "inputs", "command"}) fs::remove_all(*root + "/" + part, error);
    std::printf("#%s: its files are removed%s; its record stays in divvy's history\n", id.c_str(),
                purges ? ", outputs too" : "");
  }
  return code;
}

int VhOutputsMain(const Words& words, const VhGlobal& global) {
  std::string download;
  Parsed parsed = ParseWords("vh exec outputs EXECUTION [--download DIR]",
                             {Option::Value("download", 'd', "DIR", "Copy the outputs to this directory",
                                            Keeps(download), {"download-directory"})},
                             words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto job, SelectOne(api, parsed.words, global));
  DIVVY_TRY_OR_FAIL(auto root, RootOf(job));
  std::string directory = root + "/outputs";
  std::vector<Words> rows = {{"Name", "Size", "Path"}};
  for (const auto& [name, size] : FilesBelow(directory)) {
    rows.push_back({name, std::to_string(size), directory + "/" + name});
    if (download.empty()) continue;
    std::error_code error;
    fs::path to = fs::path(download) / name;
    fs::create_directories(to.parent_path(), error);
    fs::copy_file(directory + "/" + name, to, fs::copy_options::overwrite_existing, error);
    if (error) return Fail(FailedPrecondition("cannot copy " + name + " to " + to.string() + ": " + error.message()));
  }
  if (rows.size() == 1 && global.format == VhFormat::kHuman) {
    std::printf("No outputs in %s.\n", directory.c_str());
    return 0;
  }
  return PrintRows(rows, global);
}

int VhSummarizeMain(const Words& words, const VhGlobal& global) {
  Parsed parsed = ParseWords("vh exec summarize EXECUTIONS    (12, '1-5 !3', latest)", {}, words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto jobs, Select(api, parsed.words, global));
  const dialect::ParseContext around = CallerParseContext();
  std::vector<std::map<std::string, std::string>> metadata;
  for (const wire::JobView& job : jobs) {
    auto detail = api.Job(ToString(job.id));
    if (!detail) return Fail(detail.error());
    auto log = detail->output.empty() || !job.start_time ? Result<std::string>("") : around.read_file(detail->output);
    if (!log) Note("execution #" + ToString(job.id) + ": " + log.error().message);
    metadata.push_back(LastMetadata(log.value_or("")));
  }
  return PrintRows(SummaryRows(jobs, metadata, ToSeconds(around.now)), global);
}

int VhTaskListMain(const Words& words, const VhGlobal& global) {
  Parsed parsed = ParseWords("vh task list", {}, words);
  if (parsed.code) return *parsed.code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto jobs, FetchExecutions(api, global.project));
  struct Task {
    std::uint64_t first = 0;
    std::string step;
    std::map<std::string_view, int> states;
    int executions = 0;
  };
  std::map<std::string, Task> tasks;
  for (const wire::JobView& job : jobs) {
    if (!job.group.starts_with("task-")) continue;
    Task& task = tasks[job.group];
    const auto count = static_cast<int>(job.count);
    if (task.executions == 0) task.first = job.id.value();
    task.executions += count;
    task.step = job.name;
    task.states[VhStatusOf(job.state)] += count;
  }
  std::vector<Words> rows = {{"Task", "Step", "First", "Executions", "Status"}};
  for (const auto& [name, task] : tasks) {
    std::string states;
    for (const auto& [state, count] : task.states)
      states += (states.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(state);
    rows.push_back({name.substr(5), task.step, std::to_string(task.first), std::to_string(task.executions), states});
  }
  return PrintRows(rows, global);
}

int VhTaskStopMain(const Words& words, const VhGlobal&) {
  Parsed parsed = ParseWords("vh task stop TASK    (as vh task list names it)", {}, words);
  if (parsed.code) return *parsed.code;
  if (parsed.words.size() != 1) return Fail(InvalidArgument("which task? vh task list names them"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  wire::JobSelector selector;
  selector.group = "task-" + parsed.words[0];
  DIVVY_TRY_OR_FAIL(auto jobs, api.Jobs(selector));
  wire::ActionRequest request;
  for (const wire::JobView& job : jobs) request.select.ids.push_back(ToString(job.id));
  if (request.select.ids.empty())
    return Fail(NotFound("task '" + parsed.words[0] + "' has no execution that is waiting or running"));
  auto answer = api.Cancel(request);
  if (!answer) return Fail(answer.error());
  std::printf("Stopping %s.\n", Plural(static_cast<std::int64_t>(request.select.ids.size()), "execution").c_str());
  return 0;
}

}  // namespace divvy::cli
