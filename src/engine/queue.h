// The queue as the engine keeps it: jobs that ask for the same thing form one class and stand in one line, so that a
// pass costs the classes and the starts, not the jobs. 100,000 jobs of a sweep are one class.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "engine/cluster.h"
#include "engine/line.h"

namespace divvy {

/// A cap and how much of it is in use. Kept while a class, a running job or a limit refers to it.
struct Group {
  GroupName name;
  int limit = 0;  // 0: no cap.
  int running = 0;
  int classes = 0;

  bool is_used() const { return limit != 0 || running != 0 || classes != 0; }
};

/// Which line of its kind an entry stands in.
enum class Lane {
  kReady,   // Looked at in every pass.
  kDated,   // Has a begin time after its submission; its `since` is that time, so those not yet due stand last.
  kParked,  // Held, or waits for other jobs.
};

/// What makes jobs interchangeable for the engine, but for their place in line.
struct ClassKey {
  Request request;
  Duration time_limit{0};
  std::vector<GroupName> groups;  // Ascending, each once.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  Lane lane = Lane::kReady;

  friend auto operator<=>(const ClassKey&, const ClassKey&) = default;
};

struct JobClass {
  ClassKey key;
  std::vector<Group*> groups;  // Of key.groups.
  GpuSet matches;              // GPUs whose type and memory suit, usable or not.
  Line line;
};

struct Cluster::Queue {
  std::map<ClassKey, JobClass> classes;
};

ClassKey ClassKeyOf(const WaitingEntry& entry);
Place PlaceOf(const WaitingEntry& entry);
/// The GPUs that `request` accepts by type and memory.
GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request);

}  // namespace divvy
