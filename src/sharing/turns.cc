#include "sharing/turns.h"

#include <algorithm>
#include <utility>

namespace divvy::sharing {
namespace {

std::int64_t VirtualOf(Duration time, GpuShare weight) {
  return static_cast<std::int64_t>(static_cast<double>(time.count()) * GpuShare::kWhole / weight.ten_thousandths());
}

double Fraction(GpuShare share) { return static_cast<double>(share.ten_thousandths()) / GpuShare::kWhole; }

}  // namespace

std::int64_t Turns::FullBudget(const Entry& entry) const {
  return static_cast<std::int64_t>(static_cast<double>(settings_.window.count()) * Fraction(entry.limit));
}

/// Returns the smallest budget that makes a turn worthwhile.
std::int64_t Turns::LeastBudget(const Entry& entry) const {
  return std::min(settings_.quantum.count(), FullBudget(entry)) / 2;
}

bool Turns::MayRun(const Entry& entry) const {
  return entry.wants && (!IsLimited(entry) || entry.budget >= LeastBudget(entry));
}

void Turns::Add(TenantId id, GpuShare weight, GpuShare limit, bool is_interactive, Time now) {
  Charge(now);
  const auto [at, is_new] = entries_.try_emplace(id);
  Entry& entry = at->second;
  entry.weight = std::max(weight, GpuShare(1));
  entry.limit = std::max(limit, GpuShare(1));
  entry.is_interactive = is_interactive;
  entry.budget = is_new ? LeastBudget(entry) : std::min(entry.budget, FullBudget(entry));
  // The present virtual time may come from a tenant that just had a turn of seconds, and may thus be far ahead of the
  // tenants that wait.
  if (is_new) entry.virtual_time = std::min(virtual_now_, LeastWaiting());
}

/// Returns the lowest virtual time of the tenants that want a turn; if there are none, that of the last holder.
std::int64_t Turns::LeastWaiting() const {
  std::optional<std::int64_t> least;
  for (const auto& [id, entry] : entries_) {
    if (entry.wants) least = std::min(least.value_or(entry.virtual_time), entry.virtual_time);
  }
  return least.value_or(virtual_now_);
}

void Turns::Remove(TenantId id, Time now) {
  Charge(now);
  entries_.erase(id);
  if (holder_ == id) holder_.reset();
  if (draining_ == id) draining_.reset();
}

void Turns::OnWants(TenantId id, Time now) {
  Charge(now);
  const At at = entries_.find(id);
  if (at == entries_.end() || at->second.wants) return;
  Entry& entry = at->second;
  const std::int64_t least = LeastWaiting();
  const Duration bonus = entry.is_interactive ? settings_.interactive_bonus : settings_.bonus;
  entry.virtual_time = std::max(entry.virtual_time, least - VirtualOf(bonus, entry.weight));
  entry.wants = true;
}

void Turns::OnIdle(TenantId id, Time now) {
  Charge(now);
  const At at = entries_.find(id);
  if (at == entries_.end()) return;
  at->second.wants = false;
  if (holder_ == id) holder_.reset();
  if (draining_ == id) draining_.reset();
}

void Turns::OnDrained(TenantId id, Time now) {
  Charge(now);
  if (draining_ == id) draining_.reset();
  if (const At at = entries_.find(id); at != entries_.end()) at->second.overruns = false;
}

void Turns::OnOverrun(TenantId id, Time now) {
  Charge(now);
  if (draining_ != id) return;
  draining_.reset();
  if (const At at = entries_.find(id); at != entries_.end()) at->second.overruns = true;
}

/// Charges the time since the last call to the holder or the draining tenant, and to overrunning tenants. Budgets
/// refill meanwhile.
void Turns::Charge(Time now) {
  const Duration passed = charged_until_ == kNoTime ? Duration(0) : std::max(now - charged_until_, Duration(0));
  charged_until_ = std::max(now, charged_until_);
  for (auto& [id, entry] : entries_) {
    const auto refill = static_cast<std::int64_t>(static_cast<double>(passed.count()) * Fraction(entry.limit));
    const bool has_turn = id == holder_ || id == draining_;
    const bool runs = has_turn || entry.overruns;
    entry.budget = std::min(entry.budget + refill - (runs ? passed.count() : 0), FullBudget(entry));
    if (!runs) continue;
    entry.had += passed;
    entry.virtual_time += VirtualOf(passed, entry.weight);
    // An overrunning tenant is ahead of all others, so new tenants must not start from its virtual time.
    if (has_turn) virtual_now_ = std::max(virtual_now_, entry.virtual_time - VirtualOf(passed, entry.weight));
  }
}

/// Returns its share of a round in which each tenant that wants to run has one turn.
Duration Turns::TurnOf(const Entry& entry) const {
  std::int64_t weights = 0;
  int count = 0;
  for (const auto& [id, other] : entries_) {
    if (!other.wants) continue;
    weights += other.weight.ten_thousandths();
    ++count;
  }
  if (count == 0) return settings_.quantum;
  const Duration part = settings_.quantum * count * entry.weight.ten_thousandths() / weights;
  return std::clamp(part, settings_.quantum / 8, settings_.quantum * 4);
}

/// Returns the runnable tenant with the lowest virtual time, except `other`.
std::optional<TenantId> Turns::NextBut(std::optional<TenantId> other) const {
  std::optional<TenantId> next;
  for (const auto& [id, entry] : entries_) {
    if (id == other || !MayRun(entry)) continue;
    if (!next || entry.virtual_time < entries_.at(*next).virtual_time) next = id;
  }
  return next;
}

bool Turns::IsTurnOver(Time now) const {
  const Entry& holder = entries_.at(*holder_);
  if (IsLimited(holder) && holder.budget <= 0) return true;
  const std::optional<TenantId> next = NextBut(holder_);
  if (!next) return false;
  const Entry& other = entries_.at(*next);
  if (other.virtual_time >= holder.virtual_time) return false;
  return now - turn_began_ >= TurnOf(holder) || (other.is_interactive && !holder.is_interactive);
}

Time Turns::WhenToLookAgain(Time now) const {
  Time until = kNever;
  for (const auto& [id, entry] : entries_) {
    if (!entry.wants || !IsLimited(entry)) continue;
    const double limit = Fraction(entry.limit);
    const double missing = id == holder_ ? static_cast<double>(entry.budget) / (1 - limit)
                                         : static_cast<double>(LeastBudget(entry) - entry.budget) / limit;
    if (id == holder_ || !MayRun(entry))
      until = std::min(until, now + Duration(static_cast<std::int64_t>(missing) + 1));
  }
  if (holder_ && NextBut(holder_)) {
    const Time end = turn_began_ + TurnOf(entries_.at(*holder_));
    // A tenant may continue past the end of its turn while its virtual time is the lowest.
    until = std::min(until, end > now ? end : now + settings_.quantum / 8);
  }
  return until;
}

Turns::Decision Turns::Drain(Time now) {
  Decision decision;
  decision.drains = draining_;
  const Time bound = AddSaturating(drain_began_, settings_.drain_bound);
  if (!is_hung_said_ && now >= bound) {
    is_hung_said_ = true;
    decision.hung = draining_;
  }
  if (!is_hung_said_) decision.until = bound;
  return decision;
}

Turns::Decision Turns::Decide(Time now) {
  Charge(now);
  if (holder_ && !draining_ && IsTurnOver(now)) {
    draining_ = std::exchange(holder_, std::nullopt);
    drain_began_ = now;
    is_hung_said_ = false;
  }
  if (draining_) return Drain(now);
  if (!holder_) {
    holder_ = NextBut(std::nullopt);
    turn_began_ = now;
  }
  Decision decision;
  decision.holder = holder_;
  decision.until = WhenToLookAgain(now);
  decision.is_alone = holder_ && std::none_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
                        return entry.second.wants && entry.first != *holder_;
                      });
  return decision;
}

Duration Turns::Had(TenantId id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? Duration(0) : at->second.had;
}

std::string Turns::CheckInvariants() const {
  if (holder_ && draining_) return "one tenant has the turn while the work of another must still complete";
  if (holder_ && !entries_.contains(*holder_)) return "the tenant that has the turn is not on this GPU";
  if (draining_ && !entries_.contains(*draining_)) return "the tenant whose work must complete is not on this GPU";
  if (holder_ && !entries_.at(*holder_).wants) return "the tenant that has the turn does not want to run";
  for (const auto& [id, entry] : entries_) {
    if (entry.budget > FullBudget(entry)) return "a tenant may run longer than its limit allows";
  }
  return "";
}

}  // namespace divvy::sharing
