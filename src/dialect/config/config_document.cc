#include "dialect/config/config_document.h"

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

/// True for sections that have one table per name, such as [teams.vision].
bool IsOfNames(std::string_view section) {
  return section == "teams" || section == "users" || section == "pools" || section == "notify";
}

bool IsBareKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class DocumentReader {
 public:
  DocumentReader(std::string_view text, std::string_view path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  Result<std::vector<ConfigEntry>> Run() {
    while (true) {
      SkipBlankLines();
      if (text_.empty()) return std::move(entries_);
      DIVVY_CHECK(Peek() == '[' ? ReadSection() : ReadEntry());
      DIVVY_CHECK(EndLine());
    }
  }

 private:
  char Peek() const { return text_.empty() ? '\0' : text_.front(); }
  char Take() {
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }

  Error Fail(const std::string& message) const {
    return InvalidArgument(std::string(path_) + ":" + std::to_string(line_) + ": " + message);
  }

  std::string Found() const {
    if (text_.empty()) return "the end of the file";
    return Peek() == '\n' || Peek() == '\r' ? "the end of the line" : Quoted(text_.substr(0, 1));
  }

  void SkipBlanks() {
    while (Peek() == ' ' || Peek() == '\t') Take();
  }
  void SkipComment() {
    if (Peek() == '#') text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
  }
  void SkipBlankLines() {
    while (!text_.empty()) {
      SkipBlanks();
      SkipComment();
      if (Peek() == '\r' && text_.starts_with("\r\n")) Take();
      if (Peek() != '\n' || text_.empty()) return;
      Take();
      ++line_;
    }
  }

  Status EndLine() {
    SkipBlanks();
    SkipComment();
    if (text_.starts_with("\r\n")) Take();
    if (text_.empty()) return {};
    if (Peek() != '\n') return Fail(Found() + " after the value; write one key per line");
    Take();
    ++line_;
    return {};
  }

  /// Adds an entry for the current line. An entry without a key stands for the line of the section itself.
  Status Add(ConfigEntry entry) {
    entry.line = line_;
    if (entry.key.empty()) entry.section = section_;
    if (is_array_) {
      entry.provider = providers_;
      entry.shape = shapes_;
    }
    // Each table of an array is separate, so a key is a duplicate only within the same table.
    const auto from = entries_.begin() + static_cast<std::ptrdiff_t>(is_array_ ? section_start_ : 0);
    const auto same = std::find_if(from, entries_.end(), [&](const ConfigEntry& other) {
      return other.section == entry.section && other.key == entry.key && other.provider == entry.provider;
    });
    if (same != entries_.end()) {
      const std::string what = entry.key.empty() ? "[" + entry.section + "]" : Quoted(entry.key);
      return Fail(what + " is repeated; it is first set on line " + std::to_string(same->line));
    }
    // A real file has far fewer entries outside of arrays; more would make the search above expensive.
    if (!is_array_ && ++plain_entries_ > 1000)
      return Fail("the file has more than 1000 entries, so it is not a divvy.toml");
    entries_.push_back(std::move(entry));
    return {};
  }

  Result<std::string> ReadKey(std::string_view what) {
    if (Peek() == '"' || Peek() == '\'') {
      DIVVY_TRY(std::string key, ReadText());
      if (key.empty()) return Fail("the name is empty");
      return key;
    }
    std::size_t end = 0;
    while (end < text_.size() && IsBareKeyCharacter(text_[end])) ++end;
    if (end == 0) return Fail("expected " + std::string(what) + ", not " + Found());
    std::string key(text_.substr(0, end));
    text_.remove_prefix(end);
    return key;
  }

  Status ReadSection() {
    Take();
    if (Peek() == '[') return ReadArrayTable();
    is_array_ = false;
    SkipBlanks();
    DIVVY_TRY(section_, ReadKey("a section name, as in [queue]"));
    SkipBlanks();
    // Sections with one table per name.
    if (Peek() == '.' && IsOfNames(section_)) {
      Take();
      SkipBlanks();
      DIVVY_TRY(const std::string name, ReadKey("a name, as in [teams.vision]"));
      if (name.find('.') != std::string::npos && section_ == "teams")
        return Fail(Quoted(name) + ": a team name must not contain '.'");
      section_ += "." + name;
      SkipBlanks();
    }
    if (section_ == "providers" || section_ == "provider")
      return Fail("[" + section_ + "] is not a section; write [[providers]], once for each provider");
    if (Peek() == '.' && (section_ == "team" || section_ == "user" || section_ == "pool"))
      return Fail("[" + section_ + ".NAME] is not a section; write [" + section_ + "s.NAME]");
    if (Peek() == '.')
      return Fail("nested sections are not supported; write [" + Quoted(section_).substr(1, section_.size()) + "]");
    if (Peek() != ']') return Fail("expected ']' after the section name, not " + Found());
    Take();
    return Add({});
  }

  /// [[providers]] and [[providers.shapes]].
  Status ReadArrayTable() {
    Take();
    SkipBlanks();
    DIVVY_TRY(std::string name, ReadKey("a section name, as in [[providers]]"));
    SkipBlanks();
    if (Peek() == '.') {
      Take();
      SkipBlanks();
      DIVVY_TRY(const std::string inner, ReadKey("a name, as in [[providers.shapes]]"));
      name += "." + inner;
      SkipBlanks();
    }
    if (!text_.starts_with("]]")) return Fail("expected ']]' after the section name, not " + Found());
    text_.remove_prefix(2);
    if (name == "providers") {
      ++providers_;
      shapes_ = 0;
    } else if (name == "providers.shapes") {
      if (providers_ == 0) return Fail("[[providers.shapes]] is before the first [[providers]]");
      ++shapes_;
    } else {
      return Fail("[[" + Quoted(name).substr(1, Quoted(name).size() - 2) +
                  "]] is not supported; only [[providers]] and [[providers.shapes]] have two brackets");
    }
    is_array_ = true;
    section_ = std::move(name);
    section_start_ = entries_.size();
    return Add({});
  }

  Status ReadEntry() {
    ConfigEntry entry;
    entry.section = section_;
    DIVVY_TRY(entry.key, ReadKey("a key, as in policy = \"fifo\""));
    SkipBlanks();
    if (Peek() == '.' && section_.empty()) {
      Take();
      SkipBlanks();
      entry.section = std::move(entry.key);
      DIVVY_TRY(entry.key, ReadKey("a key"));
      SkipBlanks();
    }
    if (Peek() == '.') return Fail("nested keys are not supported; write the key in its section");
    if (Peek() != '=') return Fail("expected '=' after the key " + Quoted(entry.key) + ", not " + Found());
    Take();
    SkipBlanks();
    if (Peek() == '[') {
      DIVVY_TRY(entry.value, ReadList());
    } else {
      DIVVY_TRY(entry.value, ReadValue());
    }
    return Add(std::move(entry));
  }

  Result<ConfigValue> ReadList() {
    Take();
    std::vector<std::string> texts;
    std::vector<std::int64_t> numbers;
    std::size_t size = 0;
    while (true) {
      SkipBlankLines();
      if (Peek() == ']') break;
      if (Peek() == '[') return Fail("nested lists are not supported");
      if (text_.empty()) return Fail("the list is not closed; end it with ']'");
      DIVVY_TRY(const ConfigValue value, ReadValue());
      ++size;
      if (const auto* text = std::get_if<std::string>(&value)) texts.push_back(*text);
      if (const auto* number = std::get_if<std::int64_t>(&value)) numbers.push_back(*number);
      SkipBlankLines();
      if (Peek() == ']') break;
      if (Peek() != ',') return Fail("expected ',' between the values of a list, not " + Found());
      Take();
    }
    Take();
    if (texts.size() == size) return ConfigValue(std::move(texts));
    if (numbers.size() == size) return ConfigValue(std::move(numbers));
    return ConfigValue();
  }

  Result<ConfigValue> ReadValue() {
    if (Peek() == '"' || Peek() == '\'') {
      DIVVY_TRY(std::string text, ReadText());
      // Constructed in place: g++ 12 gives a false warning (-Wfree-nonheap-object) about the destructor of a variant
      // moved from here.
      return Result<ConfigValue>(tl::in_place, std::in_place_type<std::string>, std::move(text));
    }
    if (Peek() == '{') return Fail("tables in braces are not supported; write a section");
    const std::string_view word = text_.substr(0, text_.find_first_of(" \t\r\n,]#"));
    if (word.empty()) return Fail("expected a value, not " + Found());
    DIVVY_TRY(ConfigValue value, ReadWord(word));
    text_.remove_prefix(word.size());
    return value;
  }

  Result<ConfigValue> ReadWord(std::string_view word) const {
    if (word == "true") return ConfigValue(true);
    if (word == "false") return ConfigValue(false);
    std::string digits(word);
    std::erase(digits, '_');
    if (const auto number = ParseInteger(digits)) return ConfigValue(*number);
    if (const auto number = ParseNumber(digits)) return ConfigValue(*number);
    // Do not quote the value, because a URL may contain a password.
    if (word.find("://") != std::string_view::npos) return Fail("put the URL in quotes");
    const bool has_quote = word.find_first_of("\"'") != std::string_view::npos;
    return Fail(Quoted(word) + " is not a number, true or false" +
                (has_quote ? "" : "; quote a text: \"" + Quoted(word).substr(1, word.size()) + "\""));
  }

  /// "..." with backslash escapes, or '...' without.
  Result<std::string> ReadText() {
    const char quote = Take();
    if (text_.starts_with(std::string(2, quote)))
      return Fail("texts in three quotes are not supported; write the text on one line, in one pair of quotes");
    std::string out;
    while (!text_.empty() && Peek() != '\n') {
      const char c = Take();
      if (c == quote) return out;
      if (c == '\\' && quote == '"') {
        DIVVY_CHECK(ReadEscape(out));
      } else if (static_cast<unsigned char>(c) < ' ' && c != '\t') {
        break;
      } else {
        out += c;
      }
    }
    return Fail(std::string("a text is not closed; end it with ") + quote + " on the same line");
  }

  Status ReadEscape(std::string& out) {
    constexpr std::string_view kLetters = "btnfr\"\\";
    constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
    const char letter = text_.empty() ? '\n' : Take();
    if (const auto at = kLetters.find(letter); at != std::string_view::npos) {
      out += kMeanings[at];
      return {};
    }
    std::uint32_t code = 0;
    const std::size_t length = letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    bool is_valid = length > 0 && text_.size() >= length;
    for (std::size_t i = 0; is_valid && i < length; ++i) {
      const auto digit = std::string_view("0123456789abcdef").find(ToLower(text_.substr(i, 1)));
      is_valid = digit != std::string_view::npos;
      code = code * 16 + static_cast<std::uint32_t>(digit & 15);
    }
    const std::string character = is_valid ? Utf8(code) : std::string();
    if (character.empty() || code == 0)
      return Fail(
          "expected one of b t n f r \" \\ uXXXX after a backslash; or use single quotes, where a backslash is an "
          "ordinary character");
    text_.remove_prefix(length);
    out += character;
    return {};
  }

  std::string_view text_;
  std::string_view path_;
  int line_ = 1;
  std::string section_;
  bool is_array_ = false;          // The section is a table of an array.
  std::size_t section_start_ = 0;  // Its first entry. Set for tables of arrays only.
  int providers_ = 0;
  int shapes_ = 0;  // Tables [[providers.shapes]] of the last provider.
  int plain_entries_ = 0;
  std::vector<ConfigEntry> entries_;
};

}  // namespace

Result<std::vector<ConfigEntry>> ReadConfigDocument(std::string_view toml, std::string_view path) {
  constexpr std::size_t kMostBytes = 1 << 20;
  if (toml.size() > kMostBytes)
    return InvalidArgument(std::string(path) + ":1: the file is larger than 1 MiB, so it is not a divvy.toml");
  return DocumentReader(toml, path).Run();
}

}  // namespace divvy::dialect
