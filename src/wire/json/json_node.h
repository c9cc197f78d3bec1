// The memory layout of a parsed text: all values in one array, each followed by its content. Private to json_*.cc.
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
    std::uint64_t natural;  // Only for numbers that do not fit into `integer`.
    double number;
  };
  std::uint32_t key_size = 0;
  std::uint32_t size = 0;   // Bytes of a string, elements of an array, fields of an object.
  std::uint32_t nodes = 1;  // Number of nodes including the content: the offset of the next value on the same level.
  JsonNodeKind kind = JsonNodeKind::kNull;

  JsonNode() : integer(0) {}
};
static_assert(sizeof(JsonNode) == 32);

}  // namespace divvy
