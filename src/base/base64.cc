#include "base/base64.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace divvy {

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      bits = bits << 8 | (k < bytes.size() ? static_cast<std::uint8_t>(bytes[k]) : 0);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t k = 0; k < 4; ++k) out.push_back(k < digits ? kDigits[bits >> (18 - 6 * k) & 63] : '=');
  }
  return out;
}

}  // namespace divvy
