// GET /v1/openapi.json: the description of all routes for clients.
#pragma once

#include <string>

namespace divvy {

/// Returns the document as JSON text. It is the same for each daemon of this version.
std::string OpenApiDocument();

}  // namespace divvy
