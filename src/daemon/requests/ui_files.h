// The files of the web page, as built (web/dist) and embedded in the binary.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

struct UiFile {
  std::string_view path;  // "/app.js"
  std::string_view content_type;
  std::string_view bytes;
  std::string packed;  // The same bytes, compressed by Gzip().
  std::string etag;    // Including its quotes.
};

/// Returns null if there is no such file. "/" is the page.
const UiFile* FindUiFile(std::string_view path);

}  // namespace divvy
