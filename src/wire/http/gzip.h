// Bytes as a web browser takes them packed: Content-Encoding: gzip.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// RFC 1952, at zlib's best level; empty where there is no memory for it.
std::string Gzip(std::string_view bytes);

}  // namespace divvy
