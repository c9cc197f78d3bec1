#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "base/text.h"
#include "wire/json/json.h"

namespace divvy {

/// One read operation: its current path, and the errors so far.
class JsonReading {
 public:
  explicit JsonReading(Unknown unknown) : unknown_(unknown) {}

  bool Read(const JsonType& type, JsonValue json, void* value);
  void Fail(std::string_view message);
  Status Verdict() const;
  /// A line for each field that was read under its former name.
  std::vector<std::string> TakeNotes() { return std::move(notes_); }

 private:
  struct Step {
    std::string_view name;  // The name of a field, or
    std::size_t index = 0;  // the index of an element, if the name's data is null.
  };
  /// The most errors that are reported: enough to repair a text, and few enough to fit on a screen.
  static constexpr std::size_t kErrorsTold = 20;

  bool Expected(std::string_view what, JsonValue got);
  bool ReadSigned(const JsonType& type, JsonValue json, void* value);
  bool ReadUnsigned(const JsonType& type, JsonValue json, void* value);
  bool ReadEnum(const JsonType& type, JsonValue json, void* value);
  bool ReadArray(const JsonType& type, JsonValue json, void* value);
  bool ReadMap(const JsonType& type, JsonValue json, void* value);
  bool ReadObject(const JsonType& type, JsonValue json, void* value);
  bool RefuseUnknown(const JsonType& type, std::string_view name);
  void NoteRenamed(std::string_view name);
  std::string Path() const;

  Unknown unknown_;
  std::vector<Step> path_;
  std::string errors_;
  std::size_t count_ = 0;
  std::vector<std::string> notes_;
};

namespace {

std::string NumberText(double value) {
  std::string text;
  JsonWriter(text).Number(value);
  return text;
}

/// A name or word from the text for an error message: quoted, and limited to one line.
std::string Shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string shown;
  JsonWriter(shown).String(text.substr(0, kLongest));
  if (text.size() > kLongest) shown.insert(shown.size() - 1, "...");
  return shown;
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

template <typename Narrow>
void Put(void* to, std::uint64_t bits) {
  auto narrow = static_cast<Narrow>(bits);
  std::memcpy(to, &narrow, sizeof narrow);
}

void Store(std::uint8_t size, std::uint64_t bits, void* value) {
  switch (size) {
    case 1:
      return Put<std::uint8_t>(value, bits);
    case 2:
      return Put<std::uint16_t>(value, bits);
    case 4:
      return Put<std::uint32_t>(value, bits);
    default:
      return Put<std::uint64_t>(value, bits);
  }
}

const JsonField* FindField(const JsonType& type, std::string_view name, std::size_t& hint) {
  // divvy writes fields in the order of the struct, so the search begins after the field that was found last.
  std::size_t count = type.fields.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = hint + i < count ? hint + i : hint + i - count;
    if (type.fields[at].name == name) {
      hint = at + 1 < count ? at + 1 : 0;
      return &type.fields[at];
    }
  }
  return nullptr;
}

/// The field that had this name in the last release.
const JsonField* FindRenamed(const JsonType& type, std::string_view former) {
  const auto field = std::ranges::find(type.fields, former, &JsonField::former);
  return field == type.fields.end() || former.empty() ? nullptr : &*field;
}

bool IsSame(JsonValue a, JsonValue b) {
  if (a.KindName() != b.KindName() || a.size() != b.size()) return false;
  if (!a.is_array() && !a.is_object())
    return a.AsString() == b.AsString() && a.AsNumber() == b.AsNumber() && a.AsBool() == b.AsBool();
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    if ((*x).key() != (*y).key() || !IsSame(*x, *y)) return false;
  }
  return true;
}

}  // namespace

std::string JsonReading::Path() const {
  std::string text;
  for (const Step& step : path_) {
    if (step.name.data() == nullptr) {
      text += '[' + std::to_string(step.index) + ']';
    } else if (IsPlainName(step.name)) {
      if (!text.empty()) text += '.';
      text += step.name.substr(0, 80);
    } else {
      text += '[' + Shown(step.name) + ']';
    }
  }
  return text;
}

void JsonReading::Fail(std::string_view message) {
  if (++count_ > kErrorsTold) return;
  if (!errors_.empty()) errors_ += "; ";
  if (std::string path = Path(); !path.empty()) errors_ += path + ": ";
  errors_ += message;
}

Status JsonReading::Verdict() const {
  if (count_ == 0) return {};
  if (count_ <= kErrorsTold) return InvalidArgument(errors_);
  return InvalidArgument(errors_ + "; and " + std::to_string(count_ - kErrorsTold) + " more");
}

bool JsonReading::Expected(std::string_view what, JsonValue got) {
  Fail("expected " + std::string(what) + ", got " + std::string(got.KindName()));
  return false;
}

bool JsonReading::ReadSigned(const JsonType& type, JsonValue json, void* value) {
  if (!json.is_number()) return Expected("a number", json);
  std::optional<std::int64_t> number = json.AsInt();
  int bits = type.size * 8 - 1;
  std::int64_t most = bits >= 63 ? INT64_MAX : (std::int64_t{1} << bits) - 1;
  if (number && *number >= -most - 1 && *number <= most) {
    Store(type.size, static_cast<std::uint64_t>(*number), value);
    return true;
  }
  double given = *json.AsNumber();
  if (given != std::trunc(given)) {
    Fail("expected a whole number, got " + NumberText(given));
  } else {
    std::string text = number ? std::to_string(*number) : NumberText(given);
    Fail(text + " is out of range (" + std::to_string(-most - 1) + " to " + std::to_string(most) + ")");
  }
  return false;
}

bool JsonReading::ReadUnsigned(const JsonType& type, JsonValue json, void* value) {
  if (!json.is_number()) return Expected("a number", json);
  std::optional<std::uint64_t> number = json.AsUnsigned();
  std::uint64_t most = type.size >= 8 ? UINT64_MAX : (std::uint64_t{1} << (type.size * 8)) - 1;
  if (number && *number <= most) {
    Store(type.size, *number, value);
    return true;
  }
  double given = *json.AsNumber();
  if (given != std::trunc(given)) {
    Fail("expected a whole number, got " + NumberText(given));
  } else {
    std::string text = number ? std::to_string(*number) : NumberText(given);
    Fail(text + " is out of range (0 to " + std::to_string(most) + ")");
  }
  return false;
}

bool JsonReading::ReadEnum(const JsonType& type, JsonValue json, void* value) {
  std::optional<std::string_view> text = json.AsString();
  if (!text) return Expected("a string", json);
  std::vector<std::string_view> words;
  for (const JsonWord& known : type.words) {
    if (known.word == *text) {
      Store(type.size, static_cast<std::uint64_t>(known.value), value);
      return true;
    }
    words.push_back(known.word);
  }
  std::string message = Shown(*text) + " is not one of ";
  for (std::size_t i = 0; i < words.size(); ++i) message.append(i == 0 ? "" : ", ").append(words[i]);
  if (std::string_view near = text->size() <= 64 ? Nearest(*text, words) : ""; !near.empty()) {
    message += " (did you mean " + std::string(near) + "?)";
  }
  Fail(message);
  return false;
}

bool JsonReading::ReadArray(const JsonType& type, JsonValue json, void* value) {
  if (!json.is_array()) return Expected("an array", json);
  JsonItems items = type.resize(value, json.size());
  auto* bytes = const_cast<std::byte*>(items.first);  // `resize` was given the vector for writing.
  bool is_good = true;
  path_.push_back({});
  std::size_t i = 0;
  for (JsonValue element : json) {
    path_.back().index = i;
    is_good &= Read(*type.inner, element, bytes + i * items.stride);
    ++i;
  }
  path_.pop_back();
  return is_good;
}

bool JsonReading::ReadMap(const JsonType& type, JsonValue json, void* value) {
  if (!json.is_object()) return Expected("an object", json);
  type.clear(value);
  bool is_good = true;
  path_.push_back({});
  for (JsonValue element : json) {
    path_.back().name = element.key();
    is_good &= Read(*type.inner, element, type.insert(value, element.key()));
  }
  path_.pop_back();
  return is_good;
}

bool JsonReading::RefuseUnknown(const JsonType& type, std::string_view name) {
  std::vector<std::string_view> names;
  for (const JsonField& field : type.fields) names.push_back(field.name);
  std::string_view near = name.size() <= 64 ? Nearest(name, names) : "";
  Fail(near.empty() ? "unknown field" : "unknown field, did you mean " + std::string(near) + "?");
  return false;
}

void JsonReading::NoteRenamed(std::string_view name) {
  if (notes_.size() >= kErrorsTold) return;
  std::string note = Path() + " is now called " + std::string(name) + "; the old name works in this release only";
  if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
}

bool JsonReading::ReadObject(const JsonType& type, JsonValue json, void* value) {
  if (!json.is_object()) return Expected("an object", json);
  bool is_good = true;
  std::size_t hint = 0;
  // The members with the present names of fields that were found under their former ones. Each is looked up once,
  // because a sender may repeat a name a million times.
  std::map<const JsonField*, JsonValue> presents;
  path_.push_back({});
  for (JsonValue element : json) {
    std::string_view name = element.key();
    const JsonField* field = FindField(type, name, hint);
    path_.back().name = name;
    if (field == nullptr) {
      field = FindRenamed(type, name);
      JsonValue present;
      if (field != nullptr) {
        const auto [at, is_new] = presents.try_emplace(field);
        if (is_new) at->second = json[field->name];
        present = at->second;
      }
      if (present.exists()) {
        const bool is_same = IsSame(element, present);
        is_good &= is_same;
        if (!is_same)
          Fail("is the old name of " + std::string(field->name) + ", which has another value; send only one");
        continue;
      }
      if (field != nullptr) NoteRenamed(field->name);
    }
    if (field != nullptr) {
      is_good &= Read(*field->type, element, field->in(value));
    } else if (unknown_ == Unknown::kRefuse) {
      is_good &= RefuseUnknown(type, name);
    }
  }
  path_.pop_back();
  return is_good;
}

bool JsonReading::Read(const JsonType& type, JsonValue json, void* value) {
  switch (type.kind) {
    case JsonKind::kBool: {
      std::optional<bool> boolean = json.AsBool();
      if (!boolean) return Expected("true or false", json);
      *static_cast<bool*>(value) = *boolean;
      return true;
    }
    case JsonKind::kSigned:
      return ReadSigned(type, json, value);
    case JsonKind::kUnsigned:
      return ReadUnsigned(type, json, value);
    case JsonKind::kDouble: {
      std::optional<double> number = json.AsNumber();
      if (!number) return Expected("a number", json);
      *static_cast<double*>(value) = *number;
      return true;
    }
    case JsonKind::kString: {
      std::optional<std::string_view> text = json.AsString();
      if (!text) return Expected("a string", json);
      static_cast<std::string*>(value)->assign(*text);
      return true;
    }
    case JsonKind::kEnum:
      return ReadEnum(type, json, value);
    case JsonKind::kOptional:
      if (json.is_null()) {
        type.reset(value);
        return true;
      }
      return Read(*type.inner, json, type.emplace(value));
    case JsonKind::kArray:
      return ReadArray(type, json, value);
    case JsonKind::kMap:
      return ReadMap(type, json, value);
    case JsonKind::kObject:
      return ReadObject(type, json, value);
    case JsonKind::kForm: {
      std::size_t before = count_;
      type.decode(*this, json, value);
      return count_ == before;
    }
  }
  return false;
}

bool ReadJson(JsonReading& reading, const JsonType& type, JsonValue json, void* value) {
  return reading.Read(type, json, value);
}

void FailReading(JsonReading& reading, std::string_view message) { reading.Fail(message); }

Status DecodeJson(const JsonType& type, JsonValue json, void* value, Unknown unknown, std::vector<std::string>* notes) {
  JsonReading reading(unknown);
  reading.Read(type, json, value);
  if (notes != nullptr) *notes = reading.TakeNotes();
  return reading.Verdict();
}

Status DecodeJson(const JsonType& type, std::string_view text, void* value, Unknown unknown, const JsonLimits& limits,
                  std::vector<std::string>* notes) {
  DIVVY_TRY(JsonDocument document, JsonDocument::ParseInPlace(text, limits));
  return DecodeJson(type, document.root(), value, unknown, notes);
}

}  // namespace divvy
