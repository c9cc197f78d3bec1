#include "cli/client/progress_indicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace divvy::cli {
namespace {

std::atomic<ProgressIndicator*> speaker = nullptr;

}  // namespace

ProgressIndicator::ProgressIndicator(std::string what)
    : ProgressIndicator(std::move(what), ::isatty(STDERR_FILENO) == 1 ? stderr : nullptr, std::chrono::seconds(2)) {}

ProgressIndicator::ProgressIndicator(std::string what, std::FILE* to, std::chrono::milliseconds after)
    : what_(std::move(what)), to_(to), after_(after) {
  if (to_ == nullptr) return;
  outer_ = speaker.exchange(this);
  thread_ = std::thread([this] { Run(); });
}

ProgressIndicator::~ProgressIndicator() {
  if (to_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_all();
  thread_.join();
  speaker = outer_;
}

void ProgressIndicator::ClearLine() {
  ProgressIndicator* const one = speaker;
  if (one == nullptr) return;
  const std::lock_guard lock(one->mutex_);
  one->Clear();
}

// Requires: mutex_ is held.
void ProgressIndicator::Clear() {
  if (!is_shown_) return;
  std::fputs("\r\033[K", to_);
  std::fflush(to_);
  is_shown_ = false;
}

void ProgressIndicator::Run() {
  const auto begun = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (auto pause = after_; !wake_.wait_for(lock, pause, [this] { return is_over_; });
       pause = std::min(after_, std::chrono::milliseconds(1000))) {
    if (speaker != this) continue;
    const auto lasted = std::chrono::steady_clock::now() - begun;
    std::fprintf(to_, "\r\033[K%s ... %lld s", what_.c_str(),
                 static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(lasted).count()));
    std::fflush(to_);
    is_shown_ = true;
  }
  Clear();
}

}  // namespace divvy::cli
