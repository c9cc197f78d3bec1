#include "sweep/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>

#include "base/text.h"
#include "sweep/sweep_rule.h"

namespace divvy::sweep {
namespace {

constexpr std::pair<std::string_view, Distribution> kNames[] = {
    {"categorical", Distribution::kCategorical},
    {"uniform", Distribution::kUniform},
    {"int_uniform", Distribution::kIntUniform},
    {"q_uniform", Distribution::kQUniform},
    {"log_uniform_values", Distribution::kLogUniform},
    {"q_log_uniform_values", Distribution::kQLogUniform},
    {"normal", Distribution::kNormal},
    {"q_normal", Distribution::kQNormal},
    {"log_normal", Distribution::kLogNormal},
    {"q_log_normal", Distribution::kQLogNormal},
    // Names that other tools use for these distributions.
    {"constant", Distribution::kCategorical},
    {"categorical_w_probabilities", Distribution::kCategorical},
    {"log-uniform", Distribution::kLogUniform},
    {"integer", Distribution::kIntUniform},
};

/// Values are exact to twelve digits, so that 0.1 is written as 0.1 and not as 0.1000000000000000056.
std::string DrawnText(double value) {
  std::array<char, 40> out{};
  std::snprintf(out.data(), out.size(), "%.12g", value == 0 ? 0 : value);
  return out.data();
}

double Rounded(double value, double q) { return std::round(value / q) * q; }

bool HasBounds(Distribution distribution) {
  return distribution >= Distribution::kUniform && distribution <= Distribution::kQLogUniform;
}
bool IsLogUniform(Distribution distribution) {
  return distribution == Distribution::kLogUniform || distribution == Distribution::kQLogUniform;
}
bool IsRounded(Distribution distribution) {
  return distribution == Distribution::kQUniform || distribution == Distribution::kQLogUniform ||
         distribution == Distribution::kQNormal || distribution == Distribution::kQLogNormal;
}

/// All values of a parameter of a grid.
Result<std::vector<std::string>> ValuesOf(const SpaceParameter& parameter, std::uint64_t most) {
  if (parameter.distribution == Distribution::kCategorical) return parameter.values;
  const bool is_integer = parameter.distribution == Distribution::kIntUniform;
  if (!is_integer && parameter.distribution != Distribution::kQUniform)
    return InvalidArgument("parameter '" + parameter.name + "' has distribution " +
                           std::string(Name(parameter.distribution)) +
                           ", which has no list of values for a grid; write values: [...], or use method: random");
  const double step = is_integer ? 1 : parameter.q;
  const double count = std::floor((parameter.max - parameter.min) / step * (1 + 1e-12)) + 1;
  if (count > static_cast<double>(most))
    return InvalidArgument("parameter '" + parameter.name + "' has " + DrawnText(count) +
                           " values in a grid, and at most " + std::to_string(most) +
                           " are allowed; use method: random with run_cap: 100");
  std::vector<std::string> values;
  for (double i = 0; i < count; ++i) values.push_back(DrawnText(parameter.min + i * step));
  return values;
}

}  // namespace

std::string_view Name(Distribution distribution) {
  return std::ranges::find(kNames, distribution, [](const auto& one) { return one.second; })->first;
}

Result<Distribution> DistributionFromName(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [text, distribution] : kNames) {
    if (text == name) return distribution;
    if (Name(distribution) == text) known.emplace_back(text);
  }
  return InvalidArgument("unknown distribution '" + OneLine(std::string(name.substr(0, 64))) +
                         "'; known: " + Join(known, ", "));
}

Status CheckParameter(const SpaceParameter& parameter) {
  const std::string who = "parameter '" + parameter.name + "': ";
  const auto number = [](double value) { return NumberText(value); };
  if (parameter.distribution == Distribution::kCategorical) {
    if (parameter.values.empty())
      return InvalidArgument(who + "has no values; write values: [1, 2], value: 1, or min and max");
    if (!parameter.weights.empty() && parameter.weights.size() != parameter.values.size())
      return InvalidArgument(who + "has " + std::to_string(parameter.weights.size()) + " probabilities for " +
                             Plural(std::ssize(parameter.values), "value") + "; give one for each");
    double sum = 0;
    for (const double weight : parameter.weights) {
      if (!(weight >= 0) || !std::isfinite(weight))
        return InvalidArgument(who + "the probability " + number(weight) + " is not a number of at least 0");
      sum += weight;
    }
    if (!parameter.weights.empty() && !(sum > 0)) return InvalidArgument(who + "all probabilities are 0; raise one");
    return {};
  }
  if (HasBounds(parameter.distribution)) {
    if (!std::isfinite(parameter.min) || !std::isfinite(parameter.max))
      return InvalidArgument(who + "min and max must be numbers");
    if (parameter.min > parameter.max)
      return InvalidArgument(who + "min " + number(parameter.min) + " is greater than max " + number(parameter.max) +
                             "; swap them");
    if (IsLogUniform(parameter.distribution) && !(parameter.min > 0))
      return InvalidArgument(who + "min " + number(parameter.min) + " has no logarithm; " +
                             std::string(Name(parameter.distribution)) +
                             " needs values above 0, such as min: 0.0001 (not exponents)");
    const bool is_integer = parameter.distribution == Distribution::kIntUniform;
    if (is_integer && (parameter.min != std::round(parameter.min) || parameter.max != std::round(parameter.max)))
      return InvalidArgument(who + "int_uniform needs whole numbers as min and max; use uniform");
  } else if (!std::isfinite(parameter.mu) || !(parameter.sigma > 0) || !std::isfinite(parameter.sigma)) {
    return InvalidArgument(who + "sigma " + number(parameter.sigma) + " must be above 0");
  }
  if (IsRounded(parameter.distribution) && !(parameter.q > 0))
    return InvalidArgument(who + "q " + number(parameter.q) + " must be above 0, such as q: 1");
  return {};
}

std::string Draw(const SpaceParameter& parameter, Draws& draws) {
  if (parameter.distribution == Distribution::kCategorical) {
    if (parameter.weights.empty()) return parameter.values[draws.Next() % parameter.values.size()];
    double left = draws.Unit() * std::accumulate(parameter.weights.begin(), parameter.weights.end(), 0.0);
    for (std::size_t i = 0; i < parameter.values.size(); ++i) {
      if (left < parameter.weights[i]) return parameter.values[i];
      left -= parameter.weights[i];
    }
    return parameter.values.back();
  }
  double value = 0;
  switch (parameter.distribution) {
    case Distribution::kIntUniform:
      value = std::floor(parameter.min + (parameter.max - parameter.min + 1) * draws.Unit());
      break;
    case Distribution::kLogUniform:
    case Distribution::kQLogUniform: {
      const double low = std::log(parameter.min);
      value = std::exp(low + (std::log(parameter.max) - low) * draws.Unit());
      break;
    }
    case Distribution::kNormal:
    case Distribution::kQNormal:
      value = parameter.mu + parameter.sigma * draws.Normal();
      break;
    case Distribution::kLogNormal:
    case Distribution::kQLogNormal:
      value = std::exp(parameter.mu + parameter.sigma * draws.Normal());
      break;
    default:
      value = parameter.min + (parameter.max - parameter.min) * draws.Unit();
  }
  if (HasBounds(parameter.distribution)) value = std::clamp(value, parameter.min, parameter.max);
  if (IsRounded(parameter.distribution)) value = Rounded(value, parameter.q);
  return DrawnText(value);
}

Result<std::vector<Parameter>> GridColumns(const std::vector<SpaceParameter>& space, std::uint64_t most) {
  std::vector<Parameter> columns;
  double points = 1;
  for (const SpaceParameter& parameter : space) {
    DIVVY_TRY(std::vector<std::string> values, ValuesOf(parameter, most));
    points *= static_cast<double>(values.size());
    columns.push_back({parameter.name, std::move(values), -1});
  }
  if (points > static_cast<double>(most))
    return InvalidArgument("the grid has " + DrawnText(points) + " points, and a sweep has at most " +
                           std::to_string(most) + " trials; use fewer values, or method: random with run_cap: 100");
  return columns;
}

std::vector<Parameter> RandomColumns(const std::vector<SpaceParameter>& space, std::uint32_t trials,
                                     std::uint64_t seed) {
  std::vector<Parameter> columns;
  for (const SpaceParameter& parameter : space) {
    Parameter column{parameter.name, {}, 0};
    const std::uint64_t own = SeedOf(parameter.name, seed ^ SeedOf(""));
    for (std::uint32_t k = 0; k < trials; ++k) {
      Draws draws(Draws(own + k).Next());
      column.values.push_back(Draw(parameter, draws));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace divvy::sweep
