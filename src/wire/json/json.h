// JSON text <-> described C++ values. Reading follows the rules of a versioned protocol. A missing field keeps its
// default. A field that had another name in the last release is read by either name and written with both. An unknown
// field is ignored (messages) or refused with the nearest name (configuration). An invalid field is an error that names
// its path, and all errors are reported at once. Numbers are exact: 1.0 is an int, 1.5 is not, and nothing overflows or
// is truncated. Writing appends to one string, without a tree in between.
//
// Pure functions without state between calls. A job of 45 fields (865 bytes) costs about 4 us to write and 7 us to
// read; only its changed fields (100 bytes) 2 us either way.
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

/// Which fields of a struct are written. kChanged leaves out fields that equal the struct's default; they read back as
/// the same value. It is used for stored values and for what a client sends.
enum class Fields { kAll, kChanged };

/// The handling of a field that the struct does not have.
enum class Unknown { kIgnore, kRefuse };

/// Limits for untrusted text. The number of values limits memory: about 32 bytes each.
struct JsonLimits {
  std::size_t bytes = 32u << 20;
  std::size_t depth = 32;
  std::size_t values = 4u << 20;
};

/// Writes JSON by hand, for lists that are too long or too simple to build as structs first. Adds commas by itself. The
/// caller must balance begin and end, key and value.
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
  /// Writes the shortest text that reads back as the same double: 0.5, 1790000000.123456. NaN and infinities become
  /// null.
  void Number(double value);
  /// Writes a JSON string. Bytes that are not valid UTF-8 become U+FFFD.
  void String(std::string_view text);
  /// Appends text that is JSON already.
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

/// A view of one value in a JsonDocument, or of a missing field. Valid while the document lives.
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

  /// Returns std::nullopt if the value has another type, or if it is a number that the result cannot represent exactly.
  std::optional<bool> AsBool() const;
  std::optional<std::int64_t> AsInt() const;
  std::optional<std::uint64_t> AsUnsigned() const;
  std::optional<double> AsNumber() const;
  std::optional<std::string_view> AsString() const;

  /// Number of elements of an array or fields of an object; else 0.
  std::size_t size() const;
  /// A field of an object (the last of that name) or an element of an array. If it is missing, the result does not
  /// exist(). Cost: linear.
  JsonValue operator[](std::string_view key) const;
  JsonValue At(std::size_t index) const;
  /// The name of this value in its object.
  std::string_view key() const;
  /// "a string", "an object", for error messages.
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

  /// Parses JSON text. Fails with kInvalidArgument: "line 3, column 7: ...".
  static Result<JsonDocument> Parse(std::string text, const JsonLimits& limits = {});
  /// Like Parse, but does not take over the text, which must live as long as the document.
  static Result<JsonDocument> ParseInPlace(std::string_view text, const JsonLimits& limits = {});
  JsonValue root() const;

 private:
  struct Content;
  explicit JsonDocument(std::unique_ptr<Content> content);
  std::unique_ptr<Content> content_;
};

// The untyped functions behind the templates. Callers use the templates.
// `notes`: optional; receives a line for each field with the name of the last release, without its present name beside.
Status DecodeJson(const JsonType& type, JsonValue json, void* value, Unknown unknown,
                  std::vector<std::string>* notes = nullptr);
Status DecodeJson(const JsonType& type, std::string_view text, void* value, Unknown unknown, const JsonLimits& limits,
                  std::vector<std::string>* notes = nullptr);
void AppendJson(std::string& out, const JsonType& type, const void* value, Fields fields);

template <typename T>
std::string ToJson(const T& value, Fields fields = Fields::kAll) {
  std::string out;
  AppendJson(out, kJsonType<T>, &value, fields);
  return out;
}

/// Parses JSON text to a T. Fails with kInvalidArgument and lists every error: "gpus[1].index: expected a number, got a
/// string; time_limit: ...".
template <typename T>
Result<T> FromJson(std::string_view text, Unknown unknown = Unknown::kIgnore, const JsonLimits& limits = {},
                   std::vector<std::string>* notes = nullptr) {
  T value{};
  DIVVY_CHECK(DecodeJson(kJsonType<T>, text, &value, unknown, limits, notes));
  return value;
}

template <typename T>
Result<T> FromJson(JsonValue json, Unknown unknown = Unknown::kIgnore) {
  T value{};
  DIVVY_CHECK(DecodeJson(kJsonType<T>, json, &value, unknown));
  return value;
}

/// Returns the word that stands for an enumerator in JSON ("timed_out"); "" for an invalid value.
std::string_view JsonWordOf(const JsonType& type, std::int64_t value);
template <typename Enum>
std::string_view EnumWord(Enum value) {
  return JsonWordOf(kJsonType<Enum>, static_cast<std::int64_t>(value));
}
/// Returns the enumerator for a word of JSON ("timed_out"); std::nullopt if the word is invalid.
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
