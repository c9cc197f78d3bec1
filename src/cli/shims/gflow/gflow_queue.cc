#include "cli/shims/gflow/gflow_queue.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/quantities.h"
#include "dialect/valohai/valohai_script.h"

namespace divvy::cli {
namespace {

using wire::JobView;

constexpr std::string_view kDefaultFormat = "JOBID,NAME,ST,TIME,NODES,NODELIST(REASON)";
constexpr std::array<std::string_view, 14> kFields = {
    "JOBID", "NAME",    "ST",       "STATE",      "TIME",  "TIMELIMIT", "MEMORY", "NODES", "NODELIST(REASON)",
    "USER",  "PROJECT", "PRIORITY", "DEPENDENCY", "REASON"};

struct StateRow {
  std::string_view state;
  GflowState gflow;
};
constexpr std::array<StateRow, 11> kStates = {{{"held", {"H", "Hold"}},
                                               {"queued", {"PD", "Queued"}},
                                               {"starting", {"R", "Running"}},
                                               {"running", {"R", "Running"}},
                                               {"paused", {"R", "Running"}},
                                               {"stopping", {"R", "Running"}},
                                               {"succeeded", {"CD", "Finished"}},
                                               {"failed", {"F", "Failed"}},
                                               {"cancelled", {"CA", "Cancelled"}},
                                               {"timed_out", {"TO", "Timeout"}},
                                               {"lost", {"F", "Failed"}}}};

bool IsFinalCode(std::string_view code) { return code == "CD" || code == "F" || code == "CA" || code == "TO"; }

std::string JoinNumbers(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (std::int64_t number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return out;
}

// gflow's own reasons, which scripts compare; the REASON field has divvy's sentence.
std::string ReasonOf(const JobView& job) {
  bool names_dependency = job.reason.find("depend") != std::string::npos;
  if (job.state == "held") return "(JobHeldUser)";
  if (job.state == "queued") {
    if (job.reason.find("begin") != std::string::npos) return "(BeginTime)";
    if (!job.dependencies.empty() && !job.eligible_time) return "(Dependency)";
    return "(Resources)";
  }
  if (job.state == "cancelled") return names_dependency ? "(DependencyFailed)" : "(Cancelled)";
  return "-";
}

std::string Elapsed(const JobView& job, double now) {
  if (!job.start_time) return "-";
  return LongClock(job.end_time.value_or(now) - *job.start_time);
}

std::string FieldOf(const JobView& job, std::string_view field, double now) {
  if (field == "JOBID") return job.display_id;
  if (field == "NAME") return job.name;
  if (field == "ST") return std::string(GflowStateOf(job.state).code);
  if (field == "STATE") return std::string(GflowStateOf(job.state).word);
  if (field == "TIME") return Elapsed(job, now);
  if (field == "TIMELIMIT") return job.request.time_limit_s > 0 ? LongClock(job.request.time_limit_s) : "UNLIMITED";
  if (field == "MEMORY")
    return job.request.memory_bytes > 0 ? dialect::FormatSize(Bytes(job.request.memory_bytes)) : "-";
  if (field == "NODES") return std::to_string(job.request.gpus);
  if (field == "USER") return job.user;
  if (field == "PROJECT") return job.project.empty() ? "-" : job.project;
  if (field == "PRIORITY") return std::to_string(dialect::GflowPriority(static_cast<int>(job.priority)));
  if (field == "DEPENDENCY") return job.dependencies.empty() ? "-" : Join(job.dependencies, ",");
  if (field == "REASON") return job.reason.empty() ? "-" : job.reason;
  if (!job.gpus.empty()) return JoinNumbers(job.gpus);
  return ReasonOf(job);
}

Result<std::vector<std::string_view>> FieldsOf(const std::string& format) {
  std::vector<std::string_view> out;
  for (std::string_view part : Split(format.empty() ? kDefaultFormat : std::string_view(format), ',')) {
    std::string_view wanted = Trim(part);
    if (EqualsIgnoringCase(wanted, "NODELIST")) wanted = "NODELIST(REASON)";
    auto found = std::find_if(kFields.begin(), kFields.end(),
                              [&](std::string_view field) { return EqualsIgnoringCase(field, wanted); });
    if (found == kFields.end()) {
      std::vector<std::string> all(kFields.begin(), kFields.end());
      return InvalidArgument("--format: there is no field '" + std::string(wanted) + "'; there is " + Join(all, ", "));
    }
    out.push_back(*found);
  }
  return out;
}

using Table = std::vector<std::vector<std::string>>;

Table RowsOf(const std::vector<JobView>& jobs, const std::vector<std::string_view>& fields, double now) {
  Table rows = {std::vector<std::string>(fields.begin(), fields.end())};
  for (const JobView& job : jobs) {
    std::vector<std::string> row;
    for (std::string_view field : fields) row.push_back(FieldOf(job, field, now));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string RenderObjects(const std::vector<JobView>& jobs, double now, bool is_yaml) {
  using dialect::JsonText;
  std::string out;
  for (const JobView& job : jobs) {
    std::vector<std::pair<std::string_view, std::string>> members = {
        {"id", ToString(job.id)},
        {"job_id", JsonText(job.display_id)},
        {"name", JsonText(job.name)},
        {"state", JsonText(GflowStateOf(job.state).word)},
        {"user", JsonText(job.user)},
        {"project", job.project.empty() ? "null" : JsonText(job.project)},
        {"gpus", std::to_string(job.request.gpus)},
        {"gpu_ids", "[" + JoinNumbers(job.gpus) + "]"},
        {"priority", FieldOf(job, "PRIORITY", now)},
        {"time", JsonText(Elapsed(job, now))},
        {"time_limit", JsonText(FieldOf(job, "TIMELIMIT", now))},
        {"memory_bytes", std::to_string(job.request.memory_bytes)},
        {"exit_code", job.exit_code ? std::to_string(*job.exit_code) : "null"},
        {"reason", JsonText(job.reason)},
    };
    std::string object;
    for (const auto& [name, value] : members) {
      if (is_yaml) object += (object.empty() ? "- " : "  ") + std::string(name) + ": " + value + "\n";
      else object += (object.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + value;
    }
    out += is_yaml ? object : (out.empty() ? "[\n  " : ",\n  ") + object + "}";
  }
  if (is_yaml) return out.empty() ? "[]\n" : out;
  return out.empty() ? "[]\n" : out + "\n]\n";
}

// Puts each job below the first of its dependencies that is in the list.
std::string RenderTree(const std::vector<JobView>& jobs, const std::vector<std::string_view>& fields, double now) {
  std::map<std::uint64_t, std::size_t> at;
  for (std::size_t i = 0; i < jobs.size(); ++i) at.emplace(jobs[i].id.value(), i);
  std::map<std::size_t, std::vector<std::size_t>> children;
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    auto parent = jobs.size();
    for (const std::string& dependency : jobs[i].dependencies) {
      auto colon = dependency.find(':');
      auto id =
          colon == std::string::npos ? std::nullopt : ParseInteger(std::string_view(dependency).substr(colon + 1));
      auto found = id ? at.find(static_cast<std::uint64_t>(*id)) : at.end();
      if (found != at.end() && jobs[found->second].id < jobs[i].id) parent = std::min(parent, found->second);
    }
    if (parent == jobs.size()) roots.push_back(i);
    else children[parent].push_back(i);
  }
  Table rows = RowsOf(jobs, fields, now);
  Table out = {rows[0]};
  // Children have higher ids than their parents, so this ends.
  std::function<void(std::size_t, const std::string&, const std::string&)> add =
      [&](std::size_t job, const std::string& lead, const std::string& below) {
        out.push_back(rows[job + 1]);
        out.back()[0] = lead + out.back()[0];
        const auto& mine = children[job];
        for (std::size_t i = 0; i < mine.size(); ++i) {
          bool is_last = i + 1 == mine.size();
          add(mine[i], below + (is_last ? "└─" : "├─"), below + (is_last ? "  " : "│ "));
        }
      };
  for (std::size_t root : roots) add(root, "", "");
  return AlignRows(out);
}

bool Matches(const std::vector<std::string>& wanted, std::string_view value) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
           if (one.ends_with('*')) return value.starts_with(std::string_view(one).substr(0, one.size() - 1));
           return one == value;
         });
}

std::string ProcessText(const wire::GpuProcessView& process, std::int64_t gpu) {
  std::string out = "pid " + std::to_string(process.pid) + " " + process.user;
  if (!process.command.empty()) out += " " + process.command;
  out += " " + dialect::FormatSize(Bytes(process.memory_bytes)) + ", for " +
         dialect::FormatDuration(std::chrono::seconds(static_cast<std::int64_t>(process.age_s)));
  return out + " (gctl gpu-process ignore --gpu " + std::to_string(gpu) + " --pid " + std::to_string(process.pid) + ")";
}

std::string WithheldText(const wire::GpuView& gpu) {
  std::vector<std::string> parts;
  for (const wire::GpuProcessView& process : gpu.processes) {
    if (!process.job && !process.is_ignored) parts.push_back(ProcessText(process, gpu.index));
  }
  return parts.empty() || gpu.state != "unmanaged" ? gpu.reason : Join(parts, "; ");
}

}  // namespace

GflowState GflowStateOf(std::string_view state) {
  for (const StateRow& row : kStates) {
    if (row.state == state) return row.gflow;
  }
  return {"?", state};
}

Result<std::string> ParseGflowState(std::string_view text) {
  std::string_view wanted = Trim(text);
  for (const StateRow& row : kStates) {
    if (EqualsIgnoringCase(wanted, row.gflow.code) || EqualsIgnoringCase(wanted, row.gflow.word))
      return std::string(row.gflow.code);
  }
  return InvalidArgument(
      "there is no state '" + std::string(wanted) +
      "'; there is Queued (PD), Hold (H), Running (R), Finished (CD), Failed (F), Cancelled (CA), Timeout (TO)");
}

std::vector<JobView> SelectGflowJobs(std::vector<JobView> jobs, const QueueView& view) {
  std::erase_if(jobs, [&](const JobView& job) {
    std::string_view code = GflowStateOf(job.state).code;
    if (!Matches(view.states, code)) return true;
    if (view.states.empty() && view.shows_completed_only && !IsFinalCode(code)) return true;
    if (view.states.empty() && !view.shows_completed_only && !view.shows_final && IsFinalCode(code)) return true;
    return !Matches(view.users, job.user) || !Matches(view.names, job.name) ||
           (!view.project.empty() && job.project != view.project);
  });
  auto key = [&](const JobView& a, const JobView& b) {
    if (view.sort == "state") return GflowStateOf(a.state).word < GflowStateOf(b.state).word;
    if (view.sort == "time") return a.start_time.value_or(1e300) < b.start_time.value_or(1e300);
    if (view.sort == "name") return a.name < b.name;
    if (view.sort == "gpus") return a.request.gpus > b.request.gpus;
    if (view.sort == "priority") return a.priority > b.priority;
    return false;
  };
  std::stable_sort(jobs.begin(), jobs.end(), [](const JobView& a, const JobView& b) {
    return a.id != b.id ? a.id < b.id : a.array_index.value_or(-1) < b.array_index.value_or(-1);
  });
  std::stable_sort(jobs.begin(), jobs.end(), key);
  auto most = static_cast<std::size_t>(std::abs(view.limit));
  if (view.limit > 0 && jobs.size() > most) jobs.resize(most);
  if (view.limit < 0 && jobs.size() > most) jobs.erase(jobs.begin(), jobs.end() - static_cast<std::ptrdiff_t>(most));
  return jobs;
}

Result<std::string> RenderGqueue(const std::vector<JobView>& jobs, const QueueView& view, double now) {
  DIVVY_TRY(std::vector<std::string_view> fields, FieldsOf(view.format));
  if (view.output == "json" || view.output == "yaml") return RenderObjects(jobs, now, view.output == "yaml");
  if (view.output == "csv") {
    std::string out;
    for (const auto& row : RowsOf(jobs, fields, now)) out += CsvRow(row);
    return out;
  }
  if (view.output != "table")
    return InvalidArgument("--output: '" + view.output + "' is not valid; expected one of table, json, csv, yaml");
  if (view.is_tree) return RenderTree(jobs, fields, now);
  if (!view.is_grouped) return AlignRows(RowsOf(jobs, fields, now));
  std::string out;
  std::set<std::string_view> seen;
  for (const StateRow& state : kStates) {
    if (!seen.insert(state.gflow.code).second) continue;
    std::vector<JobView> mine;
    for (const JobView& job : jobs) {
      if (GflowStateOf(job.state).code == state.gflow.code) mine.push_back(job);
    }
    if (mine.empty()) continue;
    std::string title(state.gflow.word);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    out += (out.empty() ? "" : "\n") + title + ":\n" + AlignRows(RowsOf(mine, fields, now));
  }
  return out;
}

std::string RenderGinfo(const std::vector<wire::GpuView>& gpus, const std::vector<JobView>& jobs) {
  Table rows = {{"PARTITION", "GPUS", "NODES", "STATE", "JOB(REASON)"}};
  auto add = [&](const std::vector<std::int64_t>& indices, std::string_view state, const std::string& job) {
    rows.push_back({"gpu", std::to_string(indices.size()), JoinNumbers(indices), std::string(state), job});
  };
  std::vector<std::int64_t> idle;
  // Jobs that share a GPU are shown in one row.
  std::map<std::vector<JobId>, std::vector<std::int64_t>> of_jobs;
  for (const wire::GpuView& gpu : gpus) {
    if (gpu.state == "free") idle.push_back(gpu.index);
    if (gpu.state == "allocated" && !gpu.jobs.empty()) of_jobs[gpu.jobs].push_back(gpu.index);
  }
  if (!idle.empty()) add(idle, "idle", "");
  for (const auto& [ids, indices] : of_jobs) {
    std::vector<std::string> names;
    for (const JobId id : ids) {
      const auto job = std::ranges::find(jobs, id, &JobView::id);
      names.push_back(job == jobs.end() ? ToString(id) : job->display_id + " (" + job->name + ")");
    }
    add(indices, "allocated", Join(names, ", "));
  }
  for (const wire::GpuView& gpu : gpus) {
    bool is_shown = gpu.state == "free" || (gpu.state == "allocated" && !gpu.jobs.empty());
    if (!is_shown) add({gpu.index}, gpu.state, WithheldText(gpu));
  }
  if (gpus.empty()) rows.push_back({"gpu", "0", "-", "none", ""});
  return AlignRows(rows);
}

std::string RenderShowGpus(const std::vector<wire::GpuView>& gpus) {
  if (gpus.empty()) return "No GPUs.\n";
  Table rows;
  for (const wire::GpuView& gpu : gpus) {
    rows.push_back({"GPU " + std::to_string(gpu.index), gpu.state == "restricted" ? "restricted" : "allowed", gpu.state,
                    gpu.model});
  }
  return AlignRows(rows);
}

std::string CleanLog(std::string_view text) {
  std::string out, line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\x1b') {
      // CSI ends at a letter, OSC at BEL or ESC \; any other escape is two bytes.
      if (i + 1 < text.size() && text[i + 1] == '[') {
        for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
      } else if (i + 1 < text.size() && text[i + 1] == ']') {
        for (i += 2; i < text.size() && text[i] != '\a' && text[i] != '\x1b';) ++i;
        if (i < text.size() && text[i] == '\x1b') ++i;
      } else {
        ++i;
      }
    } else if (c == '\r') {
      if (i + 1 < text.size() && text[i + 1] != '\n') line.clear();
    } else if (c == '\n') {
      out += line + "\n";
      line.clear();
    } else {
      line += c;
    }
  }
  return out + line;
}

std::string_view SliceLines(std::string_view text, long lines) {
  if (lines == 0) return text;
  long seen = 0;
  if (lines > 0) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n' && ++seen == lines) return text.substr(0, i + 1);
    }
    return text;
  }
  std::size_t end = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (std::size_t i = end; i-- > 0;) {
    if (text[i] == '\n' && ++seen == -lines) return text.substr(i + 1);
  }
  return text;
}

}  // namespace divvy::cli
