// Compression for web browsers: Content-Encoding: gzip.
#pragma once

#include <string>
#include <string_view>

namespace divvy {

/// Compresses bytes to the gzip format (RFC 1952), at zlib's best level. Returns an empty string if memory runs out.
std::string Gzip(std::string_view bytes);

}  // namespace divvy
