// What a job says of the features of its nodes, in Slurm's words (sbatch --constraint): the grammar, read once for all
// who judge it, and what it means for a job of many nodes.
//
// Grammar: features joined by '&' and '|' strictly from left to right ("a|b&c" is "(a|b)&c"; ',' is '&'); "(...)"
// binds; "a*4" counts nodes; "[...]" is of all nodes together. At most 16 brackets in each other.
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

/// What was written, whatever it means.
struct FeatureTerm {
  enum class Kind : std::uint8_t { kFeature, kAnd, kOr };
  Kind kind = Kind::kFeature;
  std::string feature;             // Of kFeature; as it was written.
  std::vector<FeatureTerm> parts;  // Of the others; one at least.
  bool is_bracketed = false;       // It stood in "[...]".
  std::int64_t nodes = 0;          // "*4" stood behind it; 0: no count.
  std::size_t at = 0;              // Its first character, counted from 1.
};

/// Refuses what is no expression; the message names the character.
Result<FeatureTerm> ParseFeatures(std::string_view text);

/// A condition on the features of one node: one of its options, of which all features. None: every node will do.
/// Invariants: what means the same reads the same; options and features ascend, and none is implied by another.
class FeatureCondition {
 public:
  FeatureCondition() = default;
  explicit FeatureCondition(std::string feature) : options_{{std::move(feature)}} {}
  /// Counts and brackets do not matter. Refuses what takes more than 256 options to write down.
  static Result<FeatureCondition> Of(const FeatureTerm& term);

  FeatureCondition And(const FeatureCondition& other) const;
  FeatureCondition Or(const FeatureCondition& other) const;

  bool is_any() const { return options_.empty(); }
  /// Requires: ascending.
  bool Holds(std::span<const std::string> features) const;
  /// "h100&ib or a100"; "" where every node will do.
  std::string Text() const;
  const std::vector<std::vector<std::string>>& options() const { return options_; }

  friend auto operator<=>(const FeatureCondition&, const FeatureCondition&) = default;

 private:
  void Tidy();

  std::vector<std::vector<std::string>> options_;
};

/// What an expression asks of the nodes of one job.
struct FeatureWish {
  struct Counted {
    FeatureCondition condition;
    std::int64_t nodes = 0;
    friend bool operator==(const Counted&, const Counted&) = default;
  };
  FeatureCondition all;                 // Of every node.
  std::vector<FeatureCondition> alike;  // "[a|b]": all nodes satisfy the same one of these. Empty: nothing is asked.
  std::vector<Counted> counted;         // "a*2&b*4": so many nodes each, and the rest as `all` says.

  std::int64_t counted_nodes() const;
  friend bool operator==(const FeatureWish&, const FeatureWish&) = default;
};

/// Refuses what has no meaning for a job: a count or "[...]" that is one of several alternatives, features without a
/// count beside others in "[...]", a second "[...]". "" asks nothing.
Result<FeatureWish> ParseFeatureWish(std::string_view text);

}  // namespace divvy
