// Slurm's options that mean nothing on one server, or belong to a site's plugins: read, named in a note, never fatal.
#pragma once

#include <vector>

#include "dialect/options.h"
#include "model/job.h"

namespace divvy::dialect::slurm {

/// Appends them to `options`. The closures write into `spec`.
void AddNotedOptions(JobSpec& spec, std::vector<Option>& options);

/// Why --NAME does nothing here; "" when it needs no word, or is no such option.
std::string_view WhyNoted(std::string_view name);

}  // namespace divvy::dialect::slurm
