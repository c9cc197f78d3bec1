// The experiments on heterogeneous speeds and on known work; prints one line for each run:
//   rates_bench gavel THROUGHPUTS [policy=progress|progress-packed|max-min|agnostic] [rate=5.6] [seed=0] [multi=0]
//               [from=4000] [to=5000] [move=0]
//   rates_bench shockwave TRACE THROUGHPUTS [policy=slack|slack-profiled|max-min] [gpus=32] [rho=1.5]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "research/gavel.h"
#include "research/shockwave.h"

namespace {

using divvy::research::GavelOptions;

/// CPU time of this process, in seconds.
double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int Fail(const std::string& why) {
  std::fprintf(stderr, "rates_bench: %s\n", why.c_str());
  return 1;
}

int Gavel(int count, char** words) {
  GavelOptions options;
  options.throughputs = words[0];
  std::string policy = "progress";
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return Fail("expected NAME=VALUE, not " + std::string(word));
    const std::string_view name = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    if (name == "policy") policy = value;
    if (name == "rate") options.jobs_per_hour = std::strtod(value.c_str(), nullptr);
    if (name == "seed") options.seed = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (name == "multi") options.multi_gpu = value == "1";
    if (name == "from") options.measured_from = std::strtoul(value.c_str(), nullptr, 10);
    if (name == "to") options.measured_to = std::strtoul(value.c_str(), nullptr, 10);
    if (name == "move") options.move_s = std::strtod(value.c_str(), nullptr);
  }
  const auto parsed = divvy::research::ParseGavelPolicy(policy);
  if (!parsed) return Fail("no such policy: " + policy);
  options.policy = *parsed;
  const double start = Seconds();
  const auto result = divvy::research::RunGavel(options);
  if (!result) return Fail(result.error().message);
  std::printf("%-16s mean %7.2f h  median %6.2f  p99 %7.2f  worst %7.2f  busy %.3f  moves %.3f  rounds %lld  %.1f s\n",
              policy.c_str(), result->mean_jct_h, result->median_jct_h, result->p99_jct_h, result->worst_jct_h,
              result->busy, result->moves_per_round, static_cast<long long>(result->rounds), Seconds() - start);
  return 0;
}

int Shockwave(int count, char** words) {
  divvy::research::ShockwaveOptions options;
  options.trace = words[0];
  options.throughputs = words[1];
  std::string policy = "slack";
  for (int i = 2; i < count; ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return Fail("expected NAME=VALUE, not " + std::string(word));
    const std::string_view name = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    if (name == "policy") policy = value;
    if (name == "gpus") options.gpus = std::atoi(value.c_str());
    if (name == "rho") options.rho = std::strtod(value.c_str(), nullptr);
  }
  const auto parsed = divvy::research::ParseShockwavePolicy(policy);
  if (!parsed) return Fail("no such policy: " + policy);
  options.policy = *parsed;
  const double start = Seconds();
  const auto result = divvy::research::RunShockwave(options);
  if (!result) return Fail(result.error().message);
  std::printf("%-16s makespan %6.0f s  mean %6.0f s  worst rho %.3f  unfair %.3f  busy %.3f  restarts %lld  %.2f s\n",
              policy.c_str(), result->makespan_s, result->mean_jct_s, result->worst_rho, result->unfair, result->busy,
              static_cast<long long>(result->restarts), Seconds() - start);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count >= 3 && std::string_view(words[1]) == "gavel") return Gavel(count - 2, words + 2);
  if (count >= 4 && std::string_view(words[1]) == "shockwave") return Shockwave(count - 2, words + 2);
  return Fail("usage: rates_bench gavel THROUGHPUTS | shockwave TRACE THROUGHPUTS [NAME=VALUE...]");
}
