#include "cli/client/job_text.h"

#include <algorithm>
#include <ctime>

#include "base/duration_text.h"
#include "base/index_ranges.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {

double NowSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string Span(double seconds) {
  if (seconds < 0) seconds = 0;
  return dialect::FormatClock(Duration(static_cast<std::int64_t>(seconds * 1e9)));
}

std::string InWords(double seconds) {
  return DurationText(Duration(static_cast<std::int64_t>(std::max(seconds, 0.0) * 1e9)));
}

std::string When(std::optional<double> time) {
  if (!time) return "";
  const std::time_t seconds = static_cast<std::time_t>(*time);
  std::tm parts{}, today{};
  const std::time_t now = std::time(nullptr);
  ::localtime_r(&seconds, &parts);
  ::localtime_r(&now, &today);
  char text[32];
  const bool is_today = parts.tm_yday == today.tm_yday && parts.tm_year == today.tm_year;
  std::strftime(text, sizeof text, is_today ? "%H:%M:%S" : "%b %d %H:%M", &parts);
  return text;
}

std::string Moment(std::optional<double> time) {
  if (!time) return "";
  const auto seconds = static_cast<std::time_t>(*time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string DayAndTime(double seconds) {
  const auto moment = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::localtime_r(&moment, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

std::string PublicId(const wire::JobDetail& job) { return job.array_index ? job.display_id : ToString(job.id); }

std::string GpuList(const std::vector<std::int64_t>& gpus) {
  IndexRanges ranges;
  for (std::int64_t gpu : gpus) ranges.Insert(static_cast<std::uint32_t>(gpu));
  return ranges.ToString();
}

bool IsSeen(const wire::GpuView& gpu) {
  return gpu.utilisation_percent >= 0 || gpu.temperature_celsius >= 0 || gpu.memory_used_bytes > 0;
}

std::string MemoryText(const wire::GpuView& gpu) {
  const auto gibibytes = [](std::int64_t bytes) { return std::to_string((bytes + (1 << 29)) >> 30); };
  if (!IsSeen(gpu) && gpu.memory_total_bytes == 0) return "-";
  return (IsSeen(gpu) ? gibibytes(gpu.memory_used_bytes) : "-") + "/" + gibibytes(gpu.memory_total_bytes) + "G";
}

namespace {

/// Returns true if the job uses the GPU without holding it. GPUs with tenants are never judged, because tenants are
/// moved.
bool StraysTo(const wire::GpuView& gpu, JobId job) {
  const bool is_known = gpu.tenants.empty() && (gpu.state == "unmanaged" || gpu.state == "allocated");
  return is_known && std::ranges::find(gpu.jobs, job) == gpu.jobs.end();
}

}  // namespace

std::string GpuTrouble(const wire::GpuView& gpu) {
  const bool is_sound = gpu.state == "free" || gpu.state == "allocated" || gpu.state == "reserved";
  std::string text = is_sound || gpu.state == "unmanaged" ? "" : gpu.state;
  // For a healthy GPU, `reason` names the job that has it, which is not a problem.
  if (!text.empty() && !gpu.reason.empty()) text += ": " + gpu.reason;
  for (const wire::GpuProcessView& process : gpu.processes) {
    const bool is_stray = process.job && StraysTo(gpu, *process.job);
    if ((process.job && !is_stray) || process.is_ignored) continue;
    const std::string whose =
        is_stray ? "job " + ToString(*process.job) + ", which is not allocated to it" : process.user;
    text += (text.empty() ? "also used by " : "; also used by ") + whose + ", pid " + std::to_string(process.pid) +
            " " + process.command;
    break;
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> GpuTroubles(const std::vector<wire::GpuView>& gpus, JobId id) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const wire::GpuView& gpu : gpus) {
    const std::string name = (gpu.node.empty() ? "" : gpu.node + ":") + std::to_string(gpu.index);
    const bool uses = std::ranges::any_of(
        gpu.processes, [&](const wire::GpuProcessView& process) { return process.job == id && !process.is_ignored; });
    if (uses && StraysTo(gpu, id))
      out.emplace_back(
          "GPU " + name,
          "used but not allocated: the job's program should respect CUDA_VISIBLE_DEVICES, or the job should request "
          "more GPUs (--gpus)");
    if (std::ranges::find(gpu.jobs, id) == gpu.jobs.end()) continue;
    const std::string trouble = GpuTrouble(gpu);
    if (!trouble.empty()) out.emplace_back("GPU " + name, trouble);
  }
  return out;
}

Colour StateColour(const std::string& state) {
  if (state == "running" || state == "succeeded") return Colour::kGreen;
  if (state == "failed" || state == "timed_out" || state == "lost") return Colour::kRed;
  if (state == "queued" || state == "starting" || state == "stopping" || state == "paused") return Colour::kYellow;
  return Colour::kDim;
}

std::string EndInWords(const std::string& state, const std::string& reason) {
  if (state == "cancelled" && reason.starts_with("cancelled")) return "was " + reason;
  const std::string verb = state == "timed_out"                      ? "timed out"
                           : state == "cancelled" || state == "lost" ? "was " + state
                                                                     : state;
  return reason.empty() || state == "succeeded" ? verb : verb + ": " + reason;
}

void AddField(std::string& out, std::string_view name, const std::string& value) {
  if (value.empty()) return;
  std::string label(name);
  label.resize(14, ' ');
  out += Paint(Colour::kDim, label) + value + "\n";
}

}  // namespace divvy::cli
