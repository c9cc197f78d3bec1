// Reads sweep files, in the format of Weights & Biases' sweeps with a few additional keys (docs/sweeps.md), and turns a
// sweep into the specification of a job array.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "sweep/search_space.h"
#include "sweep/sweep_rule.h"

namespace divvy::dialect {

/// The largest number of trials in one sweep.
inline constexpr std::uint32_t kMostTrials = 100'000;

enum class SweepMethod { kGrid, kRandom, kAsk };

struct SweepPlan {
  sweep::SweepRule rule;
  SweepMethod method = SweepMethod::kGrid;
  std::vector<sweep::SpaceParameter> space;
  std::uint32_t trials = 0;  // 0: all of a grid, or one pass of Hyperband.
  std::uint64_t seed = 1;
  std::vector<std::string> command;  // With {name} for each value. Empty: the file has no command.
  std::string name;
  std::vector<std::string> options;  // Words for JobOptions: "--gpus=1".
  std::vector<std::string> notes;
};

/// Fails with the first mistake and its line. Refuses texts above 1 MiB.
Result<SweepPlan> ReadSweepFile(std::string_view text, std::string_view path);

/// Parses "lr=log_uniform_values:1e-5:0.1" or "layers=int_uniform:1:8".
Result<sweep::SpaceParameter> ParseDraw(std::string_view text);
/// Parses "1:81:3": min, max and eta. "1" alone is min, "1:81" has the usual eta.
Result<sweep::HalvingRule> ParseHalving(std::string_view text, sweep::EarlyStop stop);
Result<SweepMethod> SweepMethodFromName(std::string_view name);

/// Makes `spec` the array of the sweep: its parameters, its label, and notes. `spec` may have parameters of its own
/// (--param), which are added to those of a grid. The message of an error is one sentence.
Status CompleteSweep(SweepPlan plan, JobSpec& spec);

}  // namespace divvy::dialect
