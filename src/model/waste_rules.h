// When a job is said to waste its GPUs, and whose jobs are left alone ([waste] in divvy.toml).
#pragma once

#include <string>
#include <vector>

#include "base/time.h"

namespace divvy {

struct WasteRules {
  bool is_on = true;
  Duration grace = std::chrono::minutes(10);       // After a start: data and models are loaded.
  Duration idle_after = std::chrono::minutes(30);  // Of a GPU at 0%.
  Duration window = std::chrono::hours(1);         // Over which a mean is taken; a minute at least.
  double underused = 0.25;                         // Below this mean; 0: never.
  double small_memory = 0.25;                      // Below this peak, of what it has; 0: never.
  std::vector<std::string> exempt_users;
  std::vector<std::string> exempt_teams;
  std::vector<std::string> exempt_names;  // Of jobs; "notebook*" begins so.

  friend bool operator==(const WasteRules&, const WasteRules&) = default;
};

}  // namespace divvy
