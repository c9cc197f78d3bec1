// Feeds arbitrary bytes to the HTTP readers and to the parsers of untrusted headers. They must not crash and must
// respect their limits. Results must not depend on how the bytes were split.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/http/http.h"
#include "wire/http/token_line.h"

namespace {

constexpr divvy::HttpLimits kLimits{.header_bytes = 4096, .body_bytes = 4096};

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "http_fuzz: %s\n", what);
  std::abort();
}

std::string Told(const divvy::HttpRequest& request) {
  std::string text = request.method + ' ' + request.path + (request.keeps_alive ? " +" : " -");
  for (const auto& [name, value] : request.query) text += '?' + name + '=' + value;
  for (const auto& [name, value] : request.headers) text += '|' + name + ':' + value;
  return text + '#' + request.body;
}

std::string Told(const divvy::HttpResponse& response) {
  std::string text = std::to_string(response.status) + ' ' + response.content_type;
  for (const auto& [name, value] : response.headers) text += '|' + name + ':' + value;
  return text + '#' + response.body;
}

/// Returns the text of the messages that a reader finds in `bytes`. The sizes of the pieces follow from `seed`; with 0,
/// all bytes are fed at once.
template <typename Reader>
std::string ReadInPieces(std::string_view bytes, unsigned seed) {
  Reader reader(kLimits);
  std::string seen;
  std::size_t given = 0;
  while (!bytes.empty() && !reader.error()) {
    seed = seed * 1664525u + 1013904223u;
    std::size_t piece = given == 0 && seed == 1013904223u ? bytes.size() : 1 + (seed >> 16) % 32;
    piece = piece < bytes.size() ? piece : bytes.size();
    reader.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(piece);
    given += piece;
    while (auto message = reader.Next()) {
      Require(message->body.size() <= kLimits.body_bytes, "a body above the bound");
      seen += Told(*message) + '\n';
    }
    Require(reader.consumed() <= reader.fed() && reader.fed() == given, "bytes are miscounted");
  }
  // The pieces may affect how soon an error in an unfinished header is found, but not which messages are accepted.
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  std::string at_once = ReadInPieces<divvy::HttpReader>(text, 0);
  std::string in_pieces = ReadInPieces<divvy::HttpReader>(text, static_cast<unsigned>(size) + 1);
  Require(at_once == in_pieces, "requests depend on where the bytes were cut");
  Require(ReadInPieces<divvy::HttpResponseReader>(text, 0) ==
              ReadInPieces<divvy::HttpResponseReader>(text, static_cast<unsigned>(size) + 1),
          "answers depend on where the bytes were cut");
  if (const auto line = divvy::ParseTokenLine(text)) {
    const auto again = divvy::ParseTokenLine(divvy::ToString(*line));
    Require(again && *again == *line, "a token line is another one when it is read back");
  }
  if (const auto bearer = divvy::ParseBearer(text)) Require(bearer->secret.size() == 64, "a secret of another length");
  auto decoded = divvy::PercentDecode(text, false);
  Require(!decoded || decoded->size() <= text.size(), "decoding made it longer");
  return 0;
}
