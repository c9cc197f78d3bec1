#include "node/job_environment.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "base/text.h"

namespace divvy {
namespace {

std::string Seconds(Time time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

std::string Padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

}  // namespace

std::vector<std::string> DivvyEnvironment(const JobRecord& record, const JobSpec& spec, std::span<const GpuFacts> gpus,
                                          const std::map<std::string, std::string>& parameters, const NodeNames& node) {
  std::string indices, uuids, numa;
  for (int gpu : record.gpus.ToVector()) {
    if (!indices.empty()) indices += ',', uuids += ',', numa += ',';
    indices += std::to_string(gpu);
    const bool is_known = static_cast<std::size_t>(gpu) < gpus.size();
    if (is_known) uuids += gpus[static_cast<std::size_t>(gpu)].uuid;
    numa += std::to_string(is_known ? gpus[static_cast<std::size_t>(gpu)].numa_node : -1);
  }
  std::vector<std::string> out = {
      // Without this, CUDA sorts the fastest card first, and its indices differ from NVML's.
      "CUDA_DEVICE_ORDER=PCI_BUS_ID",
      "CUDA_VISIBLE_DEVICES=" + indices,
      "DIVVY_JOB_ID=" + ToString(record.id),
      "DIVVY_JOB_NAME=" + record.name,
      "DIVVY_GPUS=" + indices,
      "DIVVY_GPU_UUIDS=" + uuids,
      "DIVVY_GPU_NUMA=" + numa,
      "DIVVY_GPU_COUNT=" + std::to_string(record.gpus.size()),
      "DIVVY_USER=" + record.user.name,
      "DIVVY_NODE=" + node.name(),
      "DIVVY_SUBMIT_DIR=" + spec.directory,
      "DIVVY_ATTEMPT=" + std::to_string(record.attempt),
      "DIVVY_RESTARTS=" + std::to_string(record.restarts),
      "DIVVY_START_TIME=" + Seconds(record.started),
  };
  if (const Time deadline = Deadline(record); deadline != kNever) out.push_back("DIVVY_DEADLINE=" + Seconds(deadline));
  if (record.request.is_gang() && spec.stale_grace != Duration(0)) {
    const auto grace = std::chrono::ceil<std::chrono::seconds>(spec.stale_grace);
    out.push_back("DIVVY_STALE_GRACE=" + (spec.stale_grace < Duration(0) ? "never" : std::to_string(grace.count())));
  }
  if (!record.project.empty()) out.push_back("DIVVY_PROJECT=" + record.project);
  if (!record.group.empty()) out.push_back("DIVVY_GROUP=" + record.group);
  if (record.request.cpus > 0) out.push_back("DIVVY_CPUS=" + std::to_string(record.request.cpus));
  if (record.request.memory > Bytes(0))
    out.push_back("DIVVY_MEMORY_BYTES=" + std::to_string(record.request.memory.count()));
  if (record.array.is_set()) {
    out.push_back("DIVVY_ARRAY_ID=" + ToString(record.array));
    out.push_back("DIVVY_ARRAY_INDEX=" + std::to_string(record.array_index));
  }
  for (const auto& [name, value] : parameters) out.push_back("DIVVY_PARAM_" + name + "=" + value);
  if (!node.home.empty()) out.push_back("DIVVY_HOME=" + node.home);
  if (!node.door.empty()) out.push_back("DIVVY_CONTROLLER=unix:" + node.door);
  return out;
}

std::vector<std::string> MergeEnvironment(std::span<const std::vector<std::string>> layers) {
  std::vector<std::string> out;
  std::map<std::string, std::size_t, std::less<>> place;
  for (const auto& layer : layers) {
    for (const std::string& entry : layer) {
      const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
      const auto [at, is_new] = place.try_emplace(std::string(name), out.size());
      if (is_new) {
        out.push_back(entry);
      } else {
        out[at->second] = entry;
      }
    }
  }
  return out;
}

std::string FillPattern(std::string_view pattern, const JobRecord& record, const NodeNames& node) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    std::size_t width = 0, at = i + 1;
    while (at < pattern.size() && at < i + 3 && std::isdigit(static_cast<unsigned char>(pattern[at]))) {
      width = width * 10 + static_cast<std::size_t>(pattern[at++] - '0');
    }
    const char letter = at < pattern.size() ? pattern[at] : '\0';
    switch (letter) {
      case '%':
        out += '%';
        break;
      case 'j':
      case 'J':
        out += Padded(ToString(record.id), width);
        break;
      case 'A':
        out += Padded(ToString(record.array.is_set() ? record.array : record.id), width);
        break;
      case 'a':
        out += Padded(record.array.is_set() ? std::to_string(record.array_index) : "4294967294", width);
        break;
      case 'b':
        out += record.array.is_set() ? std::to_string(record.array_index % 10) : "4";
        break;
      case 'x':
        // The job's name becomes part of a file name. A '/' in it must not create folders.
        std::ranges::replace_copy(record.name, std::back_inserter(out), '/', '_');
        break;
      case 'u':
        out += record.user.name;
        break;
      case 'N':
        out += node.name();
        break;
      case 'n':
      case 't':
        out += Padded("0", width);
        break;
      case 's':
        out += "batch";
        break;
      default:
        out += pattern.substr(i, at - i);
        at -= 1;
        break;
    }
    i = at;
  }
  return out;
}

}  // namespace divvy
