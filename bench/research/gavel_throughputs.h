// How fast each kind of training job runs on each type of GPU, alone and when it shares the GPU with another job. The
// data is published with Gavel (Narayanan et al., OSDI 2020) and Shockwave (Zheng et al., NSDI 2023) as one JSON file,
// plain or gzip-compressed:
//   {worker type: {"('model', gpus)": {"null": steps/s, "('other model', gpus)": [steps/s, the other's steps/s]}}}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::research {

/// A model with its batch size, as the file names it, and the number of GPUs that one such job runs on.
struct JobKind {
  std::string model;
  int gpus = 1;

  friend auto operator<=>(const JobKind&, const JobKind&) = default;
};

class GavelThroughputs {
 public:
  /// Fails if the file cannot be read or has another structure. The message names the file and the position in it.
  static Result<GavelThroughputs> Read(const std::string& path);
  static Result<GavelThroughputs> Parse(std::string_view json, const std::string& name);

  /// Returns the speed of a job of this kind that has its GPUs on `worker` ("v100") to itself, in steps per second.
  /// Nullopt if the file has no such measurement.
  std::optional<double> Alone(const std::string& worker, const JobKind& kind) const;
  /// Returns the steps per second of both jobs when they share each of their GPUs; 0 and 0 if they do not fit together.
  /// Nullopt if the file has no such measurement.
  std::optional<std::pair<double, double>> Locality(const std::string& worker, const JobKind& kind,
                                                    const JobKind& other) const;

 private:
  struct Entry {
    std::optional<double> alone;
    std::map<JobKind, std::pair<double, double>> together;
  };
  std::map<std::string, std::map<JobKind, Entry>> workers_;
};

/// Returns the whole content of a text file, decompressed if it is gzip-compressed.
Result<std::string> ReadWholeFile(const std::string& path);

}  // namespace divvy::research
