// Runs tests/scenarios/sharing/*.txt. Each file shows one rule for tenants that share the GPUs of one node: commands
// above "----", the planner's actions below. After every decision the invariants hold in the planner and in the pages,
// and five more decisions change nothing. DIVVY_REWRITE=1 writes the actual results into the files; commit a rewrite
// only after you understand its difference.
//
//   gpus 0-3 [capacity=80G] [speed=20G] [kind=0]        speed: bytes per second to the host
//        [growth=512M]                free memory that loans leave for each tenant; on the first line only
//   tenant NAME on=0 [request=0.5|40G] [limit=1.0|60G] [compute=0.5:1.0] [idle_park=10m] [interactive] [requeue]
//        [cannot_move='uses CUDA IPC'] [cannot_park=WHY]      on: its planned GPUs (0,1); limit: of memory and time
//   want NAME 10G [device=0]          its process allocates: at once within the ceiling, otherwise by request
//   free NAME 10G [device=0] | pool NAME 10G      frees memory; marks this much of its use as free in its own pools
//   residual NAME 1G                  the driver counts this much more
//   active NAME | idle NAME | calls NAME       busy; idle; a call waits at its parked gate
//   uses NAME 0.3                     it has had this share of its GPU's time for long
//   cannot NAME WHY                   can neither be moved nor parked from now on
//   resize NAME [request=..] [limit=..]
//   take NAME 0,1 | give NAME         a job that needs these whole GPUs arrives; ends
//   park NAME | wake NAME | move NAME 2 | remove NAME | lost 3 WHY | ended NAME
//   withhold 3 WHY | withhold 3 ""    a GPU is withheld from tenants; is available again
//   fate unchanged|parked|lost [WHY]  the result of the next move, park or wake
//   left NAME 10G                     while it is being parked, this much is still on its GPU
//   begin COMMAND                     does not wait for the moves, parks and wakes that result; other commands do
//   advance 30s | finish              lets time pass; waits for everything in flight
//   restart [evacuated]               the keeper is killed, and a new one reads the pages
//   show | bound 0,1 | why NAME
#include <fstream>
#include <sstream>

#include "base/duration_text.h"
#include "base/scenario_test_files.h"
#include "base/text.h"
#include "sharing/planner/share_planner_test_world.h"

namespace divvy::sharing {
namespace scenario_test {

/// One command: plain words, and name=value pairs whose value may be quoted.
struct Words {
  explicit Words(const std::string& line) {
    const std::optional<std::vector<std::string>> split = ShellSplit(line);
    for (const std::string& word : split.value_or(std::vector<std::string>{})) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) plain.push_back(word);
      else values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string Get(const std::string& name, const std::string& otherwise = "") {
    is_read.insert(name);
    const auto at = values.find(name);
    return at == values.end() ? otherwise : at->second;
  }
  bool Has(const std::string& name) { return !Get(name, "").empty(); }
  /// Returns true if `word` follows the command as a plain word.
  bool Says(const std::string& word) {
    is_read.insert(word);
    return std::count(plain.begin(), plain.end(), word) > 0;
  }
  std::string At(std::size_t n) const { return n < plain.size() ? plain[n] : ""; }

  std::vector<std::string> plain;
  std::map<std::string, std::string> values;
  std::set<std::string> is_read;
};

Bytes ReadBytes(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  const double unit = text.ends_with("G") ? 1 << 30 : text.ends_with("M") ? 1 << 20 : 1;
  return Bytes(static_cast<std::int64_t>(number * unit));
}

std::vector<GpuIndex> ReadGpus(const std::string& text) {
  std::vector<GpuIndex> gpus;
  for (const std::string_view part : Split(text, ',')) {
    const std::vector<std::string_view> ends = Split(part, '-');
    const std::int64_t first = ParseInteger(ends.front()).value_or(0);
    const std::int64_t last = ParseInteger(ends.back()).value_or(0);
    for (std::int64_t gpu = first; gpu <= last; ++gpu) gpus.push_back(static_cast<GpuIndex>(gpu));
  }
  return gpus;
}

GpuSet SetOf(const std::vector<GpuIndex>& gpus) {
  GpuSet set;
  for (const GpuIndex gpu : gpus) set.Insert(gpu);
  return set;
}

class Scenario {
 public:
  std::string Run(const std::string& commands) {
    std::istringstream lines(commands);
    for (std::string line; std::getline(lines, line);) {
      if (const std::size_t hash = line.find('#'); hash != std::string::npos) line.resize(hash);
      for (const std::string_view part : Split(line, '|')) {
        if (!Trim(part).empty()) Command(std::string(Trim(part)));
        if (::testing::Test::HasFailure()) return node_.log_text();
      }
    }
    // Five more rounds change nothing, now or later.
    const std::string before = node_.log_text();
    node_.Finish();
    for (int round = 0; round < 5; ++round) node_.Settle();
    EXPECT_EQ(node_.log_text(), before) << "it changed its mind";
    return node_.log_text();
  }

 private:
  void Command(const std::string& text) {
    static const std::map<std::string, void (Scenario::*)(Words&)> kCommands = {
        {"gpus", &Scenario::Gpus},         {"tenant", &Scenario::AddTenant}, {"want", &Scenario::RequestMemory},
        {"free", &Scenario::Free},         {"pool", &Scenario::Pool},        {"residual", &Scenario::Residual},
        {"active", &Scenario::Active},     {"idle", &Scenario::Idle},        {"calls", &Scenario::Calls},
        {"cannot", &Scenario::Cannot},     {"resize", &Scenario::Resize},    {"take", &Scenario::Take},
        {"give", &Scenario::Give},         {"park", &Scenario::Park},        {"wake", &Scenario::Wake},
        {"move", &Scenario::MoveTo},       {"remove", &Scenario::Remove},    {"lost", &Scenario::Lose},
        {"fate", &Scenario::SetFate},      {"advance", &Scenario::Advance},  {"finish", &Scenario::Finish},
        {"restart", &Scenario::Restart},   {"show", &Scenario::Show},        {"bound", &Scenario::Bound},
        {"why", &Scenario::Why},           {"pin", &Scenario::Pin},          {"ended", &Scenario::End},
        {"withhold", &Scenario::Withhold}, {"left", &Scenario::Left},        {"uses", &Scenario::Uses},
    };
    Words words(text);
    is_begun_ = words.At(0) == "begin";
    if (is_begun_) words.plain.erase(words.plain.begin());
    const auto at = kCommands.find(words.At(0));
    ASSERT_NE(at, kCommands.end()) << "no such command: " << text;
    (this->*at->second)(words);
    for (const auto& [name, value] : words.values)
      ASSERT_TRUE(words.is_read.contains(name)) << "no such word: " << name << ", in: " << text;
    ASSERT_EQ(node_.planner.CheckInvariants(), "") << "after: " << text << "\n" << node_.log_text();
  }

  TenantId IdOf(const Words& words, std::size_t n = 1) { return ids_.at(words.At(n)); }
  static unsigned DeviceOf(Words& words) {
    return static_cast<unsigned>(ParseInteger(words.Get("device", "0")).value_or(0));
  }
  /// Waits for the effects of the command, unless it was started with "begin".
  void Rest() { is_begun_ ? node_.Settle() : node_.Finish(); }
  void Answer(const std::string& who, const Status& status) {
    if (!status) node_.Log(who + " refused: " + status.error().message);
  }

  void Gpus(Words& words) {
    if (words.Has("growth")) {
      Settings settings;
      settings.growth = ReadBytes(words.Get("growth"));
      node_ = ModelledNode(settings);
    }
    for (const GpuIndex gpu : ReadGpus(words.At(1))) {
      node_.SetGpu({.index = gpu,
                    .kind = static_cast<std::uint32_t>(ParseInteger(words.Get("kind", "0")).value_or(0)),
                    .capacity = ReadBytes(words.Get("capacity", "80G")),
                    .bytes_per_second = ReadBytes(words.Get("speed", "20G")).count()});
    }
  }

  Bytes CapacityOf(GpuIndex gpu) const { return node_.gpus.contains(gpu) ? node_.gpus.at(gpu).capacity : 80_GiB; }
  Bytes MemoryOf(const std::string& text, GpuIndex gpu) {
    if (text.ends_with("G") || text.ends_with("M")) return ReadBytes(text);
    return Bytes(
        static_cast<std::int64_t>(std::strtod(text.c_str(), nullptr) * static_cast<double>(CapacityOf(gpu).count())));
  }
  GpuShare TimeOf(const std::string& text, GpuIndex gpu) {
    if (!text.ends_with("G") && !text.ends_with("M"))
      return GpuShare(static_cast<std::int32_t>(std::strtod(text.c_str(), nullptr) * 10000 + 0.5));
    return GpuShare(static_cast<std::int32_t>(ReadBytes(text).count() / (CapacityOf(gpu).count() / 10000)));
  }
  void ReadShare(Words& words, Share& share, GpuIndex gpu) {
    if (words.Has("request")) {
      share.memory_request = share.memory_limit = MemoryOf(words.Get("request"), gpu);
      share.compute_request = share.compute_limit = TimeOf(words.Get("request"), gpu);
    }
    if (words.Has("limit")) {
      share.memory_limit = MemoryOf(words.Get("limit"), gpu);
      share.compute_limit = TimeOf(words.Get("limit"), gpu);
    }
    if (const std::string compute = words.Get("compute"); !compute.empty()) {
      const std::vector<std::string_view> ends = Split(compute, ':');
      share.compute_request = TimeOf(std::string(ends.front()), gpu);
      share.compute_limit = TimeOf(std::string(ends.back()), gpu);
    }
    if (words.Has("idle_park")) share.idle_park = ReadDuration(words.Get("idle_park"));
    share.is_interactive |= words.Says("interactive");
    share.can_be_requeued |= words.Says("requeue");
  }

  void AddTenant(Words& words) {
    const std::string name = words.At(1);
    Tenant tenant;
    tenant.id = ids_[name] = {ids_.size() + 1, 1};
    node_.names[tenant.id.job] = name;
    for (const GpuIndex gpu : ReadGpus(words.Get("on", "0"))) tenant.devices.push_back({.planned_gpu = gpu});
    tenant.share = {.memory_request = MemoryOf("0.5", tenant.devices[0].planned_gpu),
                    .compute_request = GpuShare(5000)};
    tenant.share.memory_limit = tenant.share.memory_request;
    tenant.share.compute_limit = tenant.share.compute_request;
    ReadShare(words, tenant.share, tenant.devices[0].planned_gpu);
    tenant.why_cannot_move = words.Get("cannot_move");
    tenant.why_cannot_park = words.Get("cannot_park");
    Answer(name, node_.AddTenant(tenant));
    Rest();
  }
  void RequestMemory(Words& words) {
    const TenantId id = IdOf(words);
    const unsigned device = DeviceOf(words);
    const Bytes before = node_.pages.at(id).devices[device].used;
    ASSERT_TRUE(node_.Allocate(id, device, ReadBytes(words.At(2)))) << words.At(1) << " is not on a GPU";
    if (node_.pages.at(id).devices[device].used != before)
      node_.Log(words.At(1) + " has " + BytesText(ReadBytes(words.At(2))));
    Rest();
  }
  void Free(Words& words) {
    const unsigned device = DeviceOf(words);
    node_.SetUse(IdOf(words), device, node_.pages.at(IdOf(words)).devices[device].used - ReadBytes(words.At(2)));
    Rest();
  }
  void Left(Words& words) {
    node_.Leave(IdOf(words), DeviceOf(words), ReadBytes(words.At(2)));
    is_begun_ = true;  // The rest of the parking continues.
    Rest();
  }
  void Residual(Words& words) {
    node_.SetUse(IdOf(words), 0, node_.pages.at(IdOf(words)).devices[0].used + ReadBytes(words.At(2)));
    Rest();
  }
  void Pool(Words& words) { node_.pages.at(IdOf(words)).devices[0].pooled = ReadBytes(words.At(2)); }
  void Active(Words& words) { SetActive(words, true); }
  void Idle(Words& words) { SetActive(words, false); }
  void SetActive(Words& words, bool is_active) {
    for (std::size_t i = 1; i < words.plain.size(); ++i)
      node_.planner.SetActivity(IdOf(words, i), is_active, node_.now);
    Rest();
  }
  void Calls(Words& words) {
    node_.planner.SetActivity(IdOf(words), true, node_.now);
    node_.planner.WantWake(IdOf(words));
    Rest();
  }
  void Uses(Words& words) {
    for (int second = 0; second < 60; ++second) node_.planner.SetTimeUsed(IdOf(words), TimeOf(words.At(2), 0));
    Rest();
  }
  void Cannot(Words& words) { node_.planner.SetCannot(IdOf(words), words.At(2), words.At(2)); }
  void Pin(Words& words) {
    node_.Pin(IdOf(words));
    Rest();
    Cannot(words);
  }
  void Resize(Words& words) {
    Share share = node_.planner.Find(IdOf(words))->share;
    ReadShare(words, share, node_.planner.Find(IdOf(words))->devices[0].planned_gpu);
    Answer(words.At(1), node_.planner.Resize(IdOf(words), share));
    Rest();
  }
  void Take(Words& words) {
    const TenantId id = ids_[words.At(1)] = {ids_.size() + 1, 0};
    node_.names[id.job] = words.At(1);
    node_.wholes[id.job] = SetOf(ReadGpus(words.At(2)));
    node_.planner.AcquireExclusive(id.job, node_.wholes[id.job]);
    Rest();
  }
  void Give(Words& words) {
    node_.wholes.erase(IdOf(words).job);
    node_.planner.ReleaseExclusive(IdOf(words).job);
    Rest();
  }
  void Park(Words& words) {
    Answer(words.At(1), node_.planner.ParkByUser(IdOf(words)));
    Rest();
  }
  void Wake(Words& words) {
    Answer(words.At(1), node_.planner.WakeByUser(IdOf(words)));
    Rest();
  }
  void MoveTo(Words& words) {
    Answer(words.At(1), node_.planner.MoveByUser(IdOf(words), ReadGpus(words.At(2))));
    Rest();
  }
  void Remove(Words& words) {
    node_.Remove(IdOf(words));
    Rest();
  }
  void Withhold(Words& words) {
    Gpu& gpu = node_.gpus.at(ReadGpus(words.At(1)).front());
    gpu.why_withheld = words.At(2);
    node_.planner.SetGpu(gpu);
    Rest();
  }
  void End(Words& words) {
    node_.EndProcesses(IdOf(words));
    Rest();
  }
  void Lose(Words& words) {
    Gpu& gpu = node_.gpus.at(ReadGpus(words.At(1)).front());
    gpu.why_unusable = words.At(2);
    node_.planner.SetGpu(gpu);
    Rest();
  }
  void SetFate(Words& words) {
    static const std::map<std::string, Outcome> kOutcomes = {
        {"unchanged", Outcome::kUnchanged}, {"parked", Outcome::kParked}, {"lost", Outcome::kLost}};
    node_.fates.push_back({kOutcomes.at(words.At(1)), words.At(2)});
  }
  void Advance(Words& words) { node_.RunUntil(node_.now + ReadDuration(words.At(1))); }
  void Finish(Words&) { node_.Finish(); }
  void Restart(Words& words) {
    const bool is_evacuated = words.Says("evacuated");
    node_.Restart([&](TenantId) { return is_evacuated; });
    Rest();
  }
  void Show(Words&) {
    for (const auto& [index, gpu] : node_.planner.gpus()) {
      std::string line = "GPU " + std::to_string(index) + ":";
      if (gpu.whole_job != 0) line += " whole " + node_.NameOf({gpu.whole_job, 0});
      for (const auto& [id, tenant] : node_.planner.tenants()) {
        for (const Device& device : tenant.devices) {
          const bool is_here = tenant.state == State::kHere && device.gpu == index;
          if (is_here) line += " " + node_.NameOf(id) + " " + BytesText(device.used) + "/" + BytesText(device.ceiling);
        }
      }
      node_.Log(line);
    }
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      const std::vector<std::string> remarks = Remarks(tenant, node_.now);
      if (!remarks.empty()) node_.Log(node_.NameOf(id) + ": " + Join(remarks, "; "));
    }
  }
  void Bound(Words& words) {
    const Duration bound = node_.planner.RepackBound(SetOf(ReadGpus(words.At(1))));
    node_.Log("bound " + (bound == Duration::max() ? "none" : DurationText(bound)));
  }
  void Why(Words& words) { node_.Log(words.At(1) + " " + node_.planner.WhyWaits(IdOf(words))); }

  ModelledNode node_;
  std::map<std::string, TenantId> ids_;
  bool is_begun_ = false;
};

class SharingScenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(SharingScenarios, MatchTheirExpectedActions) {
  ShowScenario(GetParam(), [](const std::string& commands) { return Scenario().Run(commands); });
}

INSTANTIATE_TEST_SUITE_P(, SharingScenarios, ::testing::ValuesIn(ScenarioFiles("sharing")), ScenarioName);

}  // namespace scenario_test
}  // namespace divvy::sharing
