#include "platform/net/web_post.h"

#include <array>

#include "base/base64.h"
#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kMostHead = 64 << 10;

std::string RequestText(const WebPost& post) {
  const WebUrl& url = post.url;
  std::string text = "POST " + url.target + " HTTP/1.1\r\nHost: " + HostHeader(url) +
                     "\r\nConnection: close\r\nContent-Length: " + std::to_string(post.body.size()) + "\r\n";
  if (!url.credentials.empty()) text += "Authorization: Basic " + Base64(url.credentials) + "\r\n";
  for (const auto& [name, value] : post.headers) {
    text += name;
    text += ": " + value + "\r\n";
  }
  return text + "\r\n" + post.body;
}

/// Returns nullopt if `head` is not an HTTP response.
std::optional<WebAnswer> ReadHead(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  if (!line.starts_with("HTTP/1.") || line.size() < 12) return std::nullopt;
  const auto status = ParseInteger(line.substr(9, 3));
  if (!status) return std::nullopt;
  WebAnswer answer;
  answer.status = static_cast<int>(*status);
  for (const char c : line.substr(9, 80)) answer.status_line += c >= ' ' && c < 127 ? c : '?';
  for (std::string_view header : Split(head, '\n')) {
    const auto colon = header.find(':');
    if (colon == std::string_view::npos || !EqualsIgnoringCase(header.substr(0, colon), "retry-after")) continue;
    const auto seconds = ParseInteger(Trim(header.substr(colon + 1)));
    if (seconds && *seconds > 0 && *seconds <= 86'400) answer.retry_after = std::chrono::seconds(*seconds);
  }
  return answer;
}

}  // namespace

Result<WebAnswer> Post(const WebPost& post) {
  WebTrust trust;
  trust.may_go_inside = post.may_go_inside;
  trust.ca_file = post.ca_file;
  DIVVY_TRY(WebConnection connection, WebConnection::Open(post.url, trust, post.time_limit));
  DIVVY_CHECK(connection.Write(RequestText(post)));
  std::string head;
  std::array<char, 4096> room{};
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < kMostHead) {
    DIVVY_TRY(const std::size_t got, connection.Read(room));
    if (got == 0) break;
    head.append(room.data(), got);
  }
  const auto answer = ReadHead(head);
  if (!answer) return Unreachable(post.url.host + " did not send an HTTP response");
  return *answer;
}

}  // namespace divvy
