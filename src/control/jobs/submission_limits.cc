#include "control/jobs/submission_limits.h"

#include <algorithm>

#include "model/same_element.h"

namespace divvy {
namespace {

std::uint64_t TextBytes(const std::vector<std::string>& list) {
  std::uint64_t bytes = 0;
  for (const std::string& text : list) bytes += sizeof text + text.size();
  return bytes;
}

/// The bytes of the record's texts without a fixed size, with those of the copies for its waiting elements.
std::uint64_t TextBytes(const JobRecord& record) {
  std::uint64_t bytes = record.name.size() + record.comment.size() + record.pool.size() + record.project.size() +
                        record.request.constraint.size() + TextBytes(record.request.node_list) +
                        TextBytes(record.request.excluded_nodes) + record.dependencies.size() * sizeof(Dependency);
  for (const Component& other : record.request.others) {
    bytes += sizeof other + other.constraint.size() + TextBytes(other.node_list) + TextBytes(other.excluded_nodes);
    for (const auto& [key, value] : other.labels) bytes += key.size() + value.size();
  }
  return bytes * (1 + (record.array_count > 0 ? record.array_waiting.size() : 0));
}

/// With aftercorr, each element has a record from the beginning, and a copy of the dependencies.
constexpr std::uint64_t kMostCounterparts = 4096;
constexpr std::uint64_t kMostCopies = 16'384;

}  // namespace

std::string SecondsText(Duration limit) {
  if (limit == Duration(0)) return "none";
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) + " s";
}

Status CheckDependencyCount(const std::vector<Dependency>& dependencies, std::uint64_t elements) {
  const std::uint64_t count = dependencies.size();
  if (count > kMostDependencies) {
    return LimitExceeded("dependency: " + std::to_string(count) + " are too many; at most " +
                         std::to_string(kMostDependencies) +
                         " are allowed. Submit the parent jobs as one array and wait for that");
  }
  if (!WaitsForSameElement(dependencies) || (elements <= kMostCounterparts && elements * count <= kMostCopies))
    return {};
  return LimitExceeded("dependency: aftercorr is possible for arrays of at most " + std::to_string(kMostCounterparts) +
                       " elements, and at most " + std::to_string(kMostCopies) + " elements times dependencies, not " +
                       std::to_string(elements) + " x " + std::to_string(count) +
                       "; use afterok to wait for the whole array");
}

Status SubmissionLimits::CheckPriority(int before, int after, const Caller& caller) const {
  const int most = std::max(before, 0);
  if (after <= most || caller.is_admin || limits_.users_may_raise) return {};
  return PermissionDenied("a priority above " + std::to_string(most) +
                          " takes an administrator, or users_may_raise = "
                          "true under [priorities]; users give their jobs at most " +
                          std::to_string(most));
}

Status SubmissionLimits::CheckRoom(std::uint64_t jobs, const Caller& caller) const {
  const std::uint64_t own = scheduler_.waiting_of(caller.user.name);
  if (!caller.is_admin && own + jobs > limits_.max_queued_of_user) {
    return LimitExceeded("user " + caller.user.name + " has " + std::to_string(own) + " of at most " +
                         std::to_string(limits_.max_queued_of_user) +
                         " jobs in the queue; wait, cancel some, or ask an administrator to raise max_queued_of_user "
                         "under [queue]");
  }
  if (scheduler_.waiting_count() + jobs <= limits_.max_queued) return {};
  return LimitExceeded("the queue holds " + std::to_string(scheduler_.waiting_count()) + " of at most " +
                       std::to_string(limits_.max_queued) +
                       " jobs; wait, cancel some, or raise max_queued under [queue]");
}

Status SubmissionLimits::CheckTexts(const std::map<JobId, JobRecord>& live, const std::map<JobId, JobRecord>& changed,
                                    const Caller& caller) {
  constexpr std::uint64_t kUncounted = 4096;  // Thousands of such jobs have some tens of MiB.
  std::uint64_t bytes = 0;
  for (const auto& [id, record] : changed) bytes += TextBytes(record);
  if (caller.is_admin || bytes <= kUncounted) return {};
  const User& user = changed.begin()->second.user;
  for (const auto& [id, record] : live) {
    if (record.user.uid == user.uid && !changed.contains(id)) bytes += TextBytes(record);
  }
  if (bytes <= kMostTextOfUser) return {};
  return LimitExceeded("the queued and running jobs of user " + user.name + " would have " + std::to_string(bytes) +
                       " bytes of node lists, comments and other texts, counted for each element of an array, but may "
                       "have at most " +
                       std::to_string(kMostTextOfUser) + "; shorten them, or use fewer elements");
}

Status SubmissionLimits::CheckTimeLimit(Duration limit) const {
  if (limits_.max_time_limit == Duration(0)) return {};
  if (limit > Duration(0) && limit <= limits_.max_time_limit) return {};
  const std::string most = SecondsText(limits_.max_time_limit);
  return LimitExceeded("jobs here may run " + most + " at most; give --time " +
                       std::to_string(limits_.max_time_limit / std::chrono::seconds(1)) + "s or less");
}

}  // namespace divvy
