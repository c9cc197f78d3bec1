#include "cli/client/process_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "base/text.h"
#include "cli/client/metrics_text.h"
#include "cli/client/shown_answer.h"
#include "cli/term/curve_text.h"

namespace divvy::cli {
namespace {

std::string UseText(const GpuProcess& process) {
  return process.utilization ? MetricText(*process.utilization, "ratio") : "";
}

}  // namespace

wire::LatestAnswer AskLatest(Api& api) {
  const auto json = api.Raw("GET", "/v1/latest", "");
  if (!json) return {};
  auto latest = DecodeShown<wire::LatestAnswer>(*json);
  return latest ? *std::move(latest) : wire::LatestAnswer();
}

std::map<std::string, double> AskLastOwn(Api& api, const wire::JobDetail& job) {
  const std::string series = "/v1/series?of=job&points=400&id=" + ToString(job.id);
  const auto ask = [&](const std::string& target) -> std::map<std::string, double> {
    const auto json = api.Raw("GET", target, "");
    const auto seen = json ? DecodeShown<wire::SeriesAnswer>(*json) : Result<wire::SeriesAnswer>(json.error());
    return seen ? LastOwn(*seen) : std::map<std::string, double>();
  };
  std::map<std::string, double> own = ask(series);
  if (own.empty()) return own;
  // In a long run each point is a mean over minutes. So read the last value from the last seconds, or from the latest
  // samples.
  if (job.end_time) {
    for (const auto& [name, value] : ask(series + "&since=" + std::to_string(std::llround(*job.end_time - 390))))
      own[name] = value;
    return own;
  }
  for (const wire::LatestJob& one : AskLatest(api).jobs) {
    if (one.id != job.id) continue;
    for (const auto& [name, value] : one.own) own[name] = value;
  }
  return own;
}

std::vector<GpuProcess> ProcessesOf(JobId id, const wire::LatestAnswer& latest,
                                    const std::vector<wire::GpuView>& gpus) {
  std::vector<GpuProcess> out;
  for (const wire::LatestGpu& gpu : latest.gpus) {
    const auto view = std::ranges::find_if(
        gpus, [&](const wire::GpuView& one) { return one.node == gpu.node && one.index == gpu.gpu; });
    for (const wire::LatestProcess& seen : gpu.processes) {
      if (seen.id != id) continue;
      GpuProcess& process = out.emplace_back();
      process.node = gpu.node;
      process.gpu = gpu.gpu;
      process.pid = seen.pid;
      process.memory_bytes = seen.memory_bytes;
      process.utilization = seen.utilization;
      process.cpu_cores = seen.cpu_cores;
      process.host_memory_bytes = seen.host_memory_bytes;
      process.read_bytes_per_second = seen.read_bytes_per_second;
      process.written_bytes_per_second = seen.written_bytes_per_second;
      if (view == gpus.end()) continue;
      const auto known = std::ranges::find(view->processes, seen.pid, &wire::GpuProcessView::pid);
      if (known == view->processes.end()) continue;
      process.user = known->user;
      process.command = known->command;
    }
  }
  std::ranges::sort(out, {},
                    [](const GpuProcess& process) { return std::tie(process.node, process.gpu, process.pid); });
  return out;
}

std::vector<std::string> ProcessLines(const std::vector<GpuProcess>& processes, std::size_t most) {
  std::vector<std::string> lines;
  for (const GpuProcess& process : processes) {
    if (lines.size() == most) {
      lines.push_back("and " + std::to_string(processes.size() - most) + " more (divvy metrics --processes)");
      break;
    }
    std::string line = "pid " + std::to_string(process.pid);
    if (!process.command.empty()) line += " " + process.command;
    line += " on GPU " + (process.node.empty() ? "" : process.node + ":") + std::to_string(process.gpu) + ": ";
    if (process.utilization) line += UseText(process) + ", ";
    lines.push_back(line + MetricText(process.memory_bytes, "bytes"));
  }
  return lines;
}

Result<std::string> ProcessTable(const std::vector<GpuProcess>& processes, const std::string& own,
                                 const ListingOptions& options) {
  const std::vector<Column> columns = {{"NODE", false, !own.empty()},
                                       {"GPU", true},
                                       {"PID", true},
                                       {"USER"},
                                       {"USE", true, true, false, false, false, "use_percent"},
                                       {"MEMORY", true, true, false, false, false, "memory_bytes"},
                                       {"CPU", true, true, false, false, false, "cpu_cores"},
                                       {"RESIDENT", true, true, false, false, false, "host_memory_bytes"},
                                       {"READ", true, true, false, false, false, "read_bytes_per_second"},
                                       {"WRITTEN", true, true, false, false, false, "written_bytes_per_second"},
                                       {"COMMAND", false, true, true}};
  const auto number = [&](const std::optional<double>& value, std::string_view unit) -> Cell {
    if (!value) return {""};
    if (!options.csv) return {MetricText(*value, unit)};
    if (unit != "cores") return {std::to_string(std::llround(*value))};
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", *value);
    return {text};
  };
  std::vector<std::vector<Cell>> rows;
  for (const GpuProcess& process : processes) {
    std::string use = UseText(process);
    if (options.csv) use = process.utilization ? std::to_string(std::lround(*process.utilization * 100)) : "";
    rows.push_back({{process.node.empty() ? own : process.node},
                    {std::to_string(process.gpu), Colour::kBold},
                    {std::to_string(process.pid)},
                    {process.user},
                    {use},
                    number(process.memory_bytes, "bytes"),
                    number(process.cpu_cores, "cores"),
                    number(process.host_memory_bytes, "bytes"),
                    number(process.read_bytes_per_second, "bytes_per_second"),
                    number(process.written_bytes_per_second, "bytes_per_second"),
                    {process.command}});
  }
  return RenderTable(columns, rows, options);
}

wire::LatestAnswer OnlyProcessesOf(JobId id, wire::LatestAnswer latest) {
  for (wire::LatestGpu& gpu : latest.gpus)
    std::erase_if(gpu.processes, [&](const wire::LatestProcess& process) { return process.id != id; });
  std::erase_if(latest.gpus, [](const wire::LatestGpu& gpu) { return gpu.processes.empty(); });
  latest.slices.clear();
  latest.nodes.clear();
  latest.jobs.clear();
  latest.cluster.clear();
  return latest;
}

}  // namespace divvy::cli
