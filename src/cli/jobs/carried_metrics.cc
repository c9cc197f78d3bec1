#include "cli/jobs/carried_metrics.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "wire/http/http.h"
#include "wire/messages/codec.h"

namespace divvy::cli {

void ObjectLines::Read(std::string_view bytes) {
  while (!bytes.empty()) {
    if (at_ == At::kLineStart) {
      bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t"), bytes.size()));
      if (bytes.empty()) return;
      at_ = bytes.front() == '{' ? At::kObject : At::kOther;
    }
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (at_ == At::kObject && begun_.size() + part.size() <= wire::kMostOwnLine) begun_ += part;
    else at_ = At::kOther;
    if (end == std::string_view::npos) return;
    End();
    bytes.remove_prefix(end + 1);
  }
}

void ObjectLines::End() {
  if (at_ == At::kObject) lines_.push_back(std::move(begun_));
  if (lines_.size() > wire::kMostOwnLines) {
    lines_.pop_front();
    ++left_out_;
  }
  begun_.clear();
  at_ = At::kLineStart;
}

std::deque<std::string> ObjectLines::Take() {
  left_out_ = 0;
  return std::exchange(lines_, {});
}

void CarriedMetrics::Read(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  lines_.Read(bytes);
  if (lines_.empty()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
  changed_.notify_all();
}

void CarriedMetrics::Begin() {
  const std::lock_guard lock(mutex_);
  has_begun_ = true;
  changed_.notify_all();
}

void CarriedMetrics::Serve() {
  // Other threads handle the job's signals.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::int64_t untold = 0;  // Lines that were dropped before lines without a number; not reported yet.
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_over_ || (has_begun_ && !lines_.empty()); });
    const bool is_last = is_over_;
    Said said;
    said.lines_left_out = untold + lines_.left_out();
    const auto lines = lines_.Take();
    lock.unlock();
    wire::OwnNumbers& numbers = said.numbers;
    for (const std::string& line : lines) {
      for (const auto& [name, value] : wire::NumbersOfLine(line)) wire::KeepNewest(numbers, name, value);
    }
    if (numbers.size() > wire::kMostOwnNames) {
      said.names_left_out = static_cast<std::int64_t>(numbers.size() - wire::kMostOwnNames);
      numbers.resize(wire::kMostOwnNames);
    }
    untold = numbers.empty() ? said.lines_left_out : 0;
    if (!numbers.empty()) tell_(said);
    lock.lock();
    if (is_last) return;
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; });
  }
}

void CarriedMetrics::Finish() {
  {
    const std::lock_guard lock(mutex_);
    if (!is_over_) lines_.End();
    if (!lines_.empty() && !thread_.joinable()) thread_ = std::thread([this] { Serve(); });
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Result<std::string> AddOwnMetrics(Api& api, const std::string& id, const wire::OwnMetricsRequest& request) {
  return api.Raw("POST", "/v1/jobs/" + PercentEncode(id) + "/metrics", wire::EncodeChanged(request));
}

}  // namespace divvy::cli
