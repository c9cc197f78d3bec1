// Search spaces: the parameters of a sweep and their possible values, and how they become the columns of a job array
// (JobSpec::parameters), one row per trial.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "sweep/draws.h"

namespace divvy::sweep {

/// The distributions of Weights & Biases' sweep files, under their names.
enum class Distribution {
  kCategorical,  // One of `values`, with `weights` if there are any.
  kUniform,
  kIntUniform,
  kQUniform,    // Rounded to multiples of q, as all that begin with kQ.
  kLogUniform,  // The logarithm is uniform; min and max are values, not exponents (log_uniform_values).
  kQLogUniform,
  kNormal,  // mu and sigma.
  kQNormal,
  kLogNormal,  // The logarithm has mu and sigma.
  kQLogNormal,
};
std::string_view Name(Distribution distribution);
/// Returns the distribution with this name. Other tools' names are accepted too: "log_uniform_values", "constant", and
/// Valohai's "log-uniform" and "integer". The error for an unknown name lists the valid ones.
Result<Distribution> DistributionFromName(std::string_view name);

struct SpaceParameter {
  std::string name;
  Distribution distribution = Distribution::kCategorical;
  std::vector<std::string> values;  // For kCategorical.
  std::vector<double> weights;      // Empty, or one for each value.
  double min = 0, max = 0;
  double mu = 0, sigma = 1;
  double q = 1;
};
/// Checks that the parameter's distribution and range are valid. The error is one sentence that names the parameter.
Status CheckParameter(const SpaceParameter& parameter);
/// Draws a random value of the parameter and returns it as text: "0.0123", "7", "adam".
std::string Draw(const SpaceParameter& parameter, Draws& draws);

/// Returns every combination of the parameters' values; the last parameter changes fastest. Fails if a distribution has
/// infinitely many values, or if there are more than `most` combinations.
Result<std::vector<Parameter>> GridColumns(const std::vector<SpaceParameter>& space, std::uint64_t most);
/// Returns random values of each parameter for this number of trials. Value k of a parameter depends only on its name,
/// the seed and k, so it does not change with the number of trials or with other parameters. Requires: every parameter
/// is valid, trials > 0.
std::vector<Parameter> RandomColumns(const std::vector<SpaceParameter>& space, std::uint32_t trials,
                                     std::uint64_t seed);

}  // namespace divvy::sweep
