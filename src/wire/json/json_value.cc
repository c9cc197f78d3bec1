#include <cmath>

#include "wire/json/json.h"
#include "wire/json/json_node.h"

namespace divvy {
namespace {

/// Above this, neighbouring integers share a double. So a number with a fraction or an exponent may differ from the
/// written one.
constexpr double kExactDouble = 9007199254740992.0;  // 2^53

bool Is(const JsonNode* node, JsonNodeKind kind) { return node != nullptr && node->kind == kind; }

}  // namespace

bool JsonValue::is_null() const { return Is(node_, JsonNodeKind::kNull); }
bool JsonValue::is_bool() const { return Is(node_, JsonNodeKind::kBool); }
bool JsonValue::is_string() const { return Is(node_, JsonNodeKind::kString); }
bool JsonValue::is_array() const { return Is(node_, JsonNodeKind::kArray); }
bool JsonValue::is_object() const { return Is(node_, JsonNodeKind::kObject); }
bool JsonValue::is_number() const {
  return Is(node_, JsonNodeKind::kInt) || Is(node_, JsonNodeKind::kUnsigned) || Is(node_, JsonNodeKind::kDouble);
}

std::optional<bool> JsonValue::AsBool() const {
  if (!is_bool()) return std::nullopt;
  return node_->boolean;
}

std::optional<std::int64_t> JsonValue::AsInt() const {
  if (Is(node_, JsonNodeKind::kInt)) return node_->integer;
  if (!Is(node_, JsonNodeKind::kDouble)) return std::nullopt;
  double value = node_->number;
  if (value != std::trunc(value) || std::fabs(value) > kExactDouble) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::uint64_t> JsonValue::AsUnsigned() const {
  if (Is(node_, JsonNodeKind::kUnsigned)) return node_->natural;
  std::optional<std::int64_t> value = AsInt();
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<double> JsonValue::AsNumber() const {
  if (Is(node_, JsonNodeKind::kDouble)) return node_->number;
  if (Is(node_, JsonNodeKind::kInt)) return static_cast<double>(node_->integer);
  if (Is(node_, JsonNodeKind::kUnsigned)) return static_cast<double>(node_->natural);
  return std::nullopt;
}

std::optional<std::string_view> JsonValue::AsString() const {
  if (!is_string()) return std::nullopt;
  return std::string_view(node_->text, node_->size);
}

std::size_t JsonValue::size() const { return is_array() || is_object() ? node_->size : 0; }

JsonValue JsonValue::operator[](std::string_view key) const {
  JsonValue found;
  if (!is_object()) return found;
  for (JsonValue field : *this) {
    if (field.key() == key) found = field;
  }
  return found;
}

JsonValue JsonValue::At(std::size_t index) const {
  if (!is_array() || index >= node_->size) return {};
  Iterator at = begin();
  for (; index > 0; --index) ++at;
  return *at;
}

std::string_view JsonValue::key() const {
  return node_ == nullptr || node_->key == nullptr ? std::string_view() : std::string_view(node_->key, node_->key_size);
}

std::string_view JsonValue::KindName() const {
  if (node_ == nullptr) return "nothing";
  switch (node_->kind) {
    case JsonNodeKind::kNull:
      return "null";
    case JsonNodeKind::kBool:
      return node_->boolean ? "true" : "false";
    case JsonNodeKind::kInt:
    case JsonNodeKind::kUnsigned:
    case JsonNodeKind::kDouble:
      return "a number";
    case JsonNodeKind::kString:
      return "a string";
    case JsonNodeKind::kArray:
      return "an array";
    case JsonNodeKind::kObject:
      return "an object";
  }
  return "nothing";
}

JsonValue::Iterator& JsonValue::Iterator::operator++() {
  node_ += node_->nodes;
  return *this;
}

JsonValue::Iterator JsonValue::begin() const {
  if (!is_array() && !is_object()) return Iterator(nullptr);
  return Iterator(node_ + 1);
}

JsonValue::Iterator JsonValue::end() const {
  if (!is_array() && !is_object()) return Iterator(nullptr);
  return Iterator(node_ + node_->nodes);
}

}  // namespace divvy
