#include "daemon/api/call/request_query.h"

#include "base/text.h"

namespace divvy {

Result<std::int64_t> CountIn(const HttpRequest& request, const std::string& name, std::int64_t otherwise,
                             std::int64_t most) {
  const auto asked = request.query.find(name);
  if (asked == request.query.end()) return otherwise;
  const auto count = ParseInteger(asked->second);
  if (!count || *count < 1 || *count > most)
    return InvalidArgument("'" + name + "' goes from 1 to " + std::to_string(most) + ", not '" + asked->second + "'");
  return *count;
}

}  // namespace divvy
