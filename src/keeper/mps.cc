#include "keeper/mps.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "platform/launch_descriptor.h"

extern "C" char** environ;

namespace divvy::keeper {

std::string FindMpsProgram() {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : Split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string program = std::string(folder) + "/nvidia-cuda-mps-control";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

std::string MpsServers::PipesOf(GpuIndex gpu) const { return directory_ + "/mps." + std::to_string(gpu); }

Result<std::vector<std::string>> MpsServers::Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid,
                                                  const sharing::Share& share) {
  if (program_.empty())
    return FailedPrecondition("nvidia-cuda-mps-control is not on this machine; leave --mps out, or install it");
  if (clients_[gpu].empty()) {
    if (const Status started = Command(gpu, uuid, true); !started) {
      clients_.erase(gpu);
      return started.error();
    }
  }
  clients_[gpu].insert(id);
  // Of the one GPU that the server shows its clients, which is number 0 to them. Up to the whole of a percent.
  // Nobody can take back what an MPS client has, so it gets its request and no more.
  const std::int64_t mebibytes = share.memory_request.count() >> 20;
  const int percent = (share.compute_limit.ten_thousandths() + 99) / 100;
  return std::vector<std::string>{"CUDA_MPS_PIPE_DIRECTORY=" + PipesOf(gpu),
                                  "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=" + std::to_string(mebibytes) + "M",
                                  "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + std::to_string(percent)};
}

void MpsServers::Leave(sharing::TenantId id) {
  for (auto server = clients_.begin(); server != clients_.end();) {
    if (server->second.erase(id) == 0 || !server->second.empty()) {
      ++server;
      continue;
    }
    // One that does not end holds nothing that others need.
    [[maybe_unused]] const Status ended = Command(server->first, "", false);
    server = clients_.erase(server);
  }
}

Status MpsServers::Command(GpuIndex gpu, const std::string& uuid, bool is_start) const {
  const std::string pipes = PipesOf(gpu);
  if (is_start && ::mkdir(pipes.c_str(), 0711) != 0 && errno != EEXIST)
    return Internal("making " + pipes + ": " + std::strerror(errno));
  std::vector<std::string> variables = {"CUDA_MPS_PIPE_DIRECTORY=" + pipes, "CUDA_MPS_LOG_DIRECTORY=" + pipes};
  if (is_start) variables.push_back("CUDA_VISIBLE_DEVICES=" + uuid);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with("CUDA_MPS_") && !text.starts_with("CUDA_VISIBLE_DEVICES=")) variables.emplace_back(text);
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  // "-d" starts a server that goes on by itself; "quit" is a word on the control program's standard input.
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
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program_.c_str(), &actions, nullptr, arguments, environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return FailedPrecondition("starting " + program_ + ": " + std::strerror(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return FailedPrecondition(program_ + " refused to start a server for GPU " + std::to_string(gpu) + "; see " + pipes +
                            "/control.log");
}

}  // namespace divvy::keeper
