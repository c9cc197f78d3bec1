#include "daemon/storage/housekeeping.h"

namespace divvy {
namespace {

// It does not matter if history is kept an hour longer.
constexpr Duration kBetweenRounds = std::chrono::hours(1);
// The pause between two steps. A step takes about 20 ms of the writer thread's time; commits get the rest.
constexpr Duration kBetweenSteps = std::chrono::milliseconds(60);

}  // namespace

Housekeeping::Housekeeping(Store& store, const Clock& clock, const Log& log, Keep keep, Ports ports)
    : store_(store),
      clock_(clock),
      log_(log),
      keep_(std::move(keep)),
      ports_(std::move(ports)),
      old_logs_(keep_.log_directory, store) {}

void Housekeeping::Start() {
  // A round that takes longer than an hour continues and is not started again. Logs are removed first, because their
  // owners are known only while their jobs are.
  if (keep_.logs > Duration(0) && !is_removing_) {
    is_removing_ = true;
    logs_removed_before_ = old_logs_.removed();
    RemoveLogs(clock_.Now() - keep_.logs);
  }
  if (keep_.finished > Duration(0) && !is_forgetting_) {
    is_forgetting_ = true;
    ForgetJobs(clock_.Now() - keep_.finished);
  }
  ports_.after(kBetweenRounds, [this] { Start(); });
}

void Housekeeping::ForgetJobs(Time ended_before) {
  ports_.write([this, ended_before] {
    ports_.post([this, ended_before, has_more = store_.PruneStep(ended_before)] {
      if (has_more && *has_more) return ports_.after(kBetweenSteps, [this, ended_before] { ForgetJobs(ended_before); });
      if (!has_more) log_.Write(LogLevel::kWarning, "event=prune error=" + LogQuoted(has_more.error().message));
      is_forgetting_ = false;
    });
  });
}

void Housekeeping::RemoveLogs(Time ended_before) {
  ports_.read([this, ended_before] {
    ports_.post([this, ended_before, has_more = old_logs_.Step(ended_before)] {
      if (has_more && *has_more) return ports_.after(kBetweenSteps, [this, ended_before] { RemoveLogs(ended_before); });
      if (!has_more) log_.Write(LogLevel::kWarning, "event=remove_logs error=" + LogQuoted(has_more.error().message));
      const std::uint64_t removed = old_logs_.removed() - logs_removed_before_;
      if (removed > 0) log_.Write(LogLevel::kInfo, "event=remove_logs count=" + std::to_string(removed));
      is_removing_ = false;
    });
  });
}

}  // namespace divvy
