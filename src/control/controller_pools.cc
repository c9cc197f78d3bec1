// Pools: which of those that a job names may take it, what is full, and in which it runs.
//
// The caps of a pool are those of a group, called "pool NAME". A job that names several pools waits in those that are
// open to it: where one of them is full it is offered to the others alone, and to all again when there is room. While
// it waits it counts against the caps of all that it is offered to, so that no decision starts too many; what has
// started counts in its own pool, and then the others are asked again.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/controller.h"
#include "control/record_parts.h"

namespace divvy {
namespace {

std::string GroupOf(const std::string& pool) { return std::string(kPoolGroup) + pool; }

/// Of these the ones that give such a job as things are, or all where none does.
std::vector<std::string> ThatFit(const std::vector<std::string>& names, const JobSpec& spec, const PoolBook& pools,
                                 const Server& cluster) {
  std::vector<std::string> fit;
  for (const std::string& name : names) {
    const PoolRow* row = pools.Find(name);
    // A job that names no limit gets one that the pool has.
    const Duration limit = row == nullptr || spec.time_limit > Duration(0) ? spec.time_limit : row->max_time;
    const bool takes =
        row == nullptr || (row->takes_jobs() && PoolBook::AdmitsJob(*row, {spec.request, limit, "", {}, false}));
    if (takes && CheckFeasible(cluster, spec.request, name)) fit.push_back(name);
  }
  return fit.empty() ? names : fit;
}

}  // namespace

Status Controller::UsePools(std::vector<PoolRow> rows) {
  DIVVY_CHECK(pools_.Set(rows));
  for (const PoolRow& row : rows) {
    if (row.is_capped()) cluster_.SetGroupLimits(GroupOf(row.name), {row.running, row.gpus});
  }
  cluster_.SetPools(std::move(rows));
  return {};
}

bool Controller::HasPool(const std::string& name) const {
  if (pools_.Find(name) != nullptr) return true;
  for (NodeIndex node = 0; node < cluster_.nodes().size(); ++node) {
    if (std::ranges::count(cluster_.PoolsOf(node), name) > 0) return true;
  }
  return false;
}

// --- Submission --------------------------------------------------------------------------------------------------

Status Controller::FillPool(JobSpec& spec) const {
  if (pools_.empty()) return {};
  const auto is_unknown = [&](const std::string& name) { return !HasPool(name); };
  if (spec.dialect == Dialect::kValohai && std::ranges::any_of(PoolsIn(spec.pool), is_unknown)) {
    // An environment of another place.
    spec.notes.push_back("environment " + spec.pool + ": no pool here is called so");
    spec.pool.clear();
  }
  if (spec.pool.empty() && pools_.Default() != nullptr) spec.pool = pools_.Default()->name;
  const std::vector<std::string> names = PoolsIn(spec.pool);
  if (names.empty()) return {};
  DIVVY_CHECK(CheckPoolNames(names));
  spec.pool = Join(names, ",");
  // A pool that never gives this job anything bounds it in nothing.
  const std::vector<std::string> fit = names.size() > 1 ? ThatFit(names, spec, pools_, cluster_) : names;
  const PoolRow* row = pools_.Find(fit.front());
  if (row == nullptr) return {};
  if (spec.time_limit == Duration(0)) {
    spec.time_limit = row->default_time > Duration(0) ? row->default_time : limits_.default_time_limit;
    const bool is_too_long = spec.time_limit == Duration(0) || spec.time_limit > row->max_time;
    if (row->max_time > Duration(0) && is_too_long) spec.time_limit = row->max_time;
  }
  if (row->is_exclusive && spec.request.is_heterogeneous()) {
    return InvalidArgument(
        "pool " + row->name +
        " gives whole machines, which a heterogeneous job is not given; name another pool, or submit "
        "each component as a job of its own");
  }
  if (fit.size() == 1 && row->is_exclusive) return TakeWholeMachines(*row, spec);
  return {};
}

Status Controller::CheckPoolNames(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (HasPool(name)) continue;
    std::vector<std::string> known;
    for (const PoolRow& row : pools_.rows()) known.push_back(row.name);
    return InvalidArgument("there is no pool '" + name + "'; there are " + Join(known, ", ") +
                           " (divvy pools lists them)");
  }
  return {};
}

// All GPUs of its machines are its own, as far as all machines with GPUs have the same number.
Status Controller::TakeWholeMachines(const PoolRow& pool, JobSpec& spec) const {
  if (spec.request.gpus == 0 || spec.request.is_elastic() || spec.request.spreads_tasks) return {};
  int gpus = 0;
  for (NodeIndex node = 0; node < cluster_.nodes().size(); ++node) {
    const int has = static_cast<int>(cluster_.node(node).capacity.gpus.size());
    if (has == 0 || std::ranges::count(cluster_.PoolsOf(node), pool.name) == 0) continue;
    if (gpus > 0 && has != gpus) return {};
    gpus = has;
  }
  if (gpus <= spec.request.gpus) return {};
  const int asked = std::exchange(spec.request.gpus, gpus);
  if (pool.max_gpus && spec.request.gpus_in_all() > *pool.max_gpus) {
    return LimitExceeded("pool " + pool.name + " gives whole machines, so it would have " +
                         Plural(spec.request.gpus_in_all(), "GPU") + ", and max_gpus there is " +
                         std::to_string(*pool.max_gpus) + "; " +
                         (gpus > *pool.max_gpus ? "an administrator raises max_gpus, or name another pool with --pool"
                                                : "give fewer --nodes, or name another pool with --pool"));
  }
  spec.notes.push_back("--gpus " + std::to_string(asked) + ": pool " + pool.name + " gives whole machines, with " +
                       Plural(gpus, "GPU") + " each");
  return {};
}

// What each pool gives is counted for those components that are of it.
Status Controller::FillComponentPools(JobSpec& spec, const Caller& caller) const {
  Request first = spec.request;
  std::erase_if(first.others, [](const Component& one) { return !one.pool.empty(); });
  const auto wish = [&](const Request& request) {
    return PoolBook::Wish{request, spec.time_limit, caller.user.name, teams_.PathOf(spec.team), caller.is_admin};
  };
  DIVVY_TRY(spec.pool, CheckPools(spec.pool, wish(first)));
  for (std::size_t i = 1; i < spec.request.components(); ++i) {
    std::string& pool = spec.request.others[i - 1].pool;
    if (pool.empty() || pools_.empty()) continue;
    DIVVY_CHECK(CheckPoolNames(PoolsIn(pool)));
    for (const std::string& name : PoolsIn(pool)) {
      const PoolRow* row = pools_.Find(name);
      if (row != nullptr && row->is_exclusive)
        return InvalidArgument("component " + std::to_string(i) + ": pool " + name +
                               " gives whole machines, which a heterogeneous job is not given; name another pool");
    }
    DIVVY_TRY(pool, CheckPools(pool, wish(ComponentOf(spec.request, i))));
  }
  return {};
}

Result<std::string> Controller::CheckPools(const std::string& list, const PoolBook::Wish& wish) const {
  std::optional<Error> first;
  std::vector<std::string> refusals;
  std::vector<std::string> usable;
  bool is_taken = false;
  for (const std::string& name : PoolsIn(list)) {
    const PoolRow* row = pools_.Find(name);
    Status admitted = row == nullptr ? Status() : PoolBook::AdmitsUser(*row, wish);
    if (admitted) usable.push_back(name);
    if (row != nullptr && admitted) admitted = PoolBook::AdmitsJob(*row, wish);
    if (row != nullptr && !row->takes_jobs()) {
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

PoolBook::Wish Controller::WishOf(const JobRecord& record) const {
  return {record.request, record.time_limit, record.user.name, TeamsOf(record), false};
}

// --- Waiting -----------------------------------------------------------------------------------------------------

std::vector<std::string> Controller::OpenPools(const JobRecord& record) const {
  if (record.pool.empty()) return {};
  std::vector<std::string> names = PoolsIn(record.pool);
  if (pools_.empty()) return names;
  const PoolBook::Wish wish = WishOf(record);
  std::erase_if(names, [&](const std::string& name) {
    const PoolRow* row = pools_.Find(name);
    return row != nullptr && !(row->starts_jobs() && PoolBook::AdmitsJob(*row, wish));
  });
  if (names.size() < 2) return names;
  std::vector<std::string> with_room;
  std::ranges::copy_if(names, std::back_inserter(with_room), [&](const std::string& name) {
    const PoolRow* row = pools_.Find(name);
    if (row == nullptr || !row->is_capped()) return true;
    const std::string group = GroupOf(name);
    const int gpus = record.request.gpus_in_all();
    return (row->running == 0 || cluster_.group_running(group) < row->running) &&
           (row->gpus == 0 || gpus == 0 || cluster_.group_gpus(group) + gpus <= row->gpus);
  });
  return with_room.empty() ? names : with_room;
}

std::string Controller::PoolBar(const JobRecord& record) const {
  const std::vector<std::string> names = PoolsIn(record.pool);
  if (pools_.empty() || names.empty() || !OpenPools(record).empty()) return "";
  std::vector<std::string> why;
  for (const std::string& name : names) {
    if (std::string closed = WhyClosed(*pools_.Find(name), record); !closed.empty()) why.push_back(std::move(closed));
  }
  return "an administrator: " + Join(why, "; ");
}

std::string Controller::WhyClosed(const PoolRow& pool, const JobRecord& record) const {
  if (!pool.starts_jobs())
    return "pool " + pool.name + " starts no jobs: its state is " + std::string(Name(pool.state));
  const Status admitted = PoolBook::AdmitsJob(pool, WishOf(record));
  return admitted ? "" : admitted.error().message;
}

std::vector<std::string> Controller::ClosedPools(const JobRecord& record) const {
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
      const int running = cluster_.group_running(group);
      closed = "pool " + name;
      if (pool.running > 0 && running >= pool.running)
        closed += " runs " + std::to_string(running) + " of at most " + Plural(pool.running, "job");
      else closed += " holds " + std::to_string(cluster_.group_gpus(group)) + " of at most " + Plural(pool.gpus, "GPU");
    }
    why.push_back(std::move(closed));
  }
  return why;
}

std::vector<GroupName> Controller::PoolGroupsOf(const JobRecord& record) const {
  std::vector<GroupName> groups;
  if (pools_.empty() || record.pool.empty()) return groups;
  const bool runs = IsActive(record.state) && record.array_count == 0 && !record.pool_of_run.empty();
  const auto add = [&](const std::string& name) {
    const PoolRow* row = pools_.Find(name);
    if (row != nullptr && row->is_capped()) groups.push_back(GroupOf(name));
  };
  for (const std::string& name : runs ? std::vector{record.pool_of_run} : OpenPools(record)) add(name);
  // All of the job counts in each pool that one of its components is of.
  for (const Component& one : record.request.others) {
    for (const std::string& name : PoolsIn(one.pool)) add(name);
  }
  return groups;
}

// It counts in its own pool alone.
void Controller::CountInItsPool(const JobRecord& record) {
  const RunningJob* running = cluster_.running(record.id);
  if (running == nullptr || PoolsIn(record.pool).size() < 2) return;
  RunningJob job = *running;
  job.groups = GroupsOf(record);
  if (job.groups == running->groups) return;
  cluster_.Finish(record.id);
  cluster_.Adopt(std::move(job));
}

bool Controller::FollowPools() {
  bool has_changed = false;
  for (auto at = choosy_.begin(); at != choosy_.end();) {
    const JobRecord* record = Find(*at);
    const WaitingEntry* entry = record == nullptr ? nullptr : cluster_.waiting(*at);
    if (entry == nullptr) {
      // It may just have started.
      const RunningJob* running = cluster_.running(*at);
      const std::vector<GroupName> groups = running == nullptr ? std::vector<GroupName>() : running->groups;
      if (running != nullptr && record != nullptr) {
        CountInItsPool(*record);
        has_changed = has_changed || cluster_.running(*at)->groups != groups;
      }
      at = choosy_.erase(at);
      continue;
    }
    ++at;
    const std::vector<std::string> open = OpenPools(*record);
    if ((open.empty() ? record->pool : Join(open, ",")) == entry->pool) continue;
    PutWaiting(*record);
    has_changed = true;
  }
  return has_changed;
}

// --- Views -------------------------------------------------------------------------------------------------------

std::map<std::string, Controller::PoolLoad> Controller::PoolLoads() const {
  std::map<std::string, PoolLoad> loads;
  for (const PoolRow& row : pools_.rows()) loads[row.name];
  for (NodeIndex node = 0; node < cluster_.nodes().size(); ++node) {
    const BookNode& machine = cluster_.node(node);
    if (machine.capacity.cpus == 0 && machine.capacity.gpus.empty()) continue;
    for (const std::string& pool : cluster_.PoolsOf(node)) loads[pool].nodes.push_back(node);
  }
  for (const auto& [id, record] : live_) {
    if (record.pool.empty()) continue;
    if (IsActive(record.state) && record.array_count == 0) {
      const auto at = loads.find(record.pool_of_run);
      if (at == loads.end()) continue;
      at->second.running += 1;
      at->second.gpus += GpuCountOf(record);
      continue;
    }
    const bool waits = record.array_count > 0 ? !record.array_waiting.empty() : Waits(record);
    if (!waits) continue;
    const std::int64_t members = record.array_count > 0 ? static_cast<std::int64_t>(record.array_waiting.size()) : 1;
    for (const std::string& name : PoolsIn(record.pool)) {
      if (const auto at = loads.find(name); at != loads.end()) at->second.queued += members;
    }
  }
  return loads;
}

}  // namespace divvy
