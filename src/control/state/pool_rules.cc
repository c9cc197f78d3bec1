#include "control/state/pool_rules.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "engine/scheduler/explain.h"

namespace divvy {
namespace {

std::string GroupOf(const std::string& pool) { return std::string(kPoolGroup) + pool; }

/// Returns the pools that accept such a job now, or all of them if none does.
std::vector<std::string> ThatFit(const std::vector<std::string>& names, const JobSpec& spec, const PoolRegistry& pools,
                                 const Scheduler& cluster) {
  std::vector<std::string> fit;
  for (const std::string& name : names) {
    const PoolRow* row = pools.Find(name);
    // A job without a limit gets one that the pool allows.
    const Duration limit = row == nullptr || spec.time_limit > Duration(0) ? spec.time_limit : row->max_time;
    const bool takes =
        row == nullptr || (row->takes_jobs() && AdmitsPart(*row, {spec.request, limit, "", {}, false}, spec.pool));
    if (takes && CheckFeasible(cluster, spec.request, name)) fit.push_back(name);
  }
  return fit.empty() ? names : fit;
}

}  // namespace

Status PoolRules::UsePools(std::vector<PoolRow> rows) {
  DIVVY_CHECK(pools_.Set(rows));
  for (const PoolRow& row : rows) {
    if (row.is_capped()) scheduler_.SetGroupLimits(GroupOf(row.name), {row.running, row.gpus});
  }
  scheduler_.SetPools(std::move(rows));
  return {};
}

bool PoolRules::HasPool(const std::string& name) const { return divvy::HasPool(pools_, scheduler_, name); }

// --- Submission --------------------------------------------------------------------------------------------------

std::string PoolRules::PlacePool(const std::string& pool) const {
  return IsOnlyALabel(pools_, scheduler_, pool) ? "" : pool;
}

Status PoolRules::FillPool(JobSpec& spec) const {
  const auto note_label = [&](const std::string& pool) {
    if (scheduler_.has_many())
      spec.notes.push_back("pool " + pool + ": no pools are defined here, so this is only a label (divvy pools)");
  };
  for (Component& component : spec.request.others) {
    if (!IsOnlyALabel(pools_, scheduler_, component.pool)) continue;
    note_label(component.pool);
    component.pool.clear();
  }
  if (IsOnlyALabel(pools_, scheduler_, spec.pool)) {
    note_label(spec.pool);
    return {};
  }
  const auto is_unknown = [&](const std::string& name) { return !HasPool(name); };
  if (spec.dialect == Dialect::kValohai && std::ranges::any_of(PoolsIn(spec.pool), is_unknown)) {
    // On this installation there is no pool of the name that the submitted environment has, so it is dropped with a
    // note.
    spec.notes.push_back("environment " + spec.pool + ": there is no such pool here");
    spec.pool.clear();
  }
  if (spec.pool.empty() && pools_.Default() != nullptr) spec.pool = pools_.Default()->name;
  const std::vector<std::string> names = PoolsIn(spec.pool);
  if (names.empty()) return {};
  DIVVY_CHECK(CheckPoolNames(names));
  spec.pool = Join(names, ",");
  // Default settings are taken from the first of the job's pools that can accept it.
  const std::vector<std::string> fit = names.size() > 1 ? ThatFit(names, spec, pools_, scheduler_) : names;
  const PoolRow* row = pools_.Find(fit.front());
  if (row == nullptr) return {};
  if (spec.time_limit == Duration(0)) {
    spec.time_limit = row->default_time > Duration(0) ? row->default_time : default_time_limit_;
    const bool is_too_long = spec.time_limit == Duration(0) || spec.time_limit > row->max_time;
    if (row->max_time > Duration(0) && is_too_long) spec.time_limit = row->max_time;
  }
  if (row->is_exclusive && spec.request.is_heterogeneous()) {
    return InvalidArgument(
        "pool " + row->name +
        " allocates whole nodes, which heterogeneous jobs do not support; name another pool, or submit "
        "each component as a job of its own");
  }
  if (fit.size() == 1 && row->is_exclusive) return TakeWholeMachines(*row, spec);
  if (fit.size() == 1 && row->jobs_per_gpu > 1) ShareGpus(*row, spec);
  return {};
}

Status PoolRules::CheckPoolNames(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (HasPool(name)) continue;
    return InvalidArgument("there is no pool '" + name + "'; there are " + Join(PoolNames(pools_, scheduler_), ", ") +
                           " (divvy pools lists them)");
  }
  return {};
}

// The job's whole GPUs become fractions, and it may borrow the rest. Jobs that cannot use fractions keep whole GPUs.
void PoolRules::ShareGpus(const PoolRow& pool, JobSpec& spec) {
  Request& request = spec.request;
  if (request.gpus == 0 || request.is_elastic() || request.is_gang() || request.is_portioned() ||
      !request.slice.empty())
    return;
  request.portion.request = GpuShare(GpuShare::kWhole / pool.jobs_per_gpu);
  request.portion.limit = GpuShare(GpuShare::kWhole);
  spec.notes.push_back("--gpus " + std::to_string(request.gpus) + ": in pool " + pool.name + " " +
                       std::to_string(pool.jobs_per_gpu) + " jobs share a GPU; " + PartsText(request.portion.request) +
                       " of each is guaranteed, and it can borrow what the others leave idle");
}

// The job gets all GPUs of its nodes, provided that all GPU nodes of the pool have the same number.
Status PoolRules::TakeWholeMachines(const PoolRow& pool, JobSpec& spec) const {
  if (spec.request.gpus == 0 || spec.request.is_elastic() || spec.request.spreads_tasks || !spec.request.slice.empty())
    return {};
  int gpus = 0;
  for (NodeIndex node = 0; node < scheduler_.nodes().size(); ++node) {
    const int has = static_cast<int>(
        std::ranges::count_if(scheduler_.node(node).capacity.gpus, std::not_fn(&GpuFacts::is_only_sliced)));
    if (has == 0 || std::ranges::count(scheduler_.PoolsOf(node), pool.name) == 0) continue;
    if (gpus > 0 && has != gpus) return {};
    gpus = has;
  }
  if (gpus < spec.request.gpus || (gpus == spec.request.gpus && spec.request.short_nodes == 0)) return {};
  const int asked = std::exchange(spec.request.gpus, gpus);
  spec.request.short_nodes = 0;
  if (pool.max_gpus && spec.request.gpus_in_all() > *pool.max_gpus) {
    return LimitExceeded("pool " + pool.name + " allocates whole nodes, so it would have " +
                         Plural(spec.request.gpus_in_all(), "GPU") + ", and max_gpus there is " +
                         std::to_string(*pool.max_gpus) + "; " +
                         (gpus > *pool.max_gpus ? "an administrator raises max_gpus, or name another pool with --pool"
                                                : "give fewer --nodes, or name another pool with --pool"));
  }
  spec.notes.push_back("--gpus " + std::to_string(asked) + ": pool " + pool.name + " allocates whole nodes, with " +
                       Plural(gpus, "GPU") + " each");
  return {};
}

namespace {

/// Like PoolRules::CheckPools, for the list of one component in a job whose own pool list is `pool_of_job`.
Result<std::string> CheckPoolsOf(const PoolRegistry& pools, const std::string& list, const PoolRegistry::Wish& wish,
                                 const std::string& pool_of_job) {
  std::optional<Error> first;
  std::vector<std::string> refusals;
  std::vector<std::string> usable;
  bool is_taken = false;
  for (const std::string& name : PoolsIn(list)) {
    const PoolRow* row = pools.Find(name);
    Status admitted = row == nullptr ? Status() : PoolRegistry::AdmitsUser(*row, wish);
    const bool is_closed = row != nullptr && !row->takes_jobs();
    if (admitted && !is_closed) usable.push_back(name);
    if (row != nullptr && admitted) admitted = AdmitsPart(*row, wish, pool_of_job);
    if (is_closed) {
      admitted = FailedPrecondition("pool " + name + " takes no jobs: its state is " + std::string(Name(row->state)) +
                                    "; name another pool with --pool");
    }
    is_taken = is_taken || admitted;
    if (admitted) continue;
    refusals.push_back(admitted.error().message);
    if (!first) first = admitted.error();
  }
  if (first && !is_taken) return Error{first->code, Join(refusals, "; ")};
  return Join(usable, ",");
}

}  // namespace

// A pool's rules apply to all components in that pool together.
Status PoolRules::FillComponentPools(JobSpec& spec, const Caller& caller) const {
  const PoolRegistry::Wish wish{spec.request, spec.time_limit, caller.user.name, teams_.PathOf(spec.team),
                                caller.is_admin};
  DIVVY_TRY(spec.pool, CheckPools(spec.pool, wish));
  for (std::size_t i = 1; i < spec.request.components(); ++i) {
    std::string& pool = spec.request.others[i - 1].pool;
    if (pool.empty() || pools_.empty()) continue;
    DIVVY_CHECK(CheckPoolNames(PoolsIn(pool)));
    for (const std::string& name : PoolsIn(pool)) {
      const PoolRow* row = pools_.Find(name);
      if (row != nullptr && row->is_exclusive)
        return InvalidArgument("component " + std::to_string(i) + ": pool " + name +
                               " allocates whole nodes, which heterogeneous jobs do not support; name another pool");
    }
    DIVVY_TRY(pool, CheckPoolsOf(pools_, pool, wish, spec.pool));
  }
  return {};
}

Result<std::string> PoolRules::CheckPools(const std::string& list, const PoolRegistry::Wish& wish) const {
  return CheckPoolsOf(pools_, list, wish, list);
}

PoolRegistry::Wish PoolRules::WishOf(const JobRecord& record) const {
  return {record.request, record.time_limit, record.user.name, teams_.PathOf(record.team), false};
}

// --- Waiting -----------------------------------------------------------------------------------------------------

std::vector<std::string> PoolRules::OpenPools(const JobRecord& record) const {
  return OpenPoolsOf(pools_, scheduler_, record, 0);
}

bool PoolRules::NamesLimitedPools(const JobRecord& record) const {
  const auto is_capped = [&](const std::string& name) {
    const PoolRow* row = pools_.Find(name);
    return row != nullptr && row->is_capped();
  };
  return NamesSeveralPools(record) && std::ranges::any_of(AllPoolsOf(record), is_capped);
}

std::string PoolRules::PoolBar(const JobRecord& record) const {
  if (pools_.empty()) return "";
  std::vector<std::string> why;
  for (std::size_t i = 0; i < record.request.components(); ++i) {
    const std::vector<std::string> names = PoolsIn(PoolListOf(record.request, record.pool, i));
    if (names.empty() || !OpenPoolsOf(pools_, scheduler_, record, i).empty()) continue;
    for (const std::string& name : names) {
      std::string closed = WhyClosed(*pools_.Find(name), record);
      if (!closed.empty() && std::ranges::count(why, closed) == 0) why.push_back(std::move(closed));
    }
  }
  return why.empty() ? "" : "an administrator: " + Join(why, "; ");
}

std::string PoolRules::WhyClosed(const PoolRow& pool, const JobRecord& record) const {
  if (!pool.starts_jobs())
    return "pool " + pool.name + " starts no jobs: its state is " + std::string(Name(pool.state));
  const Status admitted = AdmitsPart(pool, WishOf(record), record.pool);
  return admitted ? "" : admitted.error().message;
}

std::vector<std::string> PoolRules::ClosedPools(const JobRecord& record) const {
  std::vector<std::string> why;
  const std::vector<std::string> names = PoolsIn(record.pool);
  if (pools_.empty() || names.size() < 2) return why;
  const std::vector<std::string> open = OpenPools(record);
  for (const std::string& name : names) {
    if (open.empty() || std::ranges::count(open, name) > 0) continue;
    const PoolRow& pool = *pools_.Find(name);
    std::string closed = WhyClosed(pool, record);
    if (closed.empty()) {
      const std::string group = GroupOf(name);
      const int running = scheduler_.group_running(group);
      closed = "pool " + name;
      if (pool.running > 0 && running >= pool.running)
        closed += " runs " + std::to_string(running) + " of at most " + Plural(pool.running, "job");
      else
        closed += " holds " + std::to_string(scheduler_.group_gpus(group)) + " of at most " + Plural(pool.gpus, "GPU");
    }
    why.push_back(std::move(closed));
  }
  return why;
}

namespace {

/// The first node that has a part of this component.
std::string FirstMachineOf(const JobRecord& record, std::size_t component) {
  for (const NodeAllocation& allocation : record.gang) {
    for (const ComponentAllocation& part : allocation.parts) {
      if (static_cast<std::size_t>(part.component) == component) return allocation.node;
    }
  }
  return record.node;
}

}  // namespace

// The whole job counts in each pool that one of its components is in. While it waits, that is every pool that it is
// offered to; once it runs, the pool that its node belongs to.
std::vector<GroupName> PoolRules::GroupsOf(const JobRecord& record) const {
  std::vector<GroupName> groups;
  if (pools_.empty()) return groups;
  const auto add = [&](const std::string& name) {
    const PoolRow* row = pools_.Find(name);
    const std::string group = GroupOf(name);
    if (row != nullptr && row->is_capped() && std::ranges::count(groups, group) == 0) groups.push_back(group);
  };
  const bool runs = IsActive(record.state) && record.array_count == 0;
  for (std::size_t i = 0; i < record.request.components(); ++i) {
    const std::vector<std::string> named = PoolsIn(PoolListOf(record.request, record.pool, i));
    if (named.empty()) continue;
    if (!runs || (i == 0 && record.pool_of_run.empty())) {
      std::ranges::for_each(OpenPoolsOf(pools_, scheduler_, record, i), add);
      continue;
    }
    if (i == 0) {
      add(record.pool_of_run);
      continue;
    }
    const auto node = nodes_.IndexOf(FirstMachineOf(record, i));
    const auto is_of = [&](const std::string& name) {
      return node && std::ranges::count(scheduler_.PoolsOf(*node), name);
    };
    const auto at = std::ranges::find_if(named, is_of);
    add(at == named.end() ? named.front() : *at);
  }
  return groups;
}

// --- Views -------------------------------------------------------------------------------------------------------

std::map<std::string, PoolRules::PoolLoad> PoolRules::PoolLoads() const {
  std::map<std::string, PoolLoad> loads;
  for (const PoolRow& row : pools_.rows()) loads[row.name];
  for (NodeIndex node = 0; node < scheduler_.nodes().size(); ++node) {
    const NodeUsage& machine = scheduler_.node(node);
    if (machine.capacity.cpus == 0 && machine.capacity.gpus.empty()) continue;
    for (const std::string& pool : scheduler_.PoolsOf(node)) loads[pool].nodes.push_back(node);
  }
  for (const auto& [id, record] : jobs_.live()) {
    if (record.pool.empty()) continue;
    if (IsActive(record.state) && record.array_count == 0) {
      const auto at = loads.find(record.pool_of_run);
      if (at == loads.end()) continue;
      at->second.running += 1;
      at->second.gpus += GpusWorthOf(record);
      continue;
    }
    if (!SomeWait(record)) continue;
    const std::int64_t members = record.array_count > 0 ? static_cast<std::int64_t>(record.array_waiting.size()) : 1;
    for (const std::string& name : PoolsIn(record.pool)) {
      if (const auto at = loads.find(name); at != loads.end()) at->second.queued += members;
    }
  }
  return loads;
}

}  // namespace divvy
