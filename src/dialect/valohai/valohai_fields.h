// Reads one map of a YAML file by the keys of the schema, and records every mistake with its line. Only valohai_yaml.cc
// includes it, because yaml-cpp is a heavy header.
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dialect/options/quoted.h"
#include "dialect/valohai/valohai.h"

namespace divvy::dialect {

inline int LineOf(const YAML::Node& node) { return node.Mark().line + 1; }

/// The type of a node, for messages such as "X is a map, not a text".
inline std::string_view KindOf(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  return node.IsNull() ? "empty" : "a text";
}

using Problems = std::vector<ValohaiProblem>;
using Keys = std::span<const std::string_view>;

class Fields {
 public:
  /// Records keys that are not in `known` (unless it is empty) and duplicate keys. `who` begins every message: "step
  /// 'train'".
  Fields(Problems& problems, const YAML::Node& node, std::string who, Keys known)
      : problems_(problems), node_(node), who_(std::move(who)) {
    if (!node.IsMap()) {
      Complain(node, "is " + std::string(KindOf(node)) + ", not a map of keys");
      return;
    }
    Add(node, 0);
    if (known.empty()) return;
    for (const auto& [key, value] : values_) {
      if (problems_.size() >= kMostProblems) return;
      bool is_known = false;
      for (std::string_view candidate : known) is_known = is_known || candidate == key;
      if (!is_known) Complain(value, "unknown key " + Quoted(key) + NearestOf(key, known));
    }
  }

  int line() const { return LineOf(node_); }
  const std::string& who() const { return who_; }
  const std::map<std::string, YAML::Node>& values() const { return values_; }

  void Complain(const YAML::Node& at, const std::string& text) {
    if (problems_.size() >= kMostProblems) return;
    problems_.push_back({LineOf(at), false, who_ + ": " + text});
  }

  void Complain(const std::string& text) { Complain(node_, text); }

  /// Returns the value of the key; nullopt if the key is absent or its value is empty.
  std::optional<YAML::Node> Get(std::string_view key) const {
    auto found = values_.find(std::string(key));
    if (found == values_.end() || found->second.IsNull()) return std::nullopt;
    return found->second;
  }

  std::string Text(std::string_view key, std::string_view fallback = "") {
    auto node = Get(key);
    if (!node) return std::string(fallback);
    return Scalar(*node, key).value_or(std::string(fallback));
  }

  std::string Required(std::string_view key) {
    if (!Get(key)) Complain("needs the key " + Quoted(key));
    return Text(key);
  }

  /// Returns the value of the key, which must be one of `words`. For any other value, records a problem and returns the
  /// fallback.
  std::string Word(std::string_view key, std::string_view fallback, Keys words) {
    auto node = Get(key);
    if (!node) return std::string(fallback);
    std::string text = ToLower(Scalar(*node, key).value_or(std::string(fallback)));
    for (std::string_view word : words) {
      if (text == word) return text;
    }
    Complain(*node, std::string(key) + " is " + Quoted(text) + NearestOf(text, words));
    return std::string(fallback);
  }

  bool Truth(std::string_view key, bool fallback) {
    auto node = Get(key);
    if (!node) return fallback;
    std::string text = ToLower(Scalar(*node, key).value_or(""));
    if (text == "true" || text == "yes" || text == "on") return true;
    if (text == "false" || text == "no" || text == "off") return false;
    Complain(*node, std::string(key) + " is " + Quoted(text) + ", not true or false");
    return fallback;
  }

  std::optional<double> Number(std::string_view key) {
    auto node = Get(key);
    if (!node) return std::nullopt;
    std::string text = Scalar(*node, key).value_or("0");
    auto number = ParseNumber(text);
    if (!number) Complain(*node, std::string(key) + " is " + Quoted(text) + ", not a number");
    return number;
  }

  int Whole(std::string_view key, int fallback, int least, int most) {
    auto node = Get(key);
    if (!node) return fallback;
    std::string text = Scalar(*node, key).value_or("");
    auto number = ParseInteger(text);
    if (number && *number >= least && *number <= most) return static_cast<int>(*number);
    Complain(*node, std::string(key) + " is " + Quoted(text) + ", not a whole number from " + std::to_string(least) +
                        " to " + std::to_string(most));
    return fallback;
  }

  /// A string, or a list of strings.
  std::vector<std::string> Texts(std::string_view key) {
    auto node = Get(key);
    if (!node) return {};
    std::vector<std::string> out;
    if (!node->IsSequence()) {
      if (auto text = Scalar(*node, key)) out.push_back(std::move(*text));
      return out;
    }
    int number = 0;
    for (const YAML::Node& item : *node) {
      ++number;
      if (auto text = Scalar(item, std::string(key) + " " + std::to_string(number))) out.push_back(std::move(*text));
    }
    return out;
  }

  /// Returns the items of a list. For a value that is not a list, records a problem and returns no items.
  std::vector<YAML::Node> Items(std::string_view key, std::string_view example) {
    auto node = Get(key);
    if (!node) return {};
    if (!node->IsSequence()) {
      Complain(*node, std::string(key) + " is " + std::string(KindOf(*node)) + ", not a list; write '" +
                          std::string(example) + "'");
      return {};
    }
    return {node->begin(), node->end()};
  }

  std::optional<std::string> Scalar(const YAML::Node& node, std::string_view what) {
    if (node.IsScalar()) return node.Scalar();
    std::string advice = node.IsMap() ? "; put it in quotes, since ': ' makes a map" : "";
    Complain(node, std::string(what) + " is " + std::string(KindOf(node)) + ", not a text" + advice);
    return std::nullopt;
  }

  static std::string NearestOf(std::string_view text, Keys words) {
    std::string_view nearest = Nearest(text, words);
    if (!nearest.empty()) return "; did you mean " + Quoted(nearest) + "?";
    std::vector<std::string> all(words.begin(), words.end());
    return "; it can be " + Join(all, ", ");
  }

 private:
  // "<<: *base" adds the keys that the map itself lacks. The depth limit bounds the cost of a file with a chain of
  // merges.
  void Add(const YAML::Node& map, int depth) {
    constexpr int kMergeDepth = 8;
    std::vector<YAML::Node> merged;
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) {
        Complain(map, "has a key that is " + std::string(KindOf(pair.first)) + ", not a text");
      } else if (pair.first.Scalar() == "<<") {
        merged.push_back(pair.second);
      } else if (!values_.emplace(pair.first.Scalar(), pair.second).second && depth == 0) {
        Complain(pair.first, "has the key " + Quoted(pair.first.Scalar()) + " twice");
      }
    }
    for (const YAML::Node& source : merged) {
      if (source.IsMap() && depth < kMergeDepth) {
        Add(source, depth + 1);
      } else {
        Complain(map, "'<<' must be one map, such as '*base'");
      }
    }
  }

  Problems& problems_;
  YAML::Node node_;
  std::string who_;
  std::map<std::string, YAML::Node> values_;
};

}  // namespace divvy::dialect
