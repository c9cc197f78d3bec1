#include "cli/shims/valohai/vh_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/valohai/valohai_script.h"

namespace divvy::cli {
namespace {

using dialect::JsonText;

/// Scans flat JSON: strings, and any other value up to the comma or brace that ends it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
  }
  bool Take(char c) {
    SkipSpace();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  std::optional<std::string> String() {
    if (!Take('"')) return std::nullopt;
    std::string out;
    while (!rest_.empty()) {
      char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (rest_.empty()) return std::nullopt;
      char escaped = rest_[0];
      rest_.remove_prefix(1);
      switch (escaped) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case 'b':
        case 'f':
          break;
        case 'u':
          out += "\\u";
          break;  // Kept as written: metadata keys and numbers contain none.
        default:
          out += escaped;
      }
    }
    return std::nullopt;
  }
  std::optional<std::string> Value() {
    SkipSpace();
    if (rest_.starts_with('"')) return String();
    std::string out;
    int depth = 0;
    while (!rest_.empty()) {
      char c = rest_[0];
      if (depth == 0 && (c == ',' || c == '}')) break;
      if (c == '"') {
        auto text = String();
        if (!text) return std::nullopt;
        out += JsonText(*text);
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      out += c;
      rest_.remove_prefix(1);
    }
    std::string_view trimmed = Trim(out);
    if (trimmed.empty() || depth != 0) return std::nullopt;
    bool is_word =
        trimmed == "true" || trimmed == "false" || trimmed == "null" || trimmed == "NaN" || trimmed == "Infinity";
    if (!is_word && !ParseNumber(trimmed) && trimmed[0] != '{' && trimmed[0] != '[') return std::nullopt;
    return std::string(trimmed);
  }

 private:
  std::string_view rest_;
};

std::string Separated(const std::vector<std::vector<std::string>>& rows, char separator) {
  std::string out;
  for (const auto& row : rows) out += CsvRow(row, separator);
  return out;
}

}  // namespace

Result<VhFormat> ParseVhFormat(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kNames = {"human", "csv", "tsv", "scsv", "psv", "json"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (EqualsIgnoringCase(text, kNames[i])) return static_cast<VhFormat>(i);
  }
  return InvalidArgument("'" + std::string(text) + "' is not a format: expected human, csv, tsv, scsv, psv or json");
}

std::string RenderVhTable(const std::vector<std::vector<std::string>>& rows, VhFormat format) {
  switch (format) {
    case VhFormat::kHuman:
      return AlignRows(rows);
    case VhFormat::kCsv:
      return Separated(rows, ',');
    case VhFormat::kTsv:
      return Separated(rows, '\t');
    case VhFormat::kScsv:
      return Separated(rows, ';');
    case VhFormat::kPsv:
      return Separated(rows, '|');
    case VhFormat::kJson:
      break;
  }
  std::string out;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    out += i > 1 ? ",\n  {" : "[\n  {";
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      const std::string& cell = rows[i][column];
      auto number = ParseInteger(cell);
      bool is_plain = number && std::to_string(*number) == cell;
      out += (column > 0 ? ", " : "") + JsonText(rows[0][column]) + ": " + (is_plain ? cell : JsonText(cell));
    }
    out += "}";
  }
  return out.empty() ? "[]\n" : out + "\n]\n";
}

Result<std::string> ResolveVerb(std::string_view text, std::span<const std::string_view> verbs,
                                std::string_view group) {
  std::string who = group.empty() ? "vh" : "vh " + std::string(group);
  std::vector<std::string> all(verbs.begin(), verbs.end());
  if (text.empty()) return InvalidArgument(who + " needs a verb: " + Join(all, ", "));
  if (std::find(verbs.begin(), verbs.end(), text) != verbs.end()) return std::string(text);
  for (bool only_prefix : {true, false}) {
    std::vector<std::string> found;
    for (std::string_view verb : verbs) {
      auto at = verb.find(text);
      if (at != std::string_view::npos && (at == 0 || !only_prefix)) found.emplace_back(verb);
    }
    if (found.size() == 1) return found[0];
    if (found.size() > 1) return InvalidArgument(who + ": '" + std::string(text) + "' could be " + Join(found, ", "));
  }
  std::string_view nearest = Nearest(text, verbs);
  return InvalidArgument(
      who + " has no verb '" + std::string(text) + "'" +
      (nearest.empty() ? "; it has " + Join(all, ", ") : "; did you mean '" + std::string(nearest) + "'?"));
}

std::string_view VhStatusOf(std::string_view state) {
  if (state == "held") return "created";
  if (state == "starting" || state == "running" || state == "paused") return "started";
  if (state == "succeeded") return "complete";
  if (state == "cancelled") return "stopped";
  if (state == "failed" || state == "timed_out") return "error";
  if (state == "lost") return "crashed";
  return state;  // queued and stopping have the same names.
}

Result<std::vector<std::uint64_t>> ParseCounters(std::span<const std::string> words,
                                                 std::span<const std::uint64_t> existing) {
  std::set<std::uint64_t> known(existing.begin(), existing.end()), out;
  if (words.empty())
    return InvalidArgument("which execution? write a number such as 12, a range such as '1-5 !3', or latest");
  for (const std::string& word : words) {
    for (std::string_view part : SplitWords(word)) {
      std::string_view text = part;
      bool is_excluded = text.starts_with('!');
      if (is_excluded) text.remove_prefix(1);
      if (text.starts_with('#')) text.remove_prefix(1);
      if (text == "latest") {
        if (known.empty()) return NotFound("there is no execution yet; write: vh exec run STEP --adhoc");
        if (is_excluded) out.erase(*known.rbegin());
        else out.insert(*known.rbegin());
        continue;
      }
      auto dash = text.find('-');
      auto first = ParseInteger(text.substr(0, dash));
      auto last = dash == std::string_view::npos ? first : ParseInteger(text.substr(dash + 1));
      if (!first || !last || *first < 1 || *last < *first) {
        return InvalidArgument("'" + std::string(part) + "' is not an execution; write 12, #12, 1-5, !3 or latest");
      }
      auto from = known.lower_bound(static_cast<std::uint64_t>(*first)),
           to = known.upper_bound(static_cast<std::uint64_t>(*last));
      if (is_excluded) {
        out.erase(out.lower_bound(static_cast<std::uint64_t>(*first)),
                  out.upper_bound(static_cast<std::uint64_t>(*last)));
      } else if (from == to && dash == std::string_view::npos) {
        return NotFound("there is no execution #" + std::to_string(*first) + "; vh exec list shows yours");
      } else {
        out.insert(from, to);
      }
    }
  }
  return std::vector<std::uint64_t>(out.begin(), out.end());
}

std::vector<std::pair<std::string, std::string>> FlatObject(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  Scanner scanner(text);
  if (!scanner.Take('{')) return {};
  if (scanner.Take('}')) return {};
  do {
    scanner.SkipSpace();
    auto key = scanner.String();
    if (!key || !scanner.Take(':')) return {};
    auto value = scanner.Value();
    if (!value) return {};
    out.emplace_back(std::move(*key), std::move(*value));
  } while (scanner.Take(','));
  if (!scanner.Take('}') || !scanner.AtEnd()) return {};
  return out;
}

std::map<std::string, std::string> LastMetadata(std::string_view log) {
  std::map<std::string, std::string> out;
  for (std::string_view line : Split(log, '\n')) {
    line = Trim(line);
    if (!line.starts_with('{')) continue;
    for (auto& [key, value] : FlatObject(line)) out[key] = value;
  }
  return out;
}

}  // namespace divvy::cli
