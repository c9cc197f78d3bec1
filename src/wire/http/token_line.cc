#include "wire/http/token_line.h"

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
  if (!is_good) return InvalidArgument("this is not a token");
  return Bearer{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

}  // namespace

Result<TokenLine> ParseTokenLine(std::string_view text) {
  text = Trim(text);
  const std::size_t hash = text.find('#');
  const auto parts =
      hash == std::string_view::npos ? std::vector<std::string_view>() : Split(text.substr(hash + 1), '.');
  if (parts.size() < 2) {
    return InvalidArgument(
        "this is not a token line; `divvy token create` on the controller prints one: HOST:PORT#... without spaces");
  }
  TokenLine line;
  for (const std::string_view address : Split(text.substr(0, hash), ',')) {
    DIVVY_TRY(HostPort at, ParseHostPort(address));
    line.others.push_back(std::move(at));
  }
  line.controller = std::move(line.others.front());
  line.others.erase(line.others.begin());
  const bool has_key = parts.size() == 4;
  if (has_key) line.launcher_key = std::string(parts[3]);
  line.fingerprint = std::string(parts.size() > 2 ? parts[2] : "");
  auto bearer = ParseIdAndSecret(std::string(parts[0]) + "." + std::string(parts[1]));
  if (!bearer || parts.size() > 4 || !IsHex(line.fingerprint, kSecretDigits) ||
      (has_key && !IsHex(line.launcher_key, kSecretDigits))) {
    return InvalidArgument("the token line for " + ToString(line.controller) +
                           " is incomplete; copy it again from what `divvy token create` printed");
  }
  line.id = std::move(bearer->id);
  line.secret = std::move(bearer->secret);
  return line;
}

std::string ToString(const TokenLine& line) {
  std::string addresses = ToString(line.controller);
  for (const HostPort& other : line.others) addresses += "," + ToString(other);
  return addresses + "#" + BearerOf(line) + "." + line.fingerprint +
         (line.launcher_key.empty() ? "" : "." + line.launcher_key);
}

std::string BearerOf(const TokenLine& line) { return line.id + "." + line.secret; }

Result<Bearer> ParseBearer(std::string_view header) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!header.starts_with(kScheme)) return InvalidArgument("the Authorization header is not 'Bearer TOKEN'");
  return ParseIdAndSecret(Trim(header.substr(kScheme.size())));
}

}  // namespace divvy
