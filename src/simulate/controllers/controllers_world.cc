#include "simulate/controllers/controllers_world.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace divvy::simulate {
namespace {

constexpr std::size_t kControllers = 3;
constexpr std::size_t kAgents = 2;
constexpr std::size_t kMostLive = 14;
constexpr std::uint64_t kMostDrainingSteps = 200'000;
constexpr Duration kMostDrainingTime = std::chrono::hours(6);

Caller Root() {
  Caller caller;
  caller.user = {0, 0, "root"};
  caller.is_admin = true;
  return caller;
}

NodeRow RowOf(const std::string& name, int gpus) {
  NodeRow row;
  row.name = name;
  row.facts.boot_id = "boot";
  row.facts.cpus = 64;
  row.facts.memory = Bytes(std::int64_t{512} << 30);
  for (int i = 0; i < gpus; ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.uuid = name + "-" + std::to_string(i);
    facts.model = "H100";
    facts.memory_total = Bytes(std::int64_t{80} << 30);
    row.facts.gpus.push_back(std::move(facts));
  }
  return row;
}

}  // namespace

ControllersWorld::ControllersWorld(std::uint64_t seed, const ControllersChaosOptions& options,
                                   ControllersChaosFigures& figures)
    : options_(options),
      figures_(figures),
      random_(seed),
      trace_(options.events_kept),
      database_(clock_, options.mutation),
      temper_(DrawTemper()) {
  database_.on_committed = [this](const ModelledDatabase::Write& write) { OnCommitted(write); };
  const ControllersParts parts{
      clock_,        random_, trace_,           figures_,
      database_,     nodes_,  options.mutation, [this](const Store::Loaded& loaded) { return CheckLoaded(loaded); },
      late_requests_};
  for (std::size_t i = 0; i < kControllers; ++i) {
    // The clock of each controller's machine runs up to 2 % slower or faster than true time. The lease tolerates that.
    const double rate = 0.98 + 0.0001 * static_cast<double>(random_.Below(400));
    controllers_.push_back(
        std::make_unique<ModelledController>(parts, i, std::chrono::seconds(60 + random_.Below(1'000'000)), rate));
  }
  for (std::size_t i = 0; i < kAgents; ++i) {
    const int gpus = static_cast<int>(1 + random_.Below(4));
    nodes_.push_back(RowOf("n" + std::to_string(i + 1), gpus));
    agents_.push_back(std::make_unique<ModelledAgent>(nodes_.back().name, gpus, kControllers, clock_, random_, trace_,
                                                      figures_, options.mutation,
                                                      [this, i](std::size_t to) { return Dial(i, to); }));
  }
}

ControllersWorld::Temper ControllersWorld::DrawTemper() {
  static constexpr std::array<std::uint64_t, 6> kFaults = {1, 3, 6, 12, 25, 50};
  Temper temper;
  temper.steps = 2'000 + random_.Below(14'001);
  temper.faults = kFaults[random_.Below(kFaults.size())];
  temper.commands = 10 + random_.Below(60);
  temper.has_wrong_clocks = random_.Below(3) == 0;
  temper.has_wall_clock_jumps = random_.Below(2) == 0;
  return temper;
}

bool ControllersWorld::Run() {
  for (const auto& one : controllers_) one->Start();
  while (trace_.step < temper_.steps && trace_.broken().empty()) Step();
  return trace_.broken().empty() && Drain();
}

void ControllersWorld::Step() {
  const std::uint64_t draw = random_.Below(1000);
  if (draw < temper_.faults) Fault();
  else if (draw < temper_.faults + temper_.commands) Command();
  else if (draw < temper_.faults + temper_.commands + 60 || !Advance()) PassTime();
  AfterStep();
}

// --- The network ----------------------------------------------------------------------------------------------------

std::shared_ptr<AgentLink> ControllersWorld::Dial(std::size_t agent, std::size_t controller) {
  // A stopped process (SIGSTOP) still accepts connections, so only a controller that does not run cannot be reached.
  if (!controllers_[controller]->is_up()) return nullptr;
  auto link = std::make_shared<AgentLink>();
  link->agent = agent;
  link->controller = controller;
  link->process = controllers_[controller]->process_id();
  links_.push_back(link);
  return link;
}

bool ControllersWorld::IsReady(const AgentLink& link, bool is_upwards) {
  if (link.is_stuck) return false;
  const ModelledController& one = *controllers_[link.controller];
  const bool has_process = one.is_up() && one.process_id() == link.process;
  if (is_upwards) {
    if (!has_process) return !link.is_closed_by_controller;  // Its socket is closed by the system.
    if (one.is_stopped() || link.is_closed_by_controller) return false;
    return !link.up.empty() || link.is_closed_by_agent;
  }
  return !link.is_closed_by_agent && (!link.down.empty() || link.is_closed_by_controller);
}

void ControllersWorld::DeliverUp(const std::shared_ptr<AgentLink>& link) {
  ModelledController& one = *controllers_[link->controller];
  LeaderLife* life = one.is_up() && one.process_id() == link->process ? one.life() : nullptr;
  if (life == nullptr) {
    // A standby does not take agents.
    link->is_closed_by_controller = true;
    link->up.clear();
  } else if (!link->up.empty()) {
    const auto message = std::move(link->up.front());
    link->up.pop_front();
    message(*life);
  } else {
    life->OnLinkLost(link);
    link->is_closed_by_controller = true;
  }
}

void ControllersWorld::DeliverDown(const std::shared_ptr<AgentLink>& link) {
  ModelledAgent& agent = *agents_[link->agent];
  if (agent.link() != link) {
    link->is_closed_by_agent = true;
  } else if (!link->down.empty()) {
    const auto message = std::move(link->down.front());
    link->down.pop_front();
    message(agent);
  } else {
    agent.OnLost();
  }
}

// --- Steps ----------------------------------------------------------------------------------------------------------

std::size_t ControllersWorld::CountReady(ModelledAgent& agent) {
  ChaosMachine& machine = agent.machine();
  const auto one = [](bool is_ready) { return is_ready ? std::size_t{1} : std::size_t{0}; };
  return one(machine.launches() > 0) + one(machine.commands() > 0) + one(machine.CountReady() > 0) +
         one(!machine.reports().empty());
}

bool ControllersWorld::AdvanceAgent(ModelledAgent& agent, std::size_t nth) {
  ChaosMachine& machine = agent.machine();
  const auto is_meant = [&nth](bool is_ready) { return is_ready && nth-- == 0; };
  if (is_meant(machine.launches() > 0)) {
    machine.Claim(0);
  } else if (is_meant(machine.commands() > 0)) {
    machine.DeliverCommand(0);
  } else if (is_meant(machine.CountReady() > 0)) {
    machine.AdvanceReady(random_.Below(machine.CountReady()));
  } else {
    const ReportMessage report = machine.reports().front();
    machine.reports().pop_front();
    agent.host().OnReport(report);
  }
  return true;
}

bool ControllersWorld::Advance() {
  std::erase_if(links_, [](const auto& link) { return link->is_closed_by_agent && link->is_closed_by_controller; });
  std::size_t count = 0;
  const Time now = clock_.true_time;
  for (const auto& one : controllers_) count += one->CountReady();
  for (const auto& agent : agents_) {
    count += CountReady(*agent);
    count += agent->next_tick() <= now ? 1 : 0;
    count += agent->machine().NextDue() <= now ? 1 : 0;
  }
  for (const auto& link : links_) count += (IsReady(*link, true) ? 1 : 0) + (IsReady(*link, false) ? 1 : 0);
  const bool is_late_due = !late_requests_.empty() && (is_calm_ || Happens(4));
  count += is_late_due ? 1 : 0;
  if (count == 0) return false;
  std::size_t nth = random_.Below(count);
  const auto is_meant = [&nth](std::size_t ready) {
    if (nth < ready) return true;
    nth -= ready;
    return false;
  };
  for (const auto& one : controllers_) {
    if (!is_meant(one->CountReady())) continue;
    one->Advance(nth);
    return true;
  }
  for (const auto& agent : agents_) {
    if (is_meant(CountReady(*agent))) return AdvanceAgent(*agent, nth);
    if (is_meant(agent->next_tick() <= now ? 1 : 0)) {
      agent->Tick();
      return true;
    }
    if (is_meant(agent->machine().NextDue() <= now ? 1 : 0)) return agent->machine().FireOneDue();
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto link = links_[i];
    if (is_meant(IsReady(*link, true) ? 1 : 0)) {
      DeliverUp(link);
      return true;
    }
    if (is_meant(IsReady(*link, false) ? 1 : 0)) {
      DeliverDown(link);
      return true;
    }
  }
  const std::size_t late = random_.Below(late_requests_.size());
  const auto execute = std::move(late_requests_[late]);
  late_requests_.erase(late_requests_.begin() + static_cast<std::ptrdiff_t>(late));
  ++figures_.late_requests;
  execute();
  return true;
}

Time ControllersWorld::NextDue() const {
  Time next = ends_.empty() ? kNever : ends_.begin()->first;
  for (const auto& one : controllers_) next = std::min(next, one->next_due());
  for (const auto& agent : agents_) next = std::min({next, agent->next_tick(), agent->machine().NextDue()});
  return next;
}

void ControllersWorld::PassTime() {
  Time& now = clock_.true_time;
  const std::uint64_t draw = random_.Below(100);
  const Time next = NextDue();
  if (draw < 50 && next != kNever && next > now) now = next;
  else if (draw < 97 || is_calm_) now += std::chrono::microseconds(random_.Below(20'000));
  else now += Milliseconds(3'000);
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const auto end = std::move(ends_.begin()->second);
    ends_.erase(ends_.begin());
    end();
  }
}

// --- Faults ---------------------------------------------------------------------------------------------------------

void ControllersWorld::StopOne(ModelledController& one) {
  if (one.is_stopped() || !one.is_up()) return;
  const bool freezes = temper_.has_wrong_clocks && Happens(50);
  ++(freezes ? figures_.frozen_clocks : figures_.stops);
  trace_.Note(freezes ? "a controller's machine is paused, with its clocks" : "a controller is stopped");
  one.Stop(freezes);
  ends_.emplace(clock_.true_time + Milliseconds(Happens(30) ? 2'000 : 8'000), [this, &one] {
    trace_.Note("a stopped controller goes on");
    one.Continue();
    // When the stopped controller continues, its network has problems, and agents look for a controller.
    if (!temper_.has_wrong_clocks || Happens(40)) return;
    one.CutDatabase(true);
    ends_.emplace(clock_.true_time + Milliseconds(3'000), [&one] { one.CutDatabase(false); });
    for (const auto& agent : agents_) {
      if (agent->link()) agent->link()->Cut();
      agent->OnLost();
    }
  });
}

void ControllersWorld::Fault() {
  ModelledController* leader = DrawLeader();
  ModelledController& one = leader != nullptr && Happens(75) ? *leader : *controllers_[random_.Below(kControllers)];
  const Time now = clock_.true_time;
  const std::uint64_t draw = random_.Below(100);
  if (draw < 14) {
    ++figures_.kills;
    trace_.Note("kill -9 of a controller");
    one.Kill();
    ends_.emplace(now + Milliseconds(6'000), [&one] { one.Start(); });
  } else if (draw < 34) {
    StopOne(one);
  } else if (draw < 44) {
    ++figures_.database_cuts;
    trace_.Note("a controller is cut off from the database");
    one.CutDatabase(true);
    ends_.emplace(now + Milliseconds(7'000), [this, &one] {
      one.CutDatabase(false);
      if (Happens(70)) one.DropConnections();
    });
  } else if (draw < 60) {
    ++figures_.database_cuts;
    trace_.Note("a controller's connections to the database are cut");
    one.DropConnections();
  } else if (draw < 68) {
    ++figures_.failovers;
    trace_.Note("the database fails over");
    const Duration skew =
        temper_.has_wrong_clocks ? Milliseconds(3'000) - std::chrono::milliseconds(1'500) : Duration(0);
    database_.FailOver(skew);
  } else if (draw < 74) {
    ++figures_.failovers;
    trace_.Note("the database is away");
    database_.SetAway(true);
    ends_.emplace(now + Milliseconds(Happens(80) ? 3'000 : 12'000), [this] { database_.SetAway(false); });
  } else if (draw < 84) {
    if (links_.empty()) return;
    ++figures_.agent_cuts;
    trace_.Note("a connection of an agent is cut");
    AgentLink& link = *links_[random_.Below(links_.size())];
    if (Happens(50)) link.is_stuck = true;
    else link.Cut();
    // If a connection is cut, agent and controller notice it at once. If it is stuck, they notice that they receive
    // nothing.
    if (link.is_closed_by_agent && agents_[link.agent]->link().get() == &link) agents_[link.agent]->OnLost();
  } else if (draw < 88) {
    ++figures_.agent_restarts;
    agents_[random_.Below(kAgents)]->Restart();
  } else if (draw < 92) {
    if (leader != nullptr) leader->StepDown();
  } else if (temper_.has_wall_clock_jumps) {
    ++figures_.clock_jumps;
    trace_.Note("a controller's wall clock jumps");
    one.JumpWallClock(std::chrono::seconds(static_cast<std::int64_t>(random_.Below(7201)) - 3600));
  }
}

// --- Users ----------------------------------------------------------------------------------------------------------

ModelledController* ControllersWorld::DrawLeader() {
  std::array<ModelledController*, kControllers> leaders{};
  std::size_t count = 0;
  for (const auto& one : controllers_) {
    if (one->life() != nullptr && !one->is_stopped()) leaders[count++] = one.get();
  }
  return count == 0 ? nullptr : leaders[random_.Below(count)];
}

void ControllersWorld::Command() {
  ModelledController* leader = DrawLeader();
  if (leader == nullptr) return;
  if (leader->life()->controller().live().size() < kMostLive && Happens(80)) Submit(*leader);
  else Cancel(*leader);
}

void ControllersWorld::Submit(ModelledController& one) {
  LeaderLife& life = *one.life();
  if (!life.driver().trouble().empty()) return;
  JobSpec spec;
  const std::string command = std::to_string(++last_command_);
  spec.command = {command};
  spec.name = "job";
  spec.request.gpus = Happens(20) ? 0 : 1;
  spec.grace = std::chrono::seconds(random_.Below(4));
  if (Happens(20)) spec.retries = 1;
  if (Happens(20)) spec.time_limit = std::chrono::seconds(1 + random_.Below(20));
  const auto made = life.controller().Submit(std::move(spec), 0, Root(), life.Now(), life.driver().Outcomes());
  if (!made) return;
  const JobId job = made->id;
  trace_.Note("submitted: job", job, static_cast<std::int64_t>(last_command_));
  life.driver().AfterCommit(
      [this, job, command](const Status& status) {
        if (!status) {
          const auto stored = database_.store().Spec(job);
          if (stored && stored->command.front() == command)
            trace_.Break("job " + ToString(job) + " was refused, but is in the store");
          return;
        }
        ++figures_.jobs;
        trace_.Note("acknowledged: job", job);
        acknowledged_[job] = command;
      },
      ControllerDriver::IfNotStored::kRefuse);
}

void ControllersWorld::Cancel(ModelledController& one) {
  LeaderLife& life = *one.life();
  const auto& live = life.controller().live();
  if (live.empty()) return;
  const JobRecord record = std::next(live.begin(), static_cast<std::ptrdiff_t>(random_.Below(live.size())))->second;
  if (!life.controller().Cancel(record.id, 0, Duration(-1), "", Root(), life.Now())) return;
  trace_.Note("cancelled: job", record.id);
  life.driver().AfterCommit(
      [this, id = record.id, attempt = record.attempt](const Status& status) {
        if (status) cancelled_.emplace(id, attempt);
      },
      ControllerDriver::IfNotStored::kReport);
}

// --- Checks ---------------------------------------------------------------------------------------------------------

void ControllersWorld::AfterStep() {
  ++trace_.step;
  ++figures_.steps;
  std::size_t acting = 0;
  for (const auto& one : controllers_) acting += one->may_act() ? 1 : 0;
  if (acting > 1) {
    ++figures_.deposed_but_acting;
    if (!temper_.has_wrong_clocks) trace_.Break("two controllers hold themselves for the leader");
  }
  CheckStarts();
}

// A job's attempt starts once, and a job runs on one node at a time.
void ControllersWorld::CheckStarts() {
  std::map<JobId, std::size_t> alive;
  for (std::size_t i = 0; i < kAgents; ++i) {
    for (const auto& [key, tree] : agents_[i]->machine().trees()) {
      if (!tree.is_alive()) continue;
      if (const auto [at, is_new] = alive.emplace(key.first, i); !is_new)
        trace_.Break("job " + ToString(key.first) + " runs twice");
      if (const auto [at, is_new] = starts_.emplace(key, i); !is_new && at->second != i)
        trace_.Break("attempt " + std::to_string(key.second) + " of job " + ToString(key.first) + " has started twice");
    }
  }
}

bool ControllersWorld::CheckLoaded(const Store::Loaded& loaded) {
  std::map<std::pair<std::string, int>, JobId> owners;
  for (const auto& [id, record] : loaded.live) {
    if (!IsActive(record.state)) continue;
    for (int gpu : record.gpus.ToVector()) {
      if (const auto [at, is_new] = owners.emplace(std::pair(record.node, gpu), record.id); !is_new)
        trace_.Break("in the store, a GPU is held by job " + ToString(at->second) + " and by job " +
                     ToString(record.id));
    }
  }
  CheckAcknowledged();
  return trace_.broken().empty();
}

void ControllersWorld::CheckAcknowledged() {
  if (database_.is_away()) return;
  for (const auto& [job, command] : acknowledged_) {
    const auto spec = database_.store().Spec(job);
    if (!spec) trace_.Break("job " + ToString(job) + " was acknowledged, but is lost");
    else if (spec->command.front() != command)
      trace_.Break("job " + ToString(job) + " is another one than acknowledged");
  }
  for (const auto& [job, final] : finals_) {
    const auto record = database_.store().Find(job);
    const bool is_same = record && record->state == final.state && record->attempt == final.attempt &&
                         (record->exit ? record->exit->code : 0) == final.code;
    if (!is_same) trace_.Break("job " + ToString(job) + " had ended durably, but its end is lost or has changed");
  }
}

void ControllersWorld::OnCommitted(const ModelledDatabase::Write& write) {
  ++figures_.commits;
  if (write.lease < last_epoch_) {
    trace_.Break("a commit of epoch " + std::to_string(write.lease) + " was accepted after one of epoch " +
                 std::to_string(last_epoch_));
  }
  last_epoch_ = write.lease;
  for (const Batch& batch : write.batches) {
    for (const Batch::NewJob& job : batch.inserts) CheckRecord(job.record);
    for (const JobRecord& record : batch.updates) CheckRecord(record);
  }
}

void ControllersWorld::CheckRecord(const JobRecord& record) {
  const auto broken = [&](const std::string& why) {
    trace_.Break("job " + ToString(record.id) + " (" + std::string(Name(record.state)) + ", attempt " +
                 std::to_string(record.attempt) + "): " + why);
  };
  Release& known = releases_[record.id];
  if (record.attempt < known.attempt) broken("is stored after attempt " + std::to_string(known.attempt));
  if (record.attempt > known.attempt + 1) broken("skips attempts after " + std::to_string(known.attempt));
  const bool holds = IsActive(record.state);
  if (record.attempt == known.attempt && known.is_released && holds)
    broken("holds GPUs again that this attempt had released");
  known = {record.attempt, !holds && record.attempt > 0};
  const auto cancelled = cancelled_.find(record.id);
  if (cancelled != cancelled_.end() && holds && record.attempt > cancelled->second)
    broken("starts after its cancellation was acknowledged");
  if (!IsFinal(record.state)) return;
  const Final final{record.state, record.attempt, record.exit ? record.exit->code : 0};
  if (const auto [at, is_new] = finals_.emplace(record.id, final); !is_new && at->second.state != final.state)
    broken("ends a second time, in another state");
  CheckExit(record);
}

void ControllersWorld::CheckExit(const JobRecord& record) {
  const auto broken = [&](const std::string& why) { trace_.Break("job " + ToString(record.id) + ": " + why); };
  for (std::size_t i = 0; i < kAgents; ++i) {
    const ChaosMachine& machine = agents_[i]->machine();
    if (machine.IsAlive(record.id, record.attempt)) broken("ended while its processes are alive");
    if (agents_[i]->name() != record.node || !record.exit || !record.exit->failure.empty()) continue;
    const Fate* fate = machine.FateOf(record.id);
    // No supervisor dies in these worlds, so that every end is seen.
    if (!record.exit->is_known) broken("its end is recorded as unknown, but a process saw it");
    else if (fate == nullptr || fate->attempt != record.attempt || !fate->end)
      broken("has an exit code, but did not end");
    else if (record.exit->code != fate->end->code) broken("has a wrong exit code");
  }
}

// Without further faults, every acknowledged job must end.
bool ControllersWorld::Drain() {
  trace_.Note("the faults stop");
  is_calm_ = true;
  for (auto& [at, end] : std::exchange(ends_, {})) end();
  database_.SetAway(false);
  for (const auto& one : controllers_) {
    one->Continue();
    one->CutDatabase(false);
    one->Start();
  }
  for (const auto& link : links_) {
    if (!link->is_stuck) continue;
    link->Cut();
    if (agents_[link->agent]->link() == link) agents_[link->agent]->OnLost();
  }
  for (const auto& agent : agents_) agent->machine().CalmDown();
  const Time deadline = clock_.true_time + kMostDrainingTime;
  const std::uint64_t last_step = trace_.step + kMostDrainingSteps;
  const auto is_empty = [this](const auto& agent) { return agent->machine().is_empty(); };
  while (trace_.broken().empty()) {
    if (!Advance()) PassTime();
    AfterStep();
    if (clock_.true_time > deadline || trace_.step > last_step) {
      trace_.Break("the world does not come to rest:" + agents_[0]->machine().DescribeTrees() + ";" +
                   agents_[1]->machine().DescribeTrees());
    }
    if (trace_.step % 64 != 0) continue;
    ModelledController* leader = DrawLeader();
    if (leader == nullptr || !leader->may_act()) continue;
    const auto& live = leader->life()->controller().live();
    if (live.empty() && std::ranges::all_of(agents_, is_empty)) break;
    if (!live.empty() && leader->life()->driver().trouble().empty()) Cancel(*leader);
  }
  if (!trace_.broken().empty()) return false;
  CheckAcknowledged();
  for (const auto& [job, command] : acknowledged_) {
    const auto record = database_.store().Find(job);
    if (record && !IsFinal(record->state)) trace_.Break("job " + ToString(job) + " never ended");
  }
  return trace_.broken().empty();
}

}  // namespace divvy::simulate
