#include "daemon/node/own_metrics_readers.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace divvy {

struct OwnMetricsReaders::OfUser {
  std::mutex mutex;
  std::condition_variable done;
  bool is_busy = false;      // A thread uses `metrics`.
  samples::Snapshot found;   // Not taken yet.
  OwnMetrics metrics{256};   // How far it keeps in mind: the user's last 256 jobs.
  bool has_sources = false;  // At the last call.
};

namespace {

void Merge(samples::Sample&& read, samples::Snapshot& out) {
  auto sample = std::ranges::find(out.samples, read.subject, &samples::Sample::subject);
  if (sample == out.samples.end()) sample = out.samples.insert(sample, {read.subject, {}});
  std::ranges::move(read.readings, std::back_inserter(sample->readings));
}

}  // namespace

void OwnMetricsReaders::Look(const std::vector<OwnMetrics::Source>& sources, const std::string& node,
                             samples::Snapshot& out) {
  std::vector<OwnMetrics::Source> ours;
  std::map<std::int64_t, std::vector<OwnMetrics::Source>> theirs;
  for (const OwnMetrics::Source& source : sources) {
    if (source.log.is_ours) ours.push_back(source);
    else theirs[source.log.user.uid].push_back(source);
  }
  // A user without jobs is read once more, for the last lines.
  for (const auto& [uid, user] : users_) {
    if (user->has_sources) theirs[uid];
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (auto& [uid, logs] : theirs) {
    std::shared_ptr<OfUser>& user = users_[uid];
    if (user == nullptr) user = std::make_shared<OfUser>();
    const std::lock_guard lock(user->mutex);
    if (user->is_busy) continue;
    user->has_sources = !logs.empty();
    user->is_busy = true;
    try {
      std::thread([user, node, logs = std::move(logs)] {
        samples::Snapshot read;
        user->metrics.Look(logs, node, read);
        const std::lock_guard finished(user->mutex);
        std::ranges::move(read.samples, std::back_inserter(user->found.samples));
        user->is_busy = false;
        user->done.notify_all();
      }).detach();
    } catch (const std::system_error&) {  // No thread can be started now.
      user->is_busy = false;
    }
  }
  ours_.Look(ours, node, out);
  for (const auto& [uid, user] : users_) {
    std::unique_lock lock(user->mutex);
    user->done.wait_until(lock, until, [&user = *user] { return !user.is_busy; });
    for (samples::Sample& read : std::exchange(user->found, {}).samples) Merge(std::move(read), out);
  }
}

}  // namespace divvy
