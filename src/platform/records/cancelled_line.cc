#include "platform/records/cancelled_line.h"

#include <array>
#include <chrono>
#include <ctime>

namespace divvy {

std::string CancelledLine(std::string_view what, std::string_view node, Time now) {
  const auto seconds =
      static_cast<std::time_t>(std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count());
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> moment{};
  std::strftime(moment.data(), moment.size(), "%Y-%m-%dT%H:%M:%S", &local);
  return "*** " + std::string(what) + " ON " + std::string(node) + " CANCELLED AT " + moment.data() +
         " DUE TO TIME LIMIT ***";
}

}  // namespace divvy
