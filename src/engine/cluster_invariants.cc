// Re-derives every index and sum of a Cluster from the waiting entries and the running jobs. Read it to learn what
// must always hold.

#include <string>

#include "engine/cluster_state.h"

namespace divvy {
namespace {

struct Sums {
  GpuSet owned;
  int cpus = 0;
  Bytes memory;
  int cpu_jobs = 0;
  std::map<GroupName, int> running_of_group;
  std::map<GroupName, int> classes_of_group;
};

}  // namespace

std::string Cluster::CheckInvariants() const {
  const State& state = *state_;
  Sums sums;
  for (const auto& [id, job] : state.running) {
    const std::string name = "running job " + ToString(id);
    if (job.id != id) return name + " is kept under another id";
    if (!(job.gpus & sums.owned).empty()) return name + " holds a GPU that another job holds";
    if (!(job.gpus - state.present).empty()) return name + " holds a GPU that this server does not have";
    for (int gpu : job.gpus.ToVector()) {
      if (state.owners[static_cast<std::size_t>(gpu)] != id) return name + " is not noted as the owner of its GPU";
    }
    sums.owned = sums.owned | job.gpus;
    sums.cpus += job.cpus;
    sums.memory += job.memory;
    if (job.gpus.empty()) sums.cpu_jobs += 1;
    for (const GroupName& group : job.groups) sums.running_of_group[group] += 1;
  }
  if (sums.owned != state.owned) return "the set of owned GPUs is not the sum of the running jobs' GPUs";
  for (std::size_t gpu = 0; gpu < state.owners.size(); ++gpu) {
    if (!sums.owned.Contains(static_cast<GpuIndex>(gpu)) && state.owners[gpu].is_set() &&
        !state.running.contains(state.owners[gpu])) {
      return "GPU " + std::to_string(gpu) + " is owned by a job that does not run";
    }
  }
  if (sums.cpus != state.cpus_claimed) return "the claimed CPUs are not the sum of the running jobs' CPUs";
  if (sums.memory != state.memory_claimed) return "the claimed memory is not the sum of the running jobs' memory";
  if (sums.cpu_jobs != state.cpu_jobs_running) return "the count of running jobs without GPUs is wrong";

  std::uint64_t members = 0;
  std::size_t entries = 0;
  for (const auto& [key, job_class] : state.queue.classes) {
    if (job_class.line.empty()) return "a class without entries is kept";
    if (!(job_class.key == key)) return "a class is kept under another key";
    if (job_class.matches != MatchingGpus(state.capacity, key.request))
      return "a class accepts other GPUs than it should";
    for (const GroupName& group : key.groups) sums.classes_of_group[group] += 1;
    members += job_class.line.members();
    entries += job_class.line.entries();
    const Place* previous = nullptr;
    for (Line::Position at = job_class.line.begin(); !job_class.line.IsEnd(at); at = job_class.line.Next(at)) {
      const Line::Stand& stand = job_class.line.At(at);
      const std::string name = "waiting job " + ToString(stand.place.id);
      if (previous != nullptr && !(*previous < stand.place)) return name + " stands at the wrong place in its line";
      previous = &stand.place;
      const auto slot = state.waiting.find(stand.place.id);
      if (slot == state.waiting.end()) return name + " stands in a line and does not wait";
      if (slot->second.job_class != &job_class) return name + " stands in a line that is not its own";
      if (ClassKeyOf(slot->second.entry) != key) return name + " stands in a class of other requests";
      if (PlaceOf(slot->second.entry) != stand.place) return name + " stands at an old place";
      if (slot->second.entry.count != stand.count) return name + " stands with another count";
      if (stand.count == 0) return name + " stands with no member left";
    }
  }
  if (entries != state.waiting.size()) return "a waiting job stands in no line";
  if (members != state.waiting_count) return "the count of waiting jobs is not the sum of the lines";

  for (const auto& [name, group] : state.groups) {
    if (group.name != name) return "group " + name + " is kept under another name";
    if (group.running != sums.running_of_group[name]) return "group " + name + " counts other running jobs than it has";
    if (group.classes != sums.classes_of_group[name]) return "group " + name + " counts other classes than it has";
    if (!group.is_used()) return "group " + name + " is kept and not used";
  }
  for (const auto& [name, count] : sums.running_of_group) {
    if (count > 0 && !state.groups.contains(name)) return "group " + name + " is not kept and runs";
  }
  return "";
}

}  // namespace divvy
