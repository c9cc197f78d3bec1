#include "engine/feature_expression.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

constexpr int kMostDepth = 16;
constexpr std::size_t kMostOptions = 256;
/// The maximum number of features in one expression. It bounds the nesting that joiners alone can create.
constexpr int kMostFeatures = 1'000;
constexpr std::int64_t kMostNodes = 1'000'000;

std::string AtCharacter(std::size_t at) { return " at character " + std::to_string(at); }

Error TooMany(const std::string& where) {
  return InvalidArgument("more than " + std::to_string(kMostOptions) + " combinations of features" + where +
                         "; ask for fewer alternatives");
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<FeatureTerm> Read() {
    DIVVY_TRY(FeatureTerm all, ReadSequence(0));
    if (at_ < text_.size()) return InvalidArgument(Here() + " closes nothing");
    return all;
  }

 private:
  // "')' at character 5".
  std::string Here() const { return "'" + std::string(1, text_[at_]) + "'" + AtCharacter(at_ + 1); }

  Result<FeatureTerm> ReadSequence(int depth) {
    if (depth > kMostDepth) return InvalidArgument("brackets are nested too deeply" + AtCharacter(at_));
    DIVVY_TRY(FeatureTerm result, ReadOne(depth));
    bool is_chain = false;  // `result` was joined at this level, so a following part of the same kind extends it.
    while (at_ < text_.size() && text_[at_] != ')' && text_[at_] != ']') {
      const char joiner = text_[at_];
      if (joiner != '&' && joiner != '|' && joiner != ',') {
        return InvalidArgument(Here() + " between features; join them with '&' or '|'");
      }
      ++at_;
      DIVVY_TRY(FeatureTerm next, ReadOne(depth));
      const auto kind = joiner == '|' ? FeatureTerm::Kind::kOr : FeatureTerm::Kind::kAnd;
      if (!is_chain || result.kind != kind) {
        FeatureTerm joined;
        joined.kind = kind;
        joined.at = result.at;
        joined.parts.push_back(std::move(result));
        result = std::move(joined);
        is_chain = true;
      }
      result.parts.push_back(std::move(next));
    }
    return result;
  }

  Result<FeatureTerm> ReadOne(int depth) {
    SkipSpaces();
    if (at_ >= text_.size()) return InvalidArgument("a feature is missing at the end");
    const std::size_t start = at_;
    FeatureTerm term;
    if (text_[at_] == '(' || text_[at_] == '[') {
      DIVVY_TRY(term, ReadBracket(depth));
    } else {
      while (at_ < text_.size() && std::string_view("&|()[]*, ").find(text_[at_]) == std::string_view::npos) ++at_;
      term.feature = text_.substr(start, at_ - start);
      if (term.feature.empty()) return InvalidArgument("a feature is missing before " + Here());
      if (++features_ > kMostFeatures) {
        return InvalidArgument("more than " + std::to_string(kMostFeatures) + " features; ask for fewer");
      }
    }
    term.at = start + 1;
    DIVVY_TRY(term.nodes, ReadCount());
    return term;
  }

  Result<FeatureTerm> ReadBracket(int depth) {
    const char close = text_[at_] == '(' ? ')' : ']';
    const std::size_t start = at_++;
    DIVVY_TRY(FeatureTerm inner, ReadSequence(depth + 1));
    if (at_ >= text_.size() || text_[at_] != close) {
      return InvalidArgument("the bracket" + AtCharacter(start + 1) + " is not closed; add '" + std::string(1, close) +
                             "'");
    }
    ++at_;
    // A count or bracket inside stays separate from one on the outer bracket.
    if (inner.nodes > 0 || inner.is_bracketed) {
      FeatureTerm outer;
      outer.kind = FeatureTerm::Kind::kAnd;
      outer.parts.push_back(std::move(inner));
      inner = std::move(outer);
    }
    inner.is_bracketed = close == ']';
    return inner;
  }

  Result<std::int64_t> ReadCount() {
    SkipSpaces();
    if (at_ >= text_.size() || text_[at_] != '*') return 0;
    const std::size_t start = ++at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::string_view digits = text_.substr(start, at_ - start);
    if (digits.empty()) return InvalidArgument("a number is missing behind '*'" + AtCharacter(start));
    const auto count = ParseInteger(digits);
    if (!count || *count > kMostNodes) {
      return InvalidArgument("the count" + AtCharacter(start + 1) + " is above " + std::to_string(kMostNodes));
    }
    if (*count < 1) return InvalidArgument("the count" + AtCharacter(start + 1) + " is below 1");
    SkipSpaces();
    return *count;
  }

  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int features_ = 0;
};

// Finds a count or "[...]" where none is allowed.
const FeatureTerm* FindSpecial(const FeatureTerm& term) {
  if (term.nodes > 0 || term.is_bracketed) return &term;
  for (const FeatureTerm& part : term.parts) {
    if (const FeatureTerm* found = FindSpecial(part)) return found;
  }
  return nullptr;
}

FeatureTerm Bare(FeatureTerm term) {
  term.nodes = 0;
  term.is_bracketed = false;
  return term;
}

class WishReader {
 public:
  Result<FeatureWish> Read(const FeatureTerm& term) {
    const bool is_chain = term.kind == FeatureTerm::Kind::kAnd && term.nodes == 0 && !term.is_bracketed;
    if (!is_chain) DIVVY_CHECK(Add(term));
    for (std::size_t i = 0; is_chain && i < term.parts.size(); ++i) DIVVY_CHECK(Add(term.parts[i]));
    // The node of a task may have to satisfy `all`, one condition of `counted` and one of `alike` together. The caller
    // combines these into one condition, whose number of alternatives can be the product of theirs.
    std::size_t counted = 1;
    std::size_t alike = 1;
    for (const FeatureWish::Counted& one : wish_.counted) counted = std::max(counted, Options(one.condition));
    for (const FeatureCondition& one : wish_.alike) alike = std::max(alike, Options(one));
    if (Options(wish_.all) * counted * alike > kMostOptions) return TooMany("");
    return wish_;
  }

 private:
  static std::size_t Options(const FeatureCondition& condition) {
    return std::max<std::size_t>(condition.options().size(), 1);
  }

  // Adds one of the conditions that must hold together.
  Status Add(const FeatureTerm& term) {
    if (term.is_bracketed) return AddBracketed(term);
    if (term.nodes > 0) return AddCounted(term);
    DIVVY_TRY(const FeatureCondition condition, Plain(term));
    if (Options(wish_.all) * Options(condition) > kMostOptions) return TooMany(AtCharacter(term.at));
    wish_.all = wish_.all.And(condition);
    return {};
  }

  Status AddBracketed(const FeatureTerm& term) {
    if (std::exchange(has_brackets_, true)) {
      return InvalidArgument("a second '['" + AtCharacter(term.at) + "; a job has one at most");
    }
    if (term.nodes > 0) {
      return InvalidArgument("the '['" + AtCharacter(term.at) + " is counted as a whole; write the counts inside it, " +
                             "as in [a*2&b*4]");
    }
    if (term.kind == FeatureTerm::Kind::kOr) {
      for (const FeatureTerm& part : term.parts) {
        DIVVY_TRY(FeatureCondition condition, Plain(part));
        wish_.alike.push_back(std::move(condition));
      }
      return {};
    }
    if (term.kind == FeatureTerm::Kind::kFeature) return Add(Bare(term));
    for (const FeatureTerm& part : term.parts) {
      if (part.nodes == 0 || part.is_bracketed) {
        return InvalidArgument("the part" + AtCharacter(part.at) +
                               " has no count; inside '[' each part of an '&' has " + "one, as in [a*2&b*4]");
      }
      DIVVY_CHECK(AddCounted(part));
    }
    return {};
  }

  Status AddCounted(const FeatureTerm& term) {
    FeatureTerm inside = term;
    inside.nodes = 0;
    DIVVY_TRY(FeatureCondition condition, Plain(inside));
    wish_.counted.push_back({std::move(condition), term.nodes});
    return {};
  }

  static Result<FeatureCondition> Plain(const FeatureTerm& term) {
    if (const FeatureTerm* special = FindSpecial(term)) {
      const std::string what = special->is_bracketed ? "the '['" : "the count of what stands";
      return InvalidArgument(what + AtCharacter(special->at) +
                             " is one alternative of several or inside brackets; put it outside, joined by '&'");
    }
    return FeatureCondition::Of(term);
  }

  FeatureWish wish_;
  bool has_brackets_ = false;
};

}  // namespace

Result<FeatureTerm> ParseFeatures(std::string_view text) { return Reader(text).Read(); }

Result<FeatureCondition> FeatureCondition::Of(const FeatureTerm& term) {
  if (term.kind == FeatureTerm::Kind::kFeature) return FeatureCondition(term.feature);
  DIVVY_TRY(FeatureCondition condition, Of(term.parts.front()));
  for (std::size_t i = 1; i < term.parts.size(); ++i) {
    DIVVY_TRY(const FeatureCondition next, Of(term.parts[i]));
    const bool is_and = term.kind == FeatureTerm::Kind::kAnd;
    const std::size_t a = condition.options_.size();
    const std::size_t b = next.options_.size();
    if ((is_and ? a * b : a + b) > kMostOptions) return TooMany(AtCharacter(term.at));
    condition = is_and ? condition.And(next) : condition.Or(next);
  }
  return condition;
}

FeatureCondition FeatureCondition::And(const FeatureCondition& other) const {
  if (is_any()) return other;
  if (other.is_any()) return *this;
  FeatureCondition both;
  for (const auto& left : options_) {
    for (const auto& right : other.options_) {
      std::vector<std::string> option;
      std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(option));
      both.options_.push_back(std::move(option));
    }
  }
  both.Tidy();
  return both;
}

FeatureCondition FeatureCondition::Or(const FeatureCondition& other) const {
  if (is_any() || other.is_any()) return {};
  FeatureCondition either = *this;
  either.options_.insert(either.options_.end(), other.options_.begin(), other.options_.end());
  either.Tidy();
  return either;
}

// Drops options that another option implies.
void FeatureCondition::Tidy() {
  std::sort(options_.begin(), options_.end());
  options_.erase(std::unique(options_.begin(), options_.end()), options_.end());
  std::vector<std::vector<std::string>> kept;
  for (const auto& option : options_) {
    const bool is_implied = std::any_of(options_.begin(), options_.end(), [&](const auto& other) {
      return other.size() < option.size() && std::includes(option.begin(), option.end(), other.begin(), other.end());
    });
    if (!is_implied) kept.push_back(option);
  }
  options_ = std::move(kept);
}

bool FeatureCondition::Holds(std::span<const std::string> features) const {
  if (is_any()) return true;
  return std::any_of(options_.begin(), options_.end(), [&](const auto& option) {
    return std::includes(features.begin(), features.end(), option.begin(), option.end());
  });
}

std::string FeatureCondition::Text() const {
  std::vector<std::string> options;
  for (const auto& option : options_) options.push_back(Join(option, "&"));
  return Join(options, " or ");
}

std::int64_t FeatureWish::counted_nodes() const {
  std::int64_t sum = 0;
  for (const Counted& one : counted) sum += one.nodes;
  return sum;
}

Result<FeatureWish> ParseFeatureWish(std::string_view text) {
  if (Trim(text).empty()) return FeatureWish{};
  DIVVY_TRY(const FeatureTerm term, ParseFeatures(text));
  return WishReader().Read(term);
}

}  // namespace divvy
