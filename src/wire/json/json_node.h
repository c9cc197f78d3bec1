// How a parsed text lies in memory: all values in one array, each before what is inside it. Private to json_*.cc.
#pragma once

#include <cstdint>

namespace divvy {

enum class JsonNodeKind : std::uint8_t { kNull, kBool, kInt, kUnsigned, kDouble, kString, kArray, kObject };

struct JsonNode {
  const char* key = nullptr;  // Null outside objects.
  union {
    const char* text;
    bool boolean;
    std::int64_t integer;
    std::uint64_t natural;  // Only for what does not fit into `integer`.
    double number;
  };
  std::uint32_t key_size = 0;
  std::uint32_t size = 0;   // Bytes of a string, elements of an array, fields of an object.
  std::uint32_t nodes = 1;  // With everything inside: the next value of the same level is so far away.
  JsonNodeKind kind = JsonNodeKind::kNull;

  JsonNode() : integer(0) {}
};
static_assert(sizeof(JsonNode) == 32);

}  // namespace divvy
