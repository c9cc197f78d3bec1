#include "control/books/pool_parts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/text.h"

namespace divvy {

const std::string& PoolListOf(const Request& request, const std::string& pool_of_job, std::size_t component) {
  if (component == 0 || request.others[component - 1].pool.empty()) return pool_of_job;
  return request.others[component - 1].pool;
}

Request PartInPool(const Request& request, const std::string& pool_of_job, const std::string& pool) {
  Request part;
  bool is_first = true;
  for (std::size_t i = 0; i < request.components(); ++i) {
    if (std::ranges::count(PoolsIn(PoolListOf(request, pool_of_job, i)), pool) == 0) continue;
    if (std::exchange(is_first, false)) part = ComponentOf(request, i);
    else part.others.push_back(request.others[i - 1]);
  }
  return part;
}

Status AdmitsPart(const PoolRow& pool, const PoolRegistry::Wish& wish, const std::string& pool_of_job) {
  if (!wish.request.is_heterogeneous()) return PoolRegistry::AdmitsJob(pool, wish);
  const Request part = PartInPool(wish.request, pool_of_job, pool.name);
  return PoolRegistry::AdmitsJob(pool, {part, wish.time_limit, "", {}, false});
}

std::vector<std::string> OpenPoolsOf(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record,
                                     std::size_t component) {
  const std::string& list = PoolListOf(record.request, record.pool, component);
  std::vector<std::string> names = PoolsIn(IsOnlyALabel(pools, cluster, list) ? "" : list);
  if (pools.empty()) return names;
  const PoolRegistry::Wish wish{record.request, record.time_limit, "", {}, false};
  std::erase_if(names, [&](const std::string& name) {
    const PoolRow* row = pools.Find(name);
    return row != nullptr && !(row->starts_jobs() && AdmitsPart(*row, wish, record.pool));
  });
  if (names.size() < 2) return names;
  std::vector<std::string> with_room;
  std::ranges::copy_if(names, std::back_inserter(with_room), [&](const std::string& name) {
    const PoolRow* row = pools.Find(name);
    if (row == nullptr || !row->is_capped()) return true;
    const std::string group = std::string(kPoolGroup) + name;
    const int gpus = record.request.gpus_in_all();
    return (row->running == 0 || cluster.group_running(group) < row->running) &&
           (row->gpus == 0 || gpus == 0 || cluster.group_gpus(group) + gpus <= row->gpus);
  });
  return with_room.empty() ? names : with_room;
}

std::vector<Component> InOpenPools(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record) {
  std::vector<Component> others = record.request.others;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (others[i].pool.empty()) continue;
    const auto open = OpenPoolsOf(pools, cluster, record, i + 1);
    if (!open.empty() || pools.empty()) others[i].pool = Join(open, ",");
  }
  return others;
}

bool NamesSeveralPools(const JobRecord& record) {
  for (std::size_t i = 0; i < record.request.components(); ++i) {
    if (PoolsIn(PoolListOf(record.request, record.pool, i)).size() > 1) return true;
  }
  return false;
}

bool HasPool(const PoolRegistry& pools, const Scheduler& cluster, const std::string& name) {
  if (pools.Find(name) != nullptr) return true;
  for (NodeIndex node = 0; node < cluster.nodes().size(); ++node) {
    if (std::ranges::count(cluster.PoolsOf(node), name) > 0) return true;
  }
  return false;
}

std::vector<std::string> PoolNames(const PoolRegistry& pools, const Scheduler& cluster) {
  std::set<std::string> names;
  for (const PoolRow& row : pools.rows()) names.insert(row.name);
  for (NodeIndex node = 0; node < cluster.nodes().size(); ++node)
    names.insert(cluster.PoolsOf(node).begin(), cluster.PoolsOf(node).end());
  return {names.begin(), names.end()};
}

bool HasPools(const PoolRegistry& pools, const Scheduler& cluster) {
  if (!pools.empty()) return true;
  for (NodeIndex node = 0; node < cluster.nodes().size(); ++node) {
    if (!cluster.PoolsOf(node).empty()) return true;
  }
  return false;
}

bool IsOnlyALabel(const PoolRegistry& pools, const Scheduler& cluster, const std::string& list) {
  return !list.empty() && !HasPools(pools, cluster);
}

std::string WhyNoPool(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record) {
  const std::vector<std::string> named = PoolsIn(record.pool);
  const auto is_there = [&](const std::string& name) { return HasPool(pools, cluster, name); };
  if (pools.empty() || named.empty() || std::ranges::any_of(named, is_there)) return "";
  return "there is no pool '" + record.pool + "'; divvy update " + ToString(record.id) + " --pool NAME chooses another";
}

std::vector<std::string> AllPoolsOf(const JobRecord& record) {
  std::string lists;
  for (std::size_t i = 0; i < record.request.components(); ++i)
    lists += PoolListOf(record.request, record.pool, i) + ",";
  return PoolsIn(lists);
}

}  // namespace divvy
