// What stands behind the "?" of a request.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "wire/http/http.h"

namespace divvy {

/// A whole number of the query, from 1 to `most`; `otherwise` where it is not there.
Result<std::int64_t> CountIn(const HttpRequest& request, const std::string& name, std::int64_t otherwise,
                             std::int64_t most);

}  // namespace divvy
