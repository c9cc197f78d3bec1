#include "daemon/fleet/remote_node.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "daemon/agent/agent_commands.h"
#include "daemon/agent/agent_samples.h"
#include "daemon/runtime/log.h"
#include "model/steps/step_list.h"
#include "samples/block.h"
#include "wire/messages/agent_codec.h"

namespace divvy {
namespace {

/// The controller's own node has no name in records; sets it for other nodes.
void NameAllocations(JobRecord& record, const std::string& own_name) {
  for (NodeAllocation& allocation : record.gang) {
    if (allocation.node.empty()) allocation.node = own_name;
  }
}

/// How long agents keep samples that they could not send.
constexpr Duration kSamplesKept = std::chrono::seconds(AgentSamples::kMostKept);
/// The limit on bytes handed to the connection at once; the rest waits here, where it is counted.
constexpr std::size_t kInFlight = std::size_t{256} << 10;
/// The limit on questions at the agent: on a slow connection, commands must fit between the answers.
constexpr std::size_t kQuestionsAtOnce = 8;

}  // namespace

RemoteNode::RemoteNode(std::string name, std::uint64_t epoch, FleetPort& fleet, Ports ports)
    : name_(std::move(name)), epoch_(epoch), fleet_(fleet), ports_(std::move(ports)) {}

RemoteNode::~RemoteNode() {
  DropSession();
  *is_alive_ = false;
}

// ---- Commands -------------------------------------------------------------------------------------------------------

void RemoteNode::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) {
    if (spec == nullptr) {
      Exit exit;
      exit.code = 127;
      exit.failure = "its specification could not be read from the store";
      return fleet_.OnExited(name_, launch->record.id, launch->record.attempt, exit, ports_.now());
    }
    Knows(launch->record.id, launch->record.attempt);
  }
  if (const auto* adopt = std::get_if<AdoptCommand>(&command)) Knows(adopt->record.id, adopt->record.attempt);
  if (const auto* forget = std::get_if<ForgetCommand>(&command)) {
    const auto known = known_.find(forget->job);
    if (known != known_.end() && known->second == forget->attempt) {
      known_.erase(known);
      ended_.insert_or_assign(forget->job, ports_.now());
    }
  }
  if (!session_) return;
  const auto* limit = std::get_if<TimeLimitCommand>(&command);
  const JobRecord* live = limit == nullptr ? nullptr : fleet_.Find(limit->job);
  if (limit != nullptr && live == nullptr) return;
  wire::AgentCommand message = MessageOf(command, spec.get(), live);
  if (auto& launch = message.launch; launch && !launch->record.gang.empty()) {
    if (ports_.gang_key) launch->gang_key = ports_.gang_key(launch->record.id, launch->record.attempt);
    NameAllocations(launch->record, ports_.own_name);
  }
  if (auto& launch = message.launch) launch->right = RightOf(launch->record);
  if (auto& adopt = message.adopt) {
    NameAllocations(adopt->record, ports_.own_name);
    adopt->right = RightOf(adopt->record);
  }
  if (message.launch && message.launch->record.is_foreground && message.launch->seat == 0 && ports_.before_foreground)
    ports_.before_foreground(*this, message.launch->record.id);
  Send(std::move(message));
}

void RemoteNode::Look(GpuSet gpus) {
  if (!is_connected()) return;
  wire::AgentCommand command;
  command.look = wire::LookMessage{gpus};
  Send(std::move(command));
}

void RemoteNode::SendControllers() {
  if (!session_ || !ports_.controllers) return;
  std::vector<std::string> controllers = ports_.controllers();
  if (controllers == sent_controllers_) return;
  sent_controllers_ = controllers;
  wire::AgentCommand command;
  command.controllers = wire::ControllersMessage{std::move(controllers)};
  Send(std::move(command));
}

bool RemoteNode::Withhold(const std::vector<wire::WithheldGpu>& gpus) {
  if (!session_) return false;
  wire::AgentCommand command;
  command.withhold = wire::WithholdMessage{gpus};
  Send(std::move(command));
  return true;
}

void RemoteNode::SetWatched(bool is_watched) {
  if (!stream_ || std::exchange(was_told_watched_, is_watched) == is_watched) return;
  SendFrame(FrameKind::kWatch, is_watched ? "1" : "0");
}

void RemoteNode::Send(wire::AgentCommand command) {
  if (!session_) return;
  command.epoch = epoch_;
  SendMessage(wire::EncodeAgent(command));
}

void RemoteNode::SendMessage(std::string message) {
  if (!session_) return;
  if (const Status kept = session_->link.Send(std::move(message)); !kept) {
    // Commands are not dropped one by one: the agent starts a new session with the full state.
    ports_.log("node=" + name_ + " event=session_ended reason=" + LogQuoted(kept.error().message));
    return EndSession();
  }
  Flush();
}

// ---- Questions ------------------------------------------------------------------------------------------------------

void RemoteNode::Ask(wire::AgentQuestion question, Answered answered) {
  if (!is_connected()) return answered(Unreachable("node " + name_ + " is away"));
  if (questions_.size() >= kMostQuestions) {
    return answered(LimitExceeded("node " + name_ + " is asked for " + std::to_string(kMostQuestions) +
                                  " pieces of output already; try again in a moment"));
  }
  const std::uint64_t number = next_question_++;
  NameAllocations(question.record, ports_.own_name);
  question.right = RightOf(question.record);
  const Duration within = question.share_action.empty() ? kAnswerWithin : kActsWithin;
  questions_.emplace(number, Question{wire::EncodeAsk({number, std::move(question)}), std::move(answered)});
  if (ports_.after) {
    ports_.after(within, [this, alive = is_alive_, number] {
      if (!*alive) return;
      FailQuestion(number, "node " + name_ + " does not answer");
      if (stream_) SendQuestions();
    });
  }
  SendQuestions();
}

void RemoteNode::SendQuestions() {
  for (auto& [number, question] : questions_) {
    if (questions_sent_ >= kQuestionsAtOnce) return;
    if (question.payload.empty()) continue;
    SendFrame(FrameKind::kAsk, std::exchange(question.payload, ""));
    ++questions_sent_;
  }
}

Status RemoteNode::OnAnswer(std::string_view payload) {
  DIVVY_TRY(wire::NumberedAnswer answer, wire::DecodeAnswer(payload));
  const auto asked = questions_.extract(answer.number);
  if (asked.empty()) return {};  // The answer came too late.
  if (!asked.mapped().payload.empty()) return InvalidArgument("it answers what it was not asked");
  --questions_sent_;
  asked.mapped().answered(std::move(answer));
  if (stream_) SendQuestions();
  return {};
}

void RemoteNode::FailQuestion(std::uint64_t number, const std::string& why) {
  const auto asked = questions_.extract(number);
  if (asked.empty()) return;
  if (asked.mapped().payload.empty()) --questions_sent_;
  asked.mapped().answered(Unreachable(why));
}

// ---- Connections ----------------------------------------------------------------------------------------------------

wire::AgentWelcome RemoteNode::MakeWelcome(const wire::AgentHello& hello, const LeaseTerms& terms) {
  wire::AgentWelcome welcome;
  welcome.epoch = epoch_;
  welcome.heartbeat = terms.heartbeat;
  welcome.lease = terms.lease;
  welcome.stops_when_lost = terms.stops_jobs;
  welcome.now = ports_.now();
  const bool is_same = session_ && session_->id == hello.session && hello.epoch == epoch_;
  if (is_same && session_->link.Attach(hello.received)) {
    welcome.is_resumed = true;
    welcome.received = session_->link.received();
    return welcome;
  }
  BeginSession(hello);
  for (wire::AgentRun& run : fleet_.RunsOn(name_)) {
    const auto known = known_.find(run.record.id);
    if (known != known_.end() && known->second == run.record.attempt) {
      NameAllocations(run.record, ports_.own_name);
      run.right = RightOf(run.record);
      if (run.record.is_foreground) session_->foreground.emplace(run.record.id, run.record.attempt);
      welcome.runs.push_back(std::move(run));
    }
  }
  return welcome;
}

void RemoteNode::BeginSession(const wire::AgentHello& hello) {
  DropSession();
  session_.emplace(Session{hello.session, Link(), nullptr, {}});
  static_cast<void>(session_->link.Attach(0));
  if (!hello.has_channels || !ports_.on_channel) return;
  session_->channels = std::make_shared<Channels>(
      Channels::Side::kController, [this](std::string message) { SendMessage(std::move(message)); },
      [this](std::uint64_t number, std::string_view purpose) { ports_.on_channel(*this, number, purpose); },
      [this] { return session_ && session_->link.has_room_to_spare(); });
}

void RemoteNode::Connect(std::unique_ptr<ByteStream> stream, FrameReader reader, int version,
                         const wire::AgentHello& hello, const LeaseTerms& terms, bool was_rebooted) {
  if (stream_) Cut("it came by another connection");
  stream_ = std::move(stream);
  reader_ = std::move(reader);
  reader_.SetLimit(kFrameBytes);
  heard_ = ports_.now();
  ahead_ = heard_ - hello.now;
  boot_id_ = hello.facts.boot_id;
  ByteStream::Listener listener;
  listener.on_bytes = [this](std::string_view bytes) { OnBytes(bytes); };
  listener.on_drained = [this] { Flush(); };
  listener.on_closed = [this] { Cut("the connection is gone"); };
  stream_->Listen(std::move(listener));
  wire::AgentWelcome welcome = MakeWelcome(hello, terms);
  welcome.version = version;
  welcome.was_rebooted = was_rebooted;
  welcome.has_channels = ports_.on_channel != nullptr;
  welcome.takes_samples = ports_.on_samples != nullptr;
  welcome.takes_found = true;
  if (ports_.controllers) welcome.controllers = sent_controllers_ = ports_.controllers();
  was_told_watched_ = false;
  ports_.log("node=" + name_ + " event=node_connected address=" + LogQuoted(address_) +
             (welcome.is_resumed ? " session=resumed" : " session=new runs=" + std::to_string(welcome.runs.size())));
  SendFrame(FrameKind::kWelcome, wire::EncodeAgent(welcome));
  WakeChannels();
  Flush();
}

void RemoteNode::Cut(const std::string& why) {
  if (!stream_) return;
  ports_.log("node=" + name_ + " event=node_disconnected reason=" + LogQuoted(why));
  stream_.reset();
  if (session_) session_->link.Detach();
  if (ports_.on_cut) ports_.on_cut(name_);
  const std::uint64_t asked_before = next_question_;
  while (!questions_.empty() && questions_.begin()->first < asked_before)
    FailQuestion(questions_.begin()->first, "node " + name_ + " went away");
}

void RemoteNode::EndSession() {
  DropSession();
  Cut("its session is over");
}

// This may be called from inside one of the streams' own functions, so they are destroyed later.
void RemoteNode::DropSession() {
  if (!session_) return;
  const auto channels = std::exchange(session_->channels, nullptr);
  session_.reset();
  if (!channels) return;
  channels->Clear(SessionOver(name_));
  if (ports_.after) ports_.after(Duration(0), [channels] {});
}

void RemoteNode::Refuse(const std::string& reason, bool is_final) {
  if (!stream_) return;
  SendFrame(FrameKind::kRefused, wire::EncodeAgent(wire::AgentRefused{reason, is_final}));
  stream_->Finish();
}

// Sends nothing while another controller may lead, not even the answer to a heartbeat, which would tell the node that
// this controller still leads.
void RemoteNode::SendFrame(FrameKind kind, std::string_view payload) {
  if (ports_.may_act && !ports_.may_act()) return;
  std::string bytes;
  AppendFrame(bytes, kind, payload);
  stream_->Send(bytes);
}

void RemoteNode::Flush() {
  if (ports_.may_act && !ports_.may_act()) return;
  if (!stream_ || !session_ || stream_->unsent() >= kInFlight) return;
  std::string bytes;
  session_->link.Output(bytes, kInFlight);
  if (!bytes.empty()) stream_->Send(bytes);
}

// ---- Reports --------------------------------------------------------------------------------------------------------

void RemoteNode::OnBytes(std::string_view bytes) {
  heard_ = ports_.now();
  reader_.Feed(bytes);
  while (stream_) {
    auto frame = reader_.Next();
    if (!frame) return Cut(frame.error().message);
    if (!*frame) break;
    if (const Status taken = OnFrame(**std::move(frame)); !taken) return Cut(taken.error().message);
  }
  WakeChannels();
  Flush();
}

// Acknowledged bytes have made room, so streams may send again. Sending may fail and end the session.
void RemoteNode::WakeChannels() {
  if (const auto channels = session_ ? session_->channels : nullptr) channels->Wake();
}

Status RemoteNode::OnFrame(Frame frame) {
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
      SendFrame(FrameKind::kBeatAnswer, frame.payload);
      ports_.on_beat(name_);
      return {};
    case FrameKind::kGlance:
    case FrameKind::kMessage:
    case FrameKind::kAck: {
      if (!session_) return {};
      if (frame.kind == FrameKind::kGlance) return OnReport(frame.payload);
      DIVVY_TRY(const auto message, session_->link.OnFrame(std::move(frame)));
      if (!message) return {};
      if (!Channels::IsOne(*message)) return OnReport(*message);
      return session_->channels ? session_->channels->OnMessage(*message) : Status();
    }
    case FrameKind::kAnswer:
      return OnAnswer(frame.payload);
    case FrameKind::kSamples:
      return OnSamples(frame.payload);
    default:
      return {};  // A frame of a later version.
  }
}

Time RemoteNode::OursOf(Time theirs) const {
  if (theirs == kNoTime || theirs == kNever) return theirs;
  return std::min(AddSaturating(theirs, ahead_), ports_.now());
}

// Converts samples to the controller's time. A node may report only about itself and its own runs.
Status RemoteNode::OnSamples(std::string_view bytes) {
  if (!ports_.on_samples || !session_) return {};
  DIVVY_TRY(std::vector<samples::Snapshot> seen, samples::DecodeSnapshots(bytes));
  const auto shift = static_cast<samples::Second>(std::llround(ToSeconds(ahead_)));
  const auto now = static_cast<samples::Second>(ToSeconds(ports_.now()));
  std::erase_if(ended_, [&](const auto& run) { return AddSaturating(run.second, kSamplesKept) < ports_.now(); });
  for (samples::Snapshot& snapshot : seen) {
    snapshot.at = std::min(snapshot.at + shift, now);
    std::erase_if(snapshot.samples, [&](const samples::Sample& sample) {
      const samples::Subject& subject = sample.subject;
      return subject.of == samples::Of::kCluster || subject.of == samples::Of::kTeam ||
             (subject.of == samples::Of::kJob && !HadRun(JobId(subject.job), snapshot.at));
    });
    for (samples::Sample& sample : snapshot.samples) sample.subject.node = name_;
    for (samples::ProcessUse& process : snapshot.processes) {
      if (!HadRun(JobId(process.job), snapshot.at)) process.job = 0;
    }
  }
  ports_.on_samples(seen);
  return {};
}

// Samples of a run may arrive up to ten seconds late, and after a disconnect as late as agents keep them.
bool RemoteNode::HadRun(JobId job, samples::Second at) const {
  if (known_.contains(job)) return true;
  const auto ended = ended_.find(job);
  return ended != ended_.end() && at <= static_cast<samples::Second>(std::ceil(ToSeconds(ended->second)));
}

// A node may report only about its own runs.
bool RemoteNode::IsKnown(JobId job, std::uint32_t attempt) const {
  const auto known = known_.find(job);
  return known != known_.end() && known->second == attempt;
}

void RemoteNode::OnAdopted(const std::string& boot_id) {
  const auto foreground = session_ ? std::exchange(session_->foreground, {}) : std::map<JobId, std::uint32_t>();
  ports_.on_accounted(name_, boot_id);
  fleet_.OnAccounted(name_);
  // By now the node has reported which jobs run there, which have ended, and which never started. Running jobs have the
  // streams that they started with, and output of ended ones may be left. The streams belong to a gang's first node
  // allocation.
  for (const auto& [job, attempt] : foreground) {
    const JobRecord* record = fleet_.Find(job);
    const bool is_there =
        record == nullptr || (IsActive(record->state) && record->attempt == attempt && record->node == name_);
    if (is_there && ports_.before_foreground) ports_.before_foreground(*this, job);
  }
}

Status RemoteNode::OnReport(std::string_view text) {
  DIVVY_TRY(const wire::AgentReport report, wire::DecodeAgent<wire::AgentReport>(text));
  if (const auto& prepared = report.prepared; prepared && IsKnown(prepared->job, prepared->attempt))
    fleet_.OnPrepared(name_, prepared->job, prepared->attempt, prepared->port);
  if (const auto& delayed = report.delayed; delayed && IsKnown(delayed->job, delayed->attempt))
    fleet_.OnDelayed(name_, delayed->job, delayed->attempt, delayed->why);
  if (const auto& started = report.started; started && IsKnown(started->job, started->attempt))
    fleet_.OnStarted(name_, started->job, started->attempt, OursOf(started->at));
  if (const auto& exited = report.exited) {
    if (IsKnown(exited->job, exited->attempt)) {
      Exit exit = exited->exit;
      // An agent's data is not trusted: no more is kept than for our own runs.
      exit.steps = KeptSteps(ReadStepList(exit.steps));
      fleet_.OnExited(name_, exited->job, exited->attempt, exit, OursOf(exited->at));
    } else {
      // The end is already durable (and the ForgetCommand was lost with a session), or the run is not ours.
      Send(MessageOf(ForgetCommand{exited->job, exited->attempt}, nullptr, nullptr));
    }
  }
  if (const auto& vanished = report.vanished) {
    DIVVY_TRY(const RunVanished how, VanishedOf(vanished->how));
    if (IsKnown(vanished->job, vanished->attempt)) {
      fleet_.OnVanished(name_, vanished->job, vanished->attempt, how);
    } else {
      Send(MessageOf(ForgetCommand{vanished->job, vanished->attempt}, nullptr, nullptr));  // As for an exit.
    }
  }
  if (report.found) {
    RunDescription found = *report.found;
    found.record.node = name_;
    found.record.started = OursOf(found.record.started);
    found.ended = OursOf(found.ended);
    if (found.exit) found.exit->steps = KeptSteps(ReadStepList(found.exit->steps));
    if (fleet_.OnFound(std::move(found))) {
      const JobRecord& job = report.found->record;
      ports_.log("node=" + name_ + " event=found_run job=" + ToString(job.id) + " user=" + LogQuoted(job.user.name) +
                 " gpus=" + GpuListText(job.gpus) + " what=\"the store does not know it; divvy adopt lists it\"");
    }
  }
  if (report.gpus) fleet_.OnGpusObserved(name_, report.gpus->gpus);
  if (report.adopted) OnAdopted(report.adopted->boot_id);
  if (report.trouble) fleet_.OnTrouble(name_, report.trouble->what);
  if (report.shares) fleet_.OnShares(name_, report.shares->state);
  if (const auto& repay = report.repay) {
    if (IsKnown(repay->job, repay->attempt)) fleet_.OnRepay(name_, repay->job, repay->attempt, repay->why);
  }
  if (const auto& presence = report.presence) {
    if (presence->presence < 0 || presence->presence > static_cast<int>(Presence::kReturning))
      return InvalidArgument("presence " + std::to_string(presence->presence) + " of a job is unknown");
    if (IsKnown(presence->job, presence->attempt)) {
      fleet_.OnPresence(name_, {presence->job, presence->attempt, static_cast<Presence>(presence->presence),
                                presence->gpus, presence->can_park, presence->why});
    }
  }
  if (report.renew) {
    const std::string fingerprint = report.renew->fingerprint;
    ports_.on_renew(name_, fingerprint, [this, fingerprint] {
      wire::AgentCommand command;
      command.renewed = wire::RenewedMessage{fingerprint};
      Send(std::move(command));
    });
  }
  return {};
}

}  // namespace divvy
