#include "dialect/config/yaml_json.h"

#include <yaml-cpp/yaml.h>

#include <array>

#include "base/text.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostYaml = std::size_t{1} << 20;
constexpr std::size_t kMostJson = std::size_t{4} << 20;
constexpr int kMostDepth = 64;
constexpr std::size_t kMostOctal = 16;  // Digits.

void AppendQuoted(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += "\\u00";
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[c & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

/// JSON does not allow numbers such as "+1", "01" or ".5".
bool IsJsonNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool begins_well = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const bool has_spare_zero = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  return begins_well && !has_spare_zero && !text.ends_with('.') && text.find(".e") == std::string_view::npos &&
         text.find(".E") == std::string_view::npos && ParseNumber(text).has_value();
}

/// True for octal numbers in the notation of YAML 1.1, such as the file mode "0400".
bool IsOctal(std::string_view text) {
  return text.size() > 1 && text.size() <= kMostOctal && text.front() == '0' &&
         text.find_first_not_of("01234567") == std::string_view::npos;
}

class Converter {
 public:
  Status Add(const YAML::Node& node, int depth) {
    if (depth > kMostDepth) return Wrong(node, "is nested too deeply");
    if (json_.size() > kMostJson) return Wrong(node, "the text is too long");
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        json_ += "null";
        return {};
      case YAML::NodeType::Scalar:
        AddScalar(node);
        return {};
      case YAML::NodeType::Sequence:
        return AddList(node, depth);
      case YAML::NodeType::Map:
        return AddMap(node, depth);
    }
    return {};
  }
  std::string Take() { return std::move(json_); }

 private:
  static Error Wrong(const YAML::Node& node, const std::string& what) {
    return InvalidArgument("line " + std::to_string(node.Mark().line + 1) + ": " + what);
  }

  void AddScalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    // yaml-cpp gives quoted text the tag "!", and plain text the tag "?".
    const bool is_plain = node.Tag() == "?" || node.Tag().empty();
    if (is_plain && (text == "true" || text == "True" || text == "TRUE")) json_ += "true";
    else if (is_plain && (text == "false" || text == "False" || text == "FALSE")) json_ += "false";
    else if (is_plain && IsJsonNumber(text)) json_ += text;
    else if (is_plain && IsOctal(text)) json_ += std::to_string(std::stoull(text, nullptr, 8));
    else AppendQuoted(json_, text);
  }

  Status AddList(const YAML::Node& node, int depth) {
    json_.push_back('[');
    bool is_first = true;
    for (const YAML::Node& element : node) {
      if (!is_first) json_.push_back(',');
      is_first = false;
      DIVVY_CHECK(Add(element, depth + 1));
    }
    json_.push_back(']');
    return {};
  }

  Status AddMap(const YAML::Node& node, int depth) {
    json_.push_back('{');
    bool is_first = true;
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) return Wrong(node, "a key is no text");
      if (!is_first) json_.push_back(',');
      is_first = false;
      AppendQuoted(json_, pair.first.Scalar());
      json_.push_back(':');
      DIVVY_CHECK(Add(pair.second, depth + 1));
    }
    json_.push_back('}');
    return {};
  }

  std::string json_;
};

}  // namespace

Result<std::string> YamlToJson(std::string_view text) {
  if (text.size() > kMostYaml) return InvalidArgument("the text is longer than 1 MiB");
  try {
    Converter converter;
    DIVVY_CHECK(converter.Add(YAML::Load(std::string(text)), 0));
    return converter.Take();
  } catch (const YAML::Exception& wrong) {
    return InvalidArgument("line " + std::to_string(wrong.mark.line + 1) + ": is not YAML");
  }
}

}  // namespace divvy::dialect
