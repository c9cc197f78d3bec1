#include "daemon/requests/ui_files.h"

#include <array>

#include "platform/net/tls.h"
#include "wire/http/gzip.h"

// web/page_image.S
extern "C" const char divvy_page_html_begin[];
extern "C" const char divvy_page_html_end[];
extern "C" const char divvy_page_script_begin[];
extern "C" const char divvy_page_script_end[];
extern "C" const char divvy_page_style_begin[];
extern "C" const char divvy_page_style_end[];
extern "C" const char divvy_page_icon_begin[];
extern "C" const char divvy_page_icon_end[];

namespace divvy {
namespace {

constexpr std::size_t kEtagDigits = 16;

UiFile Carried(std::string_view path, std::string_view content_type, const char* begin, const char* end) {
  UiFile file;
  file.path = path;
  file.content_type = content_type;
  file.bytes = {begin, static_cast<std::size_t>(end - begin)};
  file.packed = Gzip(file.bytes);
  file.etag = "\"" + Sha256Hex(file.bytes).substr(0, kEtagDigits) + "\"";
  return file;
}

}  // namespace

const UiFile* FindUiFile(std::string_view path) {
  // Initialised on first use, because most daemons never serve a page.
  static const std::array<UiFile, 4> files = {
      Carried("/", "text/html; charset=utf-8", divvy_page_html_begin, divvy_page_html_end),
      Carried("/app.js", "text/javascript; charset=utf-8", divvy_page_script_begin, divvy_page_script_end),
      Carried("/app.css", "text/css; charset=utf-8", divvy_page_style_begin, divvy_page_style_end),
      Carried("/icon.svg", "image/svg+xml", divvy_page_icon_begin, divvy_page_icon_end)};
  for (const UiFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace divvy
