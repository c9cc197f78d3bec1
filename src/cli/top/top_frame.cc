#include "cli/top/top_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/text.h"
#include "cli/client/job_text.h"
#include "cli/client/places.h"
#include "cli/client/tenant_lines.h"
#include "dialect/options/quantities.h"
#include "model/gpus/gpu_portion.h"
#include "model/gpus/gpu_slice.h"
#include "model/gpus/slice_counts.h"

namespace divvy::cli {
namespace {

constexpr std::array<std::string_view, 8> kSteps = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiBarSteps = "_.:-=+*#";
constexpr std::array<std::string_view, kTopSorts> kSortNames = {"queue", "GPUs", "time", "user", "name"};

bool IsRunning(const wire::JobView& job) {
  return job.state == "running" || job.state == "starting" || job.state == "stopping" || job.state == "paused";
}

/// The guaranteed GPU fractions of each job's tenants, added up, by display id.
using Parts = std::map<std::string, double>;

Parts PartsOf(const std::vector<wire::GpuView>& gpus) {
  Parts parts;
  for (const wire::GpuView& gpu : gpus) {
    for (const wire::TenantView& tenant : gpu.tenants) parts[tenant.display_id] += tenant.request;
  }
  return parts;
}

/// The GPUs that a job has; a fraction or MIG slice counts as its part of a GPU. For a waiting array: the total request
/// of its elements.
double GpusOf(const wire::JobView& job, const Parts& parts, const std::vector<wire::GpuView>& gpus) {
  if (IsRunning(job)) {
    if (const auto part = parts.find(job.display_id); part != parts.end()) return part->second;
    std::size_t whole = job.gpus.size();
    if (!job.allocations.empty()) whole = 0;
    for (const wire::AllocationView& allocation : job.allocations) whole += allocation.gpus.size();
    return static_cast<double>(whole);
  }
  const wire::RequestView& request = job.request;
  std::int64_t all = GpusOnAllNodes(request);
  for (const wire::ComponentView& other : request.others) all += GpusOnAllNodes(other);
  double each = 1;
  // Fractions by memory and MIG slices depend on the GPU's size. Assume that all GPUs here have the size of the first.
  const Bytes memory(gpus.empty() ? 0 : gpus.front().memory_total_bytes);
  const auto part = [](GpuShare share) { return static_cast<double>(share.ten_thousandths()) / GpuShare::kWhole; };
  if (request.portion.any() && !request.portion.is_by_memory()) {
    each = part(request.portion.request);
  } else if (request.portion.any() && memory > Bytes()) {
    each = std::min(part(divvy::PartsOf(request.portion, memory)), 1.0);
  } else if (!request.slice.empty()) {
    for (const SliceProfile& profile : UsualSlices(memory)) {
      if (!IsSuchSlice(profile, request.slice)) continue;
      each = part(GpuShare(TenThousandthsOf(profile.size)));
      break;
    }
  }
  return static_cast<double>(all * job.count) * each;
}

/// "1 GPU", "4.875 GPUs", "0.5 GPUs".
std::string GpusInWords(double gpus) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", gpus);
  std::string number = text;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number + (number == "1" ? " GPU" : " GPUs");
}

bool Holds(std::string_view text, const std::string& lower) { return ToLower(text).find(lower) != std::string::npos; }

bool Passes(const wire::JobView& job, const TopChoice& choice) {
  if (!choice.user.empty() && job.user != choice.user) return false;
  if (choice.filter.empty()) return true;
  const std::string lower = ToLower(choice.filter);
  return Holds(job.name, lower) || Holds(job.user, lower) || Holds(job.state, lower) || Holds(job.pool, lower) ||
         Holds(job.display_id, lower) || Holds(job.node, lower);
}

Colour UseColour(std::int64_t percent) {
  return percent >= 50 ? Colour::kGreen : percent >= 10 ? Colour::kYellow : Colour::kDim;
}

Colour GpuColour(const std::string& state) {
  if (state == "free") return Colour::kGreen;
  if (state == "fenced") return Colour::kRed;
  if (state == "unmanaged") return Colour::kYellow;
  return state == "allocated" ? Colour::kBlue : Colour::kDim;
}

using JobsById = std::map<std::string, const wire::JobView*>;

/// The two largest units, rounded down: "2d3h", "1h2m", "59m58s", "58s".
std::string Short(double seconds) {
  constexpr std::array<std::pair<std::int64_t, std::string_view>, 4> kUnits = {
      {{86'400, "d"}, {3'600, "h"}, {60, "m"}, {1, "s"}}};
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0));
  for (std::size_t i = 0; i + 1 < kUnits.size(); ++i) {
    const auto& [large, name] = kUnits[i];
    const auto& [small, small_name] = kUnits[i + 1];
    if (whole < large) continue;
    const std::int64_t rest = whole % large / small;
    return std::to_string(whole / large) + std::string(name) +
           (rest > 0 ? std::to_string(rest) + std::string(small_name) : "");
  }
  return std::to_string(whole) + "s";
}

/// The GPUs that a job has or requests: "2", "0.25", or "part" for a fraction by memory.
std::string GpusText(const wire::JobView& job) {
  if (!job.share) return std::to_string(std::llround(GpusOf(job, {}, {})));
  const std::string_view part = job.share->part;
  return part.ends_with("B") ? "part" : std::string(part.substr(0, part.find(' ')));
}

/// "12m left" by the job's own progress reports; otherwise "12m at most" by its time limit.
std::string TimeLeft(const wire::JobView& job, double now) {
  if (job.progress && job.progress->expected_end) return Short(*job.progress->expected_end - now) + " left";
  if (!job.start_time || job.request.time_limit_s <= 0) return "";
  return Short(*job.start_time + job.request.time_limit_s - now) + " at most";
}

/// The GPU's problems: processes of others, and reduced clocks.
std::string NodeHealthProblem(const wire::GpuView& gpu, const TopFacts& facts) {
  std::string trouble = gpu.state == "unmanaged" ? "" : GpuTrouble(gpu);
  const auto slowed = facts.slowdowns.find({gpu.node, gpu.index});
  if (slowed != facts.slowdowns.end()) trouble += (trouble.empty() ? "" : "; ") + slowed->second;
  return trouble;
}

/// Describes who uses the GPU.
std::string OwnerText(const wire::GpuView& gpu, const JobsById& jobs, const TopFacts& facts) {
  // The job continues for now, but the problem must be visible even on a narrow terminal.
  std::string trouble = NodeHealthProblem(gpu, facts);
  if (!trouble.empty()) trouble = "; " + trouble;
  if (!gpu.tenants.empty()) {
    std::string out;
    for (const wire::TenantView& tenant : gpu.tenants) {
      out += (out.empty() ? "" : ", ") + tenant.display_id;
      if (trouble.empty())
        out += " " + tenant.name + " (" + tenant.share + (IsOnHost(tenant.state) ? ", on host" : "") + ")";
    }
    return out + trouble;
  }
  if (gpu.state == "unmanaged") {
    for (const wire::GpuProcessView& process : gpu.processes) {
      if (!process.job && !process.is_ignored)
        return "unmanaged: " + process.user + ", pid " + std::to_string(process.pid) + " " + process.command + trouble;
    }
  }
  if (gpu.job_display_ids.empty()) {
    // For a state such as "fenced", the reason says what is wrong.
    const auto slowed = facts.slowdowns.find({gpu.node, gpu.index});
    return (gpu.reason.empty() ? gpu.state : gpu.reason) +
           (slowed == facts.slowdowns.end() ? "" : "; " + slowed->second);
  }
  const std::string& id = gpu.job_display_ids.front();
  const auto job = jobs.find(id);
  if (job == jobs.end()) return "job " + id + trouble;
  const std::string left = TimeLeft(*job->second, facts.now);
  return id + " " + job->second->name + " (" + job->second->user + ")" + trouble + (left.empty() ? "" : ", " + left);
}

TopLine GpuLine(const wire::GpuView& gpu, const std::string& name, std::size_t name_width, const TopHistory& history,
                const JobsById& jobs, const TopFacts& facts, const TopChoice& choice, std::size_t columns) {
  Filler line(columns, choice.is_ascii);
  const std::size_t use_width = columns >= 110 ? 20 : 10;
  const std::size_t memory_width = columns >= 110 ? 12 : 6;
  const TopHistory::Looks& looks = history.Of(gpu);
  const bool has_use = gpu.utilisation_percent >= 0;
  line.Add(name, name_width, GpuColour(gpu.state), true).Gap();
  line.Add(Sparkline(looks.use, use_width, choice.is_ascii), use_width, UseColour(gpu.utilisation_percent)).Gap();
  line.Add(has_use ? std::to_string(gpu.utilisation_percent) + "%" : "-", 4, UseColour(gpu.utilisation_percent), true)
      .Gap();
  line.Add(Sparkline(looks.memory, memory_width, choice.is_ascii), memory_width, Colour::kBlue).Gap();
  line.Add(MemoryText(gpu), 9, Colour::kNone, true).Gap();
  if (columns >= 72)
    line.Add(gpu.temperature_celsius < 0 ? "" : std::to_string(gpu.temperature_celsius) + "C", 4,
             gpu.temperature_celsius >= 85 ? Colour::kRed : Colour::kNone, true)
        .Gap();
  if (columns >= 100)
    line.Add(gpu.power_watts < 0 ? "" : std::to_string(gpu.power_watts) + "W", 5, Colour::kNone, true).Gap();
  const bool is_amiss = (gpu.state == "allocated" || gpu.state == "free") && !NodeHealthProblem(gpu, facts).empty();
  line.Gap().Add(OwnerText(gpu, jobs, facts), line.room(), is_amiss ? Colour::kYellow : GpuColour(gpu.state));
  line.line().gpu = name;
  return line.Take();
}

/// "and 54 more GPUs: 40 allocated, 14 free; a shows them all"
TopLine MoreGpus(std::span<const wire::GpuView> gpus, const TopChoice& choice, std::size_t columns) {
  std::map<std::string_view, std::int64_t> counts;
  for (const wire::GpuView& gpu : gpus) ++counts[gpu.state];
  std::string text;
  for (const auto& [state, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(state);
  Filler line(columns, choice.is_ascii);
  line.Gap(4).Add("and " + std::to_string(gpus.size()) + " more GPUs: " + text + "; a shows them all", line.room() - 4,
                  Colour::kDim);
  return line.Take();
}

void AddGpus(const TopFacts& facts, const TopHistory& history, const TopChoice& choice, std::size_t columns,
             std::vector<TopLine>& out) {
  if (facts.gpus.empty() || choice.hides_gpus) return;
  const bool has_machines =
      std::ranges::any_of(facts.gpus, [&](const wire::GpuView& gpu) { return gpu.node != facts.gpus.front().node; });
  JobsById jobs;
  for (const wire::JobView& job : facts.jobs) jobs.emplace(job.display_id, &job);
  std::vector<std::string> names;
  std::size_t width = 3;
  for (const wire::GpuView& gpu : facts.gpus) {
    names.push_back((has_machines ? gpu.node + ":" : "") + std::to_string(gpu.index));
    width = std::max(width, std::min<std::size_t>(Width(names.back()), columns / 5));
  }
  const bool is_folded = choice.most_gpu_lines > 0 && facts.gpus.size() > choice.most_gpu_lines;
  const std::size_t shown = is_folded ? choice.most_gpu_lines - 1 : facts.gpus.size();
  for (std::size_t i = 0; i < shown; ++i)
    out.push_back(GpuLine(facts.gpus[i], names[i], width, history, jobs, facts, choice, columns));
  if (is_folded) out.push_back(MoreGpus(std::span(facts.gpus).subspan(shown), choice, columns));
}

TopLine Heading(std::string_view text, std::size_t columns, bool is_ascii) {
  Filler line(columns, is_ascii);
  line.Add(text, 0, Colour::kBold);
  line.line().is_heading = true;
  return line.Take();
}

/// The cells of a job's line, or of the titles: id, name, user, state or node, GPUs, time or start, and the rest.
constexpr std::size_t kJobCells = 7;
struct JobRow {
  std::array<Cell, kJobCells> cells;
  double done = -1;  // Progress that the job reported, 0..1. Negative: none.
  std::string job;   // Empty for titles.
};

/// The last cell gets the remaining width.
using JobColumns = std::array<std::size_t, kJobCells - 1>;
constexpr std::size_t kCommonColumns = 3;  // Id, name and user have equal widths in both lists.
constexpr std::array<bool, kJobCells> kIsRight = {true, false, false, false, true, true, false};
constexpr std::array<std::string_view, kJobCells> kRunningTitles = {"Running", "name", "user", "state",
                                                                    "GPUs",    "time", "left"};
constexpr std::array<std::string_view, kJobCells> kWaitingTitles = {"Waiting", "name",   "user",        "place",
                                                                    "GPUs",    "starts", "why it waits"};
/// Minimum widths, so that little moves while jobs come and go.
constexpr JobColumns kRunningColumns = {8, 16, 9, 9, 4, 9};
constexpr JobColumns kWaitingColumns = {8, 16, 9, 6, 4, 11};
constexpr std::size_t kProgressBar = 8;

using Needs = std::array<std::size_t, kJobCells>;

Needs NeedsOf(const std::vector<JobRow>& rows) {
  Needs needs = {};
  for (const JobRow& row : rows) {
    for (std::size_t i = 0; i < kJobCells; ++i) needs[i] = std::max(needs[i], Width(row.cells[i].text));
    if (row.done >= 0) needs.back() = std::max(needs.back(), Width(row.cells.back().text) + kProgressBar + 1);
  }
  return needs;
}

/// Widens columns beyond their minimum if they need it, in this order, but leaves the last column the width that it
/// needs, up to a third of the line. Ids come first, because users type them.
void Widen(JobColumns& columns, const Needs& needs, std::size_t line, std::size_t indent) {
  constexpr std::array<std::size_t, kJobCells - 1> kOrder = {4, 0, 5, 3, 2, 1};
  constexpr std::size_t kMostNumber = 14;
  columns[0] = std::max(columns[0], std::min(needs[0], kMostNumber));
  std::size_t taken = indent + kJobCells + std::min(needs.back(), line / 3);
  for (const std::size_t width : columns) taken += width;
  for (const std::size_t i : kOrder) {
    if (taken >= line) return;
    const std::size_t more = std::min(needs[i] - std::min(needs[i], columns[i]), line - taken);
    columns[i] += more;
    taken += more;
  }
}

TopLine LineOf(const JobRow& row, const JobColumns& columns, const TopChoice& choice, std::size_t indent,
               std::size_t width) {
  Filler line(width, choice.is_ascii);
  line.Gap(indent + 1);
  for (std::size_t i = 0; i + 1 < kJobCells; ++i)
    line.Add(row.cells[i].text, columns[i], row.cells[i].colour, kIsRight[i]).Gap();
  if (row.done >= 0) line.Add(Bar(row.done, kProgressBar, choice.is_ascii), kProgressBar, Colour::kGreen).Gap();
  line.Add(row.cells.back().text, line.room(), row.cells.back().colour);
  line.line().job = row.job;
  line.line().is_heading = row.job.empty();
  return line.Take();
}

JobRow Titles(const std::array<std::string_view, kJobCells>& titles) {
  JobRow row;
  for (std::size_t i = 0; i < kJobCells; ++i)
    row.cells[i] = {std::string(titles[i]), i == 0 ? Colour::kBold : Colour::kDim};
  return row;
}

JobRow RunningRow(const wire::JobView& job, const TopFacts& facts) {
  JobRow row;
  std::string rest = TimeLeft(job, facts.now);
  if (job.progress) {
    row.done = std::clamp(job.progress->fraction, 0.0, 1.0);
    rest = std::to_string(std::llround(row.done * 100)) + "%" + (rest.empty() ? "" : ", " + rest);
  }
  if (job.time_sharing && (job.time_sharing->is_parked || job.time_sharing->stage == "trial")) {
    const std::string& newcomer = job.time_sharing->parked_for;
    const std::string stage = !job.time_sharing->is_parked ? "on trial"
                              : newcomer.empty()           ? "parked by its sweep"
                                                           : "parked for " + newcomer;
    rest = stage + (rest.empty() ? "" : ", " + rest);
  }
  row.cells = {Cell{job.display_id, Colour::kBold},
               Cell{job.name},
               Cell{job.user},
               facts.wasted.contains(job.display_id) ? Cell{job.state + " W", Colour::kYellow}
                                                     : Cell{job.state, StateColour(job.state)},
               Cell{GpusText(job)},
               Cell{job.start_time ? Span(facts.now - *job.start_time) : ""},
               Cell{std::move(rest)}};
  row.job = job.display_id;
  return row;
}

/// A fraction by memory is written without a blank: "60G".
std::string GpusAsked(const wire::RequestView& request) {
  std::string text = GpuCount(request);
  if (const auto at = text.find(" GiB"); at != std::string::npos) text.replace(at, 4, "G");
  return text;
}

JobRow WaitingRow(const wire::JobView& job, const TopFacts& facts) {
  std::string when;
  const auto start = facts.expected_starts.find(job.display_id);
  if (start != facts.expected_starts.end() && job.state == "queued") when = "in " + Short(start->second - facts.now);
  JobRow row;
  row.cells = {Cell{job.display_id, Colour::kBold},
               Cell{job.name},
               Cell{job.user},
               Cell{job.position > 0 ? "#" + std::to_string(job.position) : job.state, StateColour(job.state)},
               Cell{GpusAsked(job.request)},
               Cell{std::move(when)},
               Cell{job.reason, Colour::kDim}};
  row.job = job.display_id;
  return row;
}

void Sort(std::vector<const wire::JobView*>& jobs, TopSort sort, const TopFacts& facts, const Parts& parts) {
  const auto by = [&jobs](auto key) {
    std::ranges::stable_sort(jobs, [&](const auto* a, const auto* b) { return key(*a) < key(*b); });
  };
  switch (sort) {
    case TopSort::kQueue:
      return;  // In the daemon's order.
    case TopSort::kGpus:
      return by([&](const wire::JobView& job) { return -GpusOf(job, parts, facts.gpus); });
    case TopSort::kTime:
      return by([](const wire::JobView& job) { return job.start_time.value_or(job.submit_time); });
    case TopSort::kUser:
      return by([](const wire::JobView& job) { return job.user; });
    case TopSort::kName:
      return by([](const wire::JobView& job) { return job.name; });
  }
}

/// The jobs of one state, with their titles.
struct JobList {
  std::vector<const wire::JobView*> jobs;
  std::vector<JobRow> rows;
  JobColumns columns;
};

void AddJobs(const JobList& list, const TopFacts& facts, const Parts& parts, const TopChoice& choice,
             std::size_t columns, std::vector<TopLine>& out) {
  if (list.jobs.empty()) return;
  const std::size_t indent = choice.is_tree ? 1 : 0;
  out.push_back(LineOf(list.rows.front(), list.columns, choice, indent, columns));
  std::map<std::string, std::vector<std::size_t>> by_user;
  for (std::size_t i = 0; i < list.jobs.size(); ++i) by_user[choice.is_tree ? list.jobs[i]->user : ""].push_back(i);
  for (const auto& [user, own] : by_user) {
    if (choice.is_tree) {
      double gpus = 0;
      std::int64_t jobs = 0;
      for (const std::size_t i : own) {
        gpus += GpusOf(*list.jobs[i], parts, facts.gpus);
        jobs += list.jobs[i]->count;
      }
      Filler line(columns, choice.is_ascii);
      line.Gap()
          .Add(user, 0, Colour::kBold)
          .Add("  " + Plural(jobs, "job") + ", " + GpusInWords(gpus), 0, Colour::kDim);
      out.push_back(line.Take());
    }
    for (const std::size_t i : own) out.push_back(LineOf(list.rows[i + 1], list.columns, choice, indent, columns));
  }
}

/// "2 of 4 GPUs taken  1 unmanaged  1 fenced  ": jobs have the taken GPUs; the others are counted by their state in
/// `divvy gpus`.
std::string GpuCounts(const TopFacts& facts) {
  const auto count = [&facts](std::string_view state) {
    return std::ranges::count_if(facts.gpus, [&](const wire::GpuView& gpu) {
      return (gpu.jobs.empty() && gpu.state != "allocated" ? std::string_view(gpu.state) : "taken") == state;
    });
  };
  std::string text = std::to_string(count("taken")) + " of " + Plural(facts.status.gpus, "GPU") + " taken  ";
  for (const std::string_view state : {"reserved", "unmanaged", "fenced", "restricted", "away"}) {
    if (const auto gpus = count(state); gpus > 0) text += std::to_string(gpus) + " " + std::string(state) + "  ";
  }
  return text;
}

/// "3", or "1 of 3" if only some are shown.
std::string Counted(std::int64_t all, const TopFacts& facts, const TopChoice& choice, auto is) {
  if (choice.user.empty() && choice.filter.empty()) return std::to_string(all);
  std::int64_t shown = 0;
  for (const wire::JobView& job : facts.jobs) shown += Passes(job, choice) && is(job) ? job.count : 0;
  return std::to_string(shown) + " of " + std::to_string(all);
}

/// Shown instead of an empty list.
std::string NoneText(const TopChoice& choice) {
  if (choice.filter.empty() && choice.user.empty()) return "No jobs are queued or running.";
  std::string text = "No job" + (choice.user.empty() ? "" : " of " + choice.user);
  text += choice.filter.empty() ? " is queued or running" : " matches '" + choice.filter + "'";
  return text + (choice.is_once ? "." : "; press / to change the filter, u to show all users.");
}

}  // namespace

std::string_view Name(TopSort sort) { return kSortNames[static_cast<std::size_t>(sort)]; }

std::string Sparkline(const std::deque<int>& percents, std::size_t width, bool is_ascii) {
  const std::size_t count = std::min(width, percents.size());
  std::string out(width - count, ' ');
  for (std::size_t i = percents.size() - count; i < percents.size(); ++i) {
    if (percents[i] < 0) {
      out += ' ';
      continue;
    }
    const auto step = static_cast<std::size_t>(std::clamp(percents[i], 0, 100)) * (kSteps.size() - 1) / 100;
    if (is_ascii) out += kAsciiBarSteps[step];
    else out += kSteps[step];
  }
  return out;
}

std::string Bar(double share, std::size_t width, bool is_ascii) {
  const auto full = static_cast<std::size_t>(std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string out;
  for (std::size_t i = 0; i < width; ++i) out += i < full ? (is_ascii ? "#" : "█") : (is_ascii ? "." : "░");
  return out;
}

TopLine TopTitle(const TopFacts& facts, const TopChoice& choice) {
  const wire::StatusView& status = facts.status;
  TopLine line;
  line.spans.push_back({"divvy", Colour::kBold});
  // Put first what a narrow terminal must not cut off.
  const std::string trouble = facts.trouble.empty() ? status.trouble : "out of date: " + facts.trouble;
  if (!trouble.empty()) line.spans.push_back({"  " + trouble, Colour::kRed});
  std::string chosen;
  if (choice.sort != TopSort::kQueue) chosen += "  sorted by " + std::string(Name(choice.sort));
  if (!choice.user.empty()) chosen += "  of " + choice.user;
  if (!choice.filter.empty()) chosen += "  /" + choice.filter;
  if (!chosen.empty()) line.spans.push_back({chosen, Colour::kYellow});
  const auto count = [&](std::int64_t all, std::string_view state) {
    return Counted(all, facts, choice, [state](const wire::JobView& job) { return job.state == state; });
  };
  std::string counts = GpuCounts(facts) + Counted(status.jobs_running, facts, choice, IsRunning) + " running  ";
  counts += count(status.jobs_queued, "queued") + " queued";
  if (status.jobs_held > 0) counts += "  " + count(status.jobs_held, "held") + " held";
  line.spans.push_back({"  " + counts + "  policy " + status.policy, Colour::kNone});
  return line;
}

TopLine TopKeys(std::size_t columns) {
  constexpr std::array<std::string_view, 10> kKeys = {"q quit",   "? help",     "w why",    "l logs", "h hold",
                                                      "c cancel", "p priority", "/ filter", "s sort", "t tree"};
  std::string text;
  for (const std::string_view key : kKeys) {
    const std::string with = text + (text.empty() ? " " : "  ") + std::string(key);
    if (Width(with) > columns) break;
    text = with;
  }
  TopLine line;
  line.spans.push_back({text, Colour::kDim});
  return line;
}

std::vector<TopLine> TopLines(const TopFacts& facts, const TopHistory& history, const TopChoice& choice,
                              std::size_t columns) {
  std::vector<TopLine> out;
  AddGpus(facts, history, choice, columns, out);
  JobList running{{}, {Titles(kRunningTitles)}, kRunningColumns},
      waiting{{}, {Titles(kWaitingTitles)}, kWaitingColumns};
  for (const wire::JobView& job : facts.jobs) {
    if (Passes(job, choice)) (IsRunning(job) ? running : waiting).jobs.push_back(&job);
  }
  const Parts parts = PartsOf(facts.gpus);
  Sort(running.jobs, choice.sort, facts, parts);
  Sort(waiting.jobs, choice.sort, facts, parts);
  for (const wire::JobView* job : running.jobs) running.rows.push_back(RunningRow(*job, facts));
  for (const wire::JobView* job : waiting.jobs) waiting.rows.push_back(WaitingRow(*job, facts));
  const std::size_t indent = choice.is_tree ? 1 : 0;
  Needs of_running = NeedsOf(running.rows), of_waiting = NeedsOf(waiting.rows);
  for (std::size_t i = 0; i < kCommonColumns; ++i)
    of_running[i] = of_waiting[i] = std::max(of_running[i], of_waiting[i]);
  Widen(running.columns, of_running, columns, indent);
  Widen(waiting.columns, of_waiting, columns, indent);
  for (std::size_t i = 0; i < kCommonColumns; ++i)
    running.columns[i] = waiting.columns[i] = std::min(running.columns[i], waiting.columns[i]);
  AddJobs(running, facts, parts, choice, columns, out);
  AddJobs(waiting, facts, parts, choice, columns, out);
  if (running.jobs.empty() && waiting.jobs.empty()) out.push_back(Heading(NoneText(choice), columns, choice.is_ascii));
  return out;
}

}  // namespace divvy::cli
