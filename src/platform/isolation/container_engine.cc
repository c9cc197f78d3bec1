#include "platform/isolation/container_engine.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr std::array<std::string_view, 4> kEngines = {"podman", "docker", "apptainer", "singularity"};
constexpr std::size_t kDescriptionsMost = 16 << 20;

std::string FindProgram(std::string_view name, std::string_view path) {
  for (const std::string_view folder : Split(path, ':')) {
    // Relative entries are skipped: the engine must not come from the working directory.
    if (!folder.starts_with('/')) continue;
    const std::string file = std::string(folder) + "/" + std::string(name);
    struct stat status = {};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// Often the docker command is installed without its service, or without the right to use it.
bool IsDockerInReach(std::string_view host) {
  constexpr std::string_view kUnix = "unix://";
  // The service is on a remote machine or at a port. This is not checked; docker will report problems itself.
  if (!host.empty() && !host.starts_with(kUnix)) return true;
  const std::string socket = host.empty() ? "/var/run/docker.sock" : std::string(host.substr(kUnix.size()));
  return ::access(socket.c_str(), R_OK | W_OK) == 0;
}

}  // namespace

Result<FoundEngine> FindContainerEngine(std::string_view wanted, std::string_view path, std::string_view docker_host) {
  if (wanted != "auto") {
    const std::size_t name_at = wanted.rfind('/') + 1;  // 0 if `wanted` is a name.
    const std::string_view name = wanted.substr(name_at);
    const std::string said =
        "containers run by " + std::string(wanted) + " here ([container] engine in divvy.toml), and ";
    if (std::ranges::find(kEngines, name) == kEngines.end())
      return InvalidArgument(said + "the engine must be podman, docker, apptainer or singularity");
    const std::string file =
        FindProgram(name, name_at == 0 ? path : wanted.substr(0, std::max<std::size_t>(name_at - 1, 1)));
    if (!file.empty()) return FoundEngine{std::string(name), file};
    return NotFound(said + "it is not " + (name_at == 0 ? "in PATH" : "there") + "; install it, or choose another");
  }
  bool has_dumb_docker = false;
  for (const std::string_view name : kEngines) {
    const std::string file = FindProgram(name, path);
    if (file.empty()) continue;
    if (name != "docker" || IsDockerInReach(docker_host)) return FoundEngine{std::string(name), file};
    has_dumb_docker = true;
  }
  if (has_dumb_docker)
    return NotFound(
        "docker is installed, but its service does not run or this user may not use it; start it, join the group "
        "docker, or install podman");
  return NotFound("there is no container engine in PATH; install podman, docker or apptainer");
}

std::vector<std::string> ReadCdiDescriptions() {
  std::vector<std::string> out;
  std::size_t size = 0;
  for (const std::string folder : {"/etc/cdi", "/var/run/cdi"}) {
    DIR* directory = ::opendir(folder.c_str());
    if (directory == nullptr) continue;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (!name.ends_with(".yaml") && !name.ends_with(".yml") && !name.ends_with(".json")) continue;
      // A file that does not fit is left out: half of a description would be read as another one.
      const std::size_t left = kDescriptionsMost - size;
      std::string text = ReadContainerFile(folder + "/" + std::string(name), left + 1);
      if (text.size() > left) continue;
      size += text.size();
      out.push_back(std::move(text));
    }
    ::closedir(directory);
  }
  return out;
}

std::string ReadContainerFile(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status = {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text(std::min(static_cast<std::size_t>(status.st_size), most), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace divvy
