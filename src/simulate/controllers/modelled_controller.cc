#include "simulate/controllers/modelled_controller.h"

#include <algorithm>
#include <utility>

namespace divvy::simulate {
namespace {

// As in store/postgres: for the lease, half of it; for a transaction, PostgresOptions::patience.
constexpr Duration kLeaseCallPatience = kLeaseTime / 2;
constexpr Duration kWritePatience = std::chrono::seconds(30);
constexpr Duration kReconnectPause = std::chrono::milliseconds(100);
constexpr int kMostAttempts = 3;
constexpr int kMostLocks = 500;

}  // namespace

/// From the start of the process to its end.
struct ModelledController::Process {
  explicit Process(const ModelledController& machine) : clock(machine) {}

  MachineClock clock;
  std::unique_ptr<LeaseKeeper> keeper;
  Duration asks_at{0};  // When to ask about the lease again, since boot.
  std::optional<Call> lease_call;
  bool must_restart = false;
  std::int64_t elected = 0;  // The epoch in which it leads. 0: it stands by.
  // The writer.
  WriterTerm term;
  std::uint64_t session = 0;  // 0: not connected.
  std::uint64_t session_before = 0;
  std::optional<Call> write_call;
  Time connects_at = kNever;  // When to connect again.
  struct Writing {
    std::vector<Batch> batches;
    std::function<void(Status)> done;
    std::int64_t number = 0;  // Not 0: the outcome of this commit is unknown.
    int attempt = 0;
  };
  std::optional<Writing> writing;
  int locks = 0;
  std::optional<Store::Loaded> followed;
  std::unique_ptr<LeaderLife> life;
};

ModelledController::ModelledController(const ControllersParts& parts, std::size_t index, Duration boot_time,
                                       double rate)
    : parts_(parts),
      self_{std::string(1, static_cast<char>('a' + index)), std::string(1, static_cast<char>('a' + index)) + ":7433",
            "instance " + std::to_string(index), "1", "certificate"},
      rate_(rate),
      boot_base_(parts.clock.true_time),
      boot_offset_(boot_time) {}

ModelledController::~ModelledController() = default;

// --- Clocks ---------------------------------------------------------------------------------------------------------

Duration ModelledController::SinceBoot() const {
  const Time now = is_frozen_ ? frozen_at_ : parts_.clock.true_time;
  return boot_offset_ + Duration(static_cast<Duration::rep>(static_cast<double>((now - boot_base_).count()) * rate_));
}

Time ModelledController::TrueTimeOf(Duration at) const {
  const Duration left = at - SinceBoot();
  if (left <= Duration(0)) return parts_.clock.true_time;
  return parts_.clock.true_time + Duration(static_cast<Duration::rep>(static_cast<double>(left.count()) / rate_) + 1);
}

// --- The process ----------------------------------------------------------------------------------------------------

void ModelledController::Start(bool yields) {
  if (process_) return;
  ++process_id_;
  parts_.trace.Note("a controller starts", JobId(), static_cast<std::int64_t>(self_.name[0] - 'a'));
  process_ = std::make_unique<Process>(*this);
  LeaseKeeper::Ports ports;
  ports.since_boot = [this] {
    return parts_.mutation == ControllersMutation::kJudgesLeaseByWallClock ? Wall().time_since_epoch() : SinceBoot();
  };
  ports.on_elected = [this](std::int64_t epoch) { OnElected(epoch); };
  ports.on_lost = [this](const std::string&) { process_->must_restart = true; };
  ports.log = [](const std::string&, const std::string&) {};
  process_->keeper = std::make_unique<LeaseKeeper>(nullptr, self_, std::move(ports), yields);
  process_->asks_at = SinceBoot();
}

void ModelledController::Kill() {
  if (!process_) return;
  DropConnections();
  process_.reset();
  is_stopped_ = false;
  if (std::exchange(is_frozen_, false)) boot_base_ += parts_.clock.true_time - frozen_at_;
}

void ModelledController::Stop(bool freezes_clocks) {
  if (is_stopped_ || !process_) return;
  is_stopped_ = true;
  frozen_at_ = parts_.clock.true_time;
  is_frozen_ = freezes_clocks;
}

void ModelledController::Continue() {
  if (!std::exchange(is_stopped_, false) || !std::exchange(is_frozen_, false)) return;
  // The machine's clocks continue from where they stopped.
  const Duration stood = parts_.clock.true_time - frozen_at_;
  boot_base_ += stood;
  wall_skew_ -= stood;
}

void ModelledController::StepDown() {
  if (process_) process_->keeper->StepDown();
}

void ModelledController::RestartIfDue() {
  if (!process_ || !process_->must_restart) return;
  parts_.trace.Note("a controller that no longer leads starts again");
  Kill();
  Start(true);
}

LeaderLife* ModelledController::life() { return process_ ? process_->life.get() : nullptr; }
bool ModelledController::may_act() const { return process_ && process_->keeper->may_act(); }
std::int64_t ModelledController::epoch() const { return process_ ? process_->elected : 0; }

// --- Requests to the database ---------------------------------------------------------------------------------------

void ModelledController::Begin(std::optional<Call>& call, std::uint64_t session, std::function<void()> execute,
                               std::function<void(bool)> done) {
  call = Call{session, false, parts_.clock.true_time, std::move(execute), std::move(done)};
}

// Loses a request to the database on its way: it may have been executed, may still be executed, or never is.
void ModelledController::Lose(std::optional<Call>& call) {
  Call lost = *std::exchange(call, std::nullopt);
  if (!lost.is_executed && parts_.random.Below(2) == 0) {
    parts_.late_requests.push_back([database = &parts_.database, session = lost.session, execute = lost.execute] {
      if (database->is_away() || (session != 0 && !database->IsAlive(session))) return;
      execute();
    });
  }
  lost.done(true);
}

void ModelledController::DropConnections() {
  if (!process_) return;
  // A commit may be on its way to the server, or its answer may be on the way back.
  if (process_->write_call && !process_->write_call->is_executed && parts_.random.Below(3) == 0 && !is_cut_)
    AdvanceCall(process_->write_call, kWritePatience);
  // The database server may not notice that the controller's session has ended.
  if (process_->session != 0 && parts_.random.Below(2) == 0) parts_.database.End(process_->session);
  if (process_->session != 0 && !process_->write_call) process_->session_before = std::exchange(process_->session, 0);
  if (process_->lease_call) Lose(process_->lease_call);
  if (process_->write_call) Lose(process_->write_call);
}

bool ModelledController::CanMove(const Call& call, Duration patience) const {
  // A request is done if the network works, or if its answer has left the server already, or after its timeout.
  return !is_cut_ || call.is_executed || parts_.clock.true_time - call.began >= patience;
}

void ModelledController::AdvanceCall(std::optional<Call>& call, Duration patience) {
  const bool is_hopeless = is_cut_ && !call->is_executed && parts_.clock.true_time - call->began >= patience;
  const bool is_gone = parts_.database.is_away() ||
                       (call->session != 0 && !parts_.database.IsAlive(call->session) && !call->is_executed);
  if (is_hopeless || is_gone) return Lose(call);
  if (!call->is_executed) {
    call->is_executed = true;
    return call->execute();
  }
  const Call answered = *std::exchange(call, std::nullopt);
  answered.done(false);
}

std::size_t ModelledController::CountReady() const {
  if (!process_ || is_stopped_) return 0;
  const Process& process = *process_;
  std::size_t count = 0;
  count += process.lease_call ? (CanMove(*process.lease_call, kLeaseCallPatience) ? 1 : 0)
                              : (process.asks_at <= SinceBoot() ? 1 : 0);
  count += process.write_call ? (CanMove(*process.write_call, kWritePatience) ? 1 : 0) : 0;
  count += process.connects_at <= parts_.clock.true_time ? 1 : 0;
  if (process.life) {
    count += process.life->is_task_due() ? 1 : 0;
    count += process.life->next_timer() <= parts_.clock.true_time ? 1 : 0;
  }
  return count;
}

void ModelledController::Advance(std::size_t nth) {
  Process& process = *process_;
  const auto is_meant = [&nth](bool is_ready) { return is_ready && nth-- == 0; };
  if (process.lease_call && is_meant(CanMove(*process.lease_call, kLeaseCallPatience))) {
    AdvanceCall(process.lease_call, kLeaseCallPatience);
  } else if (!process.lease_call && is_meant(process.asks_at <= SinceBoot())) {
    AskAboutLease();
  } else if (process.write_call && is_meant(CanMove(*process.write_call, kWritePatience))) {
    AdvanceCall(process.write_call, kWritePatience);
  } else if (is_meant(process.connects_at <= parts_.clock.true_time)) {
    process.connects_at = kNever;
    Connect();
  } else if (process.life && is_meant(process.life->is_task_due())) {
    process.life->RunTask();
  } else if (process.life && is_meant(process.life->next_timer() <= parts_.clock.true_time)) {
    process.life->FireTimer();
  }
  RestartIfDue();
}

Time ModelledController::next_due() const {
  if (!process_ || is_stopped_) return kNever;
  const Process& process = *process_;
  Time due = process.lease_call ? kNever : TrueTimeOf(process.asks_at);
  if (process.lease_call && is_cut_) due = process.lease_call->began + kLeaseCallPatience;
  if (process.write_call && is_cut_) due = std::min(due, process.write_call->began + kWritePatience);
  due = std::min(due, process.connects_at);
  if (process.life) due = std::min(due, process.life->next_timer());
  return due;
}

// --- The lease ------------------------------------------------------------------------------------------------------

void ModelledController::AskAboutLease() {
  struct Answer {
    LeaseView view;
    std::int64_t epoch = 0;
  };
  Process& process = *process_;
  const auto answer = std::make_shared<Answer>();
  ModelledDatabase* database = &parts_.database;
  const std::int64_t epoch = process.keeper->epoch();
  const LeaseKeeper::Request request = process.keeper->Begin();
  const auto after = [this](Duration pause) { process_->asks_at = SinceBoot() + pause; };
  const Error away = Unreachable("the database is away");
  switch (request) {
    case LeaseKeeper::Request::kNothing:
      return after(std::chrono::seconds(1));
    case LeaseKeeper::Request::kRenew:
    case LeaseKeeper::Request::kLook:
      return Begin(
          process.lease_call, 0, [=, self = self_] { answer->view = database->Beat(self, epoch); },
          [this, answer, after, away](bool is_lost) {
            if (parts_.mutation == ControllersMutation::kTrustsFollowedState && process_->elected == 0)
              process_->followed = *parts_.database.store().Load();
            if (parts_.mutation == ControllersMutation::kCountsLeaseFromAnswer) process_->keeper->Begin();
            after(process_->keeper->OnSeen(is_lost ? Result<LeaseView>(away) : Result<LeaseView>(answer->view)));
          });
    case LeaseKeeper::Request::kTake:
      return Begin(
          process.lease_call, 0, [=, self = self_] { answer->epoch = database->Take(self); },
          [this, answer, after, away](bool is_lost) {
            after(
                process_->keeper->OnTaken(is_lost ? Result<std::int64_t>(away) : Result<std::int64_t>(answer->epoch)));
          });
    case LeaseKeeper::Request::kRelease:
      return Begin(
          process.lease_call, 0, [=] { database->Release(epoch); },
          [this, after](bool) { after(process_->keeper->OnReleased()); });
  }
}

void ModelledController::OnElected(std::int64_t epoch) {
  parts_.trace.Note("a controller leads, epoch", JobId(), epoch);
  ++parts_.figures.leaders;
  process_->elected = epoch;
  Connect();
}

// --- The writer -----------------------------------------------------------------------------------------------------

void ModelledController::Write(std::vector<Batch> batches, std::function<void(Status)> done) {
  process_->writing = Process::Writing{std::move(batches), std::move(done), 0, 0};
  process_->session == 0 ? Connect() : Transact();
}

void ModelledController::Connect() {
  Process& process = *process_;
  if (process.write_call) return;
  const auto has_lock = std::make_shared<bool>(false);
  const auto session = std::make_shared<std::uint64_t>(0);
  ModelledDatabase* database = &parts_.database;
  Begin(
      process.write_call, 0,
      [=, before = process.session_before, lease = process.elected] {
        *session = database->Connect();
        *has_lock = database->Lock(*session, before, lease);
        if (!*has_lock) database->End(*session);
      },
      [this, has_lock, session](bool is_lost) {
        if (!is_lost && *has_lock) {
          process_->session = *session;
          return TakeEpoch();
        }
        OnConnected(true);
      });
}

void ModelledController::TakeEpoch() {
  Process& process = *process_;
  const auto taken = std::make_shared<std::optional<ModelledDatabase::Taken>>();
  ModelledDatabase* database = &parts_.database;
  const std::uint64_t holder = process_id_ * 16 + static_cast<std::uint64_t>(self_.name[0] - 'a');
  Begin(
      process.write_call, process.session,
      [=, known = process.term.epoch(), lease = process.elected] {
        *taken = database->TakeEpoch(known, holder, lease);
      },
      [this, taken](bool is_lost) {
        if (is_lost) {
          process_->session_before = std::exchange(process_->session, 0);
          return OnConnected(true);
        }
        const Status kept = *taken ? process_->term.OnTaken((*taken)->epoch, (*taken)->commits, "the database")
                                   : Status(FailedPrecondition("another controller leads"));
        if (!kept) {
          ++parts_.figures.fenced_commits;
          process_->must_restart = true;
          return;
        }
        OnConnected(false);
      });
}

// A new connection is ready, or could not be opened.
void ModelledController::OnConnected(bool is_lost) {
  Process& process = *process_;
  if (is_lost) {
    const bool is_unknown = process.writing && process.writing->number != 0;
    if (process.writing && !is_unknown && ++process.locks > 1) {
      return FinishWrite(LimitExceeded("cannot write, the database is away: nothing was saved"));
    }
    // A new leader that cannot open the store starts again as a standby; one that does not know an outcome waits.
    if (!process.writing && ++process.locks > kMostLocks) {
      process.must_restart = true;
      return;
    }
    process.connects_at = parts_.clock.true_time + kReconnectPause;
    return;
  }
  process.locks = 0;
  if (!process.life) return ReadState();
  if (!process.writing) return;
  if (process.writing->number != 0) {
    const bool is_done = process.term.Has(process.writing->number);
    if (is_done) ++parts_.figures.unknown_but_done;
    parts_.trace.Note(is_done ? "a commit whose connection was lost had happened"
                              : "a commit whose connection was lost had not happened");
    if (is_done) return FinishWrite({});
    process.writing->number = 0;
    if (++process.writing->attempt >= kMostAttempts)
      return FinishWrite(LimitExceeded("lost the connection to the database three times in a row"));
  }
  Transact();
}

void ModelledController::ReadState() {
  if (process_->followed) return Lead(*std::exchange(process_->followed, std::nullopt));
  const auto loaded = std::make_shared<std::optional<Store::Loaded>>();
  ModelledDatabase* database = &parts_.database;
  Begin(
      process_->write_call, process_->session,
      [=] {
        auto read = database->store().Load();
        *loaded = *std::move(read);
      },
      [this, loaded](bool is_lost) {
        // A controller that is no longer the leader must start again, as in Daemon::BecomeStandby.
        if (is_lost) process_->must_restart = true;
        else Lead(**std::move(loaded));
      });
}

void ModelledController::Lead(Store::Loaded loaded) {
  if (!parts_.check_loaded(loaded)) return;
  LeaderLife::Ports ports;
  ports.may_act = [this] { return process_->keeper->may_act(); };
  ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
    Write(std::move(batches), std::move(done));
  };
  ports.give_up = [this] { process_->must_restart = true; };
  process_->life = std::make_unique<LeaderLife>(process_->elected, parts_.database.store(), process_->clock,
                                                parts_.clock, parts_.trace, parts_.random.Next(), std::move(ports));
  process_->life->Load(std::move(loaded), parts_.nodes);
}

void ModelledController::Transact() {
  Process& process = *process_;
  const auto status = std::make_shared<Status>();
  ModelledDatabase* database = &parts_.database;
  const std::int64_t number = process.term.next_commit();
  const auto write = std::make_shared<const ModelledDatabase::Write>(
      ModelledDatabase::Write{process.term.epoch(), number, process.elected, process.writing->batches});
  Begin(
      process.write_call, process.session, [=] { *status = database->Commit(*write); },
      [this, status, number](bool is_lost) {
        if (!is_lost) {
          if (*status) process_->term.OnCommitted(number);
          else ++parts_.figures.fenced_commits;
          return FinishWrite(*status);
        }
        ++parts_.figures.unknown_outcomes;
        process_->session_before = std::exchange(process_->session, 0);
        if (parts_.mutation == ControllersMutation::kAssumesLostCommitDone) return FinishWrite({});
        if (parts_.mutation == ControllersMutation::kAssumesLostCommitFailed)
          return FinishWrite(LimitExceeded("lost the connection to the database"));
        process_->writing->number = number;
        Connect();
      });
}

void ModelledController::FinishWrite(Status status) {
  process_->locks = 0;
  const auto done = std::move(process_->writing->done);
  process_->writing.reset();
  done(std::move(status));
}

}  // namespace divvy::simulate
