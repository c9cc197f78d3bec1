// The step process and the other nodes of its job: steps that were called here and also run elsewhere, and parts of
// steps that were called elsewhere.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/net/tcp.h"
#include "platform/steps/step_process.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {
namespace {

constexpr Duration kEarlyMost = std::chrono::seconds(60);
constexpr Duration kEarlyPause = std::chrono::milliseconds(2);
constexpr std::size_t kVisitorsMost = 256;                  // Connections that have not sent a call yet.
constexpr std::size_t kUntakenMost = std::size_t{1} << 20;  // Limit of output that a caller has not taken.
constexpr StepNumber kNumbersAhead = 1'000'000;

std::vector<int> OwnCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Decodes the call of a step on another node as if it came from here: with null streams and this node's cores.
std::optional<StepCall> CallOf(const PartCall& part) {
  StepFrame frame{StepWord::kCall, 0, std::string(part.call), {}};
  for (int i = 0; i < 3; ++i) frame.descriptors.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto call = DecodeStepCall(std::move(frame));
  if (!call) return call;
  call->bytes = {};
  call->cores = OwnCores();
  call->part = StepPart{part.step, part.layout};
  return call;
}

}  // namespace

// --- Connections from other machines ---------------------------------------------------------------------------------

bool StepServer::ListenForMachines() {
  if (options_.key.empty()) return true;
  auto listens = ListenTcp(options_.listen.host, options_.listen.port);
  if (!listens) {
    failure_ = listens.error().message;
    return false;
  }
  machines_.Reset(*listens);
  return true;
}

Result<const TlsContext*> StepServer::Secured(std::optional<TlsContext>& end) const {
  if (!end) {
    DIVVY_TRY(end, TlsContext::OfKey(options_.key, &end == &server_end_));
  }
  return &*end;
}

std::uint16_t StepServer::machines_port() const {
  return machines_.is_open() ? PortOf(machines_.get()) : std::uint16_t{0};
}

void StepServer::AddMachinePolls() {
  first_machine_poll_ = polled_.size();
  polled_.push_back({machines_.get(), POLLIN, 0});
  for (const auto& visitor : visitors_) polled_.push_back({visitor->fd(), visitor->events(), 0});
  polled_visitors_ = visitors_.size();
  polled_steps_.clear();
  for (auto& [number, step] : steps_) {
    const std::size_t first = polled_.size();
    if (step.parts != nullptr) {
      const Client* client = ClientOf(step);
      step.parts->SetReading(client == nullptr || client->unsent.size() < kUntakenMost);
      step.parts->AddPolls(polled_);
    } else if (step.served != nullptr) {
      step.served->AddPolls(polled_);
    } else {
      continue;
    }
    polled_steps_.push_back({number, first, polled_.size() - first});
  }
}

Duration StepServer::MachinesDue() const {
  Duration due = early_.empty() ? kNeverDue : MonotonicNow() + kEarlyPause;
  for (const auto& visitor : visitors_) due = std::min(due, visitor->due());
  for (const auto& [number, step] : steps_) {
    if (step.parts != nullptr) due = std::min(due, step.parts->due());
    if (step.served != nullptr) due = std::min(due, step.served->link().due());
  }
  return due;
}

void StepServer::OnMachinePolls() {
  const Duration now = MonotonicNow();
  const auto is_ready = [this](std::size_t at) { return polled_[at].revents != 0; };
  for (std::size_t i = polled_visitors_; i-- > 0;) {
    std::unique_ptr<GangLink>& visitor = visitors_[i];
    const bool stays = (!is_ready(first_machine_poll_ + 1 + i) && visitor->due() > now) || Hear(visitor);
    if (!stays) visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const PolledStep& polled : std::exchange(polled_steps_, {})) {
    const auto at = steps_.find(polled.step);
    if (at == steps_.end()) continue;
    const std::span<const pollfd> polls = std::span(polled_).subspan(polled.first, polled.count);
    if (at->second.parts != nullptr) {
      OnParts(polled.step, polls);
    } else if (std::ranges::any_of(polls, [](const pollfd& one) { return one.revents != 0; }) ||
               at->second.served->link().due() <= now) {
      OnServed(polled.step);
    }
  }
  if (is_ready(first_machine_poll_)) AcceptMachines();
  RetryEarlyCalls();
}

void StepServer::AcceptMachines() {
  for (;;) {
    Descriptor socket(::accept4(machines_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    // Drops the oldest connection, which has had the most time to send its call.
    if (visitors_.size() >= kVisitorsMost) visitors_.erase(visitors_.begin());
    const auto end = Secured(server_end_);
    if (!end) continue;
    auto link = GangLink::Accept(std::move(socket), **end);
    if (link) visitors_.push_back(*std::move(link));
  }
}

bool StepServer::Hear(std::unique_ptr<GangLink>& visitor) {
  visitor->Progress();
  const auto frame = visitor->Next();
  if (!frame) return !visitor->is_lost();
  if (frame->word != GangWord::kCall) return false;
  OnPartCall({std::move(visitor), *frame, MonotonicNow() + kEarlyMost});
  return false;
}

// --- Parts of steps that were called elsewhere -----------------------------------------------------------------------

void StepServer::OnPartCall(EarlyCall early) {
  std::unique_ptr<GangLink>& link = early.link;
  const auto part = DecodePartCall(early.frame.body);
  const auto refuse = [&](const std::string& why, bool is_whole = true) {
    // The refused part is kept as a step that has ended, until the peer has read the reason and closes the connection.
    RunningStep& step = Enter(next_++, {}, {});
    step.served = std::make_unique<ServedPart>(std::move(link));
    step.served->link().Send(GangWord::kRefused, 1,
                             is_whole ? why + "\n" : "the request for a part of a step is incomplete\n");
    step.line.state = StepState::kEnded;
  };
  if (!part) return refuse("", false);
  if (part->version != options_.version) {
    return refuse("divvy: error: divvy on this node is " + options_.version + ", the caller's is " + part->version +
                  "; install the same release on both");
  }
  auto call = CallOf(*part);
  if (!call) return refuse("", false);
  auto plan = options_.planner(*call);
  if (!plan && plan.error().code == ErrorCode::kUnreachable && MonotonicNow() < early.until) {
    early_.push_back(std::move(early));
    return;
  }
  if (!plan) return refuse(plan.error().message);
  if (!resources_.CanEver(plan->need)) return refuse(std::string(Trim(CannotEver(*plan))));
  // The part usually gets the number that the step has on the node that called it, so that the lists of both nodes
  // agree.
  const StepNumber number = part->step >= next_ && part->step - next_ < kNumbersAhead ? part->step : next_;
  next_ = number + 1;
  plan->spread.reset();
  RunningStep& step = Enter(number, *std::move(call), *std::move(plan));
  step.served = std::make_unique<ServedPart>(std::move(link));
  resources_.Ask(number, step.plan.need);
  GrantNext();
  const auto waiting = steps_.find(number);
  if (waiting == steps_.end() || waiting->second.grant) return;
  waiting->second.served->link().Send(GangWord::kWaits);
  list_.Write(waiting->second.line);
}

// Plans calls again that came before this node was ready. All nodes are told to start at about the same time, but the
// first node does not wait for the others.
void StepServer::RetryEarlyCalls() {
  for (EarlyCall& early : std::exchange(early_, {})) OnPartCall(std::move(early));
}

void StepServer::OnServed(StepNumber number) {
  RunningStep& step = steps_.at(number);
  GangLink& link = step.served->link();
  do {
    link.Progress();
    while (const auto frame = link.Next()) {
      OnServedFrame(step, *frame);
      if (!steps_.contains(number)) return;
    }
  } while (link.has_more());
  step.served->Pump();
  if (!link.is_lost()) return;
  if (step.line.state == StepState::kEnded) steps_.erase(number);
  else if (!std::exchange(step.was_ended, true)) Abandon(step);
}

void StepServer::OnServedFrame(RunningStep& step, const GangFrame& frame) {
  switch (frame.word) {
    case GangWord::kGo:
      if (!step.is_waiting() || !step.grant) return;
      // This node knows neither the step's other nodes nor their GPUs, so it takes them from the line that the calling
      // node sent.
      if (const auto lines = ReadStepList(frame.body); !lines.empty()) step.plan.machines = lines.front().machines;
      return StartHere(step);
    case GangWord::kSignal:
      if (step.awaited && (frame.value == SIGTERM || frame.value == SIGKILL))
        return Start(step, FailedPrecondition("stopped before its tasks started here"));
      if (frame.value > 0 && frame.value < NSIG) step.SignalAll(frame.value);
      return;
    case GangWord::kDone:
      if (step.line.state == StepState::kEnded && step.line.code != frame.value)
        ListEnd(step, std::clamp(frame.value, 0, 255));
      return;
    case GangWord::kInput:
      return step.served->OnInput(static_cast<std::size_t>(std::max(frame.value, 0)), frame.body);
    default:
      return;
  }
}

// --- Steps started on this node --------------------------------------------------------------------------------------

void StepServer::BeginAsking(RunningStep& step) {
  const SpreadPlan& spread = *step.plan.spread;
  const std::string bytes = std::exchange(step.call.bytes, {});
  const auto end = Secured(dialling_end_);
  if (!end) {
    Tell(step, step.plan.program + ": error: " + end.error().message + "\n");
    return GiveUp(step, 1);
  }
  step.parts = std::make_unique<GangParts>(
      spread.others, EncodePartCall({options_.version, step.line.number, spread.layout, bytes}), **end);
  Advance(step);
}

/// A step that needs exclusive GPUs joins the queue of one node after the other, always in the order of the job's
/// nodes. So two steps never wait for each other.
void StepServer::Advance(RunningStep& step) {
  const SpreadPlan& spread = *step.plan.spread;
  for (std::size_t place = 0; place <= step.parts->size(); ++place) {
    if (place == spread.own_place && spread.has_own && !step.grant) {
      if (!std::exchange(step.is_asking, true)) {
        resources_.Ask(step.line.number, step.plan.need);
        return GrantNext();  // GrantNext() may continue the step.
      }
      if (spread.reserves) return;
    }
    if (place == step.parts->size()) break;
    step.parts->Ask(place);
    if (spread.reserves && !step.parts->has_granted(place)) return;
  }
  if (step.is_waiting() && step.parts->have_all_granted() && (step.grant || !spread.has_own)) BeginSpread(step);
}

void StepServer::BeginSpread(RunningStep& step) {
  Client* client = ClientOf(step);
  if (client == nullptr) return GiveUp(step, 1);
  Result<StepTasks> tasks = StepTasks{};
  if (step.grant) tasks = step.plan.make(step.line.number, step.grant->gpus);
  if (!tasks) return Start(step, std::move(tasks));
  if (AwaitsDirectories(step, tasks->tasks)) return;
  if (!HandFiles(step, *client)) return GiveUp(step, 1);
  if (step.plan.spread->input_rank) Send(*client, StepWord::kWantInput, static_cast<int>(kInputRoom), "");
  step.line.tasks = static_cast<int>(step.plan.tasks);
  step.NoteMachines();
  step.parts->Go(StepLineText(step.line));
  Start(step, std::move(tasks));
}

/// Opens the files that tasks of all nodes write to. They are on this node, and the caller writes them. They are opened
/// here before the tasks start, with the caller's rights and umask.
bool StepServer::HandFiles(RunningStep& step, Client& client) {
  std::vector<Descriptor> files;
  std::vector<int> fds;
  int which = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const StepStream& stream = step.plan.spread->files[i];
    if (stream.kind != StepStream::Kind::kFile) continue;
    const std::string path = stream.path.starts_with('/') ? stream.path : step.plan.directory + "/" + stream.path;
    const mode_t mask = ::umask(step.call.umask);
    files.emplace_back(::open(
        path.c_str(),
        O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (stream.truncates ? O_TRUNC : 0), 0666));
    const int error = errno;
    ::umask(mask);
    if (!files.back().is_open()) {
      Say(client, step.plan.program + ": error: cannot open " + path + ": " + std::strerror(error) + "\n");
      return false;
    }
    ::fcntl(files.back().get(), F_SETFL, O_APPEND);
    fds.push_back(files.back().get());
    which |= 1 << i;
  }
  if (which != 0) SendStepFrame(client.socket.get(), StepWord::kFiles, which, {}, fds);
  return true;
}

void StepServer::OnParts(StepNumber number, std::span<const pollfd> polls) {
  for (PartEvent& event : steps_.at(number).parts->OnPolls(polls)) {
    const auto at = steps_.find(number);
    if (at == steps_.end()) return;
    RunningStep& step = at->second;
    std::set<std::size_t> alive;
    if (event.kind != PartEvent::Kind::kSaid) alive = step.parts->alive_on(event.part);
    step.parts->Apply(event);
    if (event.kind == PartEvent::Kind::kSaid) OnPartFrame(step, event.part, event.frame);
    else if (event.kind == PartEvent::Kind::kLost) OnPartLost(step, event.part, alive, event.why);
    else if (!alive.empty() || step.is_waiting()) OnPartLost(step, event.part, alive, "it reports that it is done");
    else FinishIfOver(step);
  }
}

void StepServer::OnPartFrame(RunningStep& step, std::size_t part, const GangFrame& frame) {
  const std::string& host = step.parts->plan(part).host;
  const auto rank = static_cast<std::size_t>(std::max(frame.value, 0));
  switch (frame.word) {
    case GangWord::kWaits:
      return step.is_waiting() ? OnBusy(step) : void();
    case GangWord::kGranted:
      return Advance(step);
    case GangWord::kRefused:
      Tell(step, step.plan.program + ": error: " + host + " refuses its part: " + frame.body);
      if (step.is_waiting()) return GiveUp(step, std::clamp(frame.value, 1, 255));
      return;  // The peer closes the connection, and its tasks are lost then.
    case GangWord::kMap:
      if (step.TakeMap(frame.body)) list_.Write(step.line);
      return;
    case GangWord::kSay:
      return Tell(step, frame.body);
    case GangWord::kOutput:
      return TakeOutput(step, rank, frame.body);
    case GangWord::kTaken:
      if (Client* client = ClientOf(step)) Send(*client, StepWord::kWantInput, frame.value, "");
      return;
    case GangWord::kEnded: {
      const auto words = SplitWords(frame.body);
      const auto signal = words.size() == 2 ? ParseInteger(words[0]) : std::nullopt;
      const auto code = words.size() == 2 ? ParseInteger(words[1]) : std::nullopt;
      for (const auto& [target, rest] : step.TakeRests(rank)) PassOutput(step, target, rest);
      const int coded = static_cast<int>(code.value_or(1));
      step.NoteEndOn(host, rank, static_cast<int>(signal.value_or(0)), coded);
      return AfterEnd(step, coded);
    }
    default:
      return;
  }
}

void StepServer::TakeOutput(RunningStep& step, std::size_t rank, std::string_view body) {
  if (body.empty() || (body[0] != '1' && body[0] != '2')) return;
  PassOutput(step, body[0], step.Labelled(rank, body[0], body.substr(1)));
}

void StepServer::PassOutput(RunningStep& step, char target, std::string_view text) {
  Client* client = ClientOf(step);
  if (client == nullptr || text.empty()) return;
  const std::size_t place = target == '1' ? 0 : 1;
  const bool is_file = step.plan.spread->files[place].kind == StepStream::Kind::kFile;
  // If standard error joins standard output, both go to the same file.
  const bool joins = step.plan.spread->files[place].kind == StepStream::Kind::kOutput;
  const int where = joins ? 3 : static_cast<int>(place) + (is_file ? 3 : 1);
  Send(*client, StepWord::kOutput, where, text);
}

void StepServer::OnPartLost(RunningStep& step, std::size_t part, const std::set<std::size_t>& lost,
                            const std::string& why) {
  const std::string& host = step.parts->plan(part).host;
  if (step.is_waiting()) {
    Tell(step, step.plan.program + ": error: cannot start tasks on " + host + ": " + why + "\n");
    return GiveUp(step, 1);
  }
  if (!lost.empty()) {
    Tell(step, step.TakeEndings() + step.plan.program + ": error: the connection to " + host + " is lost (" + why +
                   "), and task" + (lost.size() > 1 ? "s " : " ") + RankList({lost.begin(), lost.end()}) +
                   " with it\n");
    for (const std::size_t rank : lost) step.NoteEndOn(host, rank, -1, 1);
    if (step.all_alive() > 0 && !step.was_ended && !step.plan.outlives_nodes) EndTasks(step);
  }
  FinishIfOver(step);
}

}  // namespace divvy
