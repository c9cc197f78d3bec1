// How fast each kind of training job runs on each kind of GPU, alone and sharing the GPU with another, as Gavel
// (Narayanan et al., OSDI 2020) and Shockwave (Zheng et al., NSDI 2023) publish it: one JSON file, plain or
// gzip-packed:
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

/// A model with its batch size, as the file names it, and on how many GPUs one job of it runs.
struct JobKind {
  std::string model;
  int gpus = 1;

  friend auto operator<=>(const JobKind&, const JobKind&) = default;
};

class GavelThroughputs {
 public:
  /// Fails when the file cannot be read or is not of this shape; the message names the file and where in it.
  static Result<GavelThroughputs> Read(const std::string& path);
  static Result<GavelThroughputs> Parse(std::string_view json, const std::string& name);

  /// Steps per second on `worker` ("v100"); nothing where the file has no such measurement.
  std::optional<double> Alone(const std::string& worker, const JobKind& kind) const;
  /// Steps per second of both on one GPU (on each of their GPUs); 0 and 0 where they do not fit together.
  std::optional<std::pair<double, double>> Together(const std::string& worker, const JobKind& kind,
                                                    const JobKind& other) const;

 private:
  struct Entry {
    std::optional<double> alone;
    std::map<JobKind, std::pair<double, double>> together;
  };
  std::map<std::string, std::map<JobKind, Entry>> workers_;
};

/// The whole of a text file, unpacked when it is gzip-packed.
Result<std::string> ReadWholeFile(const std::string& path);

}  // namespace divvy::research
