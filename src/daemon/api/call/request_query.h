// Parameters in a request's query string.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "wire/http/http.h"

namespace divvy {

/// Returns the whole number in parameter `name`, from 1 to `most`; `otherwise` if it is missing.
Result<std::int64_t> CountIn(const HttpRequest& request, const std::string& name, std::int64_t otherwise,
                             std::int64_t most);

}  // namespace divvy
