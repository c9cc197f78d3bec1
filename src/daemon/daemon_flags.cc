#include "daemon/daemon_flags.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace divvy {

Result<DaemonFlags> ReadDaemonFlags(const std::vector<std::string>& words) {
  DaemonFlags flags;
  const std::array<std::pair<std::string_view, std::string*>, 3> valued = {
      {{"--emulate", &flags.emulate}, {"--gpus", &flags.gpus}, {"--listen", &flags.listen}}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--detached") {
      flags.is_detached = true;
      continue;
    }
    if (words[i] == "--yields") {
      flags.yields = true;
      continue;
    }
    const auto* const option = std::ranges::find(valued, words[i], &std::pair<std::string_view, std::string*>::first);
    if (option == valued.end() || i + 1 == words.size())
      return InvalidArgument("unknown daemon option '" + words[i] + "'");
    *option->second = words[++i];
  }
  return flags;
}

}  // namespace divvy
