// Feeds arbitrary bytes to the readers of messages between a node and the keeper of its shared GPUs: one JSON object
// per line. They must not crash. Errors must have a message, and accepted messages must survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/messages/share_codec.h"
#include "wire/messages/share_messages.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "share_fuzz: %s\n", what);
  std::abort();
}

template <typename Message>
void Read(std::string_view line) {
  const auto message = divvy::wire::DecodeShare<Message>(line);
  if (!message) return Require(!message.error().message.empty(), "an error without words");
  const std::string said = divvy::wire::EncodeShare(*message);
  Require(said.find('\n') == std::string::npos, "a message of several lines");
  const auto again = divvy::wire::DecodeShare<Message>(said);
  Require(again.has_value(), "cannot read what it wrote");
  Require(divvy::wire::EncodeShare(*again) == said, "a message changes when it is read again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    Read<divvy::wire::KeeperRequest>(line);
    Read<divvy::wire::KeeperLine>(line);
  }
  return 0;
}
