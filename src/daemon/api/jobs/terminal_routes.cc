// Terminals and pipes of local users whose jobs run on agents' nodes.
#include <array>
#include <memory>
#include <utility>

#include "base/text.h"
#include "daemon/api/routes_call.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/fleet/remote_streams.h"
#include "daemon/views/job_selector.h"
#include "platform/users/passed_stream.h"

namespace divvy {
namespace {

Streams TakeThree(const std::vector<int>& fds, std::size_t from) {
  Streams streams;
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i].Reset(fds[from + i]);
  return streams;
}

}  // namespace

divvy::Status CheckCallersStreams(const PassedFds& passed, bool has_terminal, std::int64_t uid) {
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

RemoteNode* Routes::FarNode(const std::string& name) const {
  Agents* agents = name.empty() || ports_.agents == nullptr ? nullptr : ports_.agents->agents();
  return agents == nullptr ? nullptr : agents->Find(name);
}

// Relays first: a job on this node drops them at its launch, which may be at once.
divvy::Status Routes::KeepCaller(JobId id, PassedFds& passed, const Had& had) {
  const std::vector<int> fds = passed.Take();
  Streams streams = TakeThree(fds, 0);
  if (fds.size() > streams.size()) {
    Streams relays = TakeThree(fds, streams.size());
    if (ports_.remote_streams) DIVVY_CHECK(ports_.remote_streams->Keep(id, std::move(relays), had));
  }
  node_.KeepStreams(id, std::move(streams));
  return {};
}

void Routes::DropCaller(JobId id) {
  callers_.erase(id);
  node_.DropStreams(id);
  if (ports_.remote_streams) ports_.remote_streams->Drop(id);
}

void Routes::CallStep(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const bool stops_only = call.request.query.contains("stop");
  const JobRecord* record = core_.controller().Find(*id);
  if (record == nullptr || !IsActive(record->state)) {
    const std::string job = "job " + call.argument;
    const auto kept = core_.FindJob(*id);
    return call.Refuse(!kept                  ? NotFound("there is no " + job)
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
  RemoteNode* node = record->node.empty() ? nullptr : FarNode(record->node);
  if (!record->node.empty() && (node == nullptr || !ports_.remote_streams || !node->is_connected()))
    return call.Refuse(Unreachable("job " + PublicId(*record) + " runs on node " + record->node + ", which is away"));
  if (!ports_.step_callers) return call.Refuse(FailedPrecondition("this daemon starts no steps from outside a job"));
  StepCallers& callers = *ports_.step_callers;
  auto joined = callers.Admit(call.caller.user.uid);
  if (!joined) return call.Refuse(joined.error());
  if (call.audit != nullptr) {
    call.audit->Write({core_.Now(), call.caller.user.name, call.caller.user.uid, call.address, call.request.method,
                       call.request.path, call.request.body, 101, ""});
  }
  auto stream = call.reply.TakeOver(kStepProtocol);
  if (stream == nullptr) return call.Refuse(InvalidArgument("more than the request has come before its answer"));
  const auto caller = callers.Join(std::move(joined->ticket), std::move(stream), std::move(joined->near));
  const divvy::Status called =
      node == nullptr
          ? node_.CallStep(*id, joined->far.get(), stops_only)
          : ports_.remote_streams->CallStep(*node, *id, std::move(joined->far), stops_only,
                                            [caller](const std::string& why) { StepCallers::Tell(caller, why); });
  if (!called) StepCallers::Tell(caller, called.error().message);
}

void Routes::AttachFar(Call& call, const JobRecord& record) {
  RemoteNode* node = FarNode(record.node);
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

}  // namespace divvy
