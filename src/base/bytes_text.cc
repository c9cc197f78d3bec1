#include "base/bytes_text.h"

#include <array>
#include <cstdint>

namespace divvy {

std::string BytesText(Bytes bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  std::int64_t size = 1;
  while (unit + 1 < kUnits.size() && bytes.count() / size >= 1024) size <<= 10, ++unit;
  std::int64_t whole = bytes.count() / size;
  std::int64_t tenth = ((bytes.count() % size) * 10 + size / 2) / size;
  if (tenth == 10) whole += 1, tenth = 0;
  std::string out = std::to_string(whole);
  if (tenth > 0 && whole < 100) out += "." + std::to_string(tenth);
  return out + " " + kUnits[unit];
}

}  // namespace divvy
