#include "research/gavel_jobs.h"

#include <bit>
#include <cmath>
#include <map>
#include <utility>

namespace divvy::research {
namespace {

struct Family {
  std::string_view model;
  std::vector<int> batch_sizes;  // Empty: the model's name has no batch size.
  bool runs_on_many = false;     // Can run on more than one GPU.
};

/// Lists the models in the order of the published simulator. A draw is an index into this list.
std::vector<std::pair<std::string, bool>> Models() {
  const std::vector<Family> families = {{"ResNet-18", {16, 32, 64, 128, 256}, true},
                                        {"ResNet-50", {16, 32, 64, 128}, true},
                                        {"Transformer", {16, 32, 64, 128, 256}, true},
                                        {"LM", {5, 10, 20, 40, 80}, true},
                                        {"Recommendation", {512, 1024, 2048, 4096, 8192}, false},
                                        {"A3C", {}, false},
                                        {"CycleGAN", {}, false}};
  std::vector<std::pair<std::string, bool>> models;
  for (const Family& family : families) {
    if (family.batch_sizes.empty()) models.emplace_back(family.model, family.runs_on_many);
    for (const int batch : family.batch_sizes)
      models.emplace_back(std::string(family.model) + " (batch size " + std::to_string(batch) + ")",
                          family.runs_on_many);
  }
  return models;
}

int DrawGpus(PythonRandom& random) {
  const double draw = random.Uniform(0, 1);
  if (draw >= 0.95) return 8;
  if (draw > 0.8) return 4;
  return draw >= 0.7 ? 2 : 1;
}

double DrawSeconds(PythonRandom& random) {
  const bool is_long = random.Unit() >= 0.8;
  return 60 * std::pow(10.0, is_long ? random.Uniform(3, 4) : random.Uniform(1.5, 3));
}

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
  state_[0] = 19650218;
  const auto mix = [&](std::size_t i) { return state_[i - 1] ^ (state_[i - 1] >> 30); };
  for (std::size_t i = 1; i < 624; ++i) state_[i] = 1812433253 * mix(i) + static_cast<std::uint32_t>(i);
  std::size_t at = 1;
  const auto advance = [&] {
    if (++at < 624) return;
    state_[0] = state_[623];
    at = 1;
  };
  for (int round = 0; round < 624; ++round) {  // The key array has one element, `seed`.
    state_[at] = (state_[at] ^ (mix(at) * 1664525)) + seed;
    advance();
  }
  for (int round = 0; round < 623; ++round) {
    state_[at] = (state_[at] ^ (mix(at) * 1566083941)) - static_cast<std::uint32_t>(at);
    advance();
  }
  state_[0] = 0x80000000;
}

std::uint32_t PythonRandom::Word() {
  if (at_ == 624) {
    for (std::size_t i = 0; i < 624; ++i) {
      const std::uint32_t pair = (state_[i] & 0x80000000) | (state_[(i + 1) % 624] & 0x7fffffff);
      state_[i] = state_[(i + 397) % 624] ^ (pair >> 1) ^ ((pair & 1) != 0 ? 0x9908b0df : 0);
    }
    at_ = 0;
  }
  std::uint32_t word = state_[at_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680;
  word ^= (word << 15) & 0xefc60000;
  return word ^ (word >> 18);
}

double PythonRandom::Unit() {
  const std::uint32_t high = Word() >> 5;
  const std::uint32_t low = Word() >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

std::size_t PythonRandom::Below(std::size_t bound) {
  const auto bits = static_cast<unsigned>(std::bit_width(bound));
  std::size_t draw = bound;
  while (draw >= bound) draw = Word() >> (32 - bits);
  return draw;
}

Result<GavelWorkload> GenerateGavelJobs(const GavelThroughputs& throughputs, double jobs_per_hour, std::size_t count,
                                        std::uint32_t seed, bool multi_gpu) {
  const auto models = Models();
  PythonRandom jobs(seed + 2), gaps(seed + 3);
  GavelWorkload workload;
  std::map<JobKind, std::size_t> known;
  double arrival_s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int drawn_gpus = DrawGpus(jobs);
    const double seconds = DrawSeconds(jobs);
    const int gpus = multi_gpu ? drawn_gpus : 1;
    std::size_t model = jobs.Below(models.size());
    while (gpus > 1 && !models[model].second) model = jobs.Below(models.size());
    const auto [kind, is_new] = known.try_emplace({models[model].first, gpus}, workload.kinds.size());
    if (is_new) workload.kinds.push_back(kind->first);
    const std::optional<double> rate = throughputs.Alone("v100", kind->first);
    if (!rate || *rate <= 0)
      return InvalidArgument("the throughputs have no v100 rate of " + kind->first.model + " on " +
                             std::to_string(gpus) + " GPUs");
    workload.jobs.push_back({kind->second, arrival_s, seconds * *rate});
    arrival_s += -std::log(1.0 - gaps.Unit()) / (jobs_per_hour / 3600.0);
  }
  return workload;
}

}  // namespace divvy::research
