#include "platform/os/host_meter.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

using samples::Metric;

std::uint64_t Unsigned(std::string_view word) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(ParseInteger(word).value_or(0), 0));
}

constexpr double kBytesPerKiB = 1024;

}  // namespace

void HostMeter::Look(double seconds, std::vector<samples::Reading>& readings) {
  const auto add = [&](Metric metric, const std::optional<double>& value, double factor = 1) {
    if (value) readings.push_back({metric, *value * factor});
  };
  // Fields: user nice system idle iowait irq softirq steal. Guest time is included in user and nice.
  const std::string_view stat = text_.Read("/proc/stat");
  const auto words = SplitWords(stat.substr(0, stat.find('\n')));
  if (words.size() > 8) {
    std::uint64_t busy = 0;
    for (const std::size_t i : {1, 2, 3, 6, 7, 8}) busy += Unsigned(words[i]);
    if (auto cores = busy_.Next(busy, seconds)) {
      *cores /= static_cast<double>(::sysconf(_SC_CLK_TCK));
      const auto all = static_cast<double>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
      add(Metric::kCpuCores, std::min(*cores, all));
      add(Metric::kCpuUtilization, std::min(*cores / all, 1.0));
    }
  }
  const std::string_view memory = text_.Read("/proc/meminfo");
  const std::uint64_t total = NumberBehind(memory, "MemTotal:");
  if (total > 0) {
    const std::uint64_t free = std::min(NumberBehind(memory, "MemAvailable:"), total);
    add(Metric::kMemoryUsed, static_cast<double>(total - free), kBytesPerKiB);
  }
  // pgpgin and pgpgout are in KiB, summed over all disks.
  const std::string_view paged = text_.Read("/proc/vmstat");
  if (!paged.empty()) {
    add(Metric::kIoRead, read_.Next(NumberBehind(paged, "pgpgin"), seconds), kBytesPerKiB);
    add(Metric::kIoWritten, written_.Next(NumberBehind(paged, "pgpgout"), seconds), kBytesPerKiB);
  }
  LookAtNetwork(seconds, readings);
}

// Sums all interfaces except loopback and container bridges, which carry the same bytes a second time.
void HostMeter::LookAtNetwork(double seconds, std::vector<samples::Reading>& readings) {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  for (const std::string_view line : Split(text_.Read("/proc/net/dev"), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = Trim(line.substr(0, colon));
    if (name == "lo" || name.starts_with("veth") || name.starts_with("br-") || name.starts_with("docker") ||
        name.starts_with("cni") || name.starts_with("virbr"))
      continue;
    const auto words = SplitWords(line.substr(colon + 1));
    if (words.size() < 9) continue;
    received += Unsigned(words[0]);
    sent += Unsigned(words[8]);
  }
  if (const auto rate = received_.Next(received, seconds)) readings.push_back({Metric::kNetworkReceived, *rate});
  if (const auto rate = sent_.Next(sent, seconds)) readings.push_back({Metric::kNetworkSent, *rate});
}

}  // namespace divvy
