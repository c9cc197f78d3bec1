#include "engine/message_text.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace divvy {

std::string AndList(std::span<const std::string> parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " and " : ", ";
    out += parts[i];
  }
  return out;
}

std::string GpusText(GpuSet gpus) {
  if (gpus.empty()) return "no GPU";
  const std::vector<int> indices = gpus.ToVector();
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < indices.size();) {
    std::size_t last = first;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    // Two neighbours read better separately: "3 and 4", not "3-4".
    if (last - first < 2) last = first;
    parts.push_back(first == last ? std::to_string(indices[first])
                                  : std::to_string(indices[first]) + "-" + std::to_string(indices[last]));
    first = last + 1;
  }
  return (gpus.size() == 1 ? "GPU " : "GPUs ") + AndList(parts);
}

std::string_view TopologyPhrase(TopologyNeed need) {
  switch (need) {
    case TopologyNeed::kAny:
      break;
    case TopologyNeed::kNuma:
      return "on one NUMA node";
    case TopologyNeed::kNvlink:
      return "joined by NVLink";
    case TopologyNeed::kRack:
      return "in one rack";
    case TopologyNeed::kBlock:
      return "in one block";
  }
  return "";
}

std::string_view IsOrAre(std::int64_t count) { return count == 1 ? "is" : "are"; }

std::string BytesFlag(Bytes bytes) {
  static constexpr std::array<std::pair<int, const char*>, 4> kUnits = {{{40, "T"}, {30, "G"}, {20, "M"}, {10, "K"}}};
  for (const auto& [shift, letter] : kUnits) {
    // A unit may be used if rounding down loses at most a tenth.
    const std::int64_t count = bytes.count() >> shift;
    if (count >= 10 || (count > 0 && (count << shift) == bytes.count())) return std::to_string(count) + letter;
  }
  return std::to_string(bytes.count());
}

std::string JobsText(std::span<const JobId> jobs) {
  static constexpr std::size_t kShown = 4;
  std::vector<std::string> parts;
  for (JobId job : jobs.first(std::min(jobs.size(), kShown))) parts.push_back(ToString(job));
  if (jobs.size() > kShown) parts.push_back(std::to_string(jobs.size() - kShown) + " more");
  return (jobs.size() == 1 ? "job " : "jobs ") + AndList(parts);
}

}  // namespace divvy
