// The page itself, as it was built (web/dist) and is carried inside the binary.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

struct UiFile {
  std::string_view path;  // "/app.js"
  std::string_view content_type;
  std::string_view bytes;
  std::string packed;  // The same by Gzip().
  std::string etag;    // With its quotes.
};

/// Null: there is no such file. "/" is the page.
const UiFile* FindUiFile(std::string_view path);

}  // namespace divvy
