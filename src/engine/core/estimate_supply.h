// What running jobs will leave, and when, on the nodes that could serve one job: the two questions that an estimate
// asks of it are from when a node has room for it, and when those ahead of it have had their turn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/core/estimate.h"
#include "engine/core/explain_ahead.h"
#include "engine/core/explain_view.h"

namespace divvy::core {

enum class Outcome : std::uint8_t { kEarliest, kTypical, kLatest };

/// An expected end, seen at `now`: never before it. kNever: nobody knows.
class EndTimes {
 public:
  EndTimes(const Rules& rules, Time now, Outcome outcome, const SpreadOf* spread)
      : rules_(rules), now_(now), outcome_(outcome), spread_(spread) {}

  Time Of(JobId job, Time started, Time end, Time predicted_end) const;
  Time Of(const RunPiece& piece) const { return Of(piece.job, piece.started, piece.end, piece.predicted_end); }
  Time Of(const Run& run) const { return Of(run.id, run.started, run.end, run.predicted_end); }
  /// How long a job that waits will run; nothing: not known.
  std::optional<Duration> Length(JobId entry, const ClassKey& key) const;

 private:
  std::optional<RunSpread> Spread(JobId job) const { return spread_ && *spread_ ? (*spread_)(job) : std::nullopt; }

  const Rules& rules_;
  Time now_;
  Outcome outcome_;
  const SpreadOf* spread_;
};

class Supply {
 public:
  Supply(const View& view, Outcome outcome, const SpreadOf* spread);

  struct Moment {
    Time at = kNever;
    std::vector<JobId> waits_for;  // Whose ends decide; at kNever, whose ends nobody knows.
    std::uint64_t behind = 0;      // Members ahead that it waits for.
    std::uint64_t endless = 0;     // Of these, those that nobody can date.
  };
  /// From when a node, or as many as it takes, has room for it, as far as running jobs go.
  Moment Fits();
  /// From when there is enough in sum, those ahead served.
  Moment Served(const Ahead& ahead);

  const EndTimes& ends() const { return ends_; }

 private:
  struct Release {
    Time at = kNever;
    NodeIndex node = 0;
    std::uint32_t piece = 0;
    friend bool operator>(const Release& a, const Release& b) {
      return a.at != b.at ? a.at > b.at : a.node != b.node ? a.node > b.node : a.piece > b.piece;
    }
  };
  struct Chunk {
    Time at = kNever;
    std::int64_t units = 0;
    friend bool operator>(const Chunk& a, const Chunk& b) { return a.at > b.at; }
  };
  struct Queued {
    Key key;
    ClassIndex job_class = 0;
    JobId entry;
  };

  std::int64_t UnitsOf(const Shape& shape) const;
  std::int64_t UnitsOf(const Ask& ask) const;
  bool Suits(const Node& node) const;
  bool Holds(const NodeState& state, const Node& node) const;
  double ShareOf(const Ask& ask) const;
  std::vector<Chunk> Chunks() const;
  std::map<Time, std::int64_t> Rounded() const;
  Moment Stepped(const std::vector<Ahead::Part>& parts, std::uint64_t members);
  Moment Summed(const std::vector<Ahead::Part>& parts, std::uint64_t members);

  const View& view_;
  const Cluster::State& state_;
  const Ask& ask_;
  EndTimes ends_;
  bool counts_gpus_ = false;
  bool counts_cpus_ = false;
  std::vector<NodeIndex> nodes_;  // That suit it.
  std::vector<Release> releases_;
  std::int64_t free_units_ = 0;
  std::int64_t endless_units_ = 0;
  std::int64_t all_units_ = 0;
  placement::ModelSet kinds_ = 0;
};

}  // namespace divvy::core
