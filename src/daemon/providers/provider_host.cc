#include "daemon/providers/provider_host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/growth/ceiling.h"
#include "engine/growth/growth_text.h"
#include "platform/net/tls.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

using providers::Answer;
using providers::Call;
using providers::NodeAct;
using providers::NodeRequest;
using providers::NodeState;
using providers::ProviderMode;

constexpr std::string_view kClusterKey = "providers.cluster";
constexpr std::string_view kMadeBy = "(providers)";  // TokenRow::made_by of join tokens of providers' nodes.
constexpr Duration kTick = 500ms;
/// The first decision about nodes is this long after the daemon's start, so that agents can reconnect before.
constexpr Duration kFirstDecision = 5s;
constexpr Duration kBetweenDecisions = 1s;
constexpr Duration kDecideEvery = 5min;
/// A node whose agent is not connected for this long is returned.
constexpr Duration kMostAway = 10min;
constexpr Duration kDropTokensEvery = 1min;
/// An unused join token is valid for this long.
constexpr Duration kJoinWithin = std::chrono::hours(24);
constexpr std::size_t kLongestInstance = 256;
constexpr std::size_t kMostUnused = 10'000;
/// Limits on the number of specifications that are read from the store before one decision, and on the time for that,
/// because the event loop waits meanwhile. For jobs whose specification was not read yet, no node is requested.
constexpr int kMostSpecsRead = 200;
constexpr auto kMostReading = std::chrono::milliseconds(20);
/// How often all live jobs are checked: for wishes that are not known yet, and for ones that are no longer needed.
constexpr Duration kScanEvery = 1min;
constexpr Duration kForeseeEvery = 1s;
/// Characters of a label's value (node_registry.cc).
constexpr std::size_t kLongestLabel = 128;

std::string ReasonText(growth::ReturnReason reason) {
  switch (reason) {
    case growth::ReturnReason::kIdle:
      return "idle";
    case growth::ReturnReason::kDisabled:
      return "its provider is disabled";
    case growth::ReturnReason::kLifetime:
      return "the end of its lifetime is near";
    case growth::ReturnReason::kBudget:
      break;
  }
  return "the money of this month is spent";
}

/// A printable word without blanks.
bool IsInstance(const std::string& text) {
  return !text.empty() && text.size() <= kLongestInstance &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

/// Reads what a provider's program printed, as the answer to the call.
Answer AnswerOf(const Call& call, const std::string& cluster, const Result<std::string>& output) {
  Answer answer;
  if (!output) {
    answer.error = output.error().message;
    return answer;
  }
  switch (call.kind) {
    case Call::Kind::kCreate: {
      const auto created = wire::Decode<wire::ProviderCreated>(*output);
      if (!created) answer.error = "the program printed no valid answer: " + created.error().message;
      else if (!IsInstance(created->instance))
        answer.error = R"(its answer has no "instance" of 1 to 256 printable characters without blanks)";
      else answer.instance = created->instance;
      return answer;
    }
    case Call::Kind::kList: {
      const auto list = wire::Decode<wire::ProviderList>(*output);
      // An empty output is not an empty list: nodes would count as gone.
      if (Trim(*output).empty()) answer.error = R"(the program printed nothing; without nodes, print {"nodes": []})";
      else if (!list) answer.error = "the program printed no valid list of nodes: " + list.error().message;
      else if (output->find("\"nodes\"") == std::string::npos) answer.error = R"(its answer has no "nodes")";
      if (!answer.error.empty()) return answer;
      for (const wire::ProviderListed& node : list->nodes) {
        if (node.cluster != cluster) continue;
        if (!IsInstance(node.instance)) {
          answer.error = "it lists a node without a valid instance";
          return answer;
        }
        const bool has_end = node.ends_at && *node.ends_at > 0 && *node.ends_at < 1e10;
        answer.nodes.push_back({node.token.substr(0, 64), node.instance, node.state == "pending",
                                has_end ? TimeFromSeconds(*node.ends_at) : kNever});
      }
      return answer;
    }
    case Call::Kind::kDestroy:
      break;
  }
  return answer;
}

wire::ProviderOrderShape OrderOf(const NodeShape& shape) {
  wire::ProviderOrderShape order;
  order.name = shape.name;
  order.gpu_model = shape.gpu_model;
  order.gpus = shape.gpus;
  order.cpus = shape.cpus;
  order.memory_bytes = shape.memory.count();
  order.labels = shape.labels;
  order.max_lifetime_s = ToSeconds(shape.max_lifetime);
  order.is_spot = shape.is_spot;
  order.options = shape.options;
  return order;
}

std::string_view VerbOf(Call::Kind kind) {
  return kind == Call::Kind::kCreate ? "create" : kind == Call::Kind::kList ? "list" : "destroy";
}

}  // namespace

ProviderHost::ProviderHost(std::vector<Provider> providers) : provisioner_(std::move(providers)) {}

ProviderHost::~ProviderHost() { *is_alive_ = false; }

Status ProviderHost::Complete(std::vector<Provider>& all, const std::string& divvy) {
  for (Provider& provider : all) {
    const std::string who = "provider " + provider.name + ": ";
    if (provider.kind != ProviderKind::kCommand && provider.command.empty())
      provider.command = {divvy, "provider", std::string(Name(provider.kind))};
    if (provider.command.empty())
      return FailedPrecondition(who + "it has no command; add command = [\"/usr/local/lib/divvy/" + provider.name +
                                "\"], the program that creates its nodes");
    if (::access(provider.command.front().c_str(), X_OK) != 0)
      return FailedPrecondition(who + "cannot run " + provider.command.front() + ": " + std::strerror(errno));
    // They become labels of the nodes.
    const auto check_label = [&who](const std::string& what, const std::vector<std::string>& names) -> Status {
      const std::size_t size = Join(names, ",").size();
      if (size <= kLongestLabel) return {};
      return FailedPrecondition(who + what + " have " + std::to_string(size) + " characters together; at most " +
                                std::to_string(kLongestLabel) + " are allowed");
    };
    DIVVY_CHECK(check_label("the pools", provider.pools));
    for (const NodeShape& shape : provider.shapes)
      DIVVY_CHECK(check_label("the labels of shape " + shape.name, shape.labels));
    if (provider.credentials.empty()) continue;
    struct stat status {};
    if (::stat(provider.credentials.c_str(), &status) != 0)
      return FailedPrecondition(who + "cannot find its credentials, " + provider.credentials + ": " +
                                std::strerror(errno));
    if (!S_ISREG(status.st_mode) || (status.st_mode & 0077) != 0 || status.st_uid != ::geteuid())
      return FailedPrecondition(who + "the file " + provider.credentials +
                                " must belong to the user that divvy runs as, and nobody else may read it: chmod 600");
  }
  return {};
}

bool ProviderHost::LoadSetting(std::string_view key, std::string_view text) {
  if (key != kClusterKey) return provisioner_.LoadSetting(key, text);
  cluster_ = text;
  return true;
}

void ProviderHost::Write(LogLevel level, const std::string& line) const {
  if (ports_.log != nullptr) ports_.log->Write(level, line);
}

void ProviderHost::Keep(providers::Provisioner::Setting row) {
  driver_->controller().KeepSetting(row.first, std::move(row.second));
  driver_->Touch();
}

const Provider* ProviderHost::Find(std::string_view name) const {
  const auto found = std::ranges::find(provisioner_.providers(), name, &Provider::name);
  return found == provisioner_.providers().end() ? nullptr : &*found;
}

void ProviderHost::Open(boost::asio::io_context& loop, ControllerDriver& driver, AgentListener& agents,
                        TokenRegistry& tokens, Ports ports) {
  loop_ = &loop;
  driver_ = &driver;
  agents_ = &agents;
  tokens_ = &tokens;
  ports_ = std::move(ports);
  if (empty()) return;
  runner_ = std::make_unique<ProviderRunner>(loop, ports_.divvy);
  worker_ = std::make_unique<Worker>();
  if (cluster_.empty()) {
    // Two clusters with one tag would destroy each other's nodes.
    const auto tag = RandomHex(6);
    if (!tag) return Write(LogLevel::kError, "event=no_providers reason=" + LogQuoted(tag.error().message));
    cluster_ = "divvy" + *tag;
    Keep({std::string(kClusterKey), cluster_});
  }
  driver.Subscribe([this, alive = is_alive_](const std::vector<Change>& changes, Time) {
    if (!*alive) return;
    is_changed_ = true;
    for (const Change& change : changes) {
      if (!change.job.is_set() || !IsWaiting(change.state)) continue;
      if (const JobRecord* record = driver_->controller().Find(change.job)) WillRead(*record);
    }
  });
  decide_at_ = decided_at_ = driver.Now() + kFirstDecision;
  Tick();
}

void ProviderHost::Tick() {
  const Time now = driver_->Now();
  if (driver_->may_act()) {
    Look(now);
    const bool is_due = now >= decide_at_ || (is_changed_ && now >= decided_at_ + kBetweenDecisions);
    if (is_due && !is_deciding_) Decide(now);
    TakeStep(now);
    if (now - dropped_at_ > kDropTokensEvery) {
      dropped_at_ = now;
      DropJoinTokens();
    }
  }
  ports_.after(kTick, [this, alive = is_alive_] {
    if (*alive) Tick();
  });
}

// --- Nodes ---------------------------------------------------------------------------------------------------------

const NodeShape* ProviderHost::ShapeOf(const NodeRequest& request) const {
  const Provider* provider = Find(request.provider);
  if (provider == nullptr) return nullptr;
  const auto found = std::ranges::find(provider->shapes, request.shape, &NodeShape::name);
  return found == provider->shapes.end() ? nullptr : &*found;
}

ProviderHost::Labels ProviderHost::LabelsOf(const NodeRequest& request) const {
  Labels labels = {{"provider", request.provider}};
  const Provider* provider = Find(request.provider);
  const NodeShape* shape = ShapeOf(request);
  if (shape != nullptr && !shape->labels.empty()) labels["features"] = Join(shape->labels, ",");
  if (provider != nullptr && !provider->pools.empty()) labels["pool"] = Join(provider->pools, ",");
  return labels;
}

Result<ProviderHost::Labels> ProviderHost::CheckJoin(std::string_view join_token, const std::string& name) const {
  const NodeRequest* own = provisioner_.RequestOfJoinToken(join_token);
  if (own == nullptr && provisioner_.FindNode(name) == nullptr) return Labels();
  if (own == nullptr)
    return PermissionDenied("node " + name + " is a node of a provider, and this token was not made for it; " +
                            "divvy agent --name chooses another name");
  if (own->node != name)
    return PermissionDenied("this token was made for node " + own->node + " of provider " + own->provider +
                            ", not for a node called " + name + "; divvy agent --name " + own->node);
  if (own->state == NodeState::kRequested || own->state == NodeState::kBooting) return LabelsOf(*own);
  return PermissionDenied("node " + name + " of provider " + own->provider + " is " +
                          std::string(providers::Name(own->state)) + " already");
}

// Brings the provisioner up to date about agents and jobs.
void ProviderHost::Look(Time now) {
  // A later node of the same name begins anew.
  std::erase_if(memory_, [this](const auto& entry) { return provisioner_.FindNode(entry.first) == nullptr; });
  std::erase_if(away_since_, [this](const auto& entry) { return provisioner_.FindNode(entry.first) == nullptr; });
  const Agents* agents = agents_->agents();
  if (provisioner_.requests().empty() || agents == nullptr) return;
  std::set<std::string> connected, busy, registered;
  for (const auto& [id, job] : driver_->controller().scheduler().running_jobs()) {
    const JobRecord* record = driver_->controller().Find(id);
    if (record == nullptr) continue;
    for (const NodeAllocation& allocation : AllocationsOf(*record)) busy.insert(allocation.node);
  }
  std::vector<std::pair<std::string, std::string>> joined;  // Node and problem.
  std::vector<std::string> lost, gone, late, unknown;
  for (const auto& [token, request] : provisioner_.requests()) {
    const NodeRow* row = agents_->registry().Find(request.node);
    // A joined node that an administrator has removed counts as disconnected.
    if (row == nullptr && request.state != NodeState::kJoined) continue;
    if (row != nullptr) registered.insert(request.node);
    const bool is_connected = row != nullptr && agents->PresenceOf(request.node) == Agents::Presence::kConnected;
    if (is_connected) connected.insert(request.node);
    if (request.state == NodeState::kRequested || request.state == NodeState::kBooting) {
      if (!is_connected) continue;
      const auto count = static_cast<int>(row->facts.gpus.size());
      const NodeShape* shape = ShapeOf(request);
      std::string problem;
      const std::string who = "node " + request.node + " (shape " + request.shape + ") ";
      if (count != request.gpus) problem = "has " + Plural(count, "GPU") + ", not " + std::to_string(request.gpus);
      else if (shape != nullptr && count > 0)
        problem = providers::ModelProblem(shape->gpu_model, row->facts.gpus.front());
      if (!problem.empty()) problem.insert(0, who);
      joined.emplace_back(request.node, problem);
      if (const auto labelled = agents_->Label(*driver_, request.node, LabelsOf(request)); !labelled)
        Write(LogLevel::kWarning,
              "node=" + request.node + " event=label_refused reason=" + LogQuoted(labelled.error().message));
    }
    // The node could not be removed from the controller before, because its agent was still connected.
    if (request.state == NodeState::kDestroying && !is_connected) gone.push_back(request.node);
    // The node's agent has joined after the node was given up, so the node must be cordoned.
    if (request.state == NodeState::kDestroying && is_connected && row->work == NodeWork::kTakes)
      late.push_back(request.node);
    if (request.state != NodeState::kJoined) continue;
    providers::NodeMemory& memory = memory_[request.node];
    if (busy.contains(request.node)) memory.idle_since = kNever;
    else if (memory.idle_since == kNever) memory.idle_since = now;
    if (is_connected) {
      away_since_.erase(request.node);
    } else {
      const Time since = away_since_.try_emplace(request.node, now).first->second;
      if (now - since >= kMostAway) lost.push_back(request.node);
    }
    const Provider* provider = Find(request.provider);
    if (provider == nullptr || memory.idle_since == kNever) continue;
    const bool is_known =
        std::ranges::find(provider->shapes, request.shape, &NodeShape::name) != provider->shapes.end();
    if (!is_known && now - memory.idle_since >= provider->idle.value_or(growth::GrowthRules().settle))
      unknown.push_back(request.node);
  }
  for (const auto& [node, problem] : joined) {
    provisioner_.OnJoined(node, problem, now);
    Write(LogLevel::kInfo,
          "node=" + node + " event=provider_node_joined" + (problem.empty() ? "" : " problem=" + LogQuoted(problem)));
    is_changed_ = true;
  }
  for (const std::string& node : gone) static_cast<void>(agents_->Remove(*driver_, node, true));
  for (const std::string& node : late)
    static_cast<void>(agents_->Cordon(*driver_, node, "its provider takes it back: it joined too late"));
  provisioner_.OnNodes(connected, busy, now, registered);
  // Nodes whose shape was removed from divvy.toml are not considered in decisions, so they are returned here.
  for (const std::string& node : unknown) provisioner_.Return(node, "its shape is not in divvy.toml", false, now);
  for (const std::string& node : lost)
    provisioner_.Return(node, "its agent was not connected for " + DurationText(kMostAway), true, now);
}

// Removes the join tokens of nodes that have joined, or that will not join any more.
void ProviderHost::DropJoinTokens() {
  std::vector<std::string> ids;
  std::set<std::string_view> used;
  for (const auto& [token, request] : provisioner_.requests())
    used.insert(request.join_tokens.begin(), request.join_tokens.end());
  for (const auto& [id, row] : tokens_->tokens()) {
    if (row.made_by == kMadeBy && !used.contains(id)) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    if (auto row = tokens_->Remove(id)) Keep(*std::move(row));
  }
}

std::string ProviderHost::MakeJoinToken(const NodeRequest& request) {
  const auto id = RandomHex(4), secret = RandomHex(32);
  if (!id || !secret) return "";
  TokenRow row;
  row.id = *id;
  row.hash = Sha256Hex(*secret);
  row.user = request.node;
  row.uid = ::geteuid();
  row.role = TokenRole::kNode;
  row.label = "node " + request.node.substr(0, 50);
  row.made_by = kMadeBy;
  row.made_at = driver_->Latest();
  row.expires = driver_->Latest() + kJoinWithin;
  row.uses_left = 1;
  auto setting = tokens_->Add(std::move(row));
  if (!setting) {
    Write(LogLevel::kError,
          "node=" + request.node + " event=no_join_token reason=" + LogQuoted(setting.error().message));
    return "";
  }
  Keep(*std::move(setting));
  Keep(provisioner_.AddJoinToken(request.token, *id));
  TokenLine line = ports_.join_line();
  line.id = *id;
  line.secret = *secret;
  return ToString(line);
}

// --- Decisions -----------------------------------------------------------------------------------------------------

// The wishes of jobs are part of their specifications, which are only in the store. Those of submissions are learned
// before they get there (Learn); others, such as those of jobs from before a restart, are read a few at a time.

void ProviderHost::Learn(JobId job, const Labels& labels) {
  if (empty()) return;
  wishes_.insert_or_assign(job, GrowthWishesIn(labels));
  is_changed_ = true;  // Otherwise an updated job would keep the last decision until something else happens.
  unread_.erase(job);
  unreadable_.erase(job);
}

void ProviderHost::WillRead(const JobRecord& record) {
  const JobId key = record.array.is_set() ? record.array : record.id;
  if (!wishes_.contains(key) && !unreadable_.contains(key)) unread_.emplace(key, record.id);
}

void ProviderHost::ScanWishes(Time now) {
  if (scanned_at_ != kNoTime && now - scanned_at_ < kScanEvery) return;
  scanned_at_ = now;
  unreadable_.clear();  // They are tried again.
  std::set<JobId> live;
  for (const auto& [id, record] : driver_->controller().live()) {
    live.insert(record.array.is_set() ? record.array : id);
    if (IsWaiting(record.state)) WillRead(record);
  }
  std::erase_if(wishes_, [&live](const auto& entry) { return !live.contains(entry.first); });
}

void ProviderHost::ReadWishes() {
  const auto end = std::chrono::steady_clock::now() + kMostReading;
  for (int left = kMostSpecsRead; !unread_.empty() && left > 0 && std::chrono::steady_clock::now() < end; --left) {
    const auto [key, job] = *unread_.begin();
    unread_.erase(unread_.begin());
    const JobRecord* record = driver_->controller().Find(job);
    if (record == nullptr) {  // Other elements of its array may wait: the next decision looks for them.
      scanned_at_ = kNoTime;
      is_changed_ = true;
      continue;
    }
    const auto spec = driver_->NewestSpecOf(*record);
    if (spec) {
      wishes_.emplace(key, GrowthWishesIn((*spec)->labels));
    } else if (spec.error().code == ErrorCode::kUnreachable) {
      unread_.emplace(key, job);  // The store is away.
      break;
    } else {
      unreadable_.insert(key);
    }
  }
  if (!unread_.empty()) is_changed_ = true;
}

void ProviderHost::Decide(Time now) {
  is_changed_ = false;
  decided_at_ = now;
  ScanWishes(now);
  if (driver_->controller().scheduler().waiting_count() == 0 && provisioner_.requests().empty()) {
    decide_at_ = kNever;
    last_feed_ = nullptr;
    return;
  }
  is_deciding_ = true;
  std::erase_if(unused_, [this](const auto& entry) { return driver_->controller().Find(entry.first) == nullptr; });
  ReadWishes();
  auto feed = std::make_shared<const providers::GrowthFeed>(
      providers::CollectGrowth(driver_->controller(), provisioner_, memory_, unused_, wishes_, now));
  worker_->Do([this, feed, alive = is_alive_] {
    auto decision = std::make_shared<growth::GrowthDecision>(growth::DecideGrowth(feed->input));
    boost::asio::post(*loop_, [this, feed, decision, alive] {
      if (*alive) OnDecision(feed, *decision);
    });
  });
}

void ProviderHost::OnDecision(const std::shared_ptr<const providers::GrowthFeed>& feed,
                              const growth::GrowthDecision& decision) {
  const Time now = driver_->Now();
  is_deciding_ = false;
  // The next decision is due even if nothing happens, because each month begins with its whole limit.
  decide_at_ = std::min(decision.next_wakeup, now + kDecideEvery);
  last_feed_ = feed;
  last_decision_ = decision;
  const growth::CeilingResult ceiling = growth::WithinCeiling(feed->input, decision.requests);
  for (const std::string& refused : ceiling.refused)
    Write(LogLevel::kError, "event=nodes_refused reason=" + LogQuoted(refused));
  for (std::size_t first = 0, end = 0; first < ceiling.allowed.size(); first = end) {
    providers::Provisioner::Shapes shapes;
    Money hourly;
    const std::string& team = feed->input.demands[ceiling.allowed[first].demand].team;
    for (; end < ceiling.allowed.size() && ceiling.allowed[end].set == ceiling.allowed[first].set; ++end) {
      const growth::OfferIndex offer = ceiling.allowed[end].offer;
      shapes.emplace_back(feed->catalogue->provider_of(offer).name, feed->catalogue->shape(offer).name);
      hourly += feed->catalogue->offers()[offer].hourly;
    }
    // Counted again, like the providers' limits: teams may share the limit of a team above them.
    const TeamRegistry& teams = driver_->controller().teams();
    const auto money = providers::TeamMoneyLeft(teams, providers::TeamSpending(teams, provisioner_, now), team);
    if (money && hourly > money->left) {
      Write(LogLevel::kInfo, "event=nodes_refused team=" + team + " reason=" +
                                 LogQuoted(growth::MoneyText(hourly) + " per hour; the budget of team " + money->team +
                                           " leaves " + growth::MoneyText(std::max(money->left, Money()))));
      is_changed_ = true;
      continue;
    }
    const auto nodes = provisioner_.Request(
        shapes, [] { return RandomHex(16).value_or(""); },
        [this](const std::string& name) {
          return agents_->registry().Find(name) != nullptr || name == agents_->registry().own_name();
        },
        now, team);
    if (!nodes) {
      Write(LogLevel::kWarning, "event=nodes_refused reason=" + LogQuoted(nodes.error().message));
      continue;
    }
    for (std::size_t i = 0; i < nodes->size(); ++i) {
      memory_[(*nodes)[i]].requested_for = feed->jobs[ceiling.allowed[first + i].demand];
      Write(LogLevel::kInfo,
            "node=" + (*nodes)[i] + " event=node_requested provider=" + shapes[i].first + " shape=" + shapes[i].second);
    }
  }
  for (const growth::NodeReturn& it : decision.returns) {
    const std::string& node = feed->nodes[it.node];
    // The node may have got a job since the decision began.
    const bool is_busy = !it.is_forced && !driver_->controller().RunsOn(node).empty();
    if (is_busy) continue;
    if (!it.was_used && unused_.size() < kMostUnused) {
      for (const JobId job : memory_[node].requested_for) {
        if (driver_->controller().scheduler().waiting(job) == nullptr) continue;
        providers::Unused& unused = unused_[job];
        unused.not_before = growth::RetryAfterUnused(++unused.times, now);
      }
    }
    Write(LogLevel::kInfo, "node=" + node + " event=node_returned reason=" + LogQuoted(ReasonText(it.reason)));
    provisioner_.Return(node, ReasonText(it.reason), it.is_forced, now);
  }
  TakeStep(now);
}

// --- Steps ---------------------------------------------------------------------------------------------------------

void ProviderHost::TakeStep(Time now) {
  if (cluster_.empty()) return;  // See Open.
  auto step = std::make_shared<Step>(provisioner_.TakeStep(now));
  if (step->rows.empty() && step->calls.empty() && step->acts.empty()) return;
  for (auto& row : step->rows) {
    Keep(std::move(row));
    is_changed_ = true;
  }
  auto lines = std::make_shared<std::map<std::string, std::string>>();
  for (const Call& call : step->calls) {
    if (call.kind != Call::Kind::kCreate) continue;
    const auto request = provisioner_.requests().find(call.token);
    if (request != provisioner_.requests().end()) (*lines)[call.token] = MakeJoinToken(request->second);
  }
  for (const Provider& provider : provisioner_.providers()) {
    const std::string& error = provisioner_.ViewOf(provider.name, now).last_error;
    if (std::exchange(reported_[provider.name], error) != error)
      Write(LogLevel::kWarning, "provider=" + provider.name + " event=provider_error error=" + LogQuoted(error));
  }
  driver_->AfterCommit([this, step, lines, alive = is_alive_](const Status& done) {
    if (*alive && done) Perform(*step, *lines);
  });
}

void ProviderHost::Perform(const Step& step, const std::map<std::string, std::string>& join_lines) {
  for (const NodeAct& act : step.acts) Act(act);
  for (const Call& call : step.calls) {
    const auto line = join_lines.find(call.token);
    Run(call, line == join_lines.end() ? "" : line->second);
  }
}

void ProviderHost::Act(const NodeAct& act) {
  const NodeRow* row = agents_->registry().Find(act.node);
  const std::string reason = "its provider takes it back: " + act.why;
  Result<std::string> done = std::string();
  if (row != nullptr && act.kind == NodeAct::Kind::kCordon) done = agents_->Cordon(*driver_, act.node, reason);
  if (row != nullptr && act.kind == NodeAct::Kind::kEmpty)
    done = agents_->Drain(*driver_, act.node, driver_->Now(), reason);
  if (row != nullptr && act.kind == NodeAct::Kind::kRemove) {
    const Agents* agents = agents_->agents();
    const bool is_connected = agents != nullptr && agents->PresenceOf(act.node) == Agents::Presence::kConnected;
    done = agents_->Remove(*driver_, act.node, !is_connected);
  }
  if (!done)
    Write(LogLevel::kWarning, "node=" + act.node + " event=return_failed reason=" + LogQuoted(done.error().message));
  provisioner_.OnActed(act.node);
}

void ProviderHost::Run(const Call& call, const std::string& join_line) {
  const auto finish = [this, alive = is_alive_, call](const Result<std::string>& output) {
    if (!*alive) return;
    provisioner_.OnAnswer(call.number, AnswerOf(call, cluster_, output), driver_->Now());
    TakeStep(driver_->Now());
  };
  const Provider* provider = Find(call.provider);
  wire::ProviderOrder order;
  order.cluster = cluster_;
  order.provider = call.provider;
  order.options = provider->options;
  order.token = call.token;
  order.instance = call.instance;
  if (call.kind == Call::Kind::kCreate) {
    const auto request = provisioner_.requests().find(call.token);
    const auto shape = request == provisioner_.requests().end()
                           ? provider->shapes.end()
                           : std::ranges::find(provider->shapes, request->second.shape, &NodeShape::name);
    if (join_line.empty() || shape == provider->shapes.end())
      return boost::asio::post(*loop_, [finish] { finish(Internal("no join token could be made for it")); });
    order.name = request->second.node;
    order.join = join_line;
    order.shape = OrderOf(*shape);
  }
  ProviderProgram program;
  program.words = provider->command;
  program.words.emplace_back(VerbOf(call.kind));
  program.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
                         "HOME=" + ports_.folder, "DIVVY=" + ports_.divvy};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(provider->timeout);
  program.environment.push_back("DIVVY_TIMEOUT_S=" + std::to_string(seconds.count()));
  if (provider->kind == ProviderKind::kKubernetes) {
    // Inside Kubernetes, the variables by which a provider's program finds the API server.
    for (const char* name : {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}) {
      if (const char* value = std::getenv(name)) program.environment.push_back(std::string(name) + "=" + value);
    }
  }
  if (!provider->credentials.empty()) program.environment.push_back("DIVVY_CREDENTIALS=" + provider->credentials);
  program.input = wire::Encode(order);
  program.timeout = provider->timeout;
  // Removes the secret of the join token from messages, since the program may print its input.
  const std::string secret = join_line.empty() ? "" : join_line.substr(join_line.find('#'));
  runner_->Run(program, [finish, secret](const Result<std::string>& output) {
    if (output || secret.empty() || output.error().message.find(secret.substr(1, 73)) == std::string::npos)
      return finish(output);
    finish(Internal("it failed; its message contains the join token and is not shown"));
  });
}

// --- Views ---------------------------------------------------------------------------------------------------------

std::map<std::string, providers::Provisioner::Spending> ProviderHost::TeamSpending() const {
  if (driver_ == nullptr) return {};
  return providers::TeamSpending(driver_->controller().teams(), provisioner_, driver_->Now());
}

std::vector<wire::ProviderView> ProviderHost::Views(Time now) const {
  std::vector<wire::ProviderView> views;
  std::set<std::string> names;
  for (const Provider& provider : provisioner_.providers()) names.insert(provider.name);
  const auto add = [&](const std::string& name, const Provider* provider) {
    const auto facts = provisioner_.ViewOf(name, now);
    wire::ProviderView view;
    view.name = name;
    const ProviderMode mode = provisioner_.ModeOf(name);
    view.state = provider == nullptr || !provider->is_enabled ? "off"
                 : mode == ProviderMode::kDisabled            ? "disabled"
                 : mode == ProviderMode::kDrained             ? "drained"
                 : facts.down_until > now                     ? "failing"
                                                              : "enabled";
    if (provider != nullptr) {
      view.kind = Name(provider->kind);
      view.max_nodes = provider->limits.nodes;
      view.max_gpus = provider->limits.gpus;
      if (provider->limits.hourly) view.max_per_hour = provider->limits.hourly->units();
      if (provider->limits.monthly) view.max_per_month = provider->limits.monthly->units();
    }
    view.nodes = facts.nodes;
    view.gpus = facts.gpus;
    view.unrequested = facts.strangers;
    view.hourly = facts.hourly.units();
    view.this_month = facts.spent_this_month.units();
    view.last_error = facts.last_error;
    view.last_error_at = facts.last_error_at == kNoTime ? 0 : ToSeconds(facts.last_error_at);
    view.next_try = facts.down_until > now ? ToSeconds(facts.down_until) : 0;
    for (const auto& [token, request] : provisioner_.requests()) {
      if (request.provider != name) continue;
      wire::ProviderNodeView node;
      node.node = request.node;
      node.shape = request.shape;
      node.state = providers::Name(request.state);
      node.instance = request.instance;
      node.requested = ToSeconds(request.requested);
      node.joined = request.joined == kNoTime ? 0 : ToSeconds(request.joined);
      node.expected = ToSeconds(provisioner_.ExpectedReady(request));
      node.hourly = request.hourly.units();
      if (!request.instance.empty()) node.cost = providers::CostBetween(request, kNoTime, now).units();
      node.why = request.why;
      view.list.push_back(std::move(node));
    }
    std::ranges::sort(view.list, {}, &wire::ProviderNodeView::requested);
    views.push_back(std::move(view));
  };
  for (const Provider& provider : provisioner_.providers()) add(provider.name, &provider);
  for (const auto& [token, request] : provisioner_.requests()) {
    if (names.insert(request.provider).second) add(request.provider, nullptr);
  }
  return views;
}

Result<std::string> ProviderHost::Act(const std::string& name, const std::string& action) {
  const std::map<std::string, ProviderMode> actions = {
      {"enable", ProviderMode::kAsConfigured}, {"disable", ProviderMode::kDisabled}, {"drain", ProviderMode::kDrained}};
  const auto mode = actions.find(action);
  if (mode == actions.end())
    return InvalidArgument("invalid action '" + action.substr(0, 64) + "': expected enable, disable or drain");
  // Without providers this object may not have been opened. Then there is no driver, and no name is valid.
  const Time now = driver_ == nullptr ? kNoTime : driver_->Now();
  DIVVY_CHECK(provisioner_.SetMode(name, mode->second, now));
  is_changed_ = true;
  TakeStep(now);
  const Provider* provider = Find(name);
  if (mode->second == ProviderMode::kDisabled) return "provider " + name + " gets no new nodes; idle ones are returned";
  if (mode->second == ProviderMode::kDrained)
    return "provider " + name + " gets no new nodes; its nodes are returned and their jobs queued again";
  return "provider " + name + " is enabled" +
         (provider->is_enabled ? "" : ", but has enabled = false in divvy.toml, so it gets no new nodes");
}

Status ProviderHost::CheckWishes(const JobSpec& spec) const {
  const auto label = [&spec](std::string_view name) {
    const auto found = spec.labels.find(std::string(name));
    return found == spec.labels.end() ? std::string() : found->second;
  };
  if (const std::string no_grow = label(kNoGrowLabel); !no_grow.empty() && no_grow != "yes")
    return InvalidArgument("label " + std::string(kNoGrowLabel) + ": the only value is yes; omit the label otherwise");
  if (const std::string price = label(kMaxPriceLabel); !price.empty() && !PriceIn(price))
    return InvalidArgument("label " + std::string(kMaxPriceLabel) +
                           ": expected a number above 0 and at most 1000000000, such as 3.50");
  std::vector<std::string> known;
  for (const Provider& provider : provisioner_.providers()) known.push_back(provider.name);
  for (const std::string& name : GrowthWishesIn(spec.labels).providers) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return InvalidArgument("--provider " + name + ": there is no such provider; " +
                           (known.empty() ? "divvy.toml has none" : "expected " + Join(known, ", ")));
  }
  return {};
}

std::vector<std::string> ProviderHost::Foresee(JobId id, const JobSpec& spec, std::uint64_t elements,
                                               const Caller& caller) {
  if (driver_ == nullptr || provisioner_.providers().empty()) return {};
  const Time now = driver_->Now();
  if (!caller.is_admin) {
    std::erase_if(foreseen_, [now](const auto& entry) { return now - entry.second >= kForeseeEvery; });
    if (!foreseen_.try_emplace(caller.user.uid, now).second) return {};
  }
  const providers::GrowthFeed feed = providers::CollectGrowth(driver_->controller(), provisioner_, memory_, unused_,
                                                              wishes_, now, providers::Imagined{id, &spec, elements});
  const growth::GrowthDecision decision = growth::DecideGrowth(feed.input);
  const std::size_t demand = feed.input.demands.size() - 1;
  std::vector<std::string> lines = growth::VerdictText(feed.input, decision, demand);
  for (std::string& line : lines) line.insert(0, "if the job cannot start at once, ");
  for (const growth::GrowthBlocker& blocker : growth::WhyNoNode(feed.input, decision, demand))
    lines.push_back(growth::BlockerText(feed.input, feed.input.demands[demand], blocker));
  return lines;
}

std::vector<std::string> ProviderHost::Why(JobId entry) const {
  std::vector<std::string> lines;
  if (driver_ == nullptr || !last_feed_) return lines;
  const Time now = driver_->Now();
  for (const auto& [token, request] : provisioner_.requests()) {
    const auto known = memory_.find(request.node);
    const bool is_for_it = known != memory_.end() &&
                           std::ranges::find(known->second.requested_for, entry) != known->second.requested_for.end();
    if (!is_for_it || (request.state != NodeState::kRequested && request.state != NodeState::kBooting)) continue;
    const Duration left = provisioner_.ExpectedReady(request) - now;
    lines.push_back("node " + request.node + " of provider " + request.provider + " (" + request.shape + ", " +
                    growth::MoneyText(request.hourly) + "/h) was requested " + DurationText(now - request.requested) +
                    " ago and is expected " + (left > Duration(0) ? "in " + DurationText(left) : "any moment"));
  }
  const auto demand = last_feed_->demand_of.find(entry);
  if (demand == last_feed_->demand_of.end()) return lines;
  const growth::GrowthInput& input = last_feed_->input;
  // If nodes were requested for the job since that decision, they are already in `lines`.
  if (lines.empty()) {
    for (std::string& line : growth::VerdictText(input, last_decision_, demand->second))
      lines.push_back(std::move(line));
  }
  const JobRecord* record = driver_->controller().Find(entry);
  const JobId key = record != nullptr && record->array.is_set() ? record->array : entry;
  const auto wishes = wishes_.find(key);
  std::vector<growth::GrowthBlocker> blockers = growth::WhyNoNode(input, last_decision_, demand->second);
  // The last decision may have been made before this job's wishes were known.
  const bool was_unknown = wishes != wishes_.end() && wishes->second.may_grow && !blockers.empty() &&
                           blockers.front().kind == growth::Refusal::kNoGrow;
  if (wishes == wishes_.end() || was_unknown) {
    lines.emplace_back(unreadable_.contains(key) ? "no node is requested for it: its options cannot be read"
                                                 : "no node is requested for it yet: its options are being read");
    return lines;
  }
  const std::optional<Money>& most = wishes->second.max_hourly;
  for (growth::GrowthBlocker& blocker : blockers) {
    // The demand has the price of the first of its jobs (CollectGrowth).
    if (blocker.kind == growth::Refusal::kMaxPrice && most) blocker.available = most->units();
    lines.push_back(growth::BlockerText(input, input.demands[demand->second], blocker));
  }
  return lines;
}

}  // namespace divvy
