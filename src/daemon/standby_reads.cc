#include "daemon/standby_reads.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/leadership/leader_answers.h"

namespace divvy {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// A younger copy is as good as a new one.
constexpr auto kYoung = std::chrono::seconds(1);
/// Making copies may take a fifth of a processor's time.
constexpr int kPausePerWork = 4;
/// A copy that nobody has used for this time is dropped.
constexpr Duration kKeepsUnused = std::chrono::seconds(30);

/// Reads whose answers need nothing but the stored state: no node, no samples, no files.
bool IsAnsweredFromCopy(const HttpRequest& request) {
  if (request.method == "POST") return request.path == "/v1/jobs/select";
  if (request.method != "GET") return false;
  constexpr std::array<std::string_view, 7> kPaths = {"/v1/jobs",  "/v1/nodes",        "/v1/pools",  "/v1/gpus",
                                                      "/v1/teams", "/v1/reservations", "/v1/history"};
  if (std::ranges::find(kPaths, request.path) != kPaths.end()) return true;
  constexpr std::string_view kJobs = "/v1/jobs/";
  if (!request.path.starts_with(kJobs)) return false;
  const std::string_view rest = std::string_view(request.path).substr(kJobs.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  return slash > 0 && (slash == rest.size() || rest.substr(slash) == "/why");
}

/// The client has just changed something, and must see it.
bool WantsPresent(const HttpRequest& request) {
  return request.header("cache-control").find("no-cache") != std::string_view::npos;
}

}  // namespace

bool StandbyReads::Answer(const Peer& peer, HttpRequest& request, const Reply& reply, const Standby::SendOn& send_on) {
  if (is_closed_ || !IsAnsweredFromCopy(request) || WantsPresent(request)) return false;
  Waiting one{peer, std::move(request), reply, send_on};
  if (!IsToMakeAnew()) {
    AnswerFrom(std::move(one));
    return true;
  }
  waiting_.push_back(std::move(one));
  MakeAnew();
  return true;
}

bool StandbyReads::IsToMakeAnew() const {
  if (is_making_) return true;
  const auto now = SteadyClock::now();
  if (copy_ != nullptr && now - copy_->read_at < kYoung) return false;
  return now - made_at_ >= took_ * kPausePerWork;
}

void StandbyReads::MakeAnew() {
  if (std::exchange(is_making_, true)) return;
  const std::weak_ptr<Worker> worker = worker_;
  // A copy that is replaced stays until its last read is done.
  const auto owner = std::make_shared<std::weak_ptr<StateCopy>>();
  const auto read = [worker, owner, post = ports_.post](std::function<std::function<void()>()> work) {
    const auto thread = worker.lock();
    if (!thread) return;
    thread->Do([copy = owner->lock(), work = std::move(work), post]() mutable {
      // Passed on, so that it never ends on this thread.
      auto finish = work();
      post([copy = std::move(copy), finish = std::move(finish)] { finish(); });
    });
  };
  worker_->Do([self = weak_from_this(), make = ports_.make, post = ports_.post, read, owner] {
    const auto began = SteadyClock::now();
    Result<std::shared_ptr<StateCopy>> made = make(read);
    if (made) {
      *owner = *made;
      (*made)->read_at = began;
      (*made)->routes->SetAge(
          [began] { return AgeText(std::chrono::duration_cast<Duration>(SteadyClock::now() - began)); });
    }
    const auto took = SteadyClock::now() - began;
    post([self, took, made = std::move(made)]() mutable {
      const auto reads = self.lock();
      if (!reads) return;
      reads->took_ = took;
      reads->OnMade(std::move(made));
    });
  });
}

void StandbyReads::OnMade(Result<std::shared_ptr<StateCopy>> made) {
  is_making_ = false;
  made_at_ = SteadyClock::now();
  if (is_closed_) return;
  // Else the copy of before answers; its age shows that.
  if (made) copy_ = *std::move(made);
  if (copy_ && !std::exchange(is_use_watched_, true)) DropWhenUnused();
  for (Waiting& one : std::exchange(waiting_, {})) AnswerFrom(std::move(one));
}

// A caller that the copy does not know may have logged in since: the leader decides.
void StandbyReads::AnswerFrom(Waiting one) {
  const bool is_known = copy_ != nullptr && (!one.peer.is_remote() ||
                                             copy_->remote->callers.Identify(one.request.header("authorization"),
                                                                             Touches::kNothing, copy_->clock.Latest()));
  if (!is_known) return one.send_on(one.peer, one.request, std::move(one.reply));
  used_at_ = SteadyClock::now();
  copy_->routes->Handle(one.peer, std::move(one.request), std::move(one.reply));
}

void StandbyReads::DropWhenUnused() {
  ports_.after(kKeepsUnused, [self = weak_from_this()] {
    const auto reads = self.lock();
    if (!reads) return;
    if (SteadyClock::now() - reads->used_at_ < kKeepsUnused) return reads->DropWhenUnused();
    reads->is_use_watched_ = false;
    reads->copy_.reset();
  });
}

void StandbyReads::Close() {
  is_closed_ = true;
  waiting_.clear();
  copy_.reset();
}

}  // namespace divvy
