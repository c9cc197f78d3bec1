// Turns an HTTP connection into a plain byte stream.
#include <utility>

#include "cli/client/http_client.h"
#include "platform/net/tls_carry.h"
#include "wire/json/json.h"

namespace divvy {
namespace {

/// Limit for the head of a response.
constexpr std::size_t kHeadMost = std::size_t{64} << 10;

Error RefusalOf(const HttpResponse& response) {
  const auto document = JsonDocument::Parse(response.body);
  const auto message = document ? document->root()["message"].AsString() : std::nullopt;
  return FailedPrecondition(message ? std::string(*message) : "HTTP status " + std::to_string(response.status));
}

}  // namespace

// Reads byte by byte, because the bytes after the head are not HTTP.
Result<Descriptor> HttpClient::Upgrade(HttpClient client, std::string_view method, std::string_view target,
                                       std::string_view protocol) {
  std::string request;
  SerialiseRequest(method, target, "", request, client.authorization_);
  request.insert(request.size() - 2, std::string("Connection: Upgrade\r\nUpgrade: ").append(protocol).append("\r\n"));
  DIVVY_CHECK(client.SendText(request));
  std::string head;
  while (!head.ends_with("\r\n\r\n") && head.size() < kHeadMost) {
    char byte = 0;
    DIVVY_TRY(const std::size_t got, client.ReadSome(&byte, 1));
    if (got == 0) return client.Gone();
    head.push_back(byte);
  }
  if (!head.starts_with("HTTP/1.1 101 ")) {
    client.reader_.Feed(head);
    DIVVY_TRY(const HttpResponse response, client.Receive());
    return RefusalOf(response);
  }
  if (!client.tls_) return Descriptor(std::exchange(client.fd_, -1));
  return CarryTls(Descriptor(std::exchange(client.fd_, -1)), *std::exchange(client.tls_, std::nullopt));
}

}  // namespace divvy
