// How fast jobs of one kind are on which GPU model, as their runs showed: by the progress that they reported, else by
// how long those took that ended well.
//
// A kind is a user's command under one name with so many GPUs. Wider ones, which predictions fall back on, say nothing
// here: another job takes to another GPU differently. Of each model the latest runs count, by their median, for one
// GPU. Speeds are known once two models have enough runs of the same measure. They are relative to the fastest, have
// two digits, and models that are within a twentieth of each other are taken to be equal.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/server/facts.h"
#include "model/job_record.h"

namespace divvy {

class SpeedBook {
 public:
  /// On one model.
  static constexpr std::size_t kRunsKept = 32;
  /// Runs on a model that make it known.
  static constexpr std::size_t kEnough = 3;
  /// Kinds kept; beyond it those of which nothing ran for longest go.
  static constexpr std::size_t kKindsKept = 20'000;

  struct Learned {
    std::string user;
    std::string name;
    std::string shape;  // Of the command.
    int gpus = 0;
    struct Model {
      std::string model;
      int speed = 0;  // In thousandths of the fastest; 0: not known yet.
      std::size_t runs = 0;
    };
    std::vector<Model> models;  // The fastest first.
    bool is_by_progress = false;

    bool is_known() const { return models.size() > 1 && models[1].speed > 0; }
    /// Those that the speeds come from.
    std::size_t runs() const;
    /// As the engine takes them; empty: not known.
    std::vector<ModelSpeed> speeds() const;
  };

  /// A run of a job is over. What it reported counts however it ended; how long it took only where `ended_well` and it
  /// was never paused or resized.
  /// Requires: its `ended` is set.
  void Ran(const JobRecord& record, bool ended_well);
  /// Of its kind; null: nothing ran.
  const Learned* Find(const JobRecord& record) const;
  /// Of all kinds that ran on several models, by user, name, command and GPUs.
  std::vector<const Learned*> All() const;

 private:
  struct Runs {
    std::deque<double> speeds;  // Part of the whole by GPU and second, newest last.
    std::deque<double> times;   // GPU-seconds.
  };
  struct Kind {
    std::map<std::string, Runs> by_model;
    Learned learned;
    std::uint64_t touched = 0;
  };
  static void Learn(Kind& kind);

  std::map<std::string, Kind> kinds_;
  std::map<std::uint64_t, std::string> by_touch_;
  std::uint64_t touches_ = 0;
};

/// "A100 at 0.55 of H100, learned from 12 runs"; empty where nothing is known.
std::string SpeedText(const SpeedBook::Learned& learned);
/// In decimals, two digits of it: "0.55".
std::string SpeedText(int thousandths);

}  // namespace divvy
