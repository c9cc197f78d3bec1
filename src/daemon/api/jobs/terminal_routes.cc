#include "daemon/api/jobs/terminal_routes.h"

#include <array>
#include <memory>
#include <utility>

#include "base/text.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/views/job_selector.h"
#include "platform/users/passed_stream.h"
#include "wire/messages/messages_remote.h"

namespace divvy {
namespace {

Streams TakeThree(const std::vector<int>& fds, std::size_t from) {
  Streams streams;
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i].Reset(fds[from + i]);
  return streams;
}

/// The caller has detached from its terminal.
void AnswerLeft(Reply& reply, JobId id) {
  wire::WaitAnswer answer;
  answer.id = id;
  answer.was_detached = true;
  HttpResponse response;
  response.body = wire::Encode(answer);
  reply.Answer(response);
}

wire::WaitAnswer WaitAnswerOf(const JobRecord& record) {
  wire::WaitAnswer answer;
  answer.id = record.id;
  answer.state = Name(record.state);
  answer.exit_code = record.exit ? record.exit->code : 0;
  if (record.state != JobState::kSucceeded && answer.exit_code == 0) answer.exit_code = 1;
  answer.reason = record.reason;
  return answer;
}

}  // namespace

TerminalRoutes::TerminalRoutes(ApiContext& api, RouteTable& table)
    : driver_(api.driver), node_(api.node), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/jobs/*/wait", &TerminalRoutes::Wait},
                   {"POST", "/v1/jobs/*/rejoin", &TerminalRoutes::Rejoin, RouteKind::kOwnJob},
                   {"POST", "/v1/jobs/*/attach", &TerminalRoutes::Attach, RouteKind::kUnstored},
                   {"POST", "/v1/jobs/*/resize", &TerminalRoutes::Resize, RouteKind::kOwnJob},
                   {"POST", "/v1/jobs/*/steps", &TerminalRoutes::CallStep, RouteKind::kUnstored}});
  node_.SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
  if (ports_.remote_streams) ports_.remote_streams->SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
}

Status CheckCallersStreams(const PassedFds& passed, bool has_terminal, std::int64_t uid) {
  constexpr std::array<const char*, 6> kNames = {"standard input",     "standard output",     "standard error",
                                                 "relay of its input", "relay of its output", "relay of its errors"};
  const std::vector<int>& fds = passed.peek();
  if (fds.size() > kNames.size()) return InvalidArgument("a request brings at most three streams and their relays");
  for (std::size_t i = 0; i < fds.size(); ++i) {
    const StreamUse used = i % 3 == 0 ? StreamUse::kRead : StreamUse::kWritten;
    const bool is_relay = i >= 3;
    DIVVY_CHECK(CheckPassedStream(fds[i], has_terminal || is_relay ? used : StreamUse::kHandedOn, uid, kNames[i]));
  }
  return {};
}

// Relays first: a job on this node drops them at its launch, which may be at once.
Status TerminalRoutes::KeepCaller(JobId id, PassedFds& passed, const RemoteStreams::Had& had) {
  const std::vector<int> fds = passed.Take();
  Streams streams = TakeThree(fds, 0);
  if (fds.size() > streams.size()) {
    Streams relays = TakeThree(fds, streams.size());
    if (ports_.remote_streams) DIVVY_CHECK(ports_.remote_streams->Keep(id, std::move(relays), had));
  }
  node_.KeepStreams(id, std::move(streams));
  return {};
}

void TerminalRoutes::DropCaller(JobId id) {
  callers_.erase(id);
  node_.DropStreams(id);
  if (ports_.remote_streams) ports_.remote_streams->Drop(id);
}

void TerminalRoutes::ExpectCaller(JobId id) {
  submitted_.insert(id);
  static_cast<void>(driver_.WaitFor(id, [this, id](const JobRecord&) { submitted_.erase(id); }));
}

void TerminalRoutes::AnswerWhenFinal(ApiCall& call, JobId id, std::function<void()> on_closed) {
  auto shared = std::make_shared<ApiCall>(std::move(call));
  auto waiter = std::make_shared<std::uint64_t>(0);
  const auto handle = driver_.WaitFor(id, [this, shared, id](const JobRecord& record) {
    DropCaller(id);
    wire::WaitAnswer answer = WaitAnswerOf(record);
    answer.reason = shared->privacy.Reason(record.user.name, std::move(answer.reason));
    shared->Answer(answer);
  });
  if (!handle) return shared->Refuse(NotFound("there is no job " + ToString(id)));
  *waiter = *handle;
  shared->reply.OnClosed([this, id, waiter, on_closed = std::move(on_closed)] {
    driver_.StopWaiting(id, *waiter);
    if (on_closed) on_closed();
  });
}

void TerminalRoutes::Wait(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const JobRecord* record = driver_.controller().Find(*id);
  // Callers on other machines have no terminal here, and a caller that reconnects says so (Rejoin).
  const bool is_caller = call.address.empty() && record != nullptr && record->is_foreground &&
                         record->user.uid == call.caller.user.uid && submitted_.erase(*id) != 0;
  if (is_caller) return AnswerCaller(call, *id);
  AnswerWhenFinal(call, *id, nullptr);
}

void TerminalRoutes::AnswerCaller(ApiCall& call, JobId id) {
  callers_.insert_or_assign(id, call.reply);
  AnswerWhenFinal(call, id, EndsWithItsTerminal(id, call.caller));
}

// From now on the job is treated like one that was submitted with its own terminal. If its caller has not reconnected
// after a restart of the daemon, it is told when it does.
void TerminalRoutes::OnTerminalLeft(JobId id) {
  auto caller = callers_.extract(id);
  const JobRecord* record = driver_.controller().Find(id);
  if (record == nullptr || !record->is_foreground || !IsActive(record->state)) return;
  if (left_.insert(id).second)
    static_cast<void>(driver_.WaitFor(id, [this, id](const JobRecord&) { left_.erase(id); }));
  if (!caller) return;
  DropCaller(id);  // After a restart of the daemon, the caller waits for the end of the streams that it passed.
  AnswerLeft(caller.mapped(), id);
}

// A foreground job ends when its caller's connection is closed.
std::function<void()> TerminalRoutes::EndsWithItsTerminal(JobId id, const Caller& caller) {
  return [this, id, caller] {
    static_cast<void>(
        driver_.controller().Cancel(id, 0, Duration(-1), "its terminal went away", caller, driver_.Now()));
    DropCaller(id);
    driver_.Touch();
  };
}

void TerminalRoutes::Rejoin(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto request = wire::Decode<wire::RejoinRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  RemoteStreams::Had had;
  if (request->had_streams && request->output >= 0 && request->error >= 0)
    had = std::array{static_cast<std::uint64_t>(request->output), static_cast<std::uint64_t>(request->error)};
  const auto record = driver_.FindJob(*id);
  if (!record) return AnswerWhenFinal(call, *id, nullptr);
  if (!record->is_foreground)
    return call.Refuse(FailedPrecondition("job " + PublicId(*record) + " has no caller's terminal; divvy wait " +
                                          PublicId(*record) + " waits for it"));
  if (record->user.uid != call.caller.user.uid)
    return call.Refuse(PermissionDenied("job " + PublicId(*record) + " belongs to " + record->user.name));
  if (request->has_left && IsActive(record->state)) OnTerminalLeft(*id);
  if (left_.contains(*id)) return AnswerLeft(call.reply, *id);
  if (call.request.fds.size() != 3 && call.request.fds.size() != 6)
    return call.Refuse(InvalidArgument("a foreground job needs the three standard streams of its caller"));
  if (const auto good = CheckCallersStreams(call.request.fds, record->wants_pty, call.caller.user.uid); !good)
    return call.Refuse(good.error());
  if (IsFinal(record->state) && !had) return AnswerWhenFinal(call, *id, nullptr);  // The job has ended meanwhile.
  if (const Status kept = KeepCaller(*id, call.request.fds, had); !kept) return call.Refuse(kept.error());
  // The rest of an ended job's output may still be available.
  RemoteNode* launched_on =
      IsActive(record->state) || IsFinal(record->state) ? FindRemoteNode(ports_, record->node) : nullptr;
  if (launched_on != nullptr && ports_.remote_streams) ports_.remote_streams->Rejoin(*launched_on, *id);
  if (IsFinal(record->state)) return AnswerWhenFinal(call, *id, nullptr);
  AnswerCaller(call, *id);
}

void TerminalRoutes::Attach(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const JobRecord* record = driver_.controller().Find(*id);
  if (record == nullptr || !IsActive(record->state))
    return call.Refuse(FailedPrecondition("job " + call.argument + " is not running"));
  if (!call.caller.is_admin && call.caller.user.uid != record->user.uid)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + record->user.name));
  if (!record->wants_pty)
    return call.Refuse(FailedPrecondition("job " + call.argument + " has no terminal; submit with --pty to have one"));
  if (call.request.fds.size() < 2) return call.Refuse(InvalidArgument("attach needs the caller's streams"));
  if (const auto good = CheckCallersStreams(call.request.fds, true, call.caller.user.uid); !good)
    return call.Refuse(good.error());
  if (!record->node.empty()) return AttachRemote(call, *record);
  const PassedFds fds = std::move(call.request.fds);
  Reply reply = call.reply;
  const auto attached = node_.Attach(*id, fds.peek()[0], fds.peek()[1], WindowSize(),
                                     [reply, id = *id]() mutable { AnswerLeft(reply, id); });
  if (!attached) return call.Refuse(attached.error());
  if (fds.peek().size() == 6) RemoteStreams::TellHere(fds.peek()[3]);
  AnswerWhenFinal(call, *id, nullptr);
}

void TerminalRoutes::Resize(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto size = wire::Decode<wire::WinsizeRequest>(call.request.body);
  if (!size) return call.Refuse(size.error());
  const JobRecord* record = driver_.controller().Find(*id);
  if (record == nullptr) return call.Refuse(NotFound("there is no queued or running job " + call.argument));
  if (!call.caller.is_admin && call.caller.user.uid != record->user.uid)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + record->user.name));
  const auto in_range = [](std::int64_t value) { return value >= 0 && value <= 10'000; };
  if (!in_range(size->rows) || !in_range(size->columns))
    return call.Refuse(InvalidArgument("rows and columns must be from 0 to 10000"));
  const WindowSize window{static_cast<int>(size->rows), static_cast<int>(size->columns)};
  RemoteNode* there = FindRemoteNode(ports_, record->node);
  if (!record->node.empty() && (there == nullptr || !ports_.remote_streams))
    return call.Refuse(
        Unreachable("job " + call.argument + " has its terminal on node " + record->node + ", which is away"));
  const auto resized =
      there != nullptr ? ports_.remote_streams->Resize(*there, *id, window) : node_.Resize(*id, window);
  if (!resized) return call.Refuse(resized.error());
  call.Send(200, "{}");
}

void TerminalRoutes::AttachRemote(ApiCall& call, const JobRecord& record) {
  RemoteNode* node = FindRemoteNode(ports_, record.node);
  if (node == nullptr || !ports_.remote_streams)
    return call.Refuse(Unreachable("job " + call.argument + " runs on node " + record.node + ", which is away"));
  const std::vector<int> fds = call.request.fds.Take();
  std::vector<ForeignDescriptor> passed;
  for (const int fd : fds) passed.emplace_back(fd);
  if (passed.size() != 6) return call.Refuse(InvalidArgument("attach needs the caller's streams and their relays"));
  const Reply reply = call.reply;
  const auto attached = ports_.remote_streams->Attach(
      *node, record.id, call.caller.user.uid, std::move(passed[3]), std::move(passed[4]), WindowSize(),
      [reply, id = record.id](bool was_detached, const std::string& why) mutable {
        if (why.empty()) return;  // The job has ended, and its end is the answer.
        wire::WaitAnswer answer;
        answer.id = id;
        answer.was_detached = was_detached;
        const Error error = Unreachable("its terminal is out of reach: " + why);
        HttpResponse response;
        response.status = was_detached ? 200 : HttpStatusOf(error.code);
        response.body = was_detached ? wire::Encode(answer) : wire::Encode(ErrorViewOf(error));
        Reply(reply).Answer(response);
      });
  if (!attached) return call.Refuse(attached.error());
  AnswerWhenFinal(call, record.id, nullptr);
}

void TerminalRoutes::CallStep(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const bool stops_only = call.request.query.contains("stop");
  const JobRecord* record = driver_.controller().Find(*id);
  if (record == nullptr || !IsActive(record->state)) {
    const std::string job = "job " + call.argument;
    const auto kept = driver_.FindJob(*id);
    return call.Refuse(!kept                  ? MissingJob(kept.error(), call.argument)
                       : IsFinal(kept->state) ? FailedPrecondition(job + " has ended, and has no steps any more")
                                              : FailedPrecondition(job +
                                                                   " has not started, and has no steps yet "
                                                                   "(divvy why " +
                                                                   call.argument + ")"));
  }
  const bool is_own = record->user.uid == call.caller.user.uid;
  // The same rule as for signals to jobs; a step started in a job belongs to its user.
  const bool may = is_own || (stops_only && call.caller.is_admin);
  if (!may) {
    return call.Refuse(PermissionDenied("job " + PublicId(*record) + " is " + record->user.name +
                                        "'s, and only the owner may start steps in it"));
  }
  if (!EqualsIgnoringCase(call.request.header("upgrade"), kStepProtocol))
    return call.Refuse(InvalidArgument(
        "steps are started by a connection that asks for 'Upgrade: " + std::string(kStepProtocol) + "'"));
  RemoteNode* node = record->node.empty() ? nullptr : FindRemoteNode(ports_, record->node);
  if (!record->node.empty() && (node == nullptr || !ports_.remote_streams || !node->is_connected()))
    return call.Refuse(Unreachable("job " + PublicId(*record) + " runs on node " + record->node + ", which is away"));
  if (!ports_.step_callers) return call.Refuse(FailedPrecondition("this daemon starts no steps from outside a job"));
  StepCallers& callers = *ports_.step_callers;
  auto joined = callers.Admit(call.caller.user.uid);
  if (!joined) return call.Refuse(joined.error());
  if (call.audit != nullptr) {
    call.audit->Write({driver_.Now(), call.caller.user.name, call.caller.user.uid, call.address, call.request.method,
                       call.request.path, call.request.body, 101, ""});
  }
  auto stream = call.reply.TakeOver(kStepProtocol);
  if (stream == nullptr) return call.Refuse(InvalidArgument("more than the request has come before its answer"));
  const auto caller = callers.Join(std::move(joined->ticket), std::move(stream), std::move(joined->near));
  const Status called = node == nullptr ? node_.CallStep(*id, joined->far.get(), stops_only)
                                        : ports_.remote_streams->CallStep(
                                              *node, *id, std::move(joined->far), stops_only,
                                              [caller](const std::string& why) { StepCallers::Tell(caller, why); });
  if (!called) StepCallers::Tell(caller, called.error().message);
}

}  // namespace divvy
