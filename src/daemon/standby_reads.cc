#include "daemon/standby_reads.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/leadership/leader_answers.h"
#include "platform/net/tls.h"
#include "wire/http/token_line.h"

namespace divvy {
namespace {

/// A younger copy is as good as a new one.
constexpr auto kYoung = std::chrono::seconds(1);
/// Making copies may take a fifth of a processor's time.
constexpr int kPausePerWork = 4;
constexpr std::chrono::steady_clock::duration kLongestPause = std::chrono::minutes(1);
constexpr std::chrono::steady_clock::duration kPauseAfterFailure = std::chrono::seconds(2);
/// How long a request waits for a new copy if there is an older one.
constexpr Duration kWaitsForNew = std::chrono::seconds(2);
/// How long a request waits for the first copy.
constexpr Duration kWaitsForFirst = std::chrono::seconds(10);
/// A copy that was not used for this time is dropped.
constexpr Duration kKeepsUnused = std::chrono::seconds(30);
/// The limit on requests that are not answered yet.
constexpr std::size_t kMostAsked = 1000;
/// How often a copy is made for a caller that the last one did not know.
constexpr auto kStrangersPause = std::chrono::minutes(1);
/// Labels of jobs whose specification has changed are read again after this time.
constexpr auto kKeepsLabels = std::chrono::minutes(1);

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

/// Returns true if the client must see the present state, for example because it has just changed something.
bool WantsPresent(const HttpRequest& request) {
  return request.header("cache-control").find("no-cache") != std::string_view::npos;
}

}  // namespace

std::function<void()> StandbyReads::OnLoop(std::function<void(StandbyReads&)> task) {
  return [self = weak_from_this(), is_closed = is_closed_, task = std::move(task)] {
    // Checked first: after Close, the loop must not hold the last reference.
    if (*is_closed) return;
    if (const auto reads = self.lock()) task(*reads);
  };
}

bool StandbyReads::Answer(const Peer& peer, HttpRequest& request, const Reply& reply, const Standby::SendOn& send_on) {
  if (*is_closed_ || !IsAnsweredFromCopy(request) || WantsPresent(request)) return false;
  if (waiting_.size() + answered_.size() >= kMostAsked || !IsWorthReading(peer, request)) return false;
  const bool waits = NeedsNewCopy();
  if (!waits && !HasCopy()) return false;
  Asked asked{peer, std::move(request), reply, send_on};
  if (!waits) {
    AnswerFromCopy(std::move(asked));
    return true;
  }
  waiting_.emplace(next_number_++, std::move(asked));
  MakeCopy();
  return true;
}

// A caller that the last copy does not know may have logged in since.
bool StandbyReads::IsWorthReading(const Peer& peer, const HttpRequest& request) const {
  if (!peer.is_remote() || !tokens_ || ports_.now() - tokens_at_ >= kStrangersPause) return true;
  const auto bearer = ParseBearer(request.header("authorization"));
  const TokenRow* row = bearer ? tokens_->Find(bearer->id) : nullptr;
  return row != nullptr && IsSameSecret(row->hash, Sha256Hex(bearer->secret));
}

bool StandbyReads::NeedsNewCopy() const {
  if (is_making_) return !is_late_;
  const TimePoint now = ports_.now();
  if (copy_ != nullptr && now - copy_->read_at < kYoung) return false;
  return now >= next_at_;
}

void StandbyReads::MakeCopy() {
  if (std::exchange(is_making_, true)) return;
  ports_.after(HasCopy() ? kWaitsForNew : kWaitsForFirst, OnLoop([number = made_](StandbyReads& reads) {
                 if (!reads.is_making_ || reads.made_ != number) return;
                 reads.is_late_ = true;
                 reads.AnswerWaiting();
               }));
  const TimePoint now = ports_.now();
  if (now - labels_since_ >= kKeepsLabels) labels_since_ = now;
  auto before = labels_since_ == now ? nullptr : copy_;
  maker_.Do([this, is_closed = is_closed_, before]() mutable {
    if (*is_closed) return;
    const TimePoint began = ports_.now();
    Result<std::shared_ptr<StateCopy>> made = ports_.make();
    if (made) {
      (*made)->read_at = began;
      (*made)->routes->SetAge(
          [began, now = ports_.now] { return AgeText(std::chrono::duration_cast<Duration>(now() - began)); });
      if (before) (*made)->routes->InheritLabels(*before->routes);
    }
    before.reset();
    if (*is_closed) return;
    ports_.post(OnLoop([took = ports_.now() - began, made = std::move(made)](StandbyReads& reads) mutable {
      reads.OnMade(std::move(made), took);
    }));
  });
}

void StandbyReads::OnMade(Result<std::shared_ptr<StateCopy>> made, std::chrono::steady_clock::duration took) {
  is_making_ = is_late_ = false;
  ++made_;
  const TimePoint now = ports_.now();
  next_at_ = now + std::min(std::max(took * kPausePerWork, made ? took : kPauseAfterFailure), kLongestPause);
  // After a failure, the previous copy answers, with its age.
  if (made) {
    Drop(std::exchange(copy_, *std::move(made)));
    tokens_ = copy_->tokens;
    tokens_at_ = now;
  }
  if (copy_ && !std::exchange(is_use_watched_, true)) DropWhenUnused();
  AnswerWaiting();
}

void StandbyReads::AnswerWaiting() {
  for (auto& [number, asked] : std::exchange(waiting_, {})) AnswerFromCopy(std::move(asked));
}

// The leader decides about a caller that the copy does not know. The reply stays on the loop's thread.
void StandbyReads::AnswerFromCopy(Asked asked) {
  if (!HasCopy()) return asked.send_on(asked.peer, asked.request, std::move(asked.reply));
  used_at_ = ports_.now();
  const std::uint64_t number = next_number_++;
  const auto request = std::make_shared<HttpRequest>(std::move(asked.request));
  const Peer peer = asked.peer;
  answered_.emplace(number, std::move(asked));
  reader_.Do([this, is_closed = is_closed_, copy = copy_, number, peer, request] {
    if (*is_closed) return;
    const bool is_known = !peer.is_remote() || copy->remote->callers.Identify(request->header("authorization"),
                                                                              Touches::kNothing, copy->clock.Latest());
    if (!is_known) {
      return ports_.post(OnLoop([number, request](StandbyReads& reads) {
        const auto node = reads.answered_.extract(number);
        if (!node.empty()) node.mapped().send_on(node.mapped().peer, *request, std::move(node.mapped().reply));
      }));
    }
    const auto on_answer = [this, number](const HttpResponse& response) {
      ports_.post(OnLoop([number, response](StandbyReads& reads) {
        const auto node = reads.answered_.extract(number);
        if (!node.empty()) node.mapped().reply.Answer(response);
      }));
    };
    copy->routes->Handle(peer, std::move(*request), Reply::To(on_answer));
  });
}

void StandbyReads::Drop(std::shared_ptr<StateCopy> copy) {
  if (copy) reader_.Do([copy = std::move(copy)] {});
}

void StandbyReads::DropWhenUnused() {
  ports_.after(kKeepsUnused, OnLoop([](StandbyReads& reads) {
                 const bool is_used = reads.HasCopy() && reads.ports_.now() - reads.used_at_ < kKeepsUnused;
                 if (is_used) return reads.DropWhenUnused();
                 reads.is_use_watched_ = false;
                 reads.Drop(std::exchange(reads.copy_, nullptr));
               }));
}

void StandbyReads::Close() {
  *is_closed_ = true;
  waiting_.clear();
  answered_.clear();
  Drop(std::exchange(copy_, nullptr));
}

}  // namespace divvy
