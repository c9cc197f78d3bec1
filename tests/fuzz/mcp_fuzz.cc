// Feeds arbitrary bytes to divvy mcp: messages of its client, which may repeat what strangers wrote, and answers and
// logs with texts of other users. It must not crash. Every answer must be one line of JSON, and bounded texts must
// respect their bound and have no control characters.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mcp/bounded_json.h"
#include "mcp/mcp_server.h"

namespace {

using divvy::JsonValue;
using divvy::mcp::McpServer;
using divvy::mcp::McpStep;

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"job":{"type":"string"},"lines":{"type":"integer","minimum":1,"maximum":9},)"
    R"("by":{"type":"string","enum":["user","team"]},"all":{"type":"boolean"},)"
    R"("ids":{"type":"array","maxItems":2,"items":{"type":"string"}}},"required":["job"]})";

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "mcp_fuzz: %s\n", what);
  std::abort();
}

bool HasControl(std::string_view text, bool allows_layout) {
  return std::ranges::any_of(text, [=](char c) {
    const bool is_layout = c == '\n' || c == '\t';
    return (static_cast<unsigned char>(c) < ' ' || c == '\x7f') && !(allows_layout && is_layout);
  });
}

/// The client reads a line at a time; the first one is a handshake in half of the inputs.
void Talk(std::string_view text) {
  bool has_changed = false;
  const auto look = [](JsonValue arguments) -> divvy::Result<McpStep> {
    return McpStep{.text = divvy::mcp::BoundedText(arguments["job"].AsString().value_or(""), 1000)};
  };
  const auto change = [&](JsonValue) -> divvy::Result<McpStep> {
    has_changed = true;
    return divvy::NotFound("there is no job 17");
  };
  McpServer server({{"look", "Look", "Looks.", kSchema, false, false, "", look},
                    {"change", "Change", "Changes.", kSchema, true, true, "look", change}},
                   {});
  if (text.size() % 2 == 0)
    server.Begin(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}})");
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto answer = server.Begin(line).Answer();
    if (!answer) continue;
    Require(!HasControl(*answer, false), "an answer with control characters");
    Require(divvy::JsonDocument::ParseInPlace(*answer).has_value(), "an answer that is no JSON");
  }
  Require(!has_changed, "a change that was not allowed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  Talk(text);
  for (const std::size_t most : {std::size_t{100}, std::size_t{777}}) {
    const std::string head = divvy::mcp::BoundedText(text, most);
    Require(head.size() <= most && !HasControl(head, true), "a text that is too long or not visible");
    const std::string tail = divvy::mcp::BoundedTail(text, most, size % 3 == 0);
    Require(tail.size() <= most && !HasControl(tail, true), "a tail that is too long or not visible");
    const auto json = divvy::mcp::BoundedJson(text, most);
    if (!json) continue;
    Require(json->size() <= most, "JSON that is too long");
    Require(divvy::JsonDocument::ParseInPlace(*json).has_value(), "bounded JSON that is no JSON");
    Require(!HasControl(*json, false), "bounded JSON with control characters");
  }
  return 0;
}
