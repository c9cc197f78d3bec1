#include "platform/numa_cores.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "model/task_map.h"
#include "platform/launch_descriptor.h"

namespace divvy {

std::vector<std::vector<int>> NumaNodeCores() {
  constexpr int kNodesMost = 64;
  std::vector<std::vector<int>> nodes;
  for (int node = 0; node < kNodesMost; ++node) {
    const std::string path = "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist";
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> text;
    const ssize_t size = file.is_open() ? ::read(file.get(), text.data(), text.size()) : -1;
    // Numbers may have gaps.
    if (size < 0) continue;
    nodes.resize(static_cast<std::size_t>(node) + 1);
    nodes.back() = ParseCoreList({text.data(), static_cast<std::size_t>(size)});
  }
  return nodes;
}

}  // namespace divvy
