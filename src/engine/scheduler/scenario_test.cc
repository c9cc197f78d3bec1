// Runs tests/scenarios/**.txt except those in cluster/. Each file shows one situation: commands above "----" and the
// expected output below. After that, five more scheduling cycles at the same time must start no job and move no
// reservation: a plan is final.
// DIVVY_REWRITE=1 writes the actual output into the files; keep a rewrite only if you understand the difference.
//
//   node gpus=8 | node 4xNVIDIA_L4:24G 4xNVIDIA_H100:80G [cpus=64] [memory=512G] [numa=4] [nvlink=2]
//       numa=4: the first four on one NUMA node, the next four on another; nvlink=2: joined two by two
//   policy [fifo|small-first] [escalate_after=1h] [cpu_jobs=256]
//   submit NAME [gpus=1] [most=4] [topology=nvlink:required] [placement=best] [limit=2h] [priority=0] [type=h100]
//   [gpu_memory=40G] [cpus=4] [memory=8G] [group=g] [begin=30m]
//          [after=job_1_to_succeed [ends=NAME]] [held] [random=DRAW] [anyway]
//   array NAME count=10 [cap=2] [and everything that submit takes]
//   cycle               one scheduling cycle: prints the starts with their reasons, and the reservations
//   advance 30m         lets time pass: jobs end at their limits, and a cycle follows each event
//   resizable NAME      a running elastic job accepts resizing; with adopt ... least=1 most=4 it does so at once
//   checkpoint NAME     the job gives back the GPUs that were asked back; no cycle follows
//   finish NAME         the job ends before its limit, and a cycle follows; NAME.2 is the second started array member
//   cancel | release | met NAME      the job leaves the queue; is no longer held; has its dependencies met
//   restrict 0-3 | unmanaged 2 | fence 2 | usable 2 | group NAME limit=2 gpus=4 | adopt NAME on=0-1 [limit=1h]
//   queue | why NAME    print the queue; explain a waiting job

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/duration_text.h"
#include "base/scenario_test_files.h"
#include "base/text.h"
#include "engine/message_text.h"
#include "engine/scheduler/test_world.h"
#include "model/job_record.h"

namespace divvy {
namespace scenario_test {

struct Words {
  std::vector<std::string> plain;
  std::map<std::string, std::string> named;

  bool Has(const std::string& word) const { return std::find(plain.begin(), plain.end(), word) != plain.end(); }
  std::string Get(const std::string& name) const {
    const auto at = named.find(name);
    return at == named.end() ? "" : at->second;
  }
  int GetInt(const std::string& name, int otherwise) const {
    const auto at = named.find(name);
    return at == named.end() ? otherwise : std::atoi(at->second.c_str());
  }
};

Bytes ReadBytes(const std::string& text) {
  return Bytes(std::atoll(text.c_str()) << (text.back() == 'G' ? 30 : text.back() == 'M' ? 20 : 0));
}

GpuSet ReadGpus(const std::string& text) {
  GpuSet gpus;
  const Result<IndexRanges> ranges = IndexRanges::Parse(text, "GPUs");
  for (int gpu = 0; ranges && gpu < GpuSet::kCapacity; ++gpu) {
    if (ranges->Contains(static_cast<std::uint32_t>(gpu))) gpus.Insert(static_cast<GpuIndex>(gpu));
  }
  return gpus;
}

std::string Spaced(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string PlacesText(const std::vector<NodePlace>& places) {
  if (places.empty() || places.front().gpus.empty()) return "CPUs or memory";
  return GpusText(places.front().gpus);
}

class Scenario {
 public:
  std::string Run(const std::string& commands) {
    std::istringstream lines(commands);
    for (std::string line; std::getline(lines, line);) {
      if (const std::size_t hash = line.find('#'); hash != std::string::npos) line.resize(hash);
      for (std::string_view part : Split(line, '|')) {
        if (!Trim(part).empty()) Command(std::string(Trim(part)));
        if (::testing::Test::HasFatalFailure()) return out_.str();
      }
    }
    return out_.str();
  }

  /// Returns what five more scheduling cycles change, or "" if they change nothing.
  std::string ChangesItsMind() {
    const Plan before = world_.WouldDecide();
    for (int i = 0; i < 5; ++i) {
      for (const World::Started& started : world_.Pass()) return "starts " + NameOf(started.job) + " in a further pass";
      for (std::size_t r = 0; r < before.reservations.size(); ++r) {
        const Reservation& now = world_.last_plan.reservations[r];
        if (now.start != before.reservations[r].start || now.places != before.reservations[r].places) {
          return "moves the reservation of " + NameOf(now.entry);
        }
      }
      for (const Resizing& one : world_.last_plan.resizings) return "resizes " + NameOf(one.job) + " in a further pass";
    }
    return "";
  }

 private:
  void Command(const std::string& line) {
    Words words;
    for (std::string_view word : SplitWords(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) words.plain.emplace_back(word);
      else words.named.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    const std::string verb = words.plain.empty() ? "" : words.plain[0];
    const std::string name = words.plain.size() > 1 ? words.plain[1] : "";
    if (verb == "node") Node(words);
    else if (verb == "policy") SetPolicy(words);
    else if (verb == "submit" || verb == "array") Submit(words, name);
    else if (verb == "cycle") Cycle(true);
    else if (verb == "advance") Advance(ReadDuration(name));
    else if (verb == "queue") Queue();
    else if (verb == "why") Why(name);
    else if (verb == "group") LimitGroup(words, Spaced(name));
    else if (verb == "adopt") Adopt(words, name);
    else if (verb == "resizable") world_.server.SetResizable(ids_[name]);
    else if (verb == "checkpoint") Checkpoint(name);
    else if (verb == "finish" || verb == "cancel" || verb == "release" || verb == "met") ChangeJob(verb, name);
    else if (verb == "restrict" || verb == "unmanaged" || verb == "fence" || verb == "usable") Availability(verb, name);
    else FAIL() << "no such command: " << line;
    world_.Check();
  }

  void LimitGroup(const Words& words, const GroupName& group) {
    if (words.named.contains("limit")) world_.server.SetGroupLimit(group, words.GetInt("limit", 0));
    if (words.named.contains("gpus")) world_.server.SetGroupGpuLimit(group, words.GetInt("gpus", 0));
  }

  void Node(const Words& words) {
    NodeCapacity capacity;
    for (int i = 0; i < words.GetInt("gpus", 0); ++i) World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
    for (std::size_t i = 1; i < words.plain.size(); ++i) {
      const std::string& word = words.plain[i];
      const std::size_t x = word.find('x');
      const std::size_t colon = word.find(':');
      for (int n = 0; n < std::atoi(word.c_str()); ++n) {
        World::AddGpu(capacity, Spaced(word.substr(x + 1, colon - x - 1)), ReadBytes(word.substr(colon + 1)));
      }
    }
    Join(capacity, words.GetInt("numa", 0), words.GetInt("nvlink", 0));
    capacity.cpus = words.GetInt("cpus", 64);
    capacity.memory = words.named.contains("memory") ? ReadBytes(words.Get("memory")) : 512_GiB;
    world_.server.SetCapacity(std::move(capacity));
  }

  static void Join(NodeCapacity& capacity, int numa, int nvlink) {
    for (GpuFacts& gpu : capacity.gpus) {
      if (numa > 0) gpu.numa_node = gpu.index / numa;
      for (int other = 0; other < static_cast<int>(capacity.gpus.size()); ++other) {
        const bool is_joined = nvlink > 0 && other / nvlink == gpu.index / nvlink;
        const bool is_near = numa == 0 || other / numa == gpu.index / numa;
        gpu.links.push_back(other == gpu.index ? "X" : is_joined ? "NV12" : is_near ? "PHB" : "SYS");
      }
    }
  }

  void SetPolicy(const Words& words) {
    for (const auto order :
         {QueuePolicy::kSmallFirst, QueuePolicy::kFifo, QueuePolicy::kFair, QueuePolicy::kShortest}) {
      if (words.Has(std::string(divvy::Name(order)))) world_.policy.order = order;
    }
    if (words.named.contains("escalate_after"))
      world_.policy.escalate_after = ReadDuration(words.Get("escalate_after"));
    world_.policy.cpu_jobs_at_once = words.GetInt("cpu_jobs", world_.policy.cpu_jobs_at_once);
    world_.server.SetPolicy(world_.policy);
  }

  void Submit(const Words& words, const std::string& name) {
    WaitingEntry entry = World::Job(ids_.size() + 1, words.GetInt("gpus", 1), ReadDuration(words.Get("limit")));
    entry.request.gpu_type = words.Get("type");
    entry.request.gpus_most = words.GetInt("most", 0);
    const std::string topology = words.Get("topology");
    entry.request.topology = topology.starts_with("numa")     ? TopologyNeed::kNuma
                             : topology.starts_with("nvlink") ? TopologyNeed::kNvlink
                                                              : TopologyNeed::kAny;
    entry.request.requires_topology = topology.ends_with(":required");
    for (const auto placement : {PlacementStrategy::kPack, PlacementStrategy::kSpread, PlacementStrategy::kBest}) {
      if (words.Get("placement") == Name(placement)) entry.placement = placement;
    }
    if (words.named.contains("gpu_memory")) entry.request.gpu_memory = ReadBytes(words.Get("gpu_memory"));
    if (words.named.contains("memory")) entry.request.memory = ReadBytes(words.Get("memory"));
    entry.request.cpus = words.GetInt("cpus", 0);
    entry.priority = words.GetInt("priority", 0);
    entry.count = static_cast<std::uint32_t>(words.GetInt("count", 1));
    if (words.named.contains("group")) entry.groups.push_back(Spaced(words.Get("group")));
    if (words.named.contains("cap")) {
      const GroupName cap = "array " + ToString(entry.id);
      entry.groups.push_back(cap);
      world_.server.SetGroupLimit(cap, words.GetInt("cap", 0));
    }
    if (words.named.contains("begin")) entry.begin = world_.now + ReadDuration(words.Get("begin"));
    if (words.named.contains("after")) entry.unmet_dependencies.push_back(Spaced(words.Get("after")));
    if (words.named.contains("ends")) entry.waits_for = {ids_[words.Get("ends")]};
    entry.is_held = words.Has("held");
    if (words.named.contains("random")) {
      entry.placement = PlacementStrategy::kRandom;
      entry.placement_draw = static_cast<std::uint64_t>(words.GetInt("random", 0));
    }
    if (const Status status = CheckFeasible(world_.server, entry.request); !status && !words.Has("anyway")) {
      out_ << name << " refused: " << status.error().message << "\n";
      return;
    }
    ids_[name] = entry.id;
    names_[entry.id] = name;
    world_.Submit(std::move(entry));
  }

  void Cycle(bool shows_reservations) {
    for (const World::Started& started : world_.Pass()) {
      if (started.job != started.entry) {
        names_[started.job] = names_[started.entry] + "." + std::to_string(started.job.value() % 1000);
        ids_[names_[started.job]] = started.job;
      }
      out_ << Clock() << NameOf(started.job) << " starts"
           << (started.gpus.empty() ? "" : " on " + GpusText(started.gpus)) << ": " << started.reason << "\n";
    }
    for (const Resizing& one : world_.last_plan.resizings) {
      out_ << Clock() << NameOf(one.job) << " has " << GpusText(one.gpus);
      if (!one.asked_back.empty()) out_ << " and is to give back " << GpusText(one.asked_back);
      out_ << ": " << one.reason << "\n";
    }
    if (!shows_reservations) return;
    for (const Reservation& reservation : world_.last_plan.reservations) {
      const std::string what = PlacesText(reservation.places);
      out_ << Clock() << NameOf(reservation.entry);
      if (reservation.start == kNever) out_ << " drains " << what << "\n";
      else out_ << " is promised " << what << " in " << DurationText(reservation.start - world_.now) << "\n";
    }
  }

  void Advance(Duration step) {
    const Time end = world_.now + step;
    while (world_.NextEvent() <= end) {
      world_.now = std::max(world_.now, world_.NextEvent());
      for (JobId id : world_.EndDue()) out_ << Clock() << NameOf(id) << " ends\n";
      Cycle(false);
    }
    world_.now = end;
    Cycle(false);
  }

  void Queue() {
    out_ << Clock() << "queue:";
    for (JobId id : QueueOrder(world_.server, world_.now, 0)) out_ << " " << NameOf(id);
    out_ << "\n";
  }

  void Why(const std::string& name) {
    const core::Explanation answer = Explain(world_.server, ids_[name], world_.now);
    out_ << Clock() << "why " << name << ": ";
    if (!answer.is_waiting) {
      out_ << "does not wait\n";
      return;
    }
    if (answer.position > 0)
      out_ << "number " << answer.position << ", " << Plural(answer.ahead_parts / placement::kGpuParts, "GPU")
           << " wanted ahead";
    else out_ << "not in line";
    out_ << " (" << answer.key << ")\n";
    const std::optional<core::Blocker> first = FirstBlockers(world_.server, world_.now).Find(ids_[name]);
    ASSERT_EQ(first ? first->text : "", answer.blockers.empty() ? "" : answer.blockers.front().text);
    for (const core::Blocker& blocker : answer.blockers) {
      out_ << "  " << blocker.text;
      if (!blocker.rule.empty()) out_ << " [" << blocker.rule << "]";
      for (const core::Holder& holder : blocker.holders) {
        const GpuSet gpus = core::GpusOf(holder.pieces);
        out_ << "; " << NameOf(holder.job) << " has " << (gpus.empty() ? "some" : GpusText(gpus));
        if (holder.until != kNever && world_.server.running(holder.job) != nullptr)
          out_ << " for " << DurationText(holder.until - world_.now);
      }
      out_ << "\n";
    }
    out_ << "  starts "
         << (answer.start.typical == kNever ? "?" : "in " + DurationText(answer.start.typical - world_.now)) << ": "
         << answer.start.basis << "\n";
    if (!answer.change_text().empty()) out_ << "  would start now with " << answer.change_text() << "\n";
  }

  void Adopt(const Words& words, const std::string& name) {
    RunningJob job;
    job.id = JobId(ids_.size() + 1);
    ids_[name] = job.id;
    names_[job.id] = name;
    job.gpus = ReadGpus(words.Get("on"));
    job.started = world_.now;
    if (words.named.contains("limit")) job.known_end = world_.now + ReadDuration(words.Get("limit"));
    if (words.named.contains("most")) {
      job.request.gpus = words.GetInt("least", 1);
      job.request.gpus_most = words.GetInt("most", 0);
      job.is_resizable = true;
    }
    job.asked_back = ReadGpus(words.Get("asked"));
    if (!job.asked_back.empty()) job.asked_at = world_.now;
    world_.server.Adopt(std::move(job));
  }

  void Checkpoint(const std::string& name) {
    const RunningJob& job = *world_.server.running(ids_[name]);
    out_ << Clock() << name << " gives back " << (job.asked_back.empty() ? "nothing" : GpusText(job.asked_back))
         << "\n";
    if (!job.asked_back.empty()) world_.server.Resize(job.id, job.gpus - job.asked_back);
  }

  void ChangeJob(const std::string& verb, const std::string& name) {
    const JobId id = ids_.contains(name) ? ids_[name] : JobId();
    const bool is_there =
        verb == "finish" ? world_.server.running(id) != nullptr : world_.server.waiting(id) != nullptr;
    ASSERT_TRUE(is_there) << "cannot " << verb << " " << name << " now, after:\n" << out_.str();
    if (verb == "finish") {
      world_.server.Finish(id);
      Cycle(false);
      return;
    }
    WaitingEntry entry = *world_.server.waiting(id);
    if (verb == "cancel") {
      world_.server.Remove(id);
      return;
    }
    entry.queued_at = world_.now;
    if (verb == "release") entry.is_held = false;
    else entry.unmet_dependencies.clear();
    world_.server.Put(std::move(entry));
  }

  void Availability(const std::string& verb, const std::string& which) {
    for (int gpu : ReadGpus(which).ToVector()) {
      GpuAvailability state;
      state.is_restricted = verb == "restrict";
      if (verb == "unmanaged") state.unmanaged = "pid 4711 of eve, 1.2 GiB, for 3 h";
      if (verb == "fence") state.fault = "XID 79 (fallen off the bus)";
      world_.server.SetAvailability(kOwnNode, static_cast<GpuIndex>(gpu), std::move(state));
    }
  }

  std::string Clock() const {
    const Duration since = world_.now - World().now;
    return since == Duration(0) ? "0: " : DurationText(since) + ": ";
  }

  std::string NameOf(JobId id) const {
    const auto at = names_.find(id);
    return at == names_.end() ? "job " + ToString(id) : at->second;
  }

  World world_;
  std::map<std::string, JobId> ids_;
  std::map<JobId, std::string> names_;
  std::ostringstream out_;
};

class Scenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(Scenarios, MatchTheirExpectedResults) {
  ShowScenario(GetParam(), [](const std::string& commands) {
    Scenario scenario;
    const std::string answer = scenario.Run(commands);
    EXPECT_EQ(scenario.ChangesItsMind(), "");
    return answer;
  });
}

INSTANTIATE_TEST_SUITE_P(, Scenarios, ::testing::ValuesIn(ScenarioFiles("server")), ScenarioName);

}  // namespace scenario_test
}  // namespace divvy
