#include "wire/http/gzip.h"

#include <zlib.h>

#include <limits>

namespace divvy {

std::string Gzip(std::string_view bytes) {
  // Adding 16 to the window bits makes zlib write a gzip header instead of its own.
  constexpr int kGzipWindow = 15 + 16;
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  if (bytes.size() > std::numeric_limits<uInt>::max()) return "";
  if (::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    return "";
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  // zlib only reads the input, although the type of this member is not const.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = ::deflate(&stream, Z_FINISH);
  packed.resize(done == Z_STREAM_END ? stream.total_out : 0);
  ::deflateEnd(&stream);
  return packed;
}

}  // namespace divvy
