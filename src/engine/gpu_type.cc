#include "engine/gpu_type.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace divvy {
namespace {

bool IsSeparator(char c) { return c == ' ' || c == '-' || c == '_' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Returns whether `rest` starts with `term`, ignoring separators in both.
bool StartsHere(std::string_view term, std::string_view rest) {
  std::size_t at = 0;
  for (char wanted : term) {
    if (IsSeparator(wanted)) continue;
    while (at < rest.size() && IsSeparator(rest[at])) ++at;
    if (at == rest.size() || Lower(rest[at]) != Lower(wanted)) return false;
    ++at;
  }
  return !(IsDigit(term.back()) && at < rest.size() && IsDigit(rest[at]));
}

bool HasTerm(std::string_view term, std::string_view model) {
  for (std::size_t start = 0; start < model.size(); ++start) {
    if (IsSeparator(model[start])) continue;
    if (start > 0 && IsDigit(term.front()) && IsDigit(model[start - 1])) continue;
    if (StartsHere(term, model.substr(start))) return true;
  }
  return false;
}

std::string_view TrimSeparators(std::string_view term) {
  while (!term.empty() && IsSeparator(term.front())) term.remove_prefix(1);
  while (!term.empty() && IsSeparator(term.back())) term.remove_suffix(1);
  return term;
}

}  // namespace

std::optional<int> SpeedInThousandths(std::string_view text) {
  const std::optional<double> speed = ParseNumber(Trim(text));
  if (!speed || !(*speed >= 0.001 && *speed <= 1000)) return std::nullopt;
  return static_cast<int>(std::lround(*speed * 1000));
}

bool SaysSpeeds(std::string_view type) { return type.find('*') != std::string_view::npos; }

std::vector<WeightedType> AlternativesOf(std::string_view type) {
  std::vector<WeightedType> alternatives;
  for (std::string_view alternative : Split(type, '|')) {
    WeightedType weighted;
    const auto star = alternative.find('*');
    weighted.terms = TrimSeparators(alternative.substr(0, star));
    if (star != std::string_view::npos)
      weighted.speed = SpeedInThousandths(alternative.substr(star + 1)).value_or(weighted.speed);
    if (weighted.terms.find_first_not_of("& -_\t") != std::string_view::npos) alternatives.push_back(weighted);
  }
  return alternatives;
}

bool MatchesGpuType(std::string_view type, std::string_view model) {
  bool has_alternative = false;
  for (std::string_view alternative : Split(type, '|')) {
    bool has_term = false;
    bool matches = true;
    for (std::string_view raw : Split(alternative.substr(0, alternative.find('*')), '&')) {
      const std::string_view term = TrimSeparators(raw);
      if (term.empty()) continue;
      has_term = true;
      matches = matches && HasTerm(term, model);
    }
    if (has_term && matches) return true;
    has_alternative = has_alternative || has_term;
  }
  return !has_alternative;
}

}  // namespace divvy
