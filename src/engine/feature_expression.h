// Slurm's --constraint expressions: the parser, and what an expression requires of each node and of a job with several
// nodes.
//
// Grammar: features joined by '&' and '|' strictly from left to right ("a|b&c" is "(a|b)&c"; ',' is '&'); "(...)"
// groups; "a*4" is a node count; "[...]" applies to all nodes of the job together. Brackets nest at most 16 deep.
// Source of the meaning: the description of --constraint in sbatch's manual page.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

/// A node of the syntax tree, before any meaning is checked.
struct FeatureTerm {
  enum class Kind : std::uint8_t { kFeature, kAnd, kOr };
  Kind kind = Kind::kFeature;
  std::string feature;             // For kFeature only; spelled as in the input.
  std::vector<FeatureTerm> parts;  // For kAnd and kOr only; at least one.
  bool is_bracketed = false;       // The term was written in "[...]".
  std::int64_t nodes = 0;          // The node count after '*'; 0 if there is none.
  std::size_t at = 0;              // Position of its first character, counted from 1.
};

/// Parses an expression of node features (--constraint). The error names the character at which `text` is not valid.
Result<FeatureTerm> ParseFeatures(std::string_view text);

/// A condition on the features of one node: a list of options, each a list of features. A node satisfies it if it has
/// all features of at least one option. No options: every node satisfies it. Invariants: equivalent conditions have
/// equal options; options and features are in ascending order, and no option implies another.
class FeatureCondition {
 public:
  FeatureCondition() = default;
  explicit FeatureCondition(std::string feature) : options_{{std::move(feature)}} {}
  /// Returns the condition that the term sets for one node, as a list of alternatives; counts and brackets are ignored.
  /// Fails if there are more than 256 alternatives.
  static Result<FeatureCondition> Of(const FeatureTerm& term);

  FeatureCondition And(const FeatureCondition& other) const;
  FeatureCondition Or(const FeatureCondition& other) const;

  bool is_any() const { return options_.empty(); }
  /// Returns true if a node with these features meets the condition. Requires: `features` is in ascending order.
  bool Holds(std::span<const std::string> features) const;
  /// Returns the condition as text: "h100&ib or a100"; "" if every node meets it.
  std::string Text() const;
  const std::vector<std::vector<std::string>>& options() const { return options_; }

  friend auto operator<=>(const FeatureCondition&, const FeatureCondition&) = default;

 private:
  void Tidy();

  std::vector<std::vector<std::string>> options_;
};

/// The requirements of an expression on the nodes of one job.
struct FeatureWish {
  struct Counted {
    FeatureCondition condition;
    std::int64_t nodes = 0;
    friend bool operator==(const Counted&, const Counted&) = default;
  };
  FeatureCondition all;                 // Every node satisfies this.
  std::vector<FeatureCondition> alike;  // "[a|b]": all nodes satisfy the same one of these. Empty: no such requirement.
  std::vector<Counted> counted;         // "a*2&b*4": that many nodes satisfy each; the remaining nodes need only `all`.

  std::int64_t counted_nodes() const;
  friend bool operator==(const FeatureWish&, const FeatureWish&) = default;
};

/// Parses the feature expression of a job (--constraint). Fails if it has no meaning for a job: a count or "[...]"
/// inside an alternative, features without a count next to counted ones in "[...]", or a second "[...]". An empty text
/// sets no condition.
Result<FeatureWish> ParseFeatureWish(std::string_view text);

}  // namespace divvy
