#include "control/books/pool_registry.h"

#include <algorithm>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/message_text.h"

namespace divvy {
namespace {

Status Check(const PoolRow& row) {
  const std::string pool = "pool " + row.name;
  if (row.max_time > Duration(0) && row.default_time > row.max_time)
    return InvalidArgument(pool + ": its default_time is longer than its max_time");
  if (row.min_gpus && row.max_gpus && *row.min_gpus > *row.max_gpus)
    return InvalidArgument(pool + ": its min_gpus are more than its max_gpus");
  return {};
}

Status CheckGpus(const PoolRow& pool, const Request& request) {
  const int least = request.gpus_in_all();
  const int most = std::max(least, request.gpus_at_most());
  const std::string asks = "asks for " + Plural(most, "GPU") + ", but pool " + pool.name + " gives a job ";
  if (pool.max_gpus && *pool.max_gpus == 0 && most > 0)
    return LimitExceeded(asks + "none; leave --gpus out, or name another pool with --pool");
  if (pool.max_gpus && most > *pool.max_gpus) {
    return LimitExceeded(asks + std::to_string(*pool.max_gpus) +
                         " at most; ask for fewer, or name another pool with --pool");
  }
  if (pool.min_gpus && least < *pool.min_gpus) {
    return LimitExceeded("asks for " + Plural(least, "GPU") + ", but pool " + pool.name + " is for jobs of " +
                         std::to_string(*pool.min_gpus) + " at least; name another pool with --pool");
  }
  return {};
}

// Checks one component. Several components may share nodes.
Status CheckMachines(const PoolRow& pool, const Request& request, bool is_component) {
  if (pool.is_exclusive && request.spreads_tasks) {
    return InvalidArgument("pool " + pool.name +
                           " allocates whole nodes, so its jobs must set their number: give --nodes");
  }
  if (pool.max_nodes == 0) return {};
  const std::string most = std::to_string(pool.max_nodes) + " at most";
  if (const int nodes = request.nodes; nodes > pool.max_nodes && nodes > 1) {
    return LimitExceeded((is_component ? "one of its components asks for " : "asks for ") + std::to_string(nodes) +
                         " nodes, but pool " + pool.name + " gives a job " + most + "; give --nodes " +
                         std::to_string(pool.max_nodes) + " or fewer");
  }
  if (request.spreads_tasks && request.tasks > pool.max_nodes) {
    return LimitExceeded((is_component ? "the " + Plural(request.tasks, "task") + " of one of its components"
                                       : "its " + Plural(request.tasks, "task")) +
                         " may run on as many nodes, but pool " + pool.name + " gives a job " + most +
                         "; set the number with --nodes");
  }
  return {};
}

Status CheckTime(const PoolRow& pool, Duration limit) {
  if (pool.max_time == Duration(0) || (limit > Duration(0) && limit <= pool.max_time)) return {};
  return LimitExceeded("pool " + pool.name + " runs a job for " + DurationText(pool.max_time) +
                       " at most; give --time " + DurationFlag(pool.max_time) + " or less");
}

}  // namespace

Status PoolRegistry::Set(std::vector<PoolRow> rows) {
  const PoolRow* first_default = nullptr;
  for (const PoolRow& row : rows) {
    DIVVY_CHECK(Check(row));
    if (!row.is_default) continue;
    if (first_default != nullptr) {
      return InvalidArgument("pool " + row.name + " and pool " + first_default->name +
                             " are both the default; only one can be");
    }
    first_default = &row;
  }
  rows_ = std::move(rows);
  return {};
}

const PoolRow* PoolRegistry::Find(std::string_view name) const {
  const auto at = std::ranges::find(rows_, name, &PoolRow::name);
  return at == rows_.end() ? nullptr : &*at;
}

const PoolRow* PoolRegistry::Default() const {
  const auto at = std::ranges::find(rows_, true, &PoolRow::is_default);
  return at == rows_.end() ? nullptr : &*at;
}

Status PoolRegistry::AdmitsUser(const PoolRow& pool, const Wish& wish) {
  if (wish.is_admin || (pool.users.empty() && pool.teams.empty())) return {};
  if (std::ranges::find(pool.users, wish.user) != pool.users.end()) return {};
  const auto is_theirs = [&](const TeamRow* team) {
    return std::ranges::find(pool.teams, team->name) != pool.teams.end();
  };
  if (std::ranges::any_of(wish.teams, is_theirs)) return {};
  std::vector<std::string> who = pool.users;
  for (const std::string& team : pool.teams) who.push_back("team " + team);
  return PermissionDenied("pool " + pool.name + " is for " + AndList(who) + ", but this job of " + wish.user +
                          " is not theirs; name another pool with --pool");
}

Status PoolRegistry::AdmitsJob(const PoolRow& pool, const Wish& wish) {
  DIVVY_CHECK(CheckGpus(pool, wish.request));
  for (std::size_t i = 0; i < wish.request.components(); ++i) {
    DIVVY_CHECK(CheckMachines(pool, ComponentOf(wish.request, i), wish.request.is_heterogeneous()));
  }
  return CheckTime(pool, wish.time_limit);
}

}  // namespace divvy
