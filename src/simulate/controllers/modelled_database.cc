#include "simulate/controllers/modelled_database.h"

#include <utility>

namespace divvy::simulate {

void ModelledDatabase::SetAway(bool is_away) {
  is_away_ = is_away;
  store_.SetAway(is_away);
  if (!is_away) return;
  sessions_.clear();
  lock_ = 0;
}

void ModelledDatabase::FailOver(Duration skew) {
  SetAway(true);
  SetAway(false);
  skew_ = skew;
}

LeaseView ModelledDatabase::Beat(const ControllerSelf& self, std::int64_t epoch) {
  LeaseView view;
  view.is_reported = true;
  view.is_renewed = epoch != 0 && epoch == lease_.epoch;
  if (view.is_renewed) ends_ = Now() + kLeaseTime;
  controllers_[self.name] = {{self.name, self.address, self.version, self.certificate, {}, {}}, Now()};
  view.lease = lease_;
  view.lease.left = ends_ - Now();
  for (const auto& [name, row] : controllers_) {
    view.controllers.push_back(row.first);
    view.controllers.back().silent = Now() - row.second;
  }
  return view;
}

std::int64_t ModelledDatabase::Take(const ControllerSelf& self) {
  const bool has_ended = ends_ < Now() || lease_.instance == self.instance;
  if (!has_ended && mutation_ != ControllersMutation::kTakesEarly) return 0;
  const bool is_new = mutation_ != ControllersMutation::kReusesEpoch || lease_.epoch == 0;
  lease_ = {lease_.epoch + (is_new ? 1 : 0), self.name, self.address, self.instance, kNoTime, {}};
  ends_ = Now() + kLeaseTime;
  return lease_.epoch;
}

void ModelledDatabase::Release(std::int64_t epoch) {
  if (lease_.epoch == epoch) ends_ = Duration(0);
}

std::uint64_t ModelledDatabase::Connect() {
  sessions_[++last_session_] = true;
  return last_session_;
}

void ModelledDatabase::End(std::uint64_t session) {
  sessions_.erase(session);
  if (lock_ == session) lock_ = 0;
}

bool ModelledDatabase::Lock(std::uint64_t session, std::uint64_t before, std::int64_t lease) {
  if (before != 0 && mutation_ == ControllersMutation::kLeavesOldSession) {
    if (lock_ == before) lock_ = 0;
  } else if (before != 0) {
    End(before);
  }
  if (lock_ == 0 || lock_ == session) {
    lock_ = session;
    return true;
  }
  if (HasLease(lease)) End(lock_);
  return false;
}

std::optional<ModelledDatabase::Taken> ModelledDatabase::TakeEpoch(std::int64_t known, std::size_t holder,
                                                                   std::int64_t lease) {
  const bool is_own = known == 0 || writer_.epoch == known || (writer_.epoch > known && holder_ == holder);
  if (!HasLease(lease) || (!is_own && mutation_ != ControllersMutation::kSkipsEpochCheck)) return std::nullopt;
  ++writer_.epoch;
  holder_ = holder;
  return writer_;
}

Status ModelledDatabase::Commit(const Write& write) {
  const bool is_of_writer = write.epoch == writer_.epoch && write.number == writer_.commits + 1;
  const bool is_checked =
      mutation_ != ControllersMutation::kSkipsEpochCheck && mutation_ != ControllersMutation::kLeavesOldSession;
  if (!HasLease(write.lease) || (is_checked && !is_of_writer))
    return FailedPrecondition("another divvy has taken over the database");
  DIVVY_CHECK(store_.Commit(write.batches));
  writer_.commits = write.number;
  if (on_committed) on_committed(write);
  return {};
}

}  // namespace divvy::simulate
