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
/// Also knows "log_uniform_values", "constant" and Valohai's "log-uniform" and "integer". Fails and lists what there
/// is.
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
/// Fails with one sentence that names the parameter.
Status CheckParameter(const SpaceParameter& parameter);
/// One value as a text: "0.0123", "7", "adam".
std::string Draw(const SpaceParameter& parameter, Draws& draws);

/// Every combination, the last parameter fastest. Fails for a distribution with infinitely many values, and for more
/// than `most` combinations, which the message names.
Result<std::vector<Parameter>> GridColumns(const std::vector<SpaceParameter>& space, std::uint64_t most);
/// `trials` rows of random values. Row k of a parameter depends only on its name, the seed and k, so another count or
/// another parameter changes no value. Requires: every parameter is valid, trials > 0.
std::vector<Parameter> RandomColumns(const std::vector<SpaceParameter>& space, std::uint32_t trials,
                                     std::uint64_t seed);

}  // namespace divvy::sweep
