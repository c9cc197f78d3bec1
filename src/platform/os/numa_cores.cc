#include "platform/os/numa_cores.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "model/steps/task_map.h"
#include "platform/os/unique_fd.h"

namespace divvy {

namespace {

/// Reads a list of numbers in the kernel's format; empty if the file does not exist.
std::vector<int> ReadList(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text;
  const ssize_t size = file.is_open() ? ::read(file.get(), text.data(), text.size()) : -1;
  if (size < 0) return {};
  return ParseCoreList({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::vector<std::vector<int>> NumaNodeCores() {
  constexpr int kNodesMost = 64;
  const std::string folder = "/sys/devices/system/node/";
  std::vector<std::vector<int>> nodes;
  // NUMA node numbers may have gaps.
  for (const int node : ReadList(folder + "online")) {
    if (node < 0 || node >= kNodesMost) continue;
    const auto place = static_cast<std::size_t>(node);
    if (place >= nodes.size()) nodes.resize(place + 1);
    nodes[place] = ReadList(folder + "node" + std::to_string(node) + "/cpulist");
  }
  return nodes;
}

}  // namespace divvy
