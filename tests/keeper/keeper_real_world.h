// Test helpers: `divvy keeper` on emulated GPUs, and tenants that are real programs (divvy-burn) with the preloaded
// library.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "keeper/keeper_test_world.h"
#include "platform/emulation/emulation.h"
#include "platform/emulation/emulation_cuda_file.h"

namespace divvy::keeper {

/// A child process that is ended together with this object.
class Program {
 public:
  /// `uid`: the user that it runs as; 0: the test's own user.
  Program(std::vector<std::string> words, const std::vector<std::string>& variables, std::string output, uid_t uid = 0)
      : output_(std::move(output)) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const std::string& variable : variables) {
      const std::size_t equals = variable.find('=');
      ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    if (uid != 0 && ::setuid(uid) != 0) ::_exit(126);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Program() { End(SIGKILL); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void End(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, &status_, 0);
    pid_ = 0;
  }
  /// Waits for the end and returns the exit code; -1 if it does not exit in time.
  int Wait(Duration timeout = 60s) {
    Eventually([&] { return pid_ == 0 || ::waitpid(pid_, &status_, WNOHANG) == pid_; }, timeout);
    const bool has_ended = WIFEXITED(status_);
    if (!has_ended) return -1;
    pid_ = 0;
    return WEXITSTATUS(status_);
  }
  std::string Output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool Says(const std::string& text, Duration timeout = 30s) {
    return Eventually([&] { return Output().find(text) != std::string::npos; }, timeout);
  }

 private:
  std::string output_;
  pid_t pid_ = 0;
  int status_ = -1;
};

class RealWorld {
 public:
  explicit RealWorld(const std::string& gpus) {
    char name[] = "/tmp/keeper-real-XXXXXX";
    directory = ::mkdtemp(name);
    emulation = directory + "/gpus";
    facts = *ParseGpuDescription(gpus);
    EXPECT_TRUE(WriteEmulation(facts, emulation));
    StartKeeper();
  }
  ~RealWorld() {
    keeper.reset();
    std::filesystem::remove_all(directory);
  }
  void StartKeeper() {
    node.reset();
    keeper = std::make_unique<Program>(
        std::vector<std::string>{DIVVY_PROGRAM, "keeper", "--directory", directory + "/share", "--emulate-library",
                                 emulation + "/libcuda.so.1", "--emulate-library", emulation + "/libnvidia-ml.so.1"},
        Emulated(), directory + "/keeper.log");
    node = std::make_unique<NodeClient>(directory + "/share");
    wire::KeeperRequest request;
    request.hello.emplace();
    for (const GpuFacts& fact : facts) {
      wire::KeeperGpu& gpu = request.hello->gpus.emplace_back();
      gpu.index = fact.index;
      gpu.uuid = fact.uuid;
      gpu.memory = fact.memory_total;
    }
    ASSERT_EQ(node->Ask(request), "");
    // A node that connects to a new keeper sends all its current tenants again.
    for (const wire::KeeperAdd& add : adds_) {
      wire::KeeperRequest again;
      again.add = add;
      ASSERT_EQ(Ask(again), "");
    }
  }
  std::vector<std::string> Emulated() const {
    std::vector<std::string> variables;
    for (const auto& [name, value] : EmulationEnvironment(emulation, "")) variables.push_back(name + "=" + value);
    return variables;
  }
  std::string Ask(const wire::KeeperRequest& request, Duration timeout = 30s) {
    const auto answer = node->AnswerTo(node->Send(request), timeout);
    return answer ? answer->error : "no answer";
  }
  wire::KeeperAdded Add(const wire::KeeperAdd& add) {
    wire::KeeperRequest request;
    request.add = add;
    adds_.push_back(add);
    const auto answer = node->AnswerTo(node->Send(request), 30s);
    EXPECT_TRUE(answer && answer->error.empty()) << (answer ? answer->error : "no answer");
    return answer && answer->added ? *answer->added : wire::KeeperAdded{};
  }
  std::unique_ptr<Program> Burn(const wire::KeeperAdded& added, const std::string& name, std::vector<std::string> words,
                                uid_t uid = 0) const {
    std::vector<std::string> variables = Emulated();
    variables.insert(variables.end(), added.environment.begin(), added.environment.end());
    words.insert(words.begin(), DIVVY_BURN);
    return std::make_unique<Program>(std::move(words), variables, directory + "/" + name + ".log", uid);
  }
  std::string Command(std::uint64_t job, const std::string& what, std::vector<int> to = {}) {
    wire::KeeperRequest request;
    if (what == "park") request.park.emplace().job = JobId(job);
    if (what == "wake") request.wake.emplace().job = JobId(job);
    if (what == "move") request.move = wire::KeeperMove{JobId(job), std::move(to)};
    if (what == "remove") request.remove = wire::KeeperRemove{JobId(job), 1};
    return Ask(request);
  }
  /// Returns the bytes in use on a GPU according to the emulated driver, residual memory included.
  Bytes UseOf(int gpu) const {
    Bytes sum;
    const auto uses = ReadEmulatedUses(emulation);
    for (const EmulatedUse& use : uses ? *uses : std::vector<EmulatedUse>{}) {
      if (use.gpu == gpu) sum += use.memory + use.residual;
    }
    return sum;
  }
  double BusyOf(pid_t pid) const {
    double seconds = 0;
    const auto uses = ReadEmulatedUses(emulation);
    for (const EmulatedUse& use : uses ? *uses : std::vector<EmulatedUse>{}) {
      if (use.pid == pid) seconds += static_cast<double>(use.busy_ns) / 1e9;
    }
    return seconds;
  }

  /// Collects the logs of the keeper and the programs and the tenant records, for the message of a failed test.
  std::string Told() const {
    std::string told;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".log") told += entry.path().filename().string() + ":\n" + TextOf(entry.path());
    }
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory + "/share", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(wire::kTenantRecordEnd)) told += name + ": " + TextOf(entry.path()) + "\n";
      if (entry.is_directory()) told += name + ": " + GatesIn(entry.path()) + "\n";
    }
    return told;
  }

  std::string directory;
  std::string emulation;
  std::vector<GpuFacts> facts;
  std::unique_ptr<Program> keeper;
  std::unique_ptr<NodeClient> node;

 private:
  static std::string TextOf(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Describes the lock and gate state of a tenant page: which process waits for which.
  static std::string GatesIn(const std::filesystem::path& folder) {
    share::Page page{};
    const std::string bytes = TextOf(folder / share::kPageFile);
    std::memcpy(static_cast<void*>(&page), bytes.data(), std::min(bytes.size(), sizeof page));
    std::string said = "lock " + std::to_string(page.lock);
    for (unsigned i = 0; i < std::min(page.device_count, share::kMaxDevices); ++i)
      said += ", gate " + std::to_string(page.devices[i].gate) + " on GPU " + std::to_string(page.devices[i].gpu);
    for (const share::PageProcess& one : page.processes) {
      if (one.is_taken == 0) continue;
      said += ", process " + std::to_string(one.host_pid) + " generation " + std::to_string(one.generation) +
              " entered " + std::to_string(one.entered) + " waiting " + std::to_string(one.waiting) + " uses " +
              std::to_string(one.used[0]);
    }
    return said;
  }

  std::vector<wire::KeeperAdd> adds_;
};

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

inline int Rounds(int usual) {
  const char* text = std::getenv("DIVVY_KEEPER_ROUNDS");
  return text != nullptr ? std::atoi(text) : usual;
}

}  // namespace divvy::keeper
