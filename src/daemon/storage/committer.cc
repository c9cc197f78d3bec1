#include "daemon/storage/committer.h"

#include <algorithm>

namespace divvy {
namespace {

std::size_t Rows(const std::vector<Batch>& batches) {
  std::size_t rows = 0;
  for (const Batch& batch : batches)
    rows += batch.inserts.size() + batch.updates.size() + batch.history.size() + batch.settings.size();
  return rows;
}

}  // namespace

// The expected duration rises at once after a slow commit, and falls only after several quick ones.
void Committer::Learn(Duration took) { expected_ = std::max(took, (expected_ * 7 + took) / 8); }

void Committer::Do(std::function<void()> task) {
  ++tasks_;
  writer_.Do([this, task = std::move(task)] {
    task();
    post_([this] { --tasks_; });
  });
}

void Committer::Commit(std::vector<Batch> batches, Done done) {
  const bool is_small = Rows(batches) <= kFewRows;
  const Time now = clock_.Now();
  const bool is_calm = now - last_ended_ >= kCalm * expected_;
  if (is_small && is_quick() && is_calm && tasks_ == 0 && !store_.is_remote()) {
    Status status = store_.Commit(batches);
    last_ended_ = clock_.Now();
    Learn(last_ended_ - now);
    return done(std::move(status));
  }
  writer_.Do(
      [this, is_small, batches = std::make_shared<std::vector<Batch>>(std::move(batches)), done = std::move(done)] {
        const Time began = clock_.Now();
        Status status = store_.Commit(*batches);
        const Duration took = clock_.Now() - began;
        post_([this, is_small, took, done, status = std::move(status), batches]() mutable {
          if (is_small) Learn(took);
          last_ended_ = clock_.Now();
          done(std::move(status));
        });
      });
}

}  // namespace divvy
