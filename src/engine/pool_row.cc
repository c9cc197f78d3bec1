#include "engine/pool_row.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {

std::vector<std::string> PoolsIn(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view name = Trim(part);
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  }
  return names;
}

}  // namespace divvy
