#include "engine/core/state/compile_request.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/text.h"
#include "engine/gpu_type.h"

namespace divvy::core {
namespace {

std::vector<AtSpeed> FastestFirst(const std::string& gpu_type) {
  if (!SaysSpeeds(gpu_type)) return {{gpu_type, 1000}};
  std::map<int, std::vector<std::string>, std::greater<>> by_speed;
  for (const WeightedType& type : AlternativesOf(gpu_type)) by_speed[type.speed].emplace_back(type.terms);
  std::vector<AtSpeed> sets;
  for (const auto& [speed, types] : by_speed) {
    const int relative = std::max(speed * 1000 / by_speed.begin()->first, 1);
    sets.push_back({Join(types, "|"), static_cast<std::int16_t>(relative)});
  }
  return sets;
}

class Translation {
 public:
  Translation(NodeClassIndex& class_index, const NodeWishes& wishes)
      : class_index_(class_index),
        wishes_(wishes),
        speeds_(wishes.speeds.empty() ? FastestFirst(wishes.gpu_type) : wishes.speeds),
        pools_(wishes.pools.empty() ? std::vector<PoolWish>{{wishes.pool, {}, 0}} : wishes.pools) {}

  Result<ResourceRequest> Make(ResourceRequest request) {
    DIVVY_CHECK(CheckCounts(request));
    std::vector<TaskGroup> groups;
    for (const TaskGroup& group : request.groups) {
      std::int64_t rest = group.least;
      for (const FeatureWish::Counted& counted : wishes_.features.counted) {
        TaskGroup some = group;
        some.least = some.most = static_cast<std::int32_t>(counted.nodes);
        rest -= counted.nodes;
        DIVVY_CHECK(Put(some, wishes_.features.all.And(counted.condition)));
        groups.push_back(std::move(some));
      }
      if (rest == 0 && group.least > 0) continue;
      TaskGroup others = group;
      others.least = static_cast<std::int32_t>(rest);
      if (!wishes_.features.counted.empty()) others.most = others.least;
      DIVVY_CHECK(Put(others, wishes_.features.all));
      groups.push_back(std::move(others));
    }
    request.groups = std::move(groups);
    request.alike = has_alike();
    if (!TakesOneAlternative(request)) request.alike = false;
    return request;
  }

  /// Releases the filters used so far.
  void Undo() {
    for (const FilterIndex filter : std::exchange(used_, {})) class_index_.Leave(filter);
  }

 private:
  /// Returns whether all tasks must agree on a pool or a feature alternative.
  bool has_alike() const { return !wishes_.features.alike.empty() || pools_.size() > 1; }

  Status CheckCounts(const ResourceRequest& request) const {
    const std::int64_t counted = wishes_.features.counted_nodes();
    if (counted == 0) return {};
    if (request.groups.size() > 1) {
      return InvalidArgument("--constraint counts nodes, but the job has several kinds of tasks; use it for one kind");
    }
    if (IsElastic(request)) {
      return InvalidArgument("--constraint counts nodes, but the job has a range of tasks; give --tasks one number");
    }
    const std::int32_t tasks = request.groups.front().least;
    // For tasks on separate nodes, and for single tasks, the option to suggest is --nodes.
    if (counted > tasks && request.locality != Locality::kNode &&
        (request.groups.front().anti_affinity || tasks == 1)) {
      return InvalidArgument("--constraint counts " + Plural(counted, "node") + ", but the job is on " +
                             Plural(tasks, "node") + "; ask for --nodes " + std::to_string(counted));
    }
    if (counted > tasks) {
      return InvalidArgument("--constraint counts " + Plural(counted, "node") + ", but the job has " +
                             Plural(tasks, "task") + "; ask for --tasks " + std::to_string(counted));
    }
    return {};
  }

  // Expands the group's shape into one alternative per pool and "[a|b]" feature choice, fastest GPUs first.
  Status Put(TaskGroup& group, const FeatureCondition& features) {
    const Shape shape = group.alternatives.front();
    const std::vector<FeatureCondition> any(1);
    group.alternatives.clear();
    group.speeds.clear();
    group.filters.clear();
    // Tasks without GPUs have no speeds, but need as many alternatives as the tasks that they must agree with.
    const std::size_t speeds = shape.gpus == 0 && !has_alike() ? 1 : speeds_.size();
    for (const PoolWish& pool : pools_) {
      const FeatureCondition of_pool = features.And(pool.features);
      for (const FeatureCondition& alike : wishes_.features.alike.empty() ? any : wishes_.features.alike) {
        for (const AtSpeed& at : std::span(speeds_).first(speeds)) {
          DIVVY_TRY(const FilterIndex filter, Use(shape, of_pool.And(alike), at.gpu_type, pool.pool));
          group.alternatives.push_back(shape);
          if (pool.cpu_milli > 0) group.alternatives.back().cpu_milli = pool.cpu_milli;
          if (at.parts > 0) group.alternatives.back().parts = at.parts;
          if (at.slice) group.alternatives.back().slice = at.slice;
          group.filters.push_back(filter);
          group.speeds.push_back(at.speed);
        }
      }
    }
    if (speeds_.size() < 2 || shape.gpus == 0) group.speeds.clear();
    if (group.alternatives.size() > std::numeric_limits<std::uint8_t>::max()) {
      return InvalidArgument(
          "--pool, --constraint and --gpu-type give more than 255 "
          "alternatives; ask for fewer");
    }
    return {};
  }

  Result<FilterIndex> Use(const Shape& shape, FeatureCondition features, const std::string& gpu_type,
                          const std::string& pool) {
    NodeFilter filter;
    if (shape.gpus > 0) {
      filter.gpu_type = gpu_type;
      filter.least_gpu_memory_mib = wishes_.least_gpu_memory_mib;
      filter.least_compute_capability = wishes_.least_compute_capability;
    }
    filter.features = std::move(features);
    filter.nodes = wishes_.nodes;
    filter.excluded = wishes_.excluded;
    filter.pool = pool;
    DIVVY_TRY(const FilterIndex index, class_index_.Use(std::move(filter)));
    used_.push_back(index);
    return index;
  }

  NodeClassIndex& class_index_;
  const NodeWishes& wishes_;
  std::vector<AtSpeed> speeds_;
  std::vector<PoolWish> pools_;
  std::vector<FilterIndex> used_;
};

}  // namespace

Result<ResourceRequest> CompileRequest(NodeClassIndex& class_index, ResourceRequest request, const NodeWishes& wishes) {
  Translation translation(class_index, wishes);
  Result<ResourceRequest> made = translation.Make(std::move(request));
  if (!made) {
    translation.Undo();
    return made;
  }
  // The accepted node classes are set last, because a filter that is added later may split the classes that an earlier
  // one accepts.
  for (TaskGroup& group : made->groups) {
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      group.alternatives[i].models = class_index.Accepted(group.filters[i]);
    }
  }
  return made;
}

}  // namespace divvy::core
