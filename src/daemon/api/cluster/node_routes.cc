#include "daemon/api/cluster/node_routes.h"

#include "base/text.h"
#include "daemon/fleet/agent_listener.h"
#include "engine/scheduler/idle_gpus.h"
#include "wire/messages/messages_nodes.h"

namespace divvy {
namespace {

constexpr double kLongestDrain = 366.0 * 24 * 3600;

void AddGpus(wire::NodeView& view, const std::vector<GpuFacts>& gpus) {
  view.gpus = static_cast<std::int64_t>(gpus.size());
  for (const GpuFacts& gpu : gpus) {
    view.gpu_uuids.push_back(gpu.uuid);
    if (gpu.model != gpus.front().model) view.gpu_model.clear();
    else if (gpu.index == 0) view.gpu_model = gpu.model;
  }
}

constexpr std::string_view kUnfit = "unfit";

/// `state` is the state by the administrator's settings and the connection.
std::string StateOf(const std::string& state, const std::string& node, const Controller& controller) {
  if (!controller.IndexOf(node)) return state;
  if (state == "draining" && controller.RunsOn(node).empty()) return "drained";
  return state == "up" && !controller.NodeHealthProblem(node).empty() ? std::string(kUnfit) : state;
}

// Adds the used resources and the number of jobs.
void AddLoad(wire::NodeView& view, const Controller& controller, const IdleGpus& idle, const std::string& node) {
  const auto index = controller.IndexOf(node);
  if (!index) return;
  view.gpus_free = idle.free(*index).size();
  view.gpus_reserved = idle.reserved(*index).size();
  if (const auto job = idle.AloneOn(*index)) view.exclusive_job = PublicId(*controller.Find(*job));
  if (const auto allowed = controller.restriction(node)) {
    for (std::int64_t gpu = 0; gpu < view.gpus; ++gpu) {
      if (!allowed->Contains(static_cast<GpuIndex>(gpu))) view.gpus_restricted.push_back(gpu);
    }
  }
  view.jobs = static_cast<std::int64_t>(controller.RunsOn(node).size());
  view.pools = controller.scheduler().PoolsOf(*index);
  view.state = StateOf(view.state, node, controller);
  if (view.state == kUnfit) view.reason = controller.NodeHealthProblem(node);
}

wire::NodeView ViewOf(const NodeRow& row, const Controller& controller, const IdleGpus& idle, AgentListener& listener,
                      bool is_standby) {
  wire::NodeView view;
  view.name = row.name;
  view.state = listener.StateOf(row);
  view.reason = row.reason;
  if (row.work_since != kNoTime) view.reason_since = ToSeconds(row.work_since);
  AddGpus(view, row.facts.gpus);
  AddLoad(view, controller, idle, row.name);
  view.gpu_source = row.facts.gpu_source;
  view.cpus = row.facts.cpus;
  view.memory_bytes = row.facts.memory.count();
  view.version = row.facts.agent_version;
  view.joined = ToSeconds(row.joined);
  if (row.drain_deadline != kNever) view.deadline = ToSeconds(row.drain_deadline);
  view.labels = row.AllLabels();
  const Agents* agents = listener.agents();
  if (agents == nullptr) {
    if (view.reason.empty()) {
      view.reason = is_standby ? "only the leader is connected to the nodes"
                               : "the controller does not listen for nodes: divvy up --listen HOST:PORT, or "
                                 "controller.listen in divvy.toml";
    }
    return view;
  }
  view.address = agents->AddressOf(row.name);
  if (const Time heard = agents->HeardFrom(row.name); heard != kNoTime) view.last_contact = ToSeconds(heard);
  return view;
}

}  // namespace

NodeRoutes::NodeRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), about_(api.about), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/nodes", &NodeRoutes::Nodes},
                   {"GET", "/v1/pools", &NodeRoutes::Pools},
                   {"POST", "/v1/nodes/cordon", &NodeRoutes::CordonNodes},
                   {"POST", "/v1/nodes/drain", &NodeRoutes::DrainNodes},
                   {"POST", "/v1/nodes/resume", &NodeRoutes::ResumeNodes},
                   {"POST", "/v1/nodes/remove", &NodeRoutes::RemoveNodes},
                   {"POST", "/v1/nodes/label", &NodeRoutes::LabelNodes}});
}

std::map<std::string, int> NodesByState(const Controller& controller, const AgentListener* listener) {
  std::map<std::string, int> nodes = {{StateOf("up", "", controller), 1}};  // The controller's own node.
  if (listener == nullptr) return nodes;
  for (const auto& [name, row] : listener->registry().nodes())
    ++nodes[StateOf(listener->StateOf(row), name, controller)];
  return nodes;
}

void NodeRoutes::Nodes(ApiCall& call) {
  std::vector<wire::NodeView> views;
  const IdleGpus idle(driver_.controller().scheduler(), driver_.Now());
  AgentListener* listener = ports_.agents.get();
  wire::NodeView own;
  own.name = OwnNodeName(ports_);
  own.state = "up";
  own.is_controller = true;
  const NodeCapacity& capacity = driver_.controller().scheduler().capacity();
  AddGpus(own, capacity.gpus);
  AddLoad(own, driver_.controller(), idle, "");
  own.gpu_source = about_.gpu_source;
  own.cpus = capacity.cpus;
  own.memory_bytes = capacity.memory.count();
  views.push_back(std::move(own));
  if (listener != nullptr) {
    for (const auto& [name, row] : listener->registry().nodes())
      views.push_back(ViewOf(row, driver_.controller(), idle, *listener, !call.age.empty()));
  }
  call.Answer(views);
}

namespace {

template <typename Number>
std::optional<std::int64_t> Bound(Number most) {
  return most > 0 ? std::optional<std::int64_t>(most) : std::nullopt;
}

void FillRow(wire::PoolView& view, const PoolRow& row, const Policy& policy) {
  view.is_from_file = true;
  view.state = Name(row.state);
  view.is_default = row.is_default;
  view.users = row.users;
  view.teams = row.teams;
  if (row.max_time > Duration(0)) view.max_time_s = ToSeconds(row.max_time);
  if (row.default_time > Duration(0)) view.default_time_s = ToSeconds(row.default_time);
  view.min_gpus = row.min_gpus;
  view.max_gpus = row.max_gpus;
  view.max_nodes = Bound(row.max_nodes);
  view.running_limit = Bound(row.running);
  view.gpu_limit = Bound(row.gpus);
  view.policy = Name(row.policy.value_or(policy.order));
  view.placement = Name(row.placement.value_or(policy.placement));
  view.priority = row.priority;
  view.is_exclusive = row.is_exclusive;
  view.jobs_per_gpu = row.jobs_per_gpu;
}

/// A request without a reason keeps the previous one.
std::string ReasonOf(AgentListener& listener, const std::string& name, const wire::NodeRequest& request,
                     const Caller& caller) {
  const NodeRow* row = listener.registry().Find(name);
  if (request.reason.empty() && row != nullptr && row->work != NodeWork::kTakes && !row->reason.empty())
    return row->reason;
  return (request.reason.empty() ? "" : request.reason + ", ") + "by " + caller.user.name;
}

}  // namespace

void NodeRoutes::Pools(ApiCall& call) {
  const Controller& controller = driver_.controller();
  const IdleGpus idle(controller.scheduler(), driver_.Now());
  std::vector<wire::PoolView> views;
  for (const auto& [name, load] : controller.PoolLoads()) {
    wire::PoolView view;
    view.name = name;
    view.state = "up";
    view.policy = Name(controller.policy().order);
    view.placement = Name(controller.policy().placement);
    if (const PoolRow* row = controller.pools().Find(name)) FillRow(view, *row, controller.policy());
    for (const NodeIndex node : load.nodes) {
      const NodeUsage& machine = controller.scheduler().node(node);
      view.nodes.push_back(machine.attributes.name.empty() ? "localhost" : machine.attributes.name);
      view.gpus += static_cast<std::int64_t>(machine.capacity.gpus.size());
      view.gpus_free += idle.free(node).size();
      view.gpus_reserved += idle.reserved(node).size();
    }
    view.running = load.running;
    view.queued = load.queued;
    view.gpus_held = load.gpus;
    views.push_back(std::move(view));
  }
  call.Answer(views);
}

// Changes no node if one of the names is unknown. If a node refuses the change, the nodes named before it stay changed.
void NodeRoutes::ChangeNodes(ApiCall& call, const NodeChange& change) {
  const auto request = wire::Decode<wire::NodeRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  if (!call.caller.is_admin) {
    return call.Refuse(
        PermissionDenied("changing a node takes an administrator; " + call.caller.user.name + " is not one"));
  }
  if (request->names.empty()) return call.Refuse(InvalidArgument("name at least one node; divvy nodes lists them"));
  if (!ports_.agents) return call.Refuse(NotFound("this daemon has no other nodes"));
  AgentListener& listener = *ports_.agents;
  for (const std::string& name : request->names) {
    if (const Status known = listener.Knows(name); !known) return call.Refuse(known.error());
  }
  std::string message;
  for (const std::string& name : request->names) {
    const auto done = change(listener, name, *request);
    if (!done) return call.Refuse(done.error());
    message += (message.empty() ? "" : "\n") + *done;
  }
  AnswerMessage(driver_, call, message);
}

void NodeRoutes::CordonNodes(ApiCall& call) {
  ChangeNodes(call, [this, &call](AgentListener& listener, const std::string& name, const wire::NodeRequest& request) {
    return listener.Cordon(driver_, name, ReasonOf(listener, name, request, call.caller));
  });
}

void NodeRoutes::DrainNodes(ApiCall& call) {
  ChangeNodes(call,
              [this, &call](AgentListener& listener, const std::string& name,
                            const wire::NodeRequest& request) -> Result<std::string> {
                if (request.deadline_s > kLongestDrain)
                  return InvalidArgument("the deadline of a drain must be within a year");
                const Time deadline = request.deadline_s < 0
                                          ? kNever
                                          : driver_.Now() + TimeFromSeconds(request.deadline_s).time_since_epoch();
                return listener.Drain(driver_, name, deadline, ReasonOf(listener, name, request, call.caller));
              });
}

void NodeRoutes::ResumeNodes(ApiCall& call) {
  ChangeNodes(call, [this](AgentListener& listener, const std::string& name, const wire::NodeRequest&) {
    return listener.Resume(driver_, name);
  });
}

void NodeRoutes::RemoveNodes(ApiCall& call) {
  ChangeNodes(call, [this](AgentListener& listener, const std::string& name, const wire::NodeRequest& request) {
    return listener.Remove(driver_, name, request.is_lost);
  });
}

void NodeRoutes::LabelNodes(ApiCall& call) {
  ChangeNodes(call, [this](AgentListener& listener, const std::string& name, const wire::NodeRequest& request) {
    return listener.Label(driver_, name, request.labels);
  });
}

}  // namespace divvy
