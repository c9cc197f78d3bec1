// The speed of similar jobs on each GPU model, learned from their runs: from reported progress, otherwise from the run
// times of successful runs.
//
// A kind is a user's command under one name with a GPU count. Unlike for run times, wider kinds are not used, because
// another job's speed depends on the GPU differently. Each model keeps its latest runs and uses their median, per GPU.
// Speeds are known once two models have enough runs of the same measure. They are relative to the fastest model,
// rounded to two digits, and models within 5 % of each other count as equal.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/scheduler/facts.h"
#include "model/job_record.h"

namespace divvy {

class ThroughputModel {
 public:
  /// Runs kept per model.
  static constexpr std::size_t kRunsKept = 32;
  /// Runs that a model needs to be known.
  static constexpr std::size_t kEnough = 3;
  /// Kinds kept; beyond this, the least recently run are dropped.
  static constexpr std::size_t kGroupsKept = 20'000;

  struct Learned {
    std::string user;
    std::string name;
    std::string shape;  // ShapeOf the command.
    int gpus = 0;
    struct Model {
      std::string model;
      int speed = 0;  // In thousandths of the fastest; 0: not known yet.
      std::size_t runs = 0;
    };
    std::vector<Model> models;  // Fastest first.
    bool is_by_progress = false;

    bool is_known() const { return models.size() > 1 && models[1].speed > 0; }
    /// The number of runs that the speeds are based on.
    std::size_t runs() const;
    /// In the engine's format; empty: unknown.
    std::vector<ModelSpeed> speeds() const;
  };

  /// Records the end of a run. Its reported progress counts however it ended. Its run time counts only if `ended_well`
  /// and it was never paused or resized. Requires: its `ended` is set.
  void Ran(const JobRecord& record, bool ended_well);
  /// Returns what is known of the job's kind; null if nothing ran.
  const Learned* Find(const JobRecord& record) const;
  /// Returns all kinds that ran on several models, ordered by user, name, command and GPUs.
  std::vector<const Learned*> All() const;

 private:
  struct Runs {
    std::deque<double> speeds;  // Fraction of the work per GPU and second, newest last.
    std::deque<double> times;   // GPU-seconds.
  };
  struct Group {
    std::map<std::string, Runs> by_model;
    Learned learned;
    std::uint64_t touched = 0;
  };
  static void Learn(Group& entry);

  std::map<std::string, Group> groups_;
  std::map<std::uint64_t, std::string> by_touch_;
  std::uint64_t touches_ = 0;
};

/// "A100 at 0.55 of H100, learned from 12 runs"; empty if nothing is known.
std::string SpeedText(const ThroughputModel::Learned& learned);
/// As a decimal fraction: "0.55".
std::string SpeedText(int thousandths);

}  // namespace divvy
