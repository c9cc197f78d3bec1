// A simulated node driven by a SharePlanner. Its pages hold what the processes really use. Orders run in virtual time,
// each move for as long as its bytes take. For scenarios and property tests.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sharing/planner/share_planner.h"
#include "sharing/words.h"

namespace divvy::sharing {

class ModelledNode {
 public:
  /// The actual values in a page for each device, which may differ from the planner's view.
  struct PageDevice {
    Bytes used;
    Bytes ceiling;
    Bytes pooled;  // Part of `used` that is free in the processes' own pools; a shrink returns it.
    Bytes away;    // While parking: bytes already on the host, no longer counted in `used`.
  };
  struct Page {
    std::vector<PageDevice> devices;
    std::vector<GpuIndex> at;
    bool is_on_host = false;
    bool is_placed = false;
  };
  struct Asked {
    unsigned device = 0;
    Bytes bytes;
  };
  /// Results of the next moves, parks and wakes; kDone when the queue is empty.
  struct Fate {
    Outcome outcome = Outcome::kDone;
    std::string why;
  };

  explicit ModelledNode(Settings given = {}) : settings(given), planner(given) {}

  // --- Facts --------------------------------------------------------------------------------------------------------

  void SetGpu(const Gpu& gpu) {
    gpus[gpu.index] = gpu;
    planner.SetGpu(gpu);
  }
  Status AddTenant(const Tenant& tenant) {
    Status status = planner.AddTenant(tenant);
    if (!status) return status;
    facts[tenant.id] = tenant;
    Page& page = pages[tenant.id];
    page.devices.resize(tenant.devices.size());
    page.at.resize(tenant.devices.size());
    return status;
  }
  /// All memory of the tenant ends with its processes.
  void EndProcesses(TenantId id) {
    Page& page = pages.at(id);
    for (PageDevice& device : page.devices) device = {};
    page.is_on_host = true;
    planner.OnLostEnded(id, now);
  }
  void Remove(TenantId id) {
    planner.RemoveTenant(id);
    pages.erase(id);
    facts.erase(id);
    std::erase_if(under_way, [&](const UnderWay& entry) { return entry.tenant == id; });
    std::erase_if(asked, [&](const auto& entry) { return entry.second.first == id; });
  }
  /// Allocates like the interposed library: at once within the ceiling. Otherwise it asks the planner and allocates
  /// when granted. Returns false if the tenant is off its GPU and cannot allocate now.
  bool Allocate(TenantId id, unsigned device, Bytes bytes) {
    Page& page = pages.at(id);
    if (!page.is_placed || page.is_on_host || IsUnderWay(id)) return false;
    PageDevice& at = page.devices[device];
    if (at.used + bytes <= at.ceiling) {
      at.used += bytes;
      planner.SetUse(id, device, at.used);
      return true;
    }
    planner.SetUse(id, device, at.used);
    const std::uint64_t request = next_request++;
    asked[request] = {id, {device, bytes}};
    planner.RequestMemory(id, device, bytes, request);
    return true;
  }
  /// Announces an operation that will bind the tenant to its GPUs; the tenant waits for the answer.
  void Pin(TenantId id) {
    if (!pages.at(id).is_placed) return;
    const std::uint64_t request = next_request++;
    asked[request] = {id, {0, Bytes(0)}};
    planner.Pin(id, request);
  }
  /// Sets the use without a request, as residuals do.
  void SetUse(TenantId id, unsigned device, Bytes used) {
    pages.at(id).devices[device].used = used;
    planner.SetUse(id, device, used);
  }

  /// Sets how much of a parking tenant is still on its GPU.
  void Leave(TenantId id, unsigned device, Bytes left) {
    PageDevice& at = pages.at(id).devices[device];
    const bool is_parking = std::any_of(under_way.begin(), under_way.end(), [&](const UnderWay& entry) {
      return entry.tenant == id && std::holds_alternative<Park>(entry.action);
    });
    if (!is_parking || left >= at.used) return;
    at.away += at.used - left;
    at.used = left;
    planner.SetLeft(id, device, left);
  }

  // --- Time ---------------------------------------------------------------------------------------------------------

  /// Calls Decide and executes its actions until it returns none for this moment. Tenants that move, park or wake are
  /// in flight until the action's end time.
  void Settle() {
    for (int turn = 0; turn < 200; ++turn) {
      const std::vector<IssuedAction> actions = planner.Decide(now);
      ASSERT_EQ(planner.CheckInvariants(), "") << log_text();
      CheckPages();
      if (actions.empty()) return;
      for (const IssuedAction& issued : actions) Execute(issued);
      ASSERT_EQ(planner.CheckInvariants(), "") << log_text();
    }
    FAIL() << "the planner does not come to rest\n" << log_text();
  }
  /// Runs up to `until`, or with kNever until nothing is in flight.
  void RunUntil(Time until) {
    Settle();
    while (!::testing::Test::HasFailure()) {
      Time next = kNever;
      for (const UnderWay& entry : under_way) next = std::min(next, entry.ends);
      const bool is_timer = planner.next_decision() < next && until != kNever;
      if (is_timer) next = std::max(planner.next_decision(), now);
      if (next == kNever || next > until) break;
      now = next;
      FinishDue();
      Settle();
    }
    if (until != kNever) now = std::max(now, until);
    Settle();
  }
  void Finish() { RunUntil(kNever); }

  /// Simulates a killed keeper whose successor reads the pages. `is_evacuated` says for each tenant in flight whether
  /// the operation is completed or undone.
  void Restart(const std::function<bool(TenantId)>& is_evacuated) {
    Log("restart");
    SharePlanner fresh(settings);
    for (const auto& [index, gpu] : gpus) fresh.SetGpu(gpu);
    for (const auto& [id, page] : pages) {
      Tenant tenant = *planner.Find(id);  // Share, reasons and times are stored in files and pages as well.
      if (IsUnderWay(id)) {
        const bool is_off = page.is_on_host || !CanComeIn(page) || is_evacuated(id);
        ComeTogether(pages.at(id));
        pages.at(id).is_on_host = is_off;
        tenant.state = is_off ? State::kParked : State::kHere;
        tenant.parked_by = is_off ? (tenant.parked_by == ParkedBy::kNobody ? ParkedBy::kPlanner : tenant.parked_by)
                                  : ParkedBy::kNobody;
        tenant.wants_to_wake = tenant.wants_to_wake || (is_off && tenant.parked_by == ParkedBy::kPlanner);
      }
      // As the keeper recovers them: one that did not leave stays, and one that was to return does so.
      const bool is_parked = tenant.state == State::kParked;
      tenant.is_displaced &= is_parked;
      if (tenant.share.is_whole && is_parked && !tenant.is_displaced) {
        tenant.parked_by = ParkedBy::kOnItsWay;
        tenant.wants_to_wake = true;
      }
      for (unsigned device = 0; device < page.devices.size(); ++device) {
        Device& at = tenant.devices[device];
        at.target.reset();
        at.used = page.devices[device].used;
        at.ceiling = tenant.state == State::kHere ? page.devices[device].ceiling : Bytes(0);
        if (page.is_placed) at.gpu = page.at[device];
      }
      const Status status = fresh.LoadTenant(tenant);
      ASSERT_TRUE(status) << status.error().message;
    }
    under_way.clear();
    planner = std::move(fresh);
    for (const auto& [job, set] : wholes) planner.AcquireExclusive(job, set);
    for (const auto& [request, ask] : asked) {
      // Each process repeats its request.
      if (ask.second.bytes == Bytes(0)) planner.Pin(ask.first, request);
      else planner.RequestMemory(ask.first, ask.second.device, ask.second.bytes, request);
    }
  }

  bool IsUnderWay(TenantId id) const {
    return std::any_of(under_way.begin(), under_way.end(), [&](const UnderWay& entry) { return entry.tenant == id; });
  }

  // --- What was seen ------------------------------------------------------------------------------------------------

  void Log(const std::string& line) { log.push_back(line); }
  std::string log_text() const {
    std::string text;
    for (const std::string& line : log) text += line + "\n";
    return text;
  }
  std::string NameOf(TenantId id) const {
    const auto at = names.find(id.job);
    return at == names.end() ? TenantText(id) : at->second;
  }

  struct UnderWay {
    std::uint64_t issued = 0;
    TenantId tenant;
    Time ends = kNoTime;
    Duration took{0};
    Bytes bytes;
    Action action;
  };

  Settings settings;
  SharePlanner planner;
  Time now = Time(1'000'000s);
  std::map<GpuIndex, Gpu> gpus;
  std::map<TenantId, Page> pages;
  std::map<TenantId, Tenant> facts;
  std::map<std::uint64_t, GpuSet> wholes;
  std::map<std::uint64_t, std::pair<TenantId, Asked>> asked;
  std::uint64_t next_request = 1;
  std::vector<UnderWay> under_way;
  std::deque<Fate> fates;
  std::vector<std::string> log;
  std::map<std::uint64_t, std::string> names;
  std::function<void(const Action&)> on_action = [](const Action&) {};
  int moves = 0;
  bool is_silent = false;

 private:
  static bool CanComeIn(const Page& page) {
    return std::all_of(page.devices.begin(), page.devices.end(),
                       [](const PageDevice& at) { return at.away == Bytes(0) || at.used + at.away <= at.ceiling; });
  }
  /// Adds the bytes already on the host back to `used`, so that the tenant is on one side only.
  static void ComeTogether(Page& page) {
    for (PageDevice& at : page.devices) at.used += std::exchange(at.away, Bytes(0));
  }
  static std::string GpusText(const std::vector<GpuIndex>& gpus) {
    std::string text;
    for (const GpuIndex gpu : gpus) text += (text.empty() ? "" : ",") + std::to_string(gpu);
    return text;
  }

  /// Checks the true sums: ceilings in pages exceed no GPU's capacity, whatever the planner believes.
  void CheckPages() {
    for (const auto& [index, gpu] : gpus) {
      Bytes ceilings;
      Bytes used;
      for (const auto& [id, page] : pages) {
        if (!page.is_placed || page.is_on_host) continue;
        for (unsigned device = 0; device < page.devices.size(); ++device) {
          if (page.at[device] != index) continue;
          ceilings += page.devices[device].ceiling;
          used += page.devices[device].used;
        }
      }
      ASSERT_TRUE(ceilings <= gpu.capacity || ceilings <= used)
          << "pages promise " << BytesText(ceilings) << " of GPU " << int(index) << "\n"
          << log_text();
    }
  }

  void Execute(const IssuedAction& issued) {
    on_action(issued.action);
    std::visit([&](const auto& action) { Do(issued, action); }, issued.action);
  }
  void Say(const std::string& line) {
    if (!is_silent) Log(line);
  }

  void Do(const IssuedAction& issued, const SetCeiling& action) {
    PageDevice& at = pages.at(action.tenant).devices[action.device];
    at.ceiling = std::max(action.bytes, at.used);
    planner.OnDone(issued.id, {.bytes = at.ceiling}, now);
  }
  void Do(const IssuedAction&, const Answer& action) {
    const auto at = asked.find(action.request);
    ASSERT_NE(at, asked.end()) << "an answer that nobody asked for, or a second one\n" << log_text();
    const Asked ask = at->second.second;
    asked.erase(at);
    if (!action.is_granted) return Say(NameOf(action.tenant) + " denied " + BytesText(ask.bytes) + ": " + action.why);
    Say(NameOf(action.tenant) + " granted " + BytesText(ask.bytes));
    PageDevice& page = pages.at(action.tenant).devices[action.device];
    ASSERT_LE(page.used + ask.bytes, page.ceiling) << "granted, and the ceiling is too low\n" << log_text();
    page.used += ask.bytes;
    planner.SetUse(action.tenant, action.device, page.used);
  }
  void Do(const IssuedAction& issued, const Shrink& action) {
    PageDevice& at = pages.at(action.tenant).devices[action.device];
    const Bytes given = std::min(at.pooled, action.bytes);
    at.pooled -= given;
    at.used -= given;
    Say(NameOf(action.tenant) + " is asked for " + BytesText(action.bytes) + " of its pools, gives " +
        BytesText(given));
    planner.SetUse(action.tenant, action.device, at.used);
    planner.OnDone(issued.id, {.bytes = given}, now);
  }
  void Do(const IssuedAction&, const Place& action) {
    Page& page = pages.at(action.tenant);
    page.at = action.to;
    page.is_placed = true;
    Say(NameOf(action.tenant) + " placed on " + GpusText(action.to));
  }
  void Do(const IssuedAction& issued, const Move& action) {
    Say(NameOf(action.tenant) + " moves " + GpusText(action.from) + " -> " + GpusText(action.to));
    Begin(issued, action.tenant, 2);
    ++moves;
  }
  void Do(const IssuedAction& issued, const Park& action) {
    Say(NameOf(action.tenant) + " parks: " + action.why);
    Begin(issued, action.tenant, 1);
  }
  void Do(const IssuedAction& issued, const Wake& action) {
    Say(NameOf(action.tenant) + " wakes on " + GpusText(action.to));
    Begin(issued, action.tenant, 1);
  }
  void Do(const IssuedAction&, const Requeue& action) {
    Say(NameOf(action.borrower) + " is requeued: " + BytesText(action.bytes) + " of GPU " + std::to_string(action.gpu) +
        " are for " + NameOf(action.owner));
  }
  void Do(const IssuedAction&, const Ready& action) { Say(NameOf({action.job, 0}) + " ready"); }
  void Do(const IssuedAction&, const Failed& action) {
    const std::string who = action.job != 0 ? NameOf({action.job, 0}) : NameOf(action.tenant);
    Say(who + (action.why.empty() ? " is well on its GPU again" : " failed: " + action.why));
  }

  void Begin(const IssuedAction& issued, TenantId id, int ways) {
    ASSERT_FALSE(IsUnderWay(id)) << "two orders at once for " << NameOf(id);
    Bytes bytes;
    double seconds = 0.1;
    const Page& page = pages.at(id);
    for (unsigned device = 0; device < page.devices.size(); ++device) {
      bytes += page.devices[device].used;
      seconds += ways * static_cast<double>(page.devices[device].used.count()) /
                 static_cast<double>(gpus.at(page.at[device]).bytes_per_second);
    }
    const Duration took(static_cast<std::int64_t>(seconds * 1e9));
    under_way.push_back({issued.id, id, now + took, took, bytes, issued.action});
  }

  void FinishDue() {
    for (std::size_t i = 0; i < under_way.size();) {
      if (under_way[i].ends > now) {
        ++i;
        continue;
      }
      const UnderWay ended = under_way[i];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
      Fate fate;
      if (!fates.empty()) {
        fate = fates.front();
        fates.pop_front();
      }
      // A tenant cannot return if others already took its memory.
      const bool is_stuck = std::holds_alternative<Park>(ended.action) && !CanComeIn(pages.at(ended.tenant));
      if (fate.outcome == Outcome::kUnchanged && is_stuck) fate.outcome = Outcome::kParked;
      Apply(ended, fate.outcome);
      planner.OnDone(ended.issued, {fate.outcome, ended.bytes, ended.took, fate.why}, now);
    }
  }

  void Apply(const UnderWay& ended, Outcome outcome) {
    Page& page = pages.at(ended.tenant);
    if (const auto* move = std::get_if<Move>(&ended.action)) {
      if (outcome == Outcome::kDone) page.at = move->to;
      page.is_on_host = outcome == Outcome::kParked;
    } else if (std::holds_alternative<Park>(ended.action)) {
      ComeTogether(page);
      page.is_on_host = outcome == Outcome::kDone || outcome == Outcome::kParked;
    } else if (const auto* wake = std::get_if<Wake>(&ended.action)) {
      if (outcome == Outcome::kDone) page.at = wake->to;
      page.is_on_host = outcome != Outcome::kDone;
    }
  }
};

}  // namespace divvy::sharing
