#include "driver/lease_keeper.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

constexpr Duration kRenewEvery = std::chrono::seconds(1);
constexpr Duration kAfterFailure = std::chrono::milliseconds(100);
constexpr Duration kLookEvery = std::chrono::milliseconds(250);
/// The clocks of this machine and of the database may run at slightly different speeds.
constexpr Duration kLeaseMargin = kLeaseTime / 20;
/// How long a controller that has stepped down leaves the lease to the others.
constexpr Duration kYields = 2 * kLeaseTime;
/// A controller that reported within this time may take the lease.
constexpr Duration kLives = kLeaseTime;

}  // namespace

LeaseKeeper::LeaseKeeper(std::unique_ptr<ControllerLease> lease, ControllerSelf self, Ports ports, bool yields)
    : lease_(std::move(lease)), self_(std::move(self)), ports_(std::move(ports)) {
  if (yields) yields_until_ = ports_.since_boot() + kYields;
}

Duration LeaseKeeper::Step() {
  while (true) {
    Duration pause = kRenewEvery;
    switch (Begin()) {
      case Request::kNothing:
        return pause;
      case Request::kRenew:
        return OnSeen(lease_->Beat(epoch_));
      case Request::kLook:
        pause = OnSeen(lease_->Beat(0));
        break;
      case Request::kTake:
        return OnTaken(lease_->Take());
      case Request::kRelease:
        static_cast<void>(lease_->Release(epoch_));
        return OnReleased();
    }
    if (!is_to_take_) return pause;
  }
}

LeaseKeeper::Request LeaseKeeper::Begin() {
  if (is_over_) return Request::kNothing;
  // The lease counts from here for this controller. The database counts from the arrival of the request, which is
  // later, so this is safe.
  asked_at_ = ports_.since_boot();
  if (epoch_ != 0) {
    if (!is_stepping_down_) return Request::kRenew;
    acts_until_ = 0;
    return Request::kRelease;
  }
  return std::exchange(is_to_take_, false) ? Request::kTake : Request::kLook;
}

Duration LeaseKeeper::OnSeen(Result<LeaseView> seen) {
  if (!seen) return Fail(seen.error());
  if (epoch_ != 0 && seen->is_renewed) acts_until_ = (asked_at_ + kLeaseTime - kLeaseMargin).count();
  Keep(*seen, asked_at_);
  return epoch_ != 0 ? OnSeenAsLeader(*seen) : OnSeenAsStandby(*seen);
}

LeaseKeeper::View LeaseKeeper::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

void LeaseKeeper::Keep(LeaseView seen, Duration at) {
  std::string conflict;
  for (const ControllerRow& row : seen.controllers) {
    // Another certificate of the last leader keeps this controller from leading. That of any other controller does not
    // matter, since a new one must not keep the others from leading.
    if (row.name != seen.lease.name || row.name == self_.name) continue;
    if (row.certificate.empty() || self_.certificate.empty() || row.certificate == self_.certificate) continue;
    conflict = "its certificate differs from that of controller " + row.name +
               ": copy identity.pem from the state folder there, and start it again";
  }
  if (!seen.is_reported) {
    conflict = "another live controller is named '" + self_.name +
               "': set name in [controller] of divvy.toml to this controller's own address";
  }
  std::string trouble;
  std::string before;
  {
    const std::lock_guard lock(mutex_);
    trouble = std::exchange(view_.trouble, "");
    before = std::exchange(view_.conflict, conflict);
    view_.seen = std::move(seen);
    view_.at = at;
  }
  if (!trouble.empty()) ports_.log("event=database_answers_again", "");
  if (!conflict.empty() && conflict != before) ports_.log("event=cannot_lead reason=", conflict);
}

Duration LeaseKeeper::Fail(const Error& error) {
  std::string before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(view_.trouble, error.message);
  }
  if (before.empty()) ports_.log("event=database_away error=", error.message);
  return kAfterFailure;
}

void LeaseKeeper::Lose(const std::string& why) {
  acts_until_ = 0;
  epoch_ = 0;
  is_over_ = true;
  ports_.log("event=lost_lease reason=", why);
  ports_.on_lost(why);
}

Duration LeaseKeeper::OnReleased() {
  Lose("it stepped down");
  return kRenewEvery;
}

Duration LeaseKeeper::OnSeenAsLeader(const LeaseView& seen) {
  if (seen.is_renewed) return std::max<Duration>(asked_at_ + kRenewEvery - ports_.since_boot(), Duration(0));
  Lose("controller " + seen.lease.name + " has led since, with epoch " + std::to_string(seen.lease.epoch));
  return kRenewEvery;
}

bool LeaseKeeper::MayTake(const LeaseView& seen) const {
  if (!view().conflict.empty()) return false;
  const bool has_ended = seen.lease.left <= Duration(0) || seen.lease.instance == self_.instance;
  if (!has_ended) return false;
  // A controller that runs alone does not take over from several.
  const bool leaves_it_to_others = self_.address.empty() || ports_.since_boot() < yields_until_;
  if (!leaves_it_to_others) return true;
  return std::ranges::none_of(
      seen.controllers, [this](const ControllerRow& row) { return row.name != self_.name && row.silent < kLives; });
}

Duration LeaseKeeper::OnSeenAsStandby(const LeaseView& seen) {
  is_to_take_ = MayTake(seen);
  if (is_to_take_) return Duration(0);
  const Duration left = seen.lease.left > Duration(0) ? seen.lease.left : kLookEvery;
  return std::clamp<Duration>(left + std::chrono::milliseconds(2), std::chrono::milliseconds(2), kLookEvery);
}

Duration LeaseKeeper::OnTaken(const Result<std::int64_t>& epoch) {
  if (!epoch) return Fail(epoch.error());
  if (*epoch == 0) return kAfterFailure;
  epoch_ = *epoch;
  acts_until_ = (asked_at_ + kLeaseTime - kLeaseMargin).count();
  ports_.log("event=leads epoch=" + std::to_string(*epoch), "");
  ports_.on_elected(*epoch);
  return Duration(0);
}

void LeaseKeeper::Release() {
  const std::int64_t epoch = epoch_.exchange(0);
  acts_until_ = 0;
  is_over_ = true;
  if (epoch != 0) static_cast<void>(lease_->Release(epoch));
}

}  // namespace divvy
