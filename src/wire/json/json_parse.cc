// Boost.JSON parses the text (syntax, escapes, UTF-8, depth). This file stores the result as an array of 32-byte nodes,
// whose strings point into the text unless they contain escapes. Doubles are parsed again by std::from_chars, because
// the parser's own results are up to one ulp off.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>

#include <boost/json/basic_parser_impl.hpp>

#include "wire/json/json.h"
#include "wire/json/json_node.h"

namespace divvy {
namespace {

namespace json = boost::json;

/// Stores decoded strings that had escapes. Blocks never move, so views into them stay valid.
class TextArena {
 public:
  const char* Keep(std::string_view text) {
    if (text.empty()) return "";
    if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size()) {
      blocks_.emplace_back().reserve(std::max<std::size_t>(text.size(), 4096));
    }
    std::string& block = blocks_.back();
    std::size_t at = block.size();
    block.append(text);
    return block.data() + at;
  }

 private:
  std::deque<std::string> blocks_;
};

/// The sink of boost::json::basic_parser. That library requires these member names and signatures.
struct Collector {
  static constexpr std::size_t max_object_size = UINT32_MAX;
  static constexpr std::size_t max_array_size = UINT32_MAX;
  static constexpr std::size_t max_key_size = UINT32_MAX;
  static constexpr std::size_t max_string_size = UINT32_MAX;

  std::string_view source;
  std::size_t max_values = 0;
  std::vector<JsonNode> nodes;
  TextArena arena;

  std::vector<std::uint32_t> open;  // Containers that are being parsed, outermost first.
  std::string part;                 // The received beginning of a string, key or number.
  const char* key = nullptr;
  std::uint32_t key_size = 0;
  bool has_too_many = false;
  bool has_huge_number = false;

  JsonNode* Add(JsonNodeKind kind, json::error_code& ec) {
    if (nodes.size() >= max_values) {
      has_too_many = true;
      ec = json::error::array_too_large;
      return nullptr;
    }
    JsonNode& node = nodes.emplace_back();
    node.kind = kind;
    node.key = key;
    node.key_size = key_size;
    key = nullptr;
    key_size = 0;
    return &node;
  }

  /// Returns the whole string that ends with `last`, at a stable address.
  std::string_view Whole(json::string_view last) {
    std::string_view piece(last.data(), last.size());
    if (part.empty()) {
      bool is_in_source = std::less_equal<>()(source.data(), piece.data()) &&
                          std::less_equal<>()(piece.data() + piece.size(), source.data() + source.size());
      return is_in_source ? piece : std::string_view(arena.Keep(piece), piece.size());
    }
    part.append(piece);
    std::string_view kept(arena.Keep(part), part.size());
    part.clear();
    return kept;
  }

  bool Open(JsonNodeKind kind, json::error_code& ec) {
    if (Add(kind, ec) == nullptr) return false;
    open.push_back(static_cast<std::uint32_t>(nodes.size() - 1));
    return true;
  }

  bool Close(std::size_t size) {
    std::uint32_t at = open.back();
    open.pop_back();
    nodes[at].size = static_cast<std::uint32_t>(size);
    nodes[at].nodes = static_cast<std::uint32_t>(nodes.size() - at);
    return true;
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& ec) { return Open(JsonNodeKind::kObject, ec); }
  bool on_object_end(std::size_t n, json::error_code&) { return Close(n); }
  bool on_array_begin(json::error_code& ec) { return Open(JsonNodeKind::kArray, ec); }
  bool on_array_end(std::size_t n, json::error_code&) { return Close(n); }

  bool on_key_part(json::string_view s, std::size_t, json::error_code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_key(json::string_view s, std::size_t, json::error_code&) {
    std::string_view whole = Whole(s);
    key = whole.data() == nullptr ? "" : whole.data();
    key_size = static_cast<std::uint32_t>(whole.size());
    return true;
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_string(json::string_view s, std::size_t, json::error_code& ec) {
    std::string_view whole = Whole(s);
    JsonNode* node = Add(JsonNodeKind::kString, ec);
    if (node == nullptr) return false;
    node->text = whole.data();
    node->size = static_cast<std::uint32_t>(whole.size());
    return true;
  }
  bool on_number_part(json::string_view s, json::error_code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& ec) {
    part.clear();
    JsonNode* node = Add(JsonNodeKind::kInt, ec);
    if (node != nullptr) node->integer = value;
    return node != nullptr;
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code& ec) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) return on_int64(static_cast<std::int64_t>(value), {}, ec);
    part.clear();
    JsonNode* node = Add(JsonNodeKind::kUnsigned, ec);
    if (node != nullptr) node->natural = value;
    return node != nullptr;
  }
  bool on_double(double, json::string_view s, json::error_code& ec) {
    part.append(s.data(), s.size());
    double value = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    // Out of range means either too large, or too close to zero to be distinguished from it.
    if (error == std::errc::result_out_of_range) {
      has_huge_number = std::fabs(std::strtod(part.c_str(), nullptr)) > 1;
      value = 0;
    }
    part.clear();
    if (has_huge_number) {
      ec = json::error::exponent_overflow;
      return false;
    }
    JsonNode* node = Add(JsonNodeKind::kDouble, ec);
    if (node != nullptr) node->number = value;
    return node != nullptr;
  }
  bool on_bool(bool value, json::error_code& ec) {
    JsonNode* node = Add(JsonNodeKind::kBool, ec);
    if (node != nullptr) node->boolean = value;
    return node != nullptr;
  }
  bool on_null(json::error_code& ec) { return Add(JsonNodeKind::kNull, ec) != nullptr; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

std::string WhatIsWrong(const json::error_code& ec, const Collector& found, const JsonLimits& limits) {
  if (found.has_too_many) return "more than " + std::to_string(limits.values) + " values";
  if (ec == json::error::incomplete) return "the text ends in the middle of a value";
  if (ec == json::error::extra_data) return "something follows the end of the value";
  if (ec == json::error::too_deep) return "nested deeper than " + std::to_string(limits.depth) + " levels";
  if (ec == json::error::exponent_overflow) return "the number is too large";
  if (ec == json::error::illegal_leading_surrogate || ec == json::error::illegal_trailing_surrogate ||
      ec == json::error::expected_hex_digit || ec == json::error::expected_utf16_escape) {
    return "a broken \\u escape in a string";
  }
  return "this is not JSON";
}

/// "line 3, column 7", both from 1; columns count bytes.
std::string Place(std::string_view text, std::size_t at) {
  std::string_view before = text.substr(0, std::min(at, text.size()));
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  std::size_t newline = before.rfind('\n');
  std::size_t column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

struct JsonDocument::Content {
  std::string own_text;
  std::vector<JsonNode> nodes;
  TextArena arena;

  Status Read(std::string_view text, const JsonLimits& limits) {
    if (text.size() > limits.bytes) {
      return LimitExceeded("the JSON text has " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(limits.bytes) + " are accepted");
    }
    json::parse_options options;
    options.max_depth = limits.depth;
    json::basic_parser<Collector> parser(options);
    Collector& found = parser.handler();
    found.source = text;
    found.max_values = limits.values;
    found.nodes.reserve(std::min<std::size_t>(text.size() / 16 + 4, limits.values));
    json::error_code ec;
    std::size_t used = 0;
    try {
      used = parser.write_some(false, text.data(), text.size(), ec);
    } catch (const std::exception& thrown) {
      return Internal(std::string("reading JSON: ") + thrown.what());
    }
    while (!ec && used < text.size() && std::string_view(" \t\r\n").find(text[used]) != std::string_view::npos) ++used;
    if (!ec && used < text.size()) ec = json::error::extra_data;
    if (ec) return InvalidArgument(Place(text, used) + ": " + WhatIsWrong(ec, found, limits));
    nodes = std::move(found.nodes);
    arena = std::move(found.arena);
    return {};
  }
};

JsonDocument::JsonDocument(std::unique_ptr<Content> content) : content_(std::move(content)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::Parse(std::string text, const JsonLimits& limits) {
  auto content = std::make_unique<Content>();
  content->own_text = std::move(text);
  DIVVY_CHECK(content->Read(content->own_text, limits));
  return JsonDocument(std::move(content));
}

Result<JsonDocument> JsonDocument::ParseInPlace(std::string_view text, const JsonLimits& limits) {
  auto content = std::make_unique<Content>();
  DIVVY_CHECK(content->Read(text, limits));
  return JsonDocument(std::move(content));
}

JsonValue JsonDocument::root() const { return JsonValue(content_->nodes.data()); }

}  // namespace divvy
