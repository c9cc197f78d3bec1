#include "providers/provisioner.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace divvy::providers {
namespace {

constexpr std::string_view kModePrefix = "providers.mode.";
constexpr std::string_view kSpentPrefix = "providers.spent.";
constexpr std::string_view kTeamSpentPrefix = "providers.team_spent.";
constexpr std::size_t kLongestError = 400;
constexpr std::size_t kMostStrangers = 10'000;
/// The time between two lists of a provider while nodes of it are being created or destroyed.
constexpr Duration kListOften = 5s;
/// A provider without nodes is listed less often by this factor, only to find nodes that nobody requested.
constexpr int kListSeldom = 10;
/// A node counts as missing at its provider if this many lists lack it, and the last of them began long enough after
/// the first.
constexpr int kMissingLists = 2;
constexpr Duration kMissingFor = 30s;

Duration LatenessOf(const Provider& provider) { return std::min(provider.timeout, Provisioner::kLateness); }

Duration Backoff(int failures) {
  constexpr Duration kMostDelay = 5min;
  Duration delay = 5s;
  for (int i = 1; i < failures && delay < kMostDelay; ++i) delay *= 2;
  return std::min(delay, kMostDelay);
}

std::string Amount(Money money) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", money.units());
  return text;
}

/// Parses "670 1250000": the number of a month, and an amount of money in millionths.
std::optional<std::pair<std::int64_t, Money>> SpentIn(std::string_view text) {
  const auto words = SplitWords(text);
  const auto month = words.size() == 2 ? ParseInteger(words[0]) : std::nullopt;
  const auto spent = words.size() == 2 ? ParseInteger(words[1]) : std::nullopt;
  return month && spent ? std::optional(std::pair(*month, Money(*spent))) : std::nullopt;
}

std::string ModeText(ProviderMode mode) { return mode == ProviderMode::kDisabled ? "disabled" : "drained"; }

}  // namespace

std::int64_t MonthOf(Time time) {
  const auto days = std::chrono::floor<std::chrono::days>(time.time_since_epoch());
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  return (int{date.year()} - 1970) * std::int64_t{12} + static_cast<unsigned>(date.month()) - 1;
}

Time StartOfMonth(std::int64_t month) {
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(1970 + month / 12)),
                                         std::chrono::month(static_cast<unsigned>(month % 12 + 1)),
                                         std::chrono::day(1)};
  return Time(std::chrono::sys_days(date).time_since_epoch());
}

Provisioner::Provisioner(std::vector<Provider> providers) : providers_(std::move(providers)) {
  for (const Provider& provider : providers_) states_[provider.name];
}

const Provider* Provisioner::FindProvider(std::string_view name) const {
  const auto found = std::ranges::find(providers_, name, &Provider::name);
  return found == providers_.end() ? nullptr : &*found;
}

const NodeShape* Provisioner::FindShape(const NodeRequest& request) const {
  const Provider* provider = FindProvider(request.provider);
  if (provider == nullptr) return nullptr;
  const auto found = std::ranges::find(provider->shapes, request.shape, &NodeShape::name);
  return found == provider->shapes.end() ? nullptr : &*found;
}

NodeRequest* Provisioner::Find(std::string_view token) {
  const auto found = requests_.find(token);
  return found == requests_.end() ? nullptr : &found->second;
}

const NodeRequest* Provisioner::FindNode(std::string_view node) const {
  const auto token = token_of_.find(node);
  return token == token_of_.end() ? nullptr : &requests_.find(token->second)->second;
}

void Provisioner::Keep(const NodeRequest& request) {
  dirty_[std::string(kRequestPrefix) + request.token] = FormatRequest(request);
}

bool Provisioner::LoadSetting(std::string_view key, std::string_view text) {
  if (key.starts_with(kRequestPrefix)) {
    auto request = ParseRequest(key.substr(kRequestPrefix.size()), text);
    if (!request) return true;
    // Rows of earlier releases have no cores.
    if (const Provider* provider = FindProvider(request->provider); provider != nullptr && request->cpus == 0) {
      const auto shape = std::ranges::find(provider->shapes, request->shape, &NodeShape::name);
      if (shape != provider->shapes.end()) request->cpus = shape->cpus;
    }
    // A provider that is no longer configured cannot be called, but its nodes still count and are shown.
    states_[request->provider];
    watches_[request->token];
    token_of_[request->node] = request->token;
    requests_.insert_or_assign(request->token, *std::move(request));
    return true;
  }
  if (key.starts_with(kPastPrefix)) {
    auto request = ParseRequest(key.substr(kPastPrefix.size()), text);
    if (!request || request->gone == kNever) return true;
    auto order = std::pair(request->gone, request->token);
    past_.insert_or_assign(std::move(order), *std::move(request));
    return true;
  }
  if (key.starts_with(kModePrefix)) {
    const auto mode = ParseInteger(text);
    if (mode && *mode >= 0 && *mode <= static_cast<int>(ProviderMode::kDrained))
      states_[std::string(key.substr(kModePrefix.size()))].mode = static_cast<ProviderMode>(*mode);
    return true;
  }
  if (key.starts_with(kSpentPrefix)) {
    if (const auto spent = SpentIn(text))
      states_[std::string(key.substr(kSpentPrefix.size()))].cost = {spent->first, spent->second};
    return true;
  }
  if (key.starts_with(kTeamSpentPrefix)) {
    if (const auto spent = SpentIn(text))
      team_costs_[std::string(key.substr(kTeamSpentPrefix.size()))] = {spent->first, spent->second};
    return true;
  }
  return false;
}

// --- Commands ------------------------------------------------------------------------------------------------------

Result<std::vector<std::string>> Provisioner::Request(const Shapes& nodes,
                                                      const std::function<std::string()>& draw_token,
                                                      const std::function<bool(const std::string&)>& is_name_taken,
                                                      Time now, const std::string& team) {
  if (requests_.size() + nodes.size() > kMostRequests)
    return LimitExceeded("there are " + std::to_string(requests_.size()) + " nodes of providers; the limit is " +
                         std::to_string(kMostRequests));
  std::vector<std::string> names;
  std::vector<std::string> tokens;
  const auto undo = [&] {
    for (const std::string& token : tokens) {
      token_of_.erase(requests_.find(token)->second.node);
      requests_.erase(token);
      watches_.erase(token);
      dirty_.erase(std::string(kRequestPrefix) + token);
    }
  };
  for (const auto& [provider_name, shape_name] : nodes) {
    const Provider* provider = FindProvider(provider_name);
    NodeRequest request;
    request.provider = provider_name;
    request.shape = shape_name;
    const NodeShape* shape = FindShape(request);
    State* state = shape == nullptr ? nullptr : &StateOf(provider_name);
    std::string why;
    if (shape == nullptr) why = "provider " + provider_name + " has no shape " + shape_name;
    else if (!provider->is_enabled) why = "provider " + provider_name + " is disabled in the configuration";
    else if (state->mode != ProviderMode::kAsConfigured)
      why = "provider " + provider_name + " is " + ModeText(state->mode);
    if (!why.empty()) {
      undo();
      return FailedPrecondition(why);
    }
    request.token = draw_token();
    request.gpus = shape->gpus;
    request.cpus = shape->cpus;
    request.hourly = shape->hourly;
    request.billing_period = provider->billing_period;
    request.team = team;
    request.set = tokens.empty() ? request.token : tokens.front();
    request.requested = now;
    while (request.node.empty()) {
      std::string name = provider_name.substr(0, 52) + "-" + std::to_string(++state->last_number);
      if (FindNode(name) == nullptr && !is_name_taken(name)) request.node = std::move(name);
    }
    if (std::string beyond = BeyondCeiling(request, now); !beyond.empty()) {
      undo();
      return LimitExceeded(std::move(beyond));
    }
    tokens.push_back(request.token);
    names.push_back(request.node);
    watches_[request.token];
    Keep(request);
    token_of_[request.node] = request.token;
    requests_.emplace(request.token, std::move(request));
  }
  WakeAt(now);
  return names;
}

void Provisioner::Return(std::string_view node, std::string why, bool is_forced, Time now) {
  const NodeRequest* found = FindNode(node);
  if (found == nullptr) return;
  NodeRequest& request = *Find(found->token);
  Watch& watch = watches_[request.token];
  if (is_forced && !request.is_forced) {
    request.is_forced = watch.must_act = true;
    watch.has_acted = false;
    Keep(request);
  }
  WakeAt(now);
  if (request.state == NodeState::kDraining || request.state == NodeState::kDestroying) return;
  if (request.state != NodeState::kJoined) return Destroy(request, std::move(why), now);
  request.state = NodeState::kDraining;
  request.why = std::move(why);
  watch.must_act = true;
  Keep(request);
}

Status Provisioner::SetMode(std::string_view provider, ProviderMode mode, Time now) {
  if (FindProvider(provider) == nullptr) {
    std::string known;
    for (const Provider& one : providers_) known += (known.empty() ? "" : ", ") + one.name;
    return NotFound("there is no provider '" + std::string(provider.substr(0, 64)) + "'; " +
                    (known.empty() ? "divvy.toml has no [[providers]]" : "expected " + known));
  }
  StateOf(provider).mode = mode;
  dirty_[std::string(kModePrefix) + std::string(provider)] =
      mode == ProviderMode::kAsConfigured ? "" : std::to_string(static_cast<int>(mode));
  if (mode == ProviderMode::kDrained) {
    std::vector<std::string> nodes;
    for (const auto& [token, request] : requests_) {
      if (request.provider == provider) nodes.push_back(request.node);
    }
    for (const std::string& node : nodes) Return(node, "provider " + std::string(provider) + " is drained", true, now);
  }
  WakeAt(now);
  return {};
}

void Provisioner::ListSoon(std::string_view provider) {
  const auto state = states_.find(provider);
  if (state != states_.end()) state->second.list_at = std::min(state->second.list_at, Time(Duration(1)));
}

ProviderMode Provisioner::ModeOf(std::string_view provider) const {
  const auto state = states_.find(provider);
  return state == states_.end() ? ProviderMode::kAsConfigured : state->second.mode;
}

// --- Facts ---------------------------------------------------------------------------------------------------------

Provisioner::Setting Provisioner::AddJoinToken(std::string_view token, std::string id) {
  NodeRequest* request = Find(token);
  DIVVY_ASSERT(request != nullptr);
  request->join_tokens.push_back(std::move(id));
  return {std::string(kRequestPrefix) + request->token, FormatRequest(*request)};
}

const NodeRequest* Provisioner::RequestOfJoinToken(std::string_view join_token) const {
  for (const auto& [token, request] : requests_) {
    if (std::ranges::find(request.join_tokens, join_token) != request.join_tokens.end()) return &request;
  }
  return nullptr;
}

void Provisioner::OnJoined(std::string_view node, const std::string& problem, Time now) {
  const NodeRequest* found = FindNode(node);
  if (found == nullptr) return;
  NodeRequest& request = *Find(found->token);
  State& state = StateOf(request.provider);
  if (!problem.empty()) {
    state.last_error = OneLine(problem).substr(0, kLongestError);
    state.last_error_at = now;
  } else {
    state.failures = 0;
    state.down_until = kNoTime;
  }
  if (request.state != NodeState::kRequested && request.state != NodeState::kBooting) return;
  request.state = NodeState::kJoined;
  request.joined = now;
  Keep(request);
}

void Provisioner::OnNodes(const std::set<std::string>& connected, const std::set<std::string>& busy, Time now,
                          const std::set<std::string>& registered) {
  for (auto& [token, request] : requests_) {
    Watch& watch = watches_[token];
    watch.is_connected = connected.contains(request.node);
    if (watch.is_connected) watch.connected_at = now;
    watch.is_registered = registered.contains(request.node);
    watch.is_busy = busy.contains(request.node);
    if (watch.is_busy && !request.was_used) {
      request.was_used = true;
      Keep(request);
    }
    if (request.state == NodeState::kDraining && !watch.is_busy) WakeAt(now);
  }
}

// Jobs may have been placed on the node before it was cordoned, so it counts as busy until the next OnNodes.
void Provisioner::OnActed(std::string_view node) {
  const NodeRequest* request = FindNode(node);
  if (request == nullptr || request->state != NodeState::kDraining) return;
  Watch& watch = watches_[request->token];
  watch.has_acted = watch.is_busy = true;
}

void Provisioner::Fail(State& state, const std::string& error, Time now) {
  state.last_error = OneLine(error).substr(0, kLongestError);
  state.last_error_at = now;
  state.down_until = now + Backoff(++state.failures);
}

// Every node ends this way. Even one that may never have been created is destroyed, and lists must then show that it is
// gone.
void Provisioner::Destroy(NodeRequest& request, std::string why, Time now) {
  if (request.state == NodeState::kDestroying) return;
  const bool is_late = request.state == NodeState::kRequested || request.state == NodeState::kBooting;
  request.state = NodeState::kDestroying;
  request.why = std::move(why);
  Watch& watch = watches_[request.token];
  watch.failures = watch.missing = 0;
  watch.missing_since = kNoTime;
  watch.retry_at = now;
  watch.must_act = true;
  Keep(request);
  WakeAt(now);
  if (is_late) CancelSet(request, now);
}

void Provisioner::CancelSet(const NodeRequest& request, Time now) {
  for (auto& [token, other] : requests_) {
    if (other.set != request.set || token == request.token) continue;
    if (other.state == NodeState::kRequested || other.state == NodeState::kBooting)
      Destroy(other, "node " + request.node + " of the same set is not coming", now);
  }
}

void Provisioner::OnAnswer(std::uint64_t number, const Answer& answer, Time now) {
  const auto sent = sent_.find(number);
  if (sent == sent_.end()) return;
  const auto [call, at] = std::move(sent->second);
  sent_.erase(sent);
  State& state = StateOf(call.provider);
  WakeAt(now);
  if (call.kind == Call::Kind::kList) {
    state.is_listing = false;
    return OnListed(state, call.provider, answer, at, now);
  }
  --state.calls;
  NodeRequest* request = Find(call.token);
  if (call.kind == Call::Kind::kDestroy && (request == nullptr || request->instance != call.instance)) {
    const auto stranger = state.strangers.find(call.instance);
    if (request != nullptr && stranger == state.strangers.end()) watches_[call.token].is_called = false;
    if (stranger == state.strangers.end()) return;
    stranger->second.is_called = false;
    if (answer.error.empty()) return;
    state.last_error = "destroy of a node that nobody requested: " + OneLine(answer.error).substr(0, kLongestError);
    state.last_error_at = now;
    stranger->second.retry_at = now + Backoff(++stranger->second.failures);
    return;
  }
  if (request == nullptr) return;
  watches_[call.token].is_called = false;
  call.kind == Call::Kind::kCreate ? OnCreated(*request, answer, now) : OnDestroyed(*request, answer, now);
}

void Provisioner::OnCreated(NodeRequest& request, const Answer& answer, Time now) {
  State& state = StateOf(request.provider);
  Watch& watch = watches_[request.token];
  const auto owner = std::ranges::find_if(requests_, [&](const auto& entry) {
    return entry.first != request.token && entry.second.provider == request.provider &&
           !entry.second.instance.empty() && entry.second.instance == answer.instance;
  });
  std::string error = answer.error;
  if (error.empty() && !request.instance.empty() && request.instance != answer.instance)
    error = "create answered with instance " + answer.instance + "; the list has " + request.instance +
            " for the same token";
  if (error.empty() && owner != requests_.end())
    error = "create answered with instance " + answer.instance + ", which is node " + owner->second.node;
  if (error.empty()) {
    // Earlier calls may still be under way, but they create nothing beside this node as long as it exists.
    request.unsure_until = watch.unsure_before;
    request.instance = answer.instance;
    watch.failures = 0;
    if (request.state == NodeState::kRequested) {
      request.state = NodeState::kBooting;
      request.booting = now;
    }
    Keep(request);
    return;
  }
  // Until this time, the call that has just ended may still take effect; an earlier call perhaps for longer.
  if (const Provider* provider = FindProvider(request.provider)) {
    request.unsure_until = std::max(watch.unsure_before, now + LatenessOf(*provider));
    Keep(request);
  }
  Fail(state, "create: " + error, now);
  watch.retry_at = now + Backoff(++watch.failures);
  if (request.state == NodeState::kRequested && watch.failures >= kMostFailures)
    Destroy(request, "it could not be created; divvy providers has the error", now);
}

void Provisioner::OnDestroyed(NodeRequest& request, const Answer& answer, Time now) {
  State& state = StateOf(request.provider);
  Watch& watch = watches_[request.token];
  if (!answer.error.empty()) {
    state.last_error = "destroy: " + OneLine(answer.error).substr(0, kLongestError);
    state.last_error_at = now;
    watch.retry_at = now + Backoff(++watch.failures);
    return;
  }
  watch.destroyed_at = now;
  // If the node is still listed at that time, it is destroyed once more.
  watch.retry_at = now + Backoff(++watch.failures);
  state.list_at = std::min(state.list_at, now);
}

void Provisioner::OnListed(State& state, const std::string& provider, const Answer& answer, Time began, Time now) {
  if (!answer.error.empty()) {
    state.last_error = "list: " + OneLine(answer.error).substr(0, kLongestError);
    state.last_error_at = now;
    state.list_at = now + Backoff(++state.list_failures);
    // While a provider's nodes cannot be listed, no nodes are created there.
    const Provider* failing = FindProvider(provider);
    if (!state.was_listed && failing != nullptr) state.down_until = state.list_at + failing->timeout;
    return;
  }
  state.list_failures = 0;
  if (!std::exchange(state.was_listed, true) && state.failures == 0) state.down_until = kNoTime;
  std::set<std::string> listed_tokens;
  struct Unknown {
    std::string token;
    bool is_kept = false;
  };
  std::map<std::string, Unknown> strangers;  // By instance.
  std::set<std::string_view> instances;
  for (const ListedNode& node : answer.nodes) instances.insert(node.instance);
  std::map<std::string, std::string> owner_of;  // Instance to token, for rows.
  for (const auto& [token, request] : requests_) {
    if (request.provider == provider && !request.instance.empty()) owner_of[request.instance] = token;
  }
  for (const ListedNode& node : answer.nodes) {
    if (const auto owner = owner_of.find(node.instance); owner != owner_of.end()) {
      listed_tokens.insert(owner->second);
      watches_[owner->second].ends_at = node.ends_at;
      if (node.is_pending) watches_[owner->second].pending_at = now;
      continue;
    }
    NodeRequest* request = Find(node.token);
    // Of another provider, which uses the same account.
    if (request != nullptr && request->provider != provider) continue;
    const bool is_known = request != nullptr && request->instance.empty();
    if (!is_known) {
      // If create and list name one node differently, a living node must not be destroyed as one too many.
      const bool is_renamed =
          request != nullptr && request->state != NodeState::kDestroying && !instances.contains(request->instance);
      if (is_renamed) {
        listed_tokens.insert(node.token);
        state.last_error = "list has instance " + node.instance + " for node " + request->node +
                           ", which is instance " + request->instance + "; the node is kept";
        state.last_error_at = now;
      }
      if (strangers.size() < kMostStrangers) strangers.emplace(node.instance, Unknown{node.token, is_renamed});
      continue;
    }
    request->instance = node.instance;
    owner_of[node.instance] = node.token;
    listed_tokens.insert(node.token);
    watches_[node.token].ends_at = node.ends_at;
    if (node.is_pending) watches_[node.token].pending_at = now;
    if (request->state == NodeState::kRequested) {
      request->state = NodeState::kBooting;
      request->booting = now;
    }
    Keep(*request);
  }
  std::erase_if(state.strangers,
                [&](const auto& known) { return !known.second.is_called && !strangers.contains(known.first); });
  for (const auto& [instance, unknown] : strangers) {
    Stranger& stranger = state.strangers[instance];
    stranger.token = unknown.token;
    stranger.seen = unknown.is_kept ? 0 : stranger.seen + 1;
  }
  std::vector<std::string> gone;
  for (auto& [token, request] : requests_) {
    if (request.provider != provider) continue;
    Watch& watch = watches_[token];
    if (listed_tokens.contains(token)) {
      watch.missing = 0;
      // The node is in a list that began after the call to destroy it, so the provider has not destroyed it.
      if (watch.destroyed_at != kNoTime && began > watch.destroyed_at) watch.destroyed_at = kNoTime;
      continue;
    }
    if (watch.is_called || request.state == NodeState::kRequested) {
      continue;
    }
    if (request.state == NodeState::kDestroying) {
      const bool is_sure =
          watch.destroyed_at != kNoTime && began >= watch.destroyed_at && began >= request.unsure_until;
      if (is_sure && !watch.is_registered) gone.push_back(token);
      continue;
    }
    if (began <= request.booting) continue;
    if (watch.missing++ == 0) watch.missing_since = began;
    if (watch.missing < kMissingLists || began - watch.missing_since < kMissingFor) continue;
    if (watch.is_connected) {
      state.last_error = "list lacks node " + request.node + " (instance " + request.instance +
                         "), whose agent is connected; the node is kept";
      state.last_error_at = now;
      continue;
    }
    if (SilentAt(watch) > now) continue;
    state.last_error = "node " + request.node + " (instance " + request.instance + ") is gone";
    state.last_error_at = now;
    Destroy(request, "the provider removed it", now);
  }
  for (const std::string& token : gone) Forget(token, now);
  const Provider* known = FindProvider(provider);
  const Duration poll = known == nullptr ? Duration(30s) : known->poll;
  bool is_busy = !state.strangers.empty(), has_nodes = is_busy;
  for (const auto& [token, request] : requests_) {
    if (request.provider != provider) continue;
    has_nodes = true;
    is_busy = is_busy || (request.state != NodeState::kJoined && request.state != NodeState::kDraining) ||
              watches_[token].missing > 0;
  }
  state.list_at = now + (is_busy ? std::min(poll, kListOften) : has_nodes ? poll : poll * kListSeldom);
}

void Provisioner::Forget(const std::string& token, Time now) {
  const NodeRequest& request = requests_.find(token)->second;
  const std::int64_t month = MonthOf(now);
  // A node that was never known to exist cost nothing.
  const Money cost = request.instance.empty() ? Money() : CostBetween(request, StartOfMonth(month), now);
  const auto add = [&](MonthlyCost& sum, std::string_view prefix, const std::string& name) {
    sum = {month, sum.In(month) + cost};
    dirty_[std::string(prefix) + name] = std::to_string(month) + " " + std::to_string(sum.spent.micros());
  };
  add(StateOf(request.provider).cost, kSpentPrefix, request.provider);
  if (!request.team.empty()) add(team_costs_[request.team], kTeamSpentPrefix, request.team);
  dirty_[std::string(kRequestPrefix) + token] = "";
  watches_.erase(token);
  token_of_.erase(request.node);
  auto gone = requests_.extract(token);
  if (!gone.mapped().instance.empty()) KeepPast(std::move(gone.mapped()), now);
}

void Provisioner::KeepPast(NodeRequest request, Time now) {
  request.gone = now;
  // Only what a report about money needs.
  request.join_tokens.clear();
  request.set.clear();
  request.why.clear();
  dirty_[std::string(kPastPrefix) + request.token] = FormatRequest(request);
  auto order = std::pair(now, request.token);
  past_.emplace(std::move(order), std::move(request));
  while (past_.size() > kMostPast || past_.begin()->first.first < now - kPastKept) {
    dirty_[std::string(kPastPrefix) + past_.begin()->first.second] = "";
    past_.erase(past_.begin());
  }
}

// --- Steps ---------------------------------------------------------------------------------------------------------

// Counts by itself, apart from the decision, what exists or may exist. `request` may be new or one of requests_.
std::string Provisioner::BeyondCeiling(const NodeRequest& request, Time now) const {
  const Provider* provider = FindProvider(request.provider);
  const State& state = states_.find(request.provider)->second;
  std::int64_t nodes = 1, gpus = request.gpus;
  Money hourly = request.hourly;
  Money spent = state.cost.In(MonthOf(now));
  for (const auto& [token, other] : requests_) {
    if (token == request.token || other.provider != request.provider) continue;
    nodes += 1;
    gpus += other.gpus;
    hourly += other.hourly;
    spent += CostBetween(other, StartOfMonth(MonthOf(now)), now);
  }
  // The shape of a node that nobody requested is not known: it counts as the largest.
  const auto strangers = static_cast<std::int64_t>(state.strangers.size());
  int max_gpus = 0;
  Money most_hourly;
  for (const NodeShape& shape : provider->shapes) {
    max_gpus = std::max(max_gpus, shape.gpus);
    most_hourly = std::max(most_hourly, shape.hourly);
  }
  nodes += strangers;
  gpus += strangers * max_gpus;
  hourly += most_hourly * strangers;
  const ProviderLimits& limits = provider->limits;
  const std::string whose = "provider " + request.provider + ": ";
  if (limits.nodes && nodes > *limits.nodes)
    return whose + Plural(nodes, "node") + " would exceed max_nodes = " + std::to_string(*limits.nodes);
  if (limits.gpus && gpus > *limits.gpus)
    return whose + Plural(gpus, "GPU") + " would exceed max_gpus = " + std::to_string(*limits.gpus);
  if (limits.hourly && hourly > *limits.hourly)
    return whose + Amount(hourly) + " per hour would exceed max_per_hour = " + Amount(*limits.hourly);
  if (limits.monthly && spent + request.hourly > *limits.monthly)
    return whose + Amount(spent + request.hourly) +
           " this month would exceed max_per_month = " + Amount(*limits.monthly);
  return "";
}

Duration Provisioner::BootLimit(const NodeRequest& request) const {
  const NodeShape* shape = FindShape(request);
  const Duration startup = shape == nullptr ? Duration(5min) : shape->startup;
  return std::max<Duration>(3 * startup, startup + 2min);
}

Time Provisioner::SilentAt(const Watch& watch) const {
  return watch.is_connected ? kNever : std::max(watch.connected_at, started_at_) + kSilence;
}

Time Provisioner::ExpectedReady(const NodeRequest& request) const {
  const NodeShape* shape = FindShape(request);
  return AddSaturating(request.requested, shape == nullptr ? Duration(0) : shape->startup);
}

void Provisioner::Send(Step& step, Call call, Time now) {
  call.number = next_call_++;
  State& state = StateOf(call.provider);
  if (call.kind == Call::Kind::kList) state.is_listing = true;
  else ++state.calls;
  sent_.emplace(call.number, Sent{call, now});
  step.calls.push_back(std::move(call));
}

void Provisioner::StepOf(NodeRequest& request, Step& step, Time now) {
  const Provider* provider = FindProvider(request.provider);
  State& state = StateOf(request.provider);
  Watch& watch = watches_[request.token];
  switch (request.state) {
    case NodeState::kRequested: {
      if (watch.is_called || provider == nullptr) return;
      if (!state.was_listed && state.list_failures > 0 && request.unsure_until == kNoTime)
        return Destroy(request, "its provider cannot list its nodes", now);
      const Time due = std::max(watch.retry_at, state.down_until);
      if (due > now) return WakeAt(due);
      // After a restart or an error, the provider's nodes are listed before another node is created.
      if (!state.was_listed || state.calls >= kCallsAtOnce) return;
      const bool may_exist = request.unsure_until != kNoTime;
      if (!may_exist && (!provider->is_enabled || state.mode != ProviderMode::kAsConfigured))
        return Destroy(request, "its provider takes no requests any more", now);
      if (const std::string beyond = BeyondCeiling(request, now); !beyond.empty()) {
        state.last_error = beyond;
        state.last_error_at = now;
        return Destroy(request, beyond, now);
      }
      watch.is_called = true;
      watch.unsure_before = request.unsure_until;
      request.unsure_until = now + provider->timeout + LatenessOf(*provider);
      Keep(request);
      return Send(step, {0, Call::Kind::kCreate, request.provider, request.token, ""}, now);
    }
    case NodeState::kBooting: {
      // After a restart, a list must first show whether the node still waits at the provider.
      if (!state.was_listed) return;
      const bool waited_too_long = watch.pending_at > request.booting + kMostPending;
      const Time limit = std::max(request.booting, watch.pending_at) + BootLimit(request);
      if (limit > now && !waited_too_long) return WakeAt(limit);
      const std::string why = waited_too_long
                                  ? "it did not start within " + std::to_string(kMostPending / 1h) + " h"
                                  : "it did not join within " + std::to_string(BootLimit(request) / 1s) + " s";
      Fail(state, "node " + request.node + " (instance " + request.instance + "): " + why, now);
      return Destroy(request, why, now);
    }
    case NodeState::kJoined:
      if (watch.ends_at == kNever) return;
      if (now < watch.ends_at - kWarning) return WakeAt(watch.ends_at - kWarning);
      return Return(request.node, "its provider is about to remove it", true, now);
    case NodeState::kDraining:
      if (std::exchange(watch.must_act, false))
        step.acts.push_back(
            {request.is_forced ? NodeAct::Kind::kEmpty : NodeAct::Kind::kCordon, request.node, request.why});
      else if (watch.has_acted && !watch.is_busy) Destroy(request, request.why, now);
      // The node's agent is not connected, so it cannot stop the jobs.
      else if (watch.has_acted && request.is_forced && SilentAt(watch) <= now) Destroy(request, request.why, now);
      else if (watch.has_acted && request.is_forced) WakeAt(SilentAt(watch));
      return;
    case NodeState::kDestroying:
      if (request.joined != kNoTime && std::exchange(watch.must_act, false))
        step.acts.push_back({NodeAct::Kind::kRemove, request.node, request.why});
      if (request.unsure_until == kNoTime && request.instance.empty() && !watch.is_called)
        return watch.is_registered ? void() : Forget(request.token, now);
      if (watch.is_called || provider == nullptr) return;
      // The node was destroyed. A list must show that, after the time in which an earlier call could still create it.
      if (watch.destroyed_at != kNoTime) return;
      if (watch.retry_at > now) return WakeAt(watch.retry_at);
      if (state.calls >= kCallsAtOnce) return;
      watch.is_called = true;
      return Send(step, {0, Call::Kind::kDestroy, request.provider, request.token, request.instance}, now);
  }
}

Provisioner::Step Provisioner::TakeStep(Time now) {
  Step step;
  wakeup_ = kNever;
  if (started_at_ == kNoTime) started_at_ = now;
  std::vector<std::string> tokens;
  for (const auto& [token, request] : requests_) tokens.push_back(token);
  // A step of one request may change other requests of its set, or remove its own row.
  for (const std::string& token : tokens) {
    if (NodeRequest* request = Find(token)) StepOf(*request, step, now);
  }
  for (auto& [name, state] : states_) {
    if (FindProvider(name) == nullptr) continue;
    for (auto& [instance, stranger] : state.strangers) {
      if (stranger.seen < kMissingLists || stranger.is_called || state.calls >= kCallsAtOnce) continue;
      if (stranger.retry_at > now) {
        WakeAt(stranger.retry_at);
        continue;
      }
      stranger.is_called = true;
      stranger.retry_at = now + Backoff(1);
      Send(step, {0, Call::Kind::kDestroy, name, stranger.token, instance}, now);
    }
    if (state.is_listing) continue;
    if (state.list_at > now) {
      WakeAt(state.list_at);
      continue;
    }
    state.list_began = now;
    Send(step, {0, Call::Kind::kList, name, "", ""}, now);
  }
  for (auto& [key, text] : std::exchange(dirty_, {})) step.rows.emplace_back(key, std::move(text));
  return step;
}

// --- Views ---------------------------------------------------------------------------------------------------------

Provisioner::View Provisioner::ViewOf(std::string_view provider, Time now) const {
  View view;
  const auto found = states_.find(provider);
  if (found == states_.end()) return view;
  const State& state = found->second;
  view.strangers = static_cast<int>(state.strangers.size());
  view.last_error = state.last_error;
  view.last_error_at = state.last_error_at;
  view.down_until = state.down_until;
  view.spent_this_month = state.cost.In(MonthOf(now));
  for (const auto& [token, request] : requests_) {
    if (request.provider != provider) continue;
    view.nodes += 1;
    view.gpus += request.gpus;
    view.hourly += request.hourly;
    if (!request.instance.empty()) view.spent_this_month += CostBetween(request, StartOfMonth(MonthOf(now)), now);
  }
  return view;
}

std::vector<PricedNode> Provisioner::NodesBetween(Time since, Time until) const {
  std::vector<PricedNode> nodes;
  const auto add = [&](const NodeRequest& request) {
    if (request.requested >= until) return;
    nodes.push_back({request.node, request.gpus, request.cpus, request.hourly, request.billing_period,
                     request.requested, request.gone});
  };
  for (auto it = past_.lower_bound({since, ""}); it != past_.end(); ++it) add(it->second);
  for (const auto& [token, request] : requests_) {
    if (!request.instance.empty()) add(request);
  }
  return nodes;
}

std::map<std::string, Provisioner::Spending> Provisioner::TeamSpending(Time now) const {
  std::map<std::string, Spending> spending;
  const std::int64_t month = MonthOf(now);
  for (const auto& [team, cost] : team_costs_) {
    if (cost.month == month) spending[team].this_month = cost.spent;
  }
  for (const auto& [token, request] : requests_) {
    if (request.team.empty()) continue;
    Spending& its = spending[request.team];
    its.hourly += request.hourly;
    if (!request.instance.empty()) its.this_month += CostBetween(request, StartOfMonth(month), now);
  }
  return spending;
}

std::string Provisioner::CheckInvariants() const {
  std::set<std::string> nodes;
  std::set<std::pair<std::string, std::string>> instances;
  for (const auto& [token, request] : requests_) {
    if (!nodes.insert(request.node).second) return "two requests have the node name " + request.node;
    if (!request.instance.empty() && !instances.emplace(request.provider, request.instance).second)
      return "two requests have the instance " + request.instance;
    if (!watches_.contains(token)) return "request " + token + " is not watched";
    if (!states_.contains(request.provider)) return "provider " + request.provider + " has no state";
  }
  std::map<std::string, int> calls;
  for (const auto& [number, sent] : sent_) {
    if (sent.call.kind != Call::Kind::kList) ++calls[sent.call.provider];
  }
  for (const auto& [name, state] : states_) {
    if (state.calls != calls[name]) return "the calls of provider " + name + " are miscounted";
  }
  return "";
}

}  // namespace divvy::providers
