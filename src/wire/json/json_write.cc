#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "wire/json/json.h"

namespace divvy {
namespace {

/// The treatment of a byte inside a JSON string: none, an escape, or a check of the UTF-8 sequence that it starts.
enum Care : std::uint8_t { kPlain, kEscape, kSequence };

constexpr std::array<Care, 256> kCare = [] {
  std::array<Care, 256> care{};
  for (std::size_t c = 0; c < 256; ++c) {
    care[c] = c < 0x20 || c == '"' || c == '\\' ? kEscape : c >= 0x80 ? kSequence : kPlain;
  }
  return care;
}();

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length of the well-formed UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), or 0.
std::size_t SequenceLength(std::string_view text) {
  auto byte = [&](std::size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto continues = [&](std::size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  unsigned lead = byte(0);
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) && continues(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

void AppendEscape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default: {
      auto byte = static_cast<unsigned char>(c);
      const char text[] = {'\\', 'u', '0', '0', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
      out.append(text, sizeof text);
    }
  }
}

void AppendString(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t begin = 0;
  std::size_t i = 0;
  while (i < text.size()) {
    Care care = kCare[static_cast<unsigned char>(text[i])];
    if (care == kPlain) [[likely]] {
      ++i;
      continue;
    }
    if (care == kSequence) {
      if (std::size_t length = SequenceLength(text.substr(i)); length > 0) {
        i += length;
        continue;
      }
    }
    out.append(text, begin, i - begin);
    if (care == kEscape) {
      AppendEscape(out, text[i]);
    } else {
      out.append(kReplacement);
    }
    begin = ++i;
  }
  out.append(text, begin, text.size() - begin);
  out.push_back('"');
}

template <typename Number, typename... Format>
void AppendNumber(std::string& out, Number value, Format... format) {
  char text[48];
  auto end = std::to_chars(text, text + sizeof text, value, format...).ptr;
  out.append(text, static_cast<std::size_t>(end - text));
}

void AppendDouble(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  double magnitude = std::fabs(value);
  if (magnitude < 1e15 && value == std::trunc(value)) {
    AppendNumber(out, static_cast<std::int64_t>(value));
  } else if (magnitude >= 1e-5 && magnitude < 1e15) {
    AppendNumber(out, value, std::chars_format::fixed);
  } else {
    AppendNumber(out, value);
  }
}

std::int64_t LoadSigned(const void* p, std::uint8_t size) {
  switch (size) {
    case 1:
      return *static_cast<const std::int8_t*>(p);
    case 2:
      return *static_cast<const std::int16_t*>(p);
    case 4:
      return *static_cast<const std::int32_t*>(p);
    default: {
      std::int64_t value;  // long and long long are distinct types of the same size.
      std::memcpy(&value, p, sizeof value);
      return value;
    }
  }
}

std::uint64_t LoadUnsigned(const void* p, std::uint8_t size) {
  switch (size) {
    case 1:
      return *static_cast<const std::uint8_t*>(p);
    case 2:
      return *static_cast<const std::uint16_t*>(p);
    case 4:
      return *static_cast<const std::uint32_t*>(p);
    default: {
      std::uint64_t value;
      std::memcpy(&value, p, sizeof value);
      return value;
    }
  }
}

std::int64_t LoadEnum(const JsonType& type, const void* p) {
  // The table does not say whether the enum's type is signed. So the value is read as a signed number, and as an
  // unsigned one if no word has the signed number.
  std::int64_t value = LoadSigned(p, type.size);
  for (const JsonWord& word : type.words) {
    if (word.value == value) return value;
  }
  return static_cast<std::int64_t>(LoadUnsigned(p, type.size));
}

/// Whether `value` can be left out, because a reader that starts from `base` gets the same value. May return false to
/// be safe.
bool IsUnchanged(const JsonType& type, const void* value, const void* base) {
  switch (type.kind) {
    case JsonKind::kBool:
      return *static_cast<const bool*>(value) == *static_cast<const bool*>(base);
    case JsonKind::kSigned:
    case JsonKind::kUnsigned:
    case JsonKind::kEnum:
      return std::memcmp(value, base, type.size) == 0;
    case JsonKind::kDouble:
      return *static_cast<const double*>(value) == *static_cast<const double*>(base);
    case JsonKind::kString:
      return *static_cast<const std::string*>(value) == *static_cast<const std::string*>(base);
    case JsonKind::kOptional:
      return type.peek(value) == nullptr && type.peek(base) == nullptr;
    case JsonKind::kArray:
      return type.items(value).count == 0 && type.items(base).count == 0;
    case JsonKind::kMap:
      return type.count(value) == 0 && type.count(base) == 0;
    case JsonKind::kForm:
      return type.same(value, base);
    case JsonKind::kObject:
      for (const JsonField& field : type.fields) {
        if (!IsUnchanged(*field.type, field.in(const_cast<void*>(value)), field.in(const_cast<void*>(base)))) {
          return false;
        }
      }
      return true;
  }
  return false;
}

void Write(JsonWriter& writer, const JsonType& type, const void* value, const void* base);

void WriteObject(JsonWriter& writer, const JsonType& type, const void* value, const void* base) {
  bool only_changed = writer.fields() == Fields::kChanged;
  if (only_changed && base == nullptr) base = type.default_instance();
  writer.BeginObject();
  for (const JsonField& field : type.fields) {
    // The accessor only computes an address; see JsonField.
    const void* member = field.in(const_cast<void*>(value));
    const void* member_base = nullptr;
    if (only_changed) {
      member_base = field.in(const_cast<void*>(base));
      if (IsUnchanged(*field.type, member, member_base)) continue;
    }
    for (const std::string_view name : {field.name, field.former}) {
      if (name.empty()) continue;
      writer.Key(name);
      Write(writer, *field.type, member, member_base);
    }
  }
  writer.EndObject();
}

void WriteMap(JsonWriter& writer, const JsonType& type, const void* value) {
  struct Context {
    JsonWriter& writer;
    const JsonType& inner;
  } context{writer, *type.inner};
  writer.BeginObject();
  type.each(value, &context, [](void* p, const std::string& key, const void* element) {
    auto& [to, inner] = *static_cast<Context*>(p);
    to.Key(key);
    Write(to, inner, element, nullptr);
  });
  writer.EndObject();
}

/// `base`: the value that the reader starts from. Null: the type's own default. Only used for structs.
void Write(JsonWriter& writer, const JsonType& type, const void* value, const void* base) {
  switch (type.kind) {
    case JsonKind::kBool:
      return writer.Bool(*static_cast<const bool*>(value));
    case JsonKind::kSigned:
      return writer.Int(LoadSigned(value, type.size));
    case JsonKind::kUnsigned:
      return writer.Unsigned(LoadUnsigned(value, type.size));
    case JsonKind::kDouble:
      return writer.Number(*static_cast<const double*>(value));
    case JsonKind::kString:
      return writer.String(*static_cast<const std::string*>(value));
    case JsonKind::kEnum:
      return writer.String(JsonWordOf(type, LoadEnum(type, value)));
    case JsonKind::kOptional: {
      const void* inside = type.peek(value);
      return inside == nullptr ? writer.Null() : Write(writer, *type.inner, inside, nullptr);
    }
    case JsonKind::kArray: {
      JsonItems items = type.items(value);
      writer.BeginArray();
      for (std::size_t i = 0; i < items.count; ++i) {
        Write(writer, *type.inner, items.first + i * items.stride, nullptr);
      }
      return writer.EndArray();
    }
    case JsonKind::kMap:
      return WriteMap(writer, type, value);
    case JsonKind::kObject:
      return WriteObject(writer, type, value, base);
    case JsonKind::kForm:
      return type.encode(value, writer);
  }
}

}  // namespace

void JsonWriter::BeginObject() {
  Separate();
  out_.push_back('{');
  needs_comma_ = false;
}

void JsonWriter::EndObject() {
  out_.push_back('}');
  needs_comma_ = true;
}

void JsonWriter::BeginArray() {
  Separate();
  out_.push_back('[');
  needs_comma_ = false;
}

void JsonWriter::EndArray() {
  out_.push_back(']');
  needs_comma_ = true;
}

void JsonWriter::Key(std::string_view name) {
  Separate();
  AppendString(out_, name);
  out_.push_back(':');
  needs_comma_ = false;
}

void JsonWriter::Null() {
  Separate();
  out_ += "null";
}

void JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
}

void JsonWriter::Int(std::int64_t value) {
  Separate();
  AppendNumber(out_, value);
}

void JsonWriter::Unsigned(std::uint64_t value) {
  Separate();
  AppendNumber(out_, value);
}

void JsonWriter::Number(double value) {
  Separate();
  AppendDouble(out_, value);
}

void JsonWriter::String(std::string_view text) {
  Separate();
  AppendString(out_, text);
}

void JsonWriter::Raw(std::string_view json) {
  Separate();
  out_.append(json);
}

void WriteJson(JsonWriter& writer, const JsonType& type, const void* value) { Write(writer, type, value, nullptr); }

void AppendJson(std::string& out, const JsonType& type, const void* value, Fields fields) {
  JsonWriter writer(out, fields);
  Write(writer, type, value, nullptr);
}

std::string_view JsonWordOf(const JsonType& type, std::int64_t value) {
  for (const JsonWord& word : type.words) {
    if (word.value == value) return word.word;
  }
  return "";
}

}  // namespace divvy
