// A test's replacement for the daemon: its own run directory, a launcher, a report socket, and short helper functions.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "platform/os/process_tree.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {

constexpr auto kTimeout = std::chrono::seconds(30);
constexpr std::int64_t kNobody = 65534;

/// Returns true as soon as `holds` returns true; false if that takes longer than kTimeout.
inline bool Eventually(const std::function<bool()>& holds) {
  for (const auto end = std::chrono::steady_clock::now() + kTimeout; std::chrono::steady_clock::now() < end;) {
    if (holds()) return true;
    ::poll(nullptr, 0, 1);
  }
  return holds();
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline bool IsRoot() { return ::geteuid() == 0; }

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    std::string pattern = testing::TempDir() + "divvy-launch-test.XXXXXX";
    home_ = ::mkdtemp(pattern.data());
    ::chmod(home_.c_str(), 0755);
    // The folder into which the jobs write. Any user may write there, because some jobs run as another user.
    ::mkdir(In("work").c_str(), 0777);
    ::chmod(In("work").c_str(), 0777);
    StartDaemon();
  }
  ~LaunchTest() override {
    started_.insert(prepared_.begin(), prepared_.end());
    for (const auto& [id, record] : started_) {
      if (!exited_.contains(id)) (void)SendStop(record, 9, Duration(0)).has_value();
    }
    for (const auto& [id, record] : started_) {
      if (!exited_.contains(id)) Eventually([&r = record] { return !IsAlive(r.process); });
    }
    StopDaemon();
    std::error_code ignored;
    std::filesystem::remove_all(home_, ignored);
  }

  void StartDaemon() {
    auto launcher = ProcessLauncher::Start({.run_directory = RunDirectory()});
    ASSERT_TRUE(launcher) << launcher.error().message;
    launcher_ = *std::move(launcher);
    auto reports = BindReportSocket(RunDirectory());
    ASSERT_TRUE(reports) << reports.error().message;
    reports_ = *reports;
  }
  void StopDaemon() {
    launcher_.reset();
    if (reports_ >= 0) ::close(reports_);
    reports_ = -1;
  }

  std::string In(const std::string& name) const { return home_ + "/" + name; }
  std::string RunDirectory() const { return In("run"); }
  std::string Work(const std::string& name) const { return In("work/") + name; }

  LaunchRequest Command(std::vector<std::string> argv) {
    LaunchRequest request;
    request.job = JobId(++last_id_);
    request.attempt = 1;
    request.argv = std::move(argv);
    request.environment = {"PATH=/usr/bin:/bin"};
    request.directory = In("work");
    request.output = Work("out");
    request.leftover_grace = std::chrono::milliseconds(50);
    return request;
  }
  LaunchRequest Shell(const std::string& text) { return Command({"/bin/sh", "-c", text}); }
  LaunchRequest Script(const std::string& text) {
    LaunchRequest request = Command({});
    request.script = text;
    request.script_name = "train.sh";
    return request;
  }

  /// Receives reports until `holds` returns true.
  bool AwaitReports(const std::function<bool()>& holds) {
    return Eventually([&] {
      while (auto report = ReceiveReport(reports_)) {
        const std::uint64_t id = report->record.job.value();
        if (report->kind == SupervisorReport::Kind::kDelayed) delayed_[id] = report->record;
        else launcher_->Confirm(report->record.job, report->record.attempt);
        if (report->kind == SupervisorReport::Kind::kPrepared) prepared_[id] = report->record;
        if (report->kind == SupervisorReport::Kind::kStarted) started_[id] = report->record;
        if (report->kind == SupervisorReport::Kind::kExited) exited_[id] = report->record;
        if (report->kind == SupervisorReport::Kind::kDetached) detached_.push_back(report->attachment);
      }
      return holds();
    });
  }
  RunRecord Start(const LaunchRequest& request) {
    EXPECT_TRUE(launcher_->Launch(request));
    EXPECT_TRUE(AwaitReports([&] { return started_.contains(request.job.value()); })) << "did not start";
    return started_[request.job.value()];
  }
  /// Returns a limit that expires `left` from now. A job that first reports that it is ready does not depend on this
  /// machine's speed.
  static Duration LimitIn(const RunRecord& record, Duration left) { return WallNow() - record.started + left; }
  Exit AwaitExit(JobId job) {
    const bool has_ended = AwaitReports([&] { return exited_.contains(job.value()); });
    EXPECT_TRUE(has_ended) << "did not end";
    return has_ended ? exited_[job.value()].exit.value_or(Exit{}) : Exit{};
  }
  bool AwaitDelay(JobId job) {
    return AwaitReports([&] { return delayed_.contains(job.value()); });
  }
  Exit Run(const LaunchRequest& request) {
    EXPECT_TRUE(launcher_->Launch(request));
    return AwaitExit(request.job);
  }
  std::string Output(const std::string& name = "out") const { return ReadText(Work(name)); }
  bool AwaitOutput(const std::string& text, const std::string& name = "out") {
    return Eventually([&] { return Output(name).find(text) != std::string::npos; });
  }
  /// Returns the process whose pid a job has written, alone on a line.
  ProcessIdentity AwaitPid(const std::string& name) {
    EXPECT_TRUE(AwaitOutput("\n", name));
    return IdentifyProcess(std::atoi(Output(name).c_str()));
  }
  RunRecord ScanFor(JobId job) {
    const auto records = ScanRunDirectory(RunDirectory());
    if (!records) return {};
    for (const RunRecord& record : *records) {
      if (record.job == job) return record;
    }
    return {};
  }

  std::string home_;
  std::unique_ptr<ProcessLauncher> launcher_;
  int reports_ = -1;
  std::uint64_t last_id_ = 16;
  std::map<std::uint64_t, RunRecord> delayed_;
  std::map<std::uint64_t, RunRecord> prepared_;
  std::map<std::uint64_t, RunRecord> started_;
  std::map<std::uint64_t, RunRecord> exited_;
  std::vector<std::uint64_t> detached_;
};

}  // namespace divvy
