// The other tools' names: called as sbatch, divvy behaves as sbatch.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/valohai/vh.h"

namespace divvy::cli {
namespace {

struct Shim {
  std::string_view name;
  int (*run)(const Words& words);
};

constexpr std::array<Shim, 22> kShims = {
    {{"sbatch", SbatchMain},     {"srun", SrunMain},     {"salloc", SallocMain},   {"scancel", ScancelMain},
     {"squeue", SqueueMain},     {"sinfo", SinfoMain},   {"sacct", SacctMain},     {"scontrol", ScontrolMain},
     {"sacctmgr", SacctmgrMain}, {"sshare", SshareMain}, {"sprio", SprioMain},     {"sattach", SattachMain},
     {"sdiag", SdiagMain},       {"sstat", SstatMain},   {"gbatch", GbatchMain},   {"gqueue", GqueueMain},
     {"ginfo", GinfoMain},       {"gjob", GjobMain},     {"gcancel", GcancelMain}, {"gctl", GctlMain},
     {"gflowd", GflowdMain},     {"vh", VhMain}}};

std::string OwnPath() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "";
}

bool LeadsToDivvy(const std::string& link) {
  char target[PATH_MAX];
  if (::realpath(link.c_str(), target) == nullptr) return true;
  const std::string_view path = target;
  return path == OwnPath() || path.substr(path.rfind('/') + 1) == "divvy";
}

/// True if both files are equal: a copy of divvy in the directory of the links needs no link of its own name.
bool IsSameProgram(const std::string& path, const std::string& other) {
  std::ifstream one(path, std::ios::binary);
  std::ifstream two(other, std::ios::binary);
  if (!one || !two) return false;
  std::array<char, 65'536> a{};
  std::array<char, 65'536> b{};
  while (true) {
    one.read(a.data(), a.size());
    two.read(b.data(), b.size());
    const auto got = one.gcount();
    if (got != two.gcount() || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(got)) != 0) return false;
    if (got == 0) return true;
  }
}

}  // namespace

int (*FindShim(std::string_view name))(const Words& words) {
  const auto at = std::ranges::find(kShims, name, &Shim::name);
  return at == kShims.end() ? nullptr : at->run;
}

const std::vector<std::string_view>& ShimNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const Shim& shim : kShims) out.push_back(shim.name);
    return out;
  }();
  return names;
}

int ShimsMain(const Words& words) {
  if (words.size() != 1 || words[0].starts_with("-"))
    return Fail(InvalidArgument("name a directory for the links: divvy shims DIR (and put it first in PATH)"));
  if (::mkdir(words[0].c_str(), 0755) != 0 && errno != EEXIST)
    return Fail(FailedPrecondition("cannot create the directory '" + words[0] + "': " + std::strerror(errno)));
  // The path goes into PATH, so it must be absolute.
  char absolute[PATH_MAX];
  if (::realpath(words[0].c_str(), absolute) == nullptr)
    return Fail(FailedPrecondition("cannot use '" + words[0] + "': " + std::strerror(errno)));
  const std::string directory = absolute;
  const std::string self = OwnPath();
  Words names = {"divvy"};
  for (std::string_view name : ShimNames()) names.emplace_back(name);
  for (const std::string& name : names) {
    const std::string link = directory + "/" + name;
    struct stat status {};
    if (::lstat(link.c_str(), &status) == 0) {
      if (name == "divvy" && S_ISREG(status.st_mode) && IsSameProgram(link, self)) continue;
      // Replace only a dangling link or a link to divvy. Any other file of this name (such as a real sbatch) stays.
      if (!S_ISLNK(status.st_mode) || !LeadsToDivvy(link))
        return Fail(
            FailedPrecondition("'" + link + "' is there already and is another program; choose another directory"));
      ::unlink(link.c_str());
    }
    if (::symlink(self.c_str(), link.c_str()) != 0)
      return Fail(FailedPrecondition("cannot create the link '" + link + "': " + std::strerror(errno)));
  }
  std::printf("%zu links in %s. To use them: export PATH=%s:$PATH\n", names.size(), directory.c_str(),
              ShellQuote(directory).c_str());
  return 0;
}

}  // namespace divvy::cli
