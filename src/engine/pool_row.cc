#include "engine/pool_row.h"

#include <set>

#include "base/text.h"

namespace divvy {

std::vector<std::string> PoolsIn(std::string_view list) {
  std::vector<std::string> names;
  std::set<std::string_view> known;
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view name = Trim(part);
    if (!name.empty() && known.insert(name).second) names.emplace_back(name);
  }
  return names;
}

}  // namespace divvy
