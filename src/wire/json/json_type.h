// Descriptions of C++ types as constant tables, for JSON, the OpenAPI document and other walks: the fields of a struct,
// the words of an enum, how to access a vector. Boost.Describe creates the tables at compile time. They hold plain
// function pointers, so the walks are ordinary code that is compiled once (json_write.cc, json_read.cc, openapi.cc). A
// file that describes fifty messages compiles in about a second.
//
// Supported types: bool, integers, double, std::string, std::optional, std::vector, std::map<std::string, T>, structs
// and enums described with BOOST_DESCRIBE_STRUCT / BOOST_DESCRIBE_ENUM, and any type with a JsonForm.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/result.h"

namespace divvy {

class JsonWriter;
class JsonReading;
class JsonValue;

/// The JSON form of a type that is not described itself. A specialisation has
///   using Json = ...;                        // A type that is understood already.
///   static Json Encode(const T& value);
///   static Result<T> Decode(Json json);      // The error's message completes "PATH: ...".
///   static constexpr std::string_view kMeaning = "seconds since 1970";
/// Ready-made ones are in json_forms.h.
template <typename T>
struct JsonForm;

enum class JsonKind : std::uint8_t {
  kBool,
  kSigned,
  kUnsigned,
  kDouble,
  kString,
  kEnum,
  kOptional,
  kArray,
  kMap,
  kObject,
  kForm,
};

struct JsonType;

struct JsonField {
  std::string_view name;
  std::string_view former;    // The name in the last release, if it was another one; else empty. See RenamedField.
  void* (*in)(void* object);  // Address of the member; reading through it does not change the object.
  const JsonType* type;
};

/// A field that had another name in the last release. Texts with the former name alone are still read. Both names are
/// written, so that programs of the last release find theirs. A described type lists such fields in a function that
/// argument-dependent lookup finds, also for derived types; the member in C++ may have either name:
///   constexpr std::array<RenamedField, 1> RenamedFields(const Job*) { return {{{"allocations", "seats"}}}; }
struct RenamedField {
  std::string_view name;
  std::string_view former;
};

/// An enumerator: kTimedOut is "timed_out".
struct JsonWord {
  std::string_view word;
  std::int64_t value;
};

/// The elements of a vector: `count` elements from `first` on, `stride` bytes apart.
struct JsonItems {
  const std::byte* first = nullptr;
  std::size_t count = 0;
  std::size_t stride = 0;
};

/// One constant description per type that lives indefinitely; compare by address. Members that do not apply to `kind`
/// are null or empty.
struct JsonType {
  JsonKind kind;
  std::uint8_t size = 0;       // For integers and enums: size in bytes.
  std::string_view name = {};  // For structs and enums: the unqualified name. For forms: the meaning of the value.
  std::span<const JsonField> fields = {};
  std::span<const JsonWord> words = {};
  const JsonType* inner = nullptr;  // For optional, array, map: the type inside. For forms: the JSON type.

  const void* (*default_instance)() = nullptr;          // For structs.
  const void* (*peek)(const void* optional) = nullptr;  // Null when empty.
  void* (*emplace)(void* optional) = nullptr;
  void (*reset)(void* optional) = nullptr;
  JsonItems (*items)(const void* vector) = nullptr;
  JsonItems (*resize)(void* vector, std::size_t count) = nullptr;  // Resets all elements. They stay writable through
                                                                   // `first`.
  using Visit = void (*)(void* context, const std::string& key, const void* value);
  void (*each)(const void* map, void* context, Visit visit) = nullptr;
  std::size_t (*count)(const void* map) = nullptr;
  void* (*insert)(void* map, std::string_view key) = nullptr;
  void (*clear)(void* map) = nullptr;
  void (*encode)(const void* value, JsonWriter& writer) = nullptr;
  void (*decode)(JsonReading& reading, JsonValue json, void* value) = nullptr;
  bool (*same)(const void* a, const void* b) = nullptr;
};

template <typename T>
constexpr JsonType DescribeJsonType();

template <typename T>
inline constexpr JsonType kJsonType = DescribeJsonType<T>();

// The two walks, in json_write.cc and json_read.cc.
void WriteJson(JsonWriter& writer, const JsonType& type, const void* value);
/// Reads `json` into `value`, which has the type that `type` describes. Returns false after an error, which is recorded
/// in `reading`.
bool ReadJson(JsonReading& reading, const JsonType& type, JsonValue json, void* value);
void FailReading(JsonReading& reading, std::string_view message);

// ---------------------------------------------------------------------------------------------------------------------

namespace json_internal {

template <typename T>
constexpr std::string_view BareTypeName() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with T = divvy::wire::GpuView; ...]"
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  if (auto colon = text.rfind(':'); colon != std::string_view::npos) text.remove_prefix(colon + 1);
  return text;
}

constexpr bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr char Lower(char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

/// kAfterNotOk -> after_not_ok. A run of capitals is one word.
template <typename Enumerator>
struct SnakeWord {
  static constexpr std::size_t kCapacity = 2 * std::char_traits<char>::length(Enumerator::name);
  struct Text {
    std::array<char, kCapacity> letters{};
    std::size_t size = 0;
  };
  static constexpr Text kText = [] {
    std::string_view name = Enumerator::name;
    if (name.size() > 1 && name[0] == 'k' && IsUpper(name[1])) name.remove_prefix(1);
    Text text;
    for (std::size_t i = 0; i < name.size(); ++i) {
      bool starts_word =
          IsUpper(name[i]) && i > 0 && (!IsUpper(name[i - 1]) || (i + 1 < name.size() && !IsUpper(name[i + 1])));
      if (starts_word) text.letters[text.size++] = '_';
      text.letters[text.size++] = Lower(name[i]);
    }
    return text;
  }();
  static constexpr std::string_view kWord{kText.letters.data(), kText.size};
};

template <typename T>
struct WordsOf {
  template <template <typename...> class List, typename... Enumerators>
  static constexpr std::array<JsonWord, sizeof...(Enumerators)> Make(List<Enumerators...>*) {
    return {JsonWord{SnakeWord<Enumerators>::kWord, static_cast<std::int64_t>(Enumerators::value)}...};
  }
  static constexpr auto kWords = Make(static_cast<boost::describe::describe_enumerators<T>*>(nullptr));
};

template <typename T>
constexpr RenamedField NamesOf(std::string_view member) {
  if constexpr (requires(const T* type) { RenamedFields(type); }) {
    for (const RenamedField& field : RenamedFields(static_cast<const T*>(nullptr))) {
      if (member == field.name || member == field.former) return field;
    }
  }
  return {member, {}};
}

template <typename T>
struct FieldsOf {
  template <typename Member>
  static void* In(void* object) {
    return &(static_cast<T*>(object)->*Member::pointer);
  }
  template <template <typename...> class List, typename... Members>
  static constexpr std::array<JsonField, sizeof...(Members)> Make(List<Members...>*) {
    return {JsonField{NamesOf<T>(Members::name).name, NamesOf<T>(Members::name).former, &In<Members>,
                      &kJsonType<std::remove_reference_t<decltype(std::declval<T&>().*Members::pointer)>>}...};
  }
  using All = boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;
  template <typename Member>
  using IsOwn = boost::mp11::mp_bool<(Member::modifiers & boost::describe::mod_inherited) == 0>;
  // Fields of a base class come last, so that people who read the text find the object's own fields first.
  using Members = boost::mp11::mp_append<boost::mp11::mp_copy_if<All, IsOwn>, boost::mp11::mp_remove_if<All, IsOwn>>;
  static constexpr auto kFields = Make(static_cast<Members*>(nullptr));

  static const void* DefaultInstance() {
    static const T instance{};
    return &instance;
  }
};

template <typename T>
bool Same(const void* a, const void* b) {
  return *static_cast<const T*>(a) == *static_cast<const T*>(b);
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename T, typename Less>
struct IsMap<std::map<std::string, T, Less>> : std::true_type {};

template <typename T>
concept HasForm = requires {
  typename JsonForm<T>::Json;
};

template <typename T>
struct OptionalOps {
  using Optional = std::optional<T>;
  static const void* Peek(const void* p) {
    const auto& optional = *static_cast<const Optional*>(p);
    return optional ? &*optional : nullptr;
  }
  static void* Emplace(void* p) { return &static_cast<Optional*>(p)->emplace(); }
  static void Reset(void* p) { static_cast<Optional*>(p)->reset(); }
};

template <typename T>
struct VectorOps {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements to point at");
  static JsonItems Items(const void* p) {
    const auto& vector = *static_cast<const std::vector<T>*>(p);
    return {reinterpret_cast<const std::byte*>(vector.data()), vector.size(), sizeof(T)};
  }
  static JsonItems Resize(void* p, std::size_t count) {
    auto& vector = *static_cast<std::vector<T>*>(p);
    vector.clear();
    vector.resize(count);
    return Items(p);
  }
};

template <typename Map>
struct MapOps {
  static void Each(const void* p, void* context, JsonType::Visit visit) {
    for (const auto& [key, value] : *static_cast<const Map*>(p)) visit(context, key, &value);
  }
  static std::size_t Count(const void* p) { return static_cast<const Map*>(p)->size(); }
  static void* Insert(void* p, std::string_view key) { return &(*static_cast<Map*>(p))[std::string(key)]; }
  static void Clear(void* p) { static_cast<Map*>(p)->clear(); }
};

template <typename T>
struct FormOps {
  using Json = typename JsonForm<T>::Json;
  static void Encode(const void* value, JsonWriter& writer) {
    Json json = JsonForm<T>::Encode(*static_cast<const T*>(value));
    WriteJson(writer, kJsonType<Json>, &json);
  }
  static void Decode(JsonReading& reading, JsonValue value, void* out);
};

}  // namespace json_internal

template <typename T>
constexpr JsonType DescribeJsonType() {
  using namespace json_internal;  // NOLINT: the tables' own parts.
  if constexpr (HasForm<T>) {
    return {.kind = JsonKind::kForm,
            .name = JsonForm<T>::kMeaning,
            .inner = &kJsonType<typename JsonForm<T>::Json>,
            .encode = &FormOps<T>::Encode,
            .decode = &FormOps<T>::Decode,
            .same = &Same<T>};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {.kind = JsonKind::kBool};
  } else if constexpr (std::is_same_v<T, double>) {
    return {.kind = JsonKind::kDouble};
  } else if constexpr (std::is_integral_v<T>) {
    return {.kind = std::is_signed_v<T> ? JsonKind::kSigned : JsonKind::kUnsigned, .size = sizeof(T)};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {.kind = JsonKind::kString};
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(boost::describe::has_describe_enumerators<T>::value, "BOOST_DESCRIBE_ENUM is missing for this enum");
    return {.kind = JsonKind::kEnum, .size = sizeof(T), .name = BareTypeName<T>(), .words = WordsOf<T>::kWords};
  } else if constexpr (IsOptional<T>::value) {
    using Inner = typename T::value_type;
    return {.kind = JsonKind::kOptional,
            .inner = &kJsonType<Inner>,
            .peek = &OptionalOps<Inner>::Peek,
            .emplace = &OptionalOps<Inner>::Emplace,
            .reset = &OptionalOps<Inner>::Reset};
  } else if constexpr (IsVector<T>::value) {
    using Inner = typename T::value_type;
    return {.kind = JsonKind::kArray,
            .inner = &kJsonType<Inner>,
            .items = &VectorOps<Inner>::Items,
            .resize = &VectorOps<Inner>::Resize};
  } else if constexpr (IsMap<T>::value) {
    return {.kind = JsonKind::kMap,
            .inner = &kJsonType<typename T::mapped_type>,
            .each = &MapOps<T>::Each,
            .count = &MapOps<T>::Count,
            .insert = &MapOps<T>::Insert,
            .clear = &MapOps<T>::Clear};
  } else {
    static_assert(boost::describe::has_describe_members<T>::value, "BOOST_DESCRIBE_STRUCT is missing for this type");
    return {.kind = JsonKind::kObject,
            .name = BareTypeName<T>(),
            .fields = FieldsOf<T>::kFields,
            .default_instance = &FieldsOf<T>::DefaultInstance};
  }
}

}  // namespace divvy
