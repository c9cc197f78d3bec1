// JSON text <-> described C++ values. Reading follows the rules of a versioned protocol: a missing field keeps its
// default, an unknown one is ignored (messages) or refused with the nearest name (configuration), a wrong one is an
// error that names its place, and all errors are told at once. Numbers are exact: 1.0 is an int, 1.5 is not, and
// nothing wraps or is cut. Writing puts text into one string, without a tree in between.
//
// Pure functions; nothing is kept between calls. A job of 45 fields (865 bytes) costs about 4 us to write and 7 us to
// read, its changed fields alone (100 bytes) 2 us either way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/json/json_forms.h"
#include "wire/json/json_type.h"

namespace divvy {

/// Which fields of a struct are written. kChanged leaves out those that equal the struct's default, which reads back as
/// the same value: for what is stored and for what a client sends.
enum class Fields { kAll, kChanged };

/// What to do with a field that the struct does not have.
enum class Unknown { kIgnore, kRefuse };

/// Bounds on text that someone else wrote. The number of values bounds memory: about 32 bytes each.
struct JsonLimits {
  std::size_t bytes = 32u << 20;
  std::size_t depth = 32;
  std::size_t values = 4u << 20;
};

/// Writes JSON by hand, for lists that are too long or too simple to build as structs first. Commas come by themselves.
/// The caller keeps begin and end, key and value in balance.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out, Fields fields = Fields::kAll) : out_(out), fields_(fields) {}

  void BeginObject();
  void EndObject();
  void BeginArray();
  void EndArray();
  void Key(std::string_view name);
  void Null();
  void Bool(bool value);
  void Int(std::int64_t value);
  void Unsigned(std::uint64_t value);
  /// The shortest text that reads back as the same double: 0.5, 1790000000.123456. Not a number becomes null.
  void Number(double value);
  /// Bytes that are not UTF-8 become U+FFFD.
  void String(std::string_view text);
  /// Text that is JSON already.
  void Raw(std::string_view json);
  template <typename T>
  void Value(const T& value) {
    WriteJson(*this, kJsonType<T>, &value);
  }
  template <typename T>
  void Member(std::string_view name, const T& value) {
    Key(name);
    Value(value);
  }

  Fields fields() const { return fields_; }

 private:
  void Separate() {
    if (needs_comma_) out_.push_back(',');
    needs_comma_ = true;
  }

  std::string& out_;
  Fields fields_;
  bool needs_comma_ = false;
};

struct JsonNode;

/// A view of one value in a JsonDocument, or of nothing (a field that is not there); valid while the document lives.
class JsonValue {
 public:
  JsonValue() = default;
  explicit JsonValue(const JsonNode* node) : node_(node) {}

  bool exists() const { return node_ != nullptr; }
  bool is_null() const;
  bool is_bool() const;
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  /// Nothing when it is of another kind, or when a number does not fit exactly.
  std::optional<bool> AsBool() const;
  std::optional<std::int64_t> AsInt() const;
  std::optional<std::uint64_t> AsUnsigned() const;
  std::optional<double> AsNumber() const;
  std::optional<std::string_view> AsString() const;

  /// Elements of an array, fields of an object; else 0.
  std::size_t size() const;
  /// A field of an object (the last of that name) or an element of an array; one that is not there does not exist().
  /// Both are linear.
  JsonValue operator[](std::string_view key) const;
  JsonValue At(std::size_t index) const;
  /// The name under which it stands in its object.
  std::string_view key() const;
  /// "a string", "an object": for messages.
  std::string_view KindName() const;
  const JsonNode* node() const { return node_; }

  class Iterator {
   public:
    explicit Iterator(const JsonNode* node) : node_(node) {}
    JsonValue operator*() const { return JsonValue(node_); }
    Iterator& operator++();
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const JsonNode* node_;
  };
  Iterator begin() const;
  Iterator end() const;

 private:
  const JsonNode* node_ = nullptr;
};

/// A parsed text. Cheap to move.
class JsonDocument {
 public:
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  /// Fails with kInvalidArgument: "line 3, column 7: ...".
  static Result<JsonDocument> Parse(std::string text, const JsonLimits& limits = {});
  /// The same on text that outlives the document.
  static Result<JsonDocument> ParseInPlace(std::string_view text, const JsonLimits& limits = {});
  JsonValue root() const;

 private:
  struct Content;
  explicit JsonDocument(std::unique_ptr<Content> content);
  std::unique_ptr<Content> content_;
};

// The untyped entrances; use the templates.
Status DecodeJson(const JsonType& type, JsonValue json, void* value, Unknown unknown);
Status DecodeJson(const JsonType& type, std::string_view text, void* value, Unknown unknown, const JsonLimits& limits);
void AppendJson(std::string& out, const JsonType& type, const void* value, Fields fields);

template <typename T>
std::string ToJson(const T& value, Fields fields = Fields::kAll) {
  std::string out;
  AppendJson(out, kJsonType<T>, &value, fields);
  return out;
}

/// Fails with kInvalidArgument and every error: "gpus[1].index: expected a number, got a string; time_limit: ...".
template <typename T>
Result<T> FromJson(std::string_view text, Unknown unknown = Unknown::kIgnore, const JsonLimits& limits = {}) {
  T value{};
  DIVVY_CHECK(DecodeJson(kJsonType<T>, text, &value, unknown, limits));
  return value;
}

template <typename T>
Result<T> FromJson(JsonValue json, Unknown unknown = Unknown::kIgnore) {
  T value{};
  DIVVY_CHECK(DecodeJson(kJsonType<T>, json, &value, unknown));
  return value;
}

/// The word of an enumerator ("timed_out"), "" for a value that is none.
std::string_view JsonWordOf(const JsonType& type, std::int64_t value);
template <typename Enum>
std::string_view EnumWord(Enum value) {
  return JsonWordOf(kJsonType<Enum>, static_cast<std::int64_t>(value));
}
/// The enumerator of a word, nothing when it is none.
template <typename Enum>
std::optional<Enum> EnumFromWord(std::string_view word) {
  for (const JsonWord& known : kJsonType<Enum>.words) {
    if (known.word == word) return static_cast<Enum>(known.value);
  }
  return std::nullopt;
}

namespace json_internal {
template <typename T>
void FormOps<T>::Decode(JsonReading& reading, JsonValue value, void* out) {
  Json json{};
  if (!ReadJson(reading, kJsonType<Json>, value, &json)) return;
  Result<T> decoded = JsonForm<T>::Decode(std::move(json));
  if (decoded) {
    *static_cast<T*>(out) = *std::move(decoded);
  } else {
    FailReading(reading, decoded.error().message);
  }
}
}  // namespace json_internal

}  // namespace divvy
