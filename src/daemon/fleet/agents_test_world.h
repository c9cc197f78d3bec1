// Both ends of the protocol in one process, over streams that a test can cut: Agents on one side, AgentSession on the
// other, with a fleet that records events and a node that executes commands.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/books/node_registry.h"
#include "daemon/agent/agent_session.h"
#include "daemon/fleet/agents.h"

namespace divvy {

/// Two streams whose bytes arrive when the test says so.
class Wire {
 public:
  std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> MakePair() {
    auto line = std::make_shared<Line>();
    lines_.push_back(line);
    return {std::make_unique<End>(line, 0), std::make_unique<End>(line, 1)};
  }
  /// Delivers all sent bytes in both directions. Returns true if there were any.
  bool Carry() {
    bool has_moved = false;
    const auto lines = lines_;
    for (const auto& line : lines) {
      for (int end = 0; end < 2; ++end) {
        if (line->is_cut || line->bytes[end].empty()) continue;
        const std::string bytes = std::exchange(line->bytes[end], "");
        has_moved = true;
        if (const auto told = line->listeners[1 - end]) told->on_bytes(bytes);
        if (line->is_cut) break;
        if (const auto told = line->listeners[end]) told->on_drained();
      }
      if (line->is_finished && line->bytes[0].empty() && line->bytes[1].empty()) has_moved |= Cut(*line);
    }
    std::erase_if(lines_, [](const auto& line) { return line->is_cut; });
    return has_moved;
  }
  /// Bytes in transit are lost.
  void CutAll() {
    for (const auto& line : std::vector(lines_)) Cut(*line);
  }

 private:
  struct Line {
    std::string bytes[2];  // bytes[i] was sent by end i.
    std::shared_ptr<const ByteStream::Listener> listeners[2];
    bool is_cut = false;
    bool is_finished = false;
  };
  class End final : public ByteStream {
   public:
    End(std::shared_ptr<Line> line, int end) : line_(std::move(line)), end_(end) {}
    ~End() override {
      line_->listeners[end_] = nullptr;
      line_->is_finished = true;
    }
    void Listen(Listener listener) override {
      line_->listeners[end_] = std::make_shared<const Listener>(std::move(listener));
    }
    void Send(std::string_view bytes) override { line_->bytes[end_] += bytes; }
    std::size_t unsent() const override { return line_->bytes[end_].size(); }
    void Finish() override { line_->is_finished = true; }

   private:
    std::shared_ptr<Line> line_;
    int end_;
  };
  static bool Cut(Line& line) {
    if (std::exchange(line.is_cut, true)) return false;
    for (int end = 0; end < 2; ++end) {
      if (const auto told = std::exchange(line.listeners[end], nullptr)) told->on_closed();
    }
    return true;
  }
  std::vector<std::shared_ptr<Line>> lines_;
};

/// Timers, ordered by time.
class Timers {
 public:
  explicit Timers(Duration& now) : now_(now) {}
  void After(Duration delay, std::function<void()> task) { tasks_.emplace(now_ + delay, std::move(task)); }
  bool RunDue() {
    bool has_run = false;
    while (!tasks_.empty() && tasks_.begin()->first <= now_) {
      const auto task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      task();
      has_run = true;
    }
    return has_run;
  }

 private:
  Duration& now_;
  std::multimap<Duration, std::function<void()>> tasks_;
};

/// Records events, and answers durable ends with a ForgetCommand, as a controller does.
class RecordingFleet final : public FleetPort {
 public:
  std::vector<wire::AgentRun> RunsOn(const std::string& node) override {
    std::vector<wire::AgentRun> runs;
    for (const auto& [job, record] : active[node]) runs.push_back({record, 15, 10, std::chrono::seconds(30)});
    return runs;
  }
  const JobRecord* Find(JobId job) override {
    for (auto& [node, records] : active) {
      if (const auto found = records.find(job); found != records.end()) return &found->second;
    }
    return nullptr;
  }
  void OnJoined(const std::string& node, const MachineFacts& facts, NodeCommandPort& commands) override {
    said.push_back("joined " + node + " gpus=" + std::to_string(facts.gpus.size()));
    ports[node] = &commands;
  }
  void OnRow(const NodeRow&) override {}
  void OnRemoved(const std::string& node) override { said.push_back("removed " + node); }
  void OnAccounted(const std::string& node) override { said.push_back("accounted " + node); }
  void OnPrepared(const std::string& node, JobId job, std::uint32_t attempt, std::uint16_t port) override {
    said.push_back("prepared " + node + " " + ToString(job) + "." + std::to_string(attempt) +
                   (port == 0 ? " nowhere" : ""));
    prepared_at[job] = port;
  }
  void OnStarted(const std::string& node, JobId job, std::uint32_t attempt, Time at) override {
    said.push_back("started " + node + " " + ToString(job) + "." + std::to_string(attempt));
    started_at[job] = at;
    if (const auto found = active[node].find(job); found != active[node].end())
      found->second.state = JobState::kRunning;
  }
  void OnExited(const std::string& node, JobId job, std::uint32_t attempt, const Exit& exit, Time) override {
    said.push_back("exited " + node + " " + ToString(job) + "." + std::to_string(attempt) +
                   " code=" + std::to_string(exit.code));
    active[node].erase(job);
    if (forgets) ports[node]->Execute(ForgetCommand{job, attempt}, nullptr);
  }
  void OnVanished(const std::string& node, JobId job, std::uint32_t attempt, RunVanished how) override {
    said.push_back("vanished " + node + " " + ToString(job) + "." + std::to_string(attempt) + " " +
                   (how == RunVanished::kNeverStarted ? "never started" : "otherwise"));
    if (keeps_vanished) return;
    active[node].erase(job);
    ports[node]->Execute(ForgetCommand{job, attempt}, nullptr);
  }
  /// Behaves like a controller whose store knows that the run is over.
  bool OnFound(RunDescription run) override {
    const JobRecord& record = run.record;
    said.push_back("found " + record.node + " " + ToString(record.id) + "." + std::to_string(record.attempt) +
                   (run.exit ? " code=" + std::to_string(run.exit->code) : ""));
    NodeCommandPort& commands = *ports[record.node];
    if (run.exit) commands.Execute(ForgetCommand{record.id, record.attempt, ""}, nullptr);
    else commands.Execute(StopCommand{record.id, 9, Duration(0), ""}, nullptr);
    return false;
  }
  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& seen) override {
    said.push_back("gpus " + node + " " + std::to_string(seen.size()));
  }
  void OnTrouble(const std::string& node, const std::string& what) override {
    said.push_back("trouble " + node + " " + what);
  }
  void OnLost(const std::string& node) override { said.push_back("lost " + node); }
  void OnAway(const std::string& node) override { away.push_back(node); }
  std::vector<std::string> away;
  void OnFenced(const std::string& node) override { said.push_back("fenced " + node); }
  void OnGone(const std::string& node) override { said.push_back("gone " + node); }
  void OnBack(const std::string& node) override { said.push_back("back " + node); }

  std::vector<std::string> Take() { return std::exchange(said, {}); }

  std::map<std::string, std::map<JobId, JobRecord>> active;
  std::map<std::string, NodeCommandPort*> ports;
  std::map<JobId, Time> started_at;
  std::map<JobId, std::uint16_t> prepared_at;
  std::vector<std::string> said;
  bool forgets = true;
  bool keeps_vanished = false;  // If true, reports of vanished runs are recorded, but the runs stay active.
};

/// State that outlives an agent process: its runs and files. Each run is "started" at once and ends when told.
struct Machine {
  struct Run {
    std::uint32_t attempt = 0;
    std::optional<Exit> exit;
    bool awaits_go = false;
  };
  std::map<JobId, Run> runs;
  std::vector<std::string> commands;
  std::uint64_t epoch = 0;
  std::vector<std::string> controllers;
  std::optional<std::string> lease;
  std::string boot = "boot-1";
  std::string fingerprint = "aa";
  std::vector<std::string> gpus = {"GPU-1", "GPU-2"};
  Duration failure_hold{0};
};

}  // namespace divvy
