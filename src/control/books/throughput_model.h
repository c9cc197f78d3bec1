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
    /// Returns on how many runs the learned speeds are based.
    std::size_t runs() const;
    /// Returns the job's learned speed on each GPU model, in the format of the scheduling engine; empty if unknown.
    std::vector<ModelSpeed> speeds() const;
  };

  /// Learns from a run that has ended. The speed that its progress reports show counts however the run ended. Its run
  /// time counts only if it succeeded (`ended_well`) and was never paused or resized. Requires: the record's `ended` is
  /// set.
  void Ran(const JobRecord& record, bool ended_well);
  /// Returns what was learned from jobs like this one (same user, name, command and GPUs); null if none has run.
  const Learned* Find(const JobRecord& record) const;
  /// Returns what was learned about all kinds of jobs that ran on several GPU models, ordered by user, name, command
  /// and GPUs.
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

/// Returns the learned speeds as text for users: "A100 at 0.55 of the speed of H100, learned from 12 runs"; empty if
/// nothing is known.
std::string SpeedText(const ThroughputModel::Learned& learned);
/// Returns a relative speed, given in thousandths, as a decimal fraction: "0.55".
std::string SpeedText(int thousandths);

}  // namespace divvy
