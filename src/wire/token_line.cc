#include "wire/token_line.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kIdDigits = 8;
constexpr std::size_t kSecretDigits = 64;

bool IsHex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<Bearer> ParseIdAndSecret(std::string_view text) {
  const std::size_t dot = text.find('.');
  const bool is_good = dot != std::string_view::npos && IsHex(text.substr(0, dot), kIdDigits) &&
                       IsHex(text.substr(dot + 1), kSecretDigits);
  if (!is_good) return InvalidArgument("this is no token");
  return Bearer{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

}  // namespace

Result<TokenLine> ParseTokenLine(std::string_view text) {
  text = Trim(text);
  const std::size_t hash = text.find('#');
  const std::size_t dot = text.rfind('.');
  if (hash == std::string_view::npos || dot == std::string_view::npos || dot < hash) {
    return InvalidArgument(
        "this is no token line; `divvy token create` on the controller prints one, HOST:PORT#... with no blank in it");
  }
  TokenLine line;
  DIVVY_TRY(line.controller, ParseHostPort(text.substr(0, hash)));
  auto bearer = ParseIdAndSecret(text.substr(hash + 1, dot - hash - 1));
  line.fingerprint = std::string(text.substr(dot + 1));
  if (!bearer || !IsHex(line.fingerprint, kSecretDigits)) {
    return InvalidArgument("the token line for " + ToString(line.controller) +
                           " is not whole; copy it again from what `divvy token create` printed");
  }
  line.id = std::move(bearer->id);
  line.secret = std::move(bearer->secret);
  return line;
}

std::string ToString(const TokenLine& line) {
  return ToString(line.controller) + "#" + BearerOf(line) + "." + line.fingerprint;
}

std::string BearerOf(const TokenLine& line) { return line.id + "." + line.secret; }

Result<Bearer> ParseBearer(std::string_view header) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!header.starts_with(kScheme)) return InvalidArgument("the Authorization header is not 'Bearer TOKEN'");
  return ParseIdAndSecret(Trim(header.substr(kScheme.size())));
}

}  // namespace divvy
