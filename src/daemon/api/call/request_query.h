// Parameters in a request's query string.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "wire/http/http.h"

namespace divvy {

/// Returns the whole number in parameter `name`, or `otherwise` if the request lacks this parameter. Fails unless it is
/// from 1 to `most`.
Result<std::int64_t> CountIn(const HttpRequest& request, const std::string& name, std::int64_t otherwise,
                             std::int64_t most);

}  // namespace divvy
