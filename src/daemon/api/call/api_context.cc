#include "daemon/api/call/api_context.h"

#include <utility>

#include "daemon/fleet/agent_listener.h"

namespace divvy {

void CallReader::Read(ApiCall& call, std::function<FinishCall()> read) {
  // The call stays on this thread, because a reply belongs to the loop's thread, including its destruction.
  const std::uint64_t number = next_++;
  const std::int64_t uid = call.caller.user.uid;
  calls_.emplace(number, std::make_shared<ApiCall>(std::move(call)));
  ports_.read(uid, [this, number, read = std::move(read)]() -> std::function<void()> {
    return [this, number, finish = read()] {
      const auto waiting = calls_.extract(number);
      finish(*waiting.mapped());
    };
  });
}

void CallReader::ReadUnless(bool is_quick, ApiCall& call, std::function<FinishCall()> read) {
  if (!is_quick) return Read(call, std::move(read));
  read()(call);
}

RemoteNode* FindRemoteNode(const ApiPorts& ports, const std::string& name) {
  Agents* agents = name.empty() || ports.agents == nullptr ? nullptr : ports.agents->agents();
  return agents == nullptr ? nullptr : agents->Find(name);
}

std::string OwnNodeName(const ApiPorts& ports) {
  AgentListener* listener = ports.agents.get();
  return listener == nullptr || listener->registry().own_name().empty() ? "localhost" : listener->registry().own_name();
}

}  // namespace divvy
