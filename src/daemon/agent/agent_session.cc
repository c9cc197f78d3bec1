#include "daemon/agent/agent_session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/agent/agent_commands.h"
#include "daemon/runtime/log.h"
#include "wire/messages/agent_codec.h"

namespace divvy {
namespace {

constexpr std::size_t kInFlight = std::size_t{256} << 10;
constexpr Duration kWelcomeWithin = std::chrono::seconds(20);
/// A rejected agent tries again, because the reason may be gone, but not often.
constexpr Duration kRefusedPause = std::chrono::seconds(30);
constexpr Duration kGlanceAtLeast = std::chrono::seconds(10);
/// With several controllers, the agent looks for the leader at least this often.
constexpr Duration kLongestSearchPause = std::chrono::seconds(1);
/// With several controllers: how late a welcome or the answer to a heartbeat may be before the agent looks for another
/// leader. Doubles each time, until a leader has answered: one that has much to do must not lose its agents for ever.
constexpr Duration kAnswerAtMost = std::chrono::seconds(3);
constexpr int kMostDoublings = 3;

}  // namespace

AgentSession::AgentSession(Start start, Ports ports)
    : start_(std::move(start)), ports_(std::move(ports)), backoff_(start_.seed) {
  if (start_.lease) lease_ = *start_.lease;
  has_standbys_ = start_.has_standbys;
}

AgentSession::~AgentSession() { *is_alive_ = false; }

// ---- Connections ----------------------------------------------------------------------------------------------------

void AgentSession::Begin() { DialAfter(Duration(0)); }

void AgentSession::DialAfter(Duration wait) {
  state_ = State::kWaiting;
  ports_.after(wait, [this, alive = is_alive_] {
    if (!*alive || state_ != State::kWaiting) return;
    state_ = State::kDialling;
    ports_.dial();
  });
}

void AgentSession::OnDialFailed(const Error& error, bool is_final) {
  ports_.log("event=not_connected reason=" + LogQuoted(error.message));
  if (is_final && ports_.on_refused) ports_.on_refused(error, true);
  DialAfter(is_final ? kRefusedPause : Pause());
}

Duration AgentSession::Pause() {
  const Duration pause = backoff_.Next();
  if (!has_standbys_ || pause <= kLongestSearchPause) return pause;
  // The shortened pause is random as well, so that agents do not connect all at once.
  return kLongestSearchPause / 2 + pause % (kLongestSearchPause / 2);
}

void AgentSession::LearnControllers(const std::vector<std::string>& addresses) {
  has_standbys_ = addresses.size() > 1;
  if (ports_.keep_controllers) ports_.keep_controllers(addresses);
}

bool AgentSession::MayHaveStoppedLeading(Duration now) const {
  const Duration answered = lease_.ends() - lease_.terms().lease;
  return has_standbys_ && is_welcome() && now - answered > lease_.terms().heartbeat + Patience();
}

Duration AgentSession::Patience() const {
  if (!has_standbys_) return kWelcomeWithin;
  return std::min(kWelcomeWithin, kAnswerAtMost * (1 << std::min(late_answers_, kMostDoublings)));
}

void AgentSession::LoseLate(const std::string& why) {
  ++late_answers_;
  Lose(why);
}

void AgentSession::OnDialled(std::unique_ptr<ByteStream> stream) {
  stream_ = std::move(stream);
  ++connections_;
  reader_ = FrameReader();
  state_ = State::kGreeting;
  ByteStream::Listener listener;
  listener.on_bytes = [this](std::string_view bytes) { OnBytes(bytes); };
  listener.on_drained = [this] { Flush(); };
  listener.on_closed = [this] { Lose("the connection is gone"); };
  stream_->Listen(std::move(listener));
  wire::AgentHello hello;
  for (int version = wire::kAgentVersion; version >= wire::kOldestAgentVersion; --version)
    hello.versions.push_back(version);
  hello.name = start_.name;
  hello.session = start_.session + "-" + std::to_string(sessions_);
  hello.epoch = has_session_ ? epoch() : 0;
  hello.received = link_.received();
  hello.now = ports_.now();
  hello.facts = start_.facts;
  hello.logs = start_.logs;
  hello.has_channels = ports_.on_channel != nullptr;
  greeted_at_ = ports_.since_boot();
  SendFrame(FrameKind::kHello, wire::EncodeAgent(hello));
}

void AgentSession::Lose(const std::string& why) {
  if (!stream_) return;
  ports_.log("event=disconnected reason=" + LogQuoted(why));
  stream_.reset();
  link_.Detach();
  if (ports_.on_disconnected) ports_.on_disconnected();
  DialAfter(Pause());
}

void AgentSession::SendFrame(FrameKind kind, std::string_view payload) {
  std::string bytes;
  AppendFrame(bytes, kind, payload);
  stream_->Send(bytes);
}

void AgentSession::Flush() {
  if (!stream_ || !is_welcome() || stream_->unsent() >= kInFlight) return;
  std::string bytes;
  link_.Output(bytes, kInFlight);
  if (!bytes.empty()) stream_->Send(bytes);
}

void AgentSession::OnBytes(std::string_view bytes) {
  // After a suspension, received commands may be outdated. The controller repeats what it still wants.
  if (WasSilentTooLong()) return Lose("the controller was silent for longer than the lease");
  reader_.Feed(bytes);
  while (stream_) {
    auto frame = reader_.Next();
    if (!frame) return Lose(frame.error().message);
    if (!*frame) break;
    if (const Status taken = OnFrame(**std::move(frame)); !taken) return Lose(taken.error().message);
  }
  // Acknowledged bytes have made room, so streams may send again. Sending may fail and end the session.
  if (const auto channels = channels_) channels->Wake();
  Flush();
}

Status AgentSession::OnFrame(Frame frame) {
  switch (frame.kind) {
    case FrameKind::kWelcome:
      return OnWelcome(frame.payload);
    case FrameKind::kRefused:
      OnRefused(frame.payload);
      return {};
    case FrameKind::kBeatAnswer: {
      std::string_view payload = frame.payload;
      if (const auto beat = TakeNumber(payload)) {
        late_answers_ = 0;
        lease_.OnAnswer(*beat);
        ports_.keep_lease(lease_);
      }
      return {};
    }
    case FrameKind::kMessage:
    case FrameKind::kAck: {
      if (!is_welcome()) return InvalidArgument("the controller sent a command before its welcome");
      DIVVY_TRY(const auto message, link_.OnFrame(std::move(frame)));
      if (!message) return {};
      if (!Channels::IsOne(*message)) return OnCommand(*message);
      return channels_ ? channels_->OnMessage(*message) : Status();
    }
    case FrameKind::kAsk:
      return OnAsk(frame.payload);
    case FrameKind::kWatch:
      is_watched_ = frame.payload == "1";
      return {};
    default:
      return {};  // A frame of a later version.
  }
}

void AgentSession::OnRefused(std::string_view text) {
  const auto refused = wire::DecodeAgent<wire::AgentRefused>(text);
  const Error error = PermissionDenied(refused ? refused->reason : "the controller refused the connection");
  ports_.log("event=refused reason=" + LogQuoted(error.message));
  const bool was_in = is_welcome();
  stream_.reset();
  link_.Detach();
  const bool is_final = refused && refused->is_final;
  if (was_in && is_final && ports_.on_removed) return ports_.on_removed(error);
  if (ports_.on_refused) ports_.on_refused(error, is_final);
  DialAfter(is_final ? kRefusedPause : Pause());
}

// ---- Sessions -------------------------------------------------------------------------------------------------------

Status AgentSession::OnWelcome(std::string_view text) {
  if (state_ != State::kGreeting) return InvalidArgument("the controller sent a second welcome");
  DIVVY_TRY(wire::AgentWelcome welcome, wire::DecodeAgent<wire::AgentWelcome>(text));
  DIVVY_CHECK(epochs_.CheckWelcome(welcome.epoch));
  if (welcome.lease <= Duration(0) || welcome.heartbeat <= Duration(0))
    return InvalidArgument("the controller's welcome names no lease");
  // Stored before any of its commands is executed: from here on, commands of an older controller are rejected.
  if (epochs_.Follow(welcome.epoch)) ports_.keep_epoch(welcome.epoch);
  lease_.Begin({welcome.heartbeat, welcome.lease, welcome.stops_when_lost}, greeted_at_);
  ports_.keep_lease(lease_);
  backoff_.Reset();
  is_stopping_all_ = false;
  takes_samples_ = welcome.takes_samples;
  takes_found_ = welcome.takes_found;
  is_watched_ = false;
  LearnControllers(welcome.controllers);
  if (!welcome.is_resumed) {
    DIVVY_CHECK(BeginSession(std::move(welcome)));
  } else if (!has_session_ || !link_.Attach(welcome.received)) {
    // The controller has kept another session than the agent, so both sides start a new one.
    has_session_ = false;
    EndChannels();
    ++sessions_;
    return InvalidArgument("the controller resumed a session that is not ours");
  } else {
    state_ = State::kWelcome;
  }
  ports_.log("event=connected epoch=" + std::to_string(epoch()));
  if (ports_.on_welcome) ports_.on_welcome();
  return {};
}

Status AgentSession::BeginSession(wire::AgentWelcome welcome) {
  state_ = State::kWelcome;
  has_session_ = true;
  epochs_.BeginSession(welcome.epoch);
  link_ = Link();
  DIVVY_CHECK(link_.Attach(0));
  EndChannels();
  if (welcome.has_channels) BeginChannels();
  last_glance_.clear();
  std::map<JobId, Believed> before = std::exchange(believed_, {});
  for (wire::AgentRun& run : welcome.runs) {
    const JobId job = run.record.id;
    LearnRight(run.record, run.right);
    const auto known = before.find(job);
    std::shared_ptr<const JobSpec> spec;
    if (known != before.end() && known->second.record.attempt == run.record.attempt) {
      spec = known->second.spec;
    } else {
      spec = std::make_shared<const JobSpec>(TermsOf(run));
    }
    believed_.insert_or_assign(job, Believed{std::move(run.record), std::move(spec)});
  }
  if (std::exchange(has_adopted_, true)) {
    ports_.reconcile();
  } else if (const Status adopted = ports_.adopt_runs(welcome.was_rebooted); !adopted) {
    has_adopted_ = false;
    has_session_ = false;
    EndChannels();
    ++sessions_;
    return adopted.error();
  }
  wire::AgentReport report;
  report.adopted = wire::AdoptedMessage{start_.facts.boot_id};
  Report(report);
  if (!trouble_.empty()) ReportTrouble();
  return {};
}

void AgentSession::SetTrouble(const std::string& what) {
  if (std::exchange(trouble_, what) != what) ReportTrouble();
}

void AgentSession::ReportTrouble() {
  wire::AgentReport report;
  report.trouble = wire::TroubleMessage{trouble_};
  Report(report);
}

void AgentSession::OnShares(const wire::KeeperState& state) {
  wire::AgentReport report;
  report.shares = wire::SharesMessage{state};
  Report(report);
}

void AgentSession::OnRepay(JobId job, std::uint32_t attempt, const std::string& why) {
  wire::AgentReport report;
  report.repay = wire::RepayMessage{job, attempt, why};
  Report(report);
}

void AgentSession::OnPresence(const PresenceReport& presence) {
  const auto believed = believed_.find(presence.job);
  if (believed != believed_.end() && believed->second.record.attempt == presence.attempt)
    believed->second.record.gpus = presence.gpus;
  wire::AgentReport report;
  report.presence = wire::PresenceMessage{presence.job,  presence.attempt,  static_cast<int>(presence.presence),
                                          presence.gpus, presence.can_park, presence.why};
  Report(report);
}

void AgentSession::Report(const wire::AgentReport& report) { SendMessage(wire::EncodeAgent(report)); }

void AgentSession::SendMessage(std::string message) {
  if (!has_session_) return;  // The next session begins with the full state.
  if (const Status kept = link_.Send(std::move(message)); !kept) {
    has_session_ = false;
    EndChannels();
    ++sessions_;
    link_ = Link();
    return Lose(kept.error().message);
  }
  Flush();
}

// ---- Streams --------------------------------------------------------------------------------------------------------

void AgentSession::BeginChannels() {
  if (!ports_.on_channel) return;
  channels_ = std::make_shared<Channels>(
      Channels::Side::kAgent, [this](std::string message) { SendMessage(std::move(message)); }, ports_.on_channel,
      [this] { return link_.has_room_to_spare(); });
}

// This may be called from inside one of the channels' own functions, so they are destroyed later.
void AgentSession::EndChannels() {
  const auto channels = std::exchange(channels_, nullptr);
  if (!channels) return;
  channels->Clear(std::string(kSessionOver));
  ports_.after(Duration(0), [channels] {});
}

// ---- Commands -------------------------------------------------------------------------------------------------------

Status AgentSession::OnCommand(std::string_view text) {
  DIVVY_TRY(wire::AgentCommand message, wire::DecodeAgent<wire::AgentCommand>(text));
  DIVVY_CHECK(epochs_.CheckCommand(message.epoch));
  if (message.look) ports_.look(message.look->gpus);
  if (message.withhold && ports_.withhold) ports_.withhold(message.withhold->gpus);
  if (message.controllers) LearnControllers(message.controllers->addresses);
  if (message.renewed && ports_.on_renewed) ports_.on_renewed(message.renewed->fingerprint);
  const std::optional<Duration> limit = message.time_limit ? std::optional(message.time_limit->limit) : std::nullopt;
  if (auto& launch = message.launch; launch && !launch->gang_key.empty() && ports_.set_gang_key)
    ports_.set_gang_key(launch->record.id, launch->record.attempt, std::move(launch->gang_key));
  if (const auto& launch = message.launch) LearnRight(launch->record, launch->right);
  if (const auto& adopt = message.adopt) LearnRight(adopt->record, adopt->right);
  auto command = CommandOf(std::move(message));
  if (!command) return {};
  if (const auto* timed = std::get_if<TimeLimitCommand>(&command->command)) {
    const auto believed = believed_.find(timed->job);
    if (believed == believed_.end()) return {};
    believed->second.record.time_limit = *limit;
    command->command = TimeLimitCommand{timed->job, Deadline(believed->second.record)};
  }
  Believe(command->command, command->spec);
  ports_.node->Execute(command->command, command->spec);
  return {};
}

// The answer is sent only on the connection on which the question arrived; otherwise the controller has given up
// waiting.
Status AgentSession::OnAsk(std::string_view payload) {
  if (!is_welcome()) return InvalidArgument("the controller sent a query before its welcome");
  DIVVY_TRY(const wire::NumberedQuestion ask, wire::DecodeAsk(payload));
  if (!ports_.answer) return {};
  const JobRecord& record = ask.question.record;
  LearnRight(record, ask.question.right);
  ports_.answer(ask.question, [this, alive = is_alive_, connection = connections_, number = ask.number, job = record.id,
                               attempt = record.attempt](wire::AgentAnswer answer, std::string bytes) {
    if (!*alive || !stream_ || connection != connections_) return;
    const auto believed = believed_.find(job);
    answer.is_running = believed != believed_.end() && believed->second.record.attempt == attempt;
    SendFrame(FrameKind::kAnswer, wire::EncodeAnswer({number, std::move(answer), std::move(bytes)}));
  });
  return {};
}

// Updates the agent's copy of the records that the node would find at the controller.
void AgentSession::Believe(const NodeCommand& command, const std::shared_ptr<const JobSpec>& spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    believed_.insert_or_assign(launch->record.id, Believed{launch->record, spec});
    return;
  }
  if (const auto* adopt = std::get_if<AdoptCommand>(&command)) {
    believed_.insert_or_assign(adopt->record.id, Believed{adopt->record, spec});
    return;
  }
  const auto record_of = [this](JobId job) {
    const auto believed = believed_.find(job);
    return believed == believed_.end() ? nullptr : &believed->second.record;
  };
  if (const auto* stop = std::get_if<StopCommand>(&command)) {
    if (JobRecord* record = record_of(stop->job)) record->stop_intent = StopIntent::kCancel;
  } else if (const auto* pause = std::get_if<PauseCommand>(&command)) {
    if (JobRecord* record = record_of(pause->job))
      record->state = pause->is_paused ? JobState::kPaused : JobState::kRunning;
  } else if (const auto* resize = std::get_if<ResizeCommand>(&command)) {
    if (JobRecord* record = record_of(resize->job)) {
      record->takes_resizes |= resize->is_signalled;
      record->gpus_asked_back = record->gpus - resize->gpus;
      record->gpus = record->gpus | resize->gpus;
      record->gpus_used = resize->gpus;
    }
  } else if (const auto* go = std::get_if<GoCommand>(&command)) {
    if (JobRecord* record = record_of(go->job); record != nullptr && record->attempt == go->attempt)
      record->was_let_go = true;
  } else if (const auto* forget = std::get_if<ForgetCommand>(&command)) {
    const auto believed = believed_.find(forget->job);
    if (believed != believed_.end() && believed->second.record.attempt == forget->attempt) believed_.erase(believed);
  }
}

// ---- Time -----------------------------------------------------------------------------------------------------------

void AgentSession::Tick() {
  const Duration now = ports_.since_boot();
  ReportHeldFailures();
  if (state_ == State::kGreeting && now - greeted_at_ > Patience()) LoseLate("the controller did not send a welcome");
  if (WasSilentTooLong()) Lose("the controller has not answered for longer than the lease");
  if (MayHaveStoppedLeading(now)) LoseLate("the controller does not answer; another one may lead");
  if (is_welcome() && lease_.IsBeatDue(now)) {
    std::string payload;
    AppendNumber(payload, lease_.Beat(now));
    SendFrame(FrameKind::kHeartbeat, payload);
  }
  if (is_welcome() || !lease_.is_fenced(now)) return;
  if (!std::exchange(is_stopping_all_, true)) ports_.log("event=fenced what=\"the lease has ended: jobs are stopped\"");
  ports_.stop_all();
}

void AgentSession::Glance(const std::vector<GpuObservation>& seen) {
  if (!is_welcome() || stream_->unsent() >= kInFlight) return;
  if (seen == last_glance_ && ports_.now() - glanced_at_ < kGlanceAtLeast) return;
  last_glance_ = seen;
  glanced_at_ = ports_.now();
  wire::AgentReport report;
  report.gpus = wire::GpusMessage{seen};
  SendFrame(FrameKind::kGlance, wire::EncodeAgent(report));
}

bool AgentSession::SendSamples(const std::string& bytes) {
  if (!takes_samples_) return true;
  if (!is_welcome() || stream_->unsent() >= kInFlight) return false;
  SendFrame(FrameKind::kSamples, bytes);
  return true;
}

void AgentSession::Renew(const std::string& fingerprint) {
  wire::AgentReport report;
  report.renew = wire::RenewMessage{fingerprint};
  Report(report);
}

// ---- Reports of the node --------------------------------------------------------------------------------------------

void AgentSession::OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) {
  wire::AgentReport report;
  report.prepared = wire::PreparedMessage{job, attempt, port};
  Report(report);
}

void AgentSession::OnDelayed(JobId job, std::uint32_t attempt, const std::string& why) {
  wire::AgentReport report;
  report.delayed = wire::DelayedMessage{job, attempt, why};
  Report(report);
}

void AgentSession::OnStarted(JobId job, std::uint32_t attempt, Time at) {
  const auto believed = believed_.find(job);
  if (believed != believed_.end() && believed->second.record.attempt == attempt) {
    JobRecord& record = believed->second.record;
    // Supervisors repeat this report whenever they are pinged.
    if (record.started == at && record.state != JobState::kStarting) return;
    record.started = at;
    if (record.state == JobState::kStarting) record.state = JobState::kRunning;
  }
  wire::AgentReport report;
  report.started = wire::StartedMessage{job, attempt, at};
  Report(report);
}

void AgentSession::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  const auto believed = believed_.find(job);
  if (believed != believed_.end() && believed->second.record.attempt == attempt) believed_.erase(believed);
  wire::ExitedMessage message{job, attempt, exit, at};
  if (start_.failure_hold > Duration(0) && (exit.code != 0 || exit.signal != 0)) {
    held_failures_.try_emplace({job, attempt},
                               HeldFailure{std::move(message), ports_.since_boot() + start_.failure_hold});
    return;
  }
  wire::AgentReport report;
  report.exited = std::move(message);
  Report(report);
}

void AgentSession::ReportHeldFailures() {
  const Duration now = ports_.since_boot();
  std::erase_if(held_failures_, [&](auto& held) {
    if (now < held.second.due) return false;
    wire::AgentReport report;
    report.exited = std::move(held.second.message);
    Report(report);
    return true;
  });
}

void AgentSession::OnVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  const auto believed = believed_.find(job);
  if (believed != believed_.end() && believed->second.record.attempt == attempt) believed_.erase(believed);
  wire::AgentReport report;
  report.vanished = wire::VanishedMessage{job, attempt, std::string(WordOf(how))};
  Report(report);
}

void AgentSession::OnGpusObserved(const std::vector<GpuObservation>& observations) {
  wire::AgentReport report;
  report.gpus = wire::GpusMessage{observations};
  Report(report);
}

bool AgentSession::OnFound(const RunDescription& run) {
  if (!takes_found_) return false;
  wire::AgentReport report;
  report.found = run;
  Report(report);
  return true;
}

std::vector<JobId> AgentSession::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [job, believed] : believed_) {
    if (IsActive(believed.record.state)) active.push_back(job);
  }
  return active;
}

const JobRecord* AgentSession::Find(JobId job) const {
  const auto believed = believed_.find(job);
  return believed == believed_.end() ? nullptr : &believed->second.record;
}

Result<std::shared_ptr<const JobSpec>> AgentSession::SpecOf(const JobRecord& record) const {
  const auto believed = believed_.find(record.id);
  if (believed == believed_.end()) return NotFound("job " + ToString(record.id) + " is not known here");
  return believed->second.spec;
}

}  // namespace divvy
