#include "mcp/bounded_json.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"
#include "wire/json/json.h"

namespace divvy::mcp {
namespace {

struct Bounds {
  std::size_t items = 0;  // The most items of a list or object.
  std::size_t bytes = 0;  // The most bytes of a text.
};
// Tried in this order until the result fits.
constexpr Bounds kBounds[] = {{1000, 16'000}, {200, 4000}, {100, 2000}, {50, 1000}, {20, 500},
                              {10, 300},      {5, 200},    {2, 100},    {1, 50}};

/// `text` with visible control characters, except line breaks and tabs.
std::string VisibleText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    const bool is_layout = character.code == '\n' || character.code == '\t';
    if (IsControl(character.code) && !is_layout) out += ControlText(character.code);
    else if (character.code == 0xFFFD) out += Utf8(0xFFFD);
    else out += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return out;
}

/// Returns the largest number of bytes, at most `most`, after which `text` can be cut without splitting a character.
std::size_t WholeCharacters(std::string_view text, std::size_t most) {
  std::size_t size = std::min(text.size(), most);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return size;
}

bool IsEmpty(JsonValue value, bool is_request) {
  if (value.is_null() || ((value.is_array() || value.is_object()) && value.size() == 0)) return true;
  if (const auto text = value.AsString()) return text->empty();
  if (!is_request) return false;
  return value.AsNumber() == 0 || value.AsBool() == false;
}

class BoundedWriter {
 public:
  BoundedWriter(std::string& out, Bounds bounds) : writer_(out), bounds_(bounds) {}

  void Write(JsonValue value, bool is_request = false) {
    if (value.is_object()) return WriteObject(value, is_request);
    if (value.is_array()) return WriteArray(value, is_request);
    if (const auto text = value.AsString()) return WriteText(*text);
    if (const auto flag = value.AsBool()) return writer_.Bool(*flag);
    if (const auto whole = value.AsInt()) return writer_.Int(*whole);
    if (const auto number = value.AsNumber()) return writer_.Number(*number);
    writer_.Null();
  }

 private:
  void WriteObject(JsonValue object, bool is_request) {
    writer_.BeginObject();
    std::size_t count = 0;
    for (const JsonValue member : object) {
      const std::string_view name = member.key();
      if (IsEmpty(member, is_request)) continue;
      if (++count > std::max<std::size_t>(bounds_.items, kLeastMembers)) {
        writer_.Key("...");
        writer_.String("more members are left out");
        break;
      }
      writer_.Key(VisibleText(name));
      Write(member, is_request || name == "request" || name == "share" || name == "fraction");
    }
    writer_.EndObject();
  }

  void WriteArray(JsonValue array, bool is_request) {
    writer_.BeginArray();
    std::size_t count = 0;
    for (const JsonValue item : array) {
      if (count++ == bounds_.items) {
        writer_.String("... " + std::to_string(array.size() - bounds_.items) + " more are left out");
        break;
      }
      Write(item, is_request);
    }
    writer_.EndArray();
  }

  void WriteText(std::string_view text) {
    const std::size_t size = WholeCharacters(text, bounds_.bytes);
    std::string shown = VisibleText(text.substr(0, size));
    if (size < text.size()) shown += " ... " + std::to_string(text.size() - size) + " more bytes are left out";
    writer_.String(shown);
  }

  // A message has at most about 60 members of its own.
  static constexpr std::size_t kLeastMembers = 80;

  JsonWriter writer_;
  Bounds bounds_;
};

}  // namespace

Result<std::string> BoundedJson(std::string_view json, std::size_t most) {
  DIVVY_TRY(const JsonDocument document, JsonDocument::ParseInPlace(json));
  std::string out;
  for (const Bounds& bounds : kBounds) {
    out.clear();
    BoundedWriter(out, bounds).Write(document.root());
    if (out.size() <= most) return out;
  }
  return std::string("{\"note\":\"the answer is too large to be shown here; ask for less\"}");
}

std::string BoundedText(std::string_view text, std::size_t most) {
  constexpr std::string_view kNote = " ... the rest is left out";
  std::string shown = VisibleText(text);
  if (shown.size() <= most) return shown;
  shown.resize(WholeCharacters(shown, most - kNote.size()));
  return shown + std::string(kNote);
}

std::string BoundedTail(std::string_view text, std::size_t most, bool is_cut_already) {
  constexpr std::string_view kNote = "[earlier output is left out]\n";
  std::string shown = VisibleText(text);
  const bool is_cut = is_cut_already || shown.size() > most;
  const std::size_t room = most - kNote.size();
  if (is_cut && shown.size() > room) {
    std::size_t begin = shown.size() - room;
    // A very long line is cut inside.
    if (const std::size_t line = shown.find('\n', begin); line != std::string::npos && line + 1 < shown.size())
      begin = line + 1;
    while (begin < shown.size() && (static_cast<unsigned char>(shown[begin]) & 0xC0) == 0x80) ++begin;
    shown.erase(0, begin);
  }
  return is_cut ? std::string(kNote) + shown : shown;
}

}  // namespace divvy::mcp
