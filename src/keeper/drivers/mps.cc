#include "keeper/drivers/mps.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/text.h"

extern "C" char** environ;

namespace divvy::keeper {
namespace {

/// File in the pipe folder with the pid of the control program that serves there.
constexpr const char* kPidFile = "/nvidia-cuda-mps-control.pid";
constexpr std::size_t kCommLength = 15;  // The kernel keeps this many characters of a program's name.

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string FindMpsProgram() {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : Split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string program = std::string(folder) + "/nvidia-cuda-mps-control";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// The servers outlive the keeper, because clients depend on them. The next keeper finds them.
MpsServers::~MpsServers() {
  for (auto& [gpu, server] : servers_) {
    if (server.pid == 0) continue;
    loop_.Cancel(server.alarm);
    if (server.life.is_open()) loop_.Forget(server.life.get());
  }
}

std::string MpsServers::PipesOf(GpuIndex gpu) const { return directory_ + "/mps." + std::to_string(gpu); }

std::vector<std::string> MpsServers::EnvironmentOf(GpuIndex gpu, const sharing::Share& share) const {
  // The server shows its clients only this GPU, as number 0. The percentage is rounded up. Memory of an MPS client
  // cannot be reclaimed, so the client gets its request and no more.
  const std::int64_t mebibytes = share.memory_request.count() >> 20;
  const int percent = (share.compute_limit.ten_thousandths() + 99) / 100;
  return {"CUDA_MPS_PIPE_DIRECTORY=" + PipesOf(gpu),
          "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=" + std::to_string(mebibytes) + "M",
          "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + std::to_string(percent)};
}

// Detects a server that an earlier keeper started.
bool MpsServers::IsRunning(GpuIndex gpu) const {
  const std::string pid = FirstLine(PipesOf(gpu) + kPidFile);
  if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) return false;
  const std::string name = program_.substr(program_.rfind('/') + 1).substr(0, kCommLength);
  return FirstLine("/proc/" + pid + "/comm") == name;
}

void MpsServers::Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid, const sharing::Share& share,
                      Joined joined) {
  if (program_.empty()) {
    return joined(
        FailedPrecondition("nvidia-cuda-mps-control is not installed on this node; remove --mps, or install it"));
  }
  Server& server = servers_[gpu];
  server.uuid = uuid;
  server.clients.insert(id);
  server.waiting.push_back({id, share, std::move(joined)});
  Settle(gpu);
}

void MpsServers::Leave(sharing::TenantId id) {
  std::vector<Joined> told;
  for (auto& [gpu, server] : servers_) {
    if (server.clients.erase(id) == 0) continue;
    std::erase_if(server.waiting, [&](Waiting& waiting) {
      if (waiting.id != id) return false;
      told.push_back(std::move(waiting.joined));
      return true;
    });
    Settle(gpu);
  }
  for (const Joined& joined : told) joined(FailedPrecondition("the job is over"));
}

// Starts the next step of the server, unless the control program is still running.
void MpsServers::Settle(GpuIndex gpu) {
  Server& server = servers_.at(gpu);
  if (server.state == State::kStarting || server.state == State::kEnding) return;
  if (server.state == State::kDown && IsRunning(gpu)) server.state = State::kUp;
  if (server.state == State::kUp && !server.clients.empty()) return Answer(gpu, {});
  const bool is_start = server.state == State::kDown;
  if (is_start && server.clients.empty()) return;
  if (const Status run = Run(gpu, server, is_start); !run) {
    // The control program could not be run, so the server counts as not running. If it was to be ended, that is no
    // problem: an MPS server without clients holds nothing that others need.
    server.state = State::kDown;
    return Answer(gpu, run);
  }
  server.state = is_start ? State::kStarting : State::kEnding;
}

Status MpsServers::Run(GpuIndex gpu, Server& server, bool is_start) {
  const std::string pipes = PipesOf(gpu);
  if (is_start && ::mkdir(pipes.c_str(), 0711) != 0 && errno != EEXIST)
    return Internal("making " + pipes + ": " + std::strerror(errno));
  std::vector<std::string> variables = {"CUDA_MPS_PIPE_DIRECTORY=" + pipes, "CUDA_MPS_LOG_DIRECTORY=" + pipes};
  if (is_start) variables.push_back("CUDA_VISIBLE_DEVICES=" + server.uuid);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with("CUDA_MPS_") && !text.starts_with("CUDA_VISIBLE_DEVICES=")) variables.emplace_back(text);
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  // "-d" starts a server in the background; "quit" is a command on the control program's standard input.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Internal(std::string("starting MPS: ") + std::strerror(errno));
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  if (!is_start) {
    [[maybe_unused]] const auto written = ::write(output.get(), "quit\n", 5);
  }
  output.Reset();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  std::string name = program_;
  std::string option = "-d";
  char* const arguments[] = {name.data(), is_start ? option.data() : nullptr, nullptr};
  const int error = ::posix_spawn(&server.pid, program_.c_str(), &actions, nullptr, arguments, environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    server.pid = 0;
    return FailedPrecondition("starting " + program_ + ": " + std::strerror(error));
  }
  server.life.Reset(static_cast<int>(::syscall(SYS_pidfd_open, server.pid, 0)));
  if (!server.life.is_open()) {
    const int reason = errno;
    ::kill(server.pid, SIGKILL);
    ::waitpid(std::exchange(server.pid, 0), nullptr, 0);
    return Internal(std::string("watching ") + program_ + ": " + std::strerror(reason));
  }
  loop_.Watch(server.life.get(), [this, gpu] { OnEnded(gpu); });
  server.alarm = loop_.After(timeout_, [pid = server.pid] { ::kill(pid, SIGKILL); });
  return {};
}

void MpsServers::OnEnded(GpuIndex gpu) {
  Server& server = servers_.at(gpu);
  int status = 0;
  const pid_t ended = ::waitpid(server.pid, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return;
  loop_.Cancel(server.alarm);
  loop_.Forget(server.life.get());
  server.life.Reset();
  server.pid = 0;
  const bool was_start = std::exchange(server.state, State::kDown) == State::kStarting;
  // The server is told to end only once. If it still runs then, it serves the next client.
  if (!was_start && server.clients.empty()) return;
  const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (was_start && is_good) server.state = State::kUp;
  if (was_start && !is_good) {
    const std::string what = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                 ? " did not answer within " + std::to_string(timeout_ / 1s) + " s"
                                 : " refused to start a server";
    return Answer(gpu, FailedPrecondition(program_ + what + " for GPU " + std::to_string(gpu) + "; see " +
                                          PipesOf(gpu) + "/control.log"));
  }
  Settle(gpu);
}

// Calls the callbacks of all tenants that wait for the server. After an error, these tenants are no longer its clients.
void MpsServers::Answer(GpuIndex gpu, const Status& status) {
  Server& server = servers_.at(gpu);
  const std::vector<Waiting> told = std::exchange(server.waiting, {});
  for (const Waiting& waiting : told) {
    if (!status) server.clients.erase(waiting.id);
  }
  for (const Waiting& waiting : told) {
    if (status) waiting.joined(EnvironmentOf(gpu, waiting.share));
    else waiting.joined(status.error());
  }
}

}  // namespace divvy::keeper
