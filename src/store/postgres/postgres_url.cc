#include "store/postgres/postgres_url.h"

#include <algorithm>
#include <vector>

namespace divvy {
namespace {

struct Span {
  std::size_t from = 0;
  std::size_t length = 0;
};

constexpr std::string_view kMask = "***";

/// The password in "user:password@host"; its length is 0 if there is none. It may contain '@', '/' and '?' although
/// these should be encoded, so it ends at the last '@': masking too much does no harm.
Span PasswordOfUser(std::string_view url, std::size_t user) {
  const std::size_t first = url.find('@', user);
  const std::size_t colon = url.find(':', user);
  if (first == std::string_view::npos || colon > first) return {};
  // In "host:5432/db?options=x@y" the text after the colon is a port and no password.
  const std::string_view after = url.substr(colon + 1, first - colon - 1);
  const std::string_view port = after.substr(0, after.find_first_of("/?,"));
  const bool is_port = port.size() < after.size() && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_port || url[user] == '[') return {};
  return {colon + 1, url.rfind('@') - colon - 1};
}

std::string Decoded(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += is_code ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (is_code) i += 2;
  }
  return out;
}

/// Whether a parameter of libpq with this name is secret. libpq decodes names, too.
bool IsSecret(std::string_view name) {
  const std::string decoded = Decoded(name);
  return decoded.ends_with("password") || decoded.ends_with("secret") || decoded == "scram_client_key" ||
         decoded == "scram_server_key";
}

/// Where the URL has passwords, in order.
std::vector<Span> PasswordsIn(std::string_view url) {
  std::vector<Span> out;
  const std::size_t start = url.find("://");
  if (start == std::string_view::npos) return out;
  const Span password = PasswordOfUser(url, start + 3);
  if (password.length > 0) out.push_back(password);
  for (std::size_t at = url.find('?', std::max(start, password.from + password.length)); at < url.size();) {
    const std::size_t end = std::min(url.find('&', at + 1), url.size());
    const std::size_t equals = url.find('=', at + 1);
    if (equals < end && IsSecret(url.substr(at + 1, equals - at - 1)) && equals + 1 < end)
      out.push_back({equals + 1, end - equals - 1});
    at = end;
  }
  return out;
}

void ReplaceAll(std::string& text, std::string_view secret) {
  for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + kMask.size()))
    text.replace(at, secret.size(), kMask);
}

}  // namespace

bool IsPostgresUrl(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

bool HasPassword(std::string_view url) { return !PasswordsIn(url).empty(); }

std::string WithoutPassword(std::string_view url) {
  std::string out(url);
  const std::vector<Span> spans = PasswordsIn(url);
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) out.replace(span->from, span->length, kMask);
  return out;
}

std::string WithoutPasswordOf(std::string_view url, std::string text) {
  for (const Span& span : PasswordsIn(url)) {
    const std::string_view secret = url.substr(span.from, span.length);
    ReplaceAll(text, secret);
    ReplaceAll(text, Decoded(secret));
    // libpq splits a password that is not encoded at '@', '/' and ':' and quotes a piece of it.
    std::size_t from = 0;
    while (from < secret.size()) {
      const std::size_t end = std::min(secret.find_first_of("@/:?#", from), secret.size());
      if (end > from) ReplaceAll(text, secret.substr(from, end - from));
      from = end + 1;
    }
  }
  return text;
}

}  // namespace divvy
