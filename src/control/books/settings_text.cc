#include "control/books/settings_text.h"

#include "base/index_ranges.h"
#include "base/text.h"

namespace divvy {

std::string FormatRestriction(GpuSet allowed) {
  IndexRanges ranges;
  for (int gpu : allowed.ToVector()) ranges.Insert(static_cast<std::uint32_t>(gpu));
  return allowed.empty() ? "none" : ranges.ToString();
}

std::optional<GpuSet> ParseRestriction(std::string_view text) {
  if (text == "none") return GpuSet();
  const auto ranges = IndexRanges::Parse(text, "restriction");
  if (!ranges || ranges->empty() || ranges->back() >= GpuSet::kCapacity) return std::nullopt;
  GpuSet set;
  for (const auto& range : ranges->ranges()) {
    for (std::uint32_t gpu = range.first; gpu <= range.last; ++gpu) set.Insert(static_cast<GpuIndex>(gpu));
  }
  return set;
}

std::string FormatIgnored(const std::vector<IgnoredProcess>& processes) {
  std::string text;
  for (const IgnoredProcess& process : processes) {
    text += std::to_string(process.gpu) + (process.node.empty() ? "" : "@" + process.node) + " " +
            std::to_string(process.identity.pid) + " " + std::to_string(process.identity.start_ticks) + " " +
            (process.user.empty() ? "?" : process.user) + " " + process.command + "\n";
  }
  return text;
}

std::vector<IgnoredProcess> ParseIgnored(std::string_view text) {
  std::vector<IgnoredProcess> processes;
  for (std::string_view line : Split(text, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() < 4) continue;
    const std::size_t at = words[0].find('@');
    const auto gpu = ParseInteger(words[0].substr(0, at)), pid = ParseInteger(words[1]), ticks = ParseInteger(words[2]);
    if (!gpu || !pid || !ticks) continue;
    IgnoredProcess process{
        static_cast<int>(*gpu), {*pid, static_cast<std::uint64_t>(*ticks)}, std::string(words[3]), "", ""};
    if (at != std::string_view::npos) process.node = std::string(words[0].substr(at + 1));
    if (words.size() > 4)
      process.command = std::string(line.substr(static_cast<std::size_t>(words[4].data() - line.data())));
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace divvy
