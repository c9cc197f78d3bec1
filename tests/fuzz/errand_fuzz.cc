// Feeds arbitrary bytes to the launcher as requests from its daemon, which may be compromised. The launcher must not
// crash, must not act as a user without that user's authorization, and must not issue an authorization for something
// that is not a connection of that user.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "platform/os/unix_socket.h"
#include "platform/supervisor/root_errand.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "errand_fuzz: %s\n", what);
  std::abort();
}

struct World {
  World() {
    std::string pattern = std::filesystem::temp_directory_path() / "divvy-errand-fuzz.XXXXXX";
    folder = ::mkdtemp(pattern.data());
    auto made = divvy::RightIssuer::Open(folder + "/key");
    Require(made.has_value(), "no key");
    issuer.emplace(*std::move(made));
    setup.run_directory = folder;
  }
  ~World() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string folder;
  std::optional<divvy::RightIssuer> issuer;
  divvy::ErrandSetup setup;
};

// The layout of a request header: form, kind, uid, gid, authorization, job, GPUs, signal, choice, size of the text.
constexpr std::uint32_t kForm = 0xD1FE0001;
constexpr std::size_t kHead = 120;
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kTextSizeAt = 112;
// Kinds of requests that always fork a child. They are skipped here; unit tests cover these children.
constexpr std::array<std::uint32_t, 3> kForked = {1, 6, 8};

void Put(std::string& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void Ask(World& world, std::string_view bytes, bool has_answer, bool has_connection) {
  int ends[2] = {-1, -1}, answers[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  const divvy::Descriptor ours(ends[0]), theirs(ends[1]);
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answers) != 0) return;
  const divvy::Descriptor answer(answers[0]);
  divvy::Descriptor answer_to(answers[1]);
  const std::array<int, 2> fds = {answer_to.get(), ours.get()};
  const std::size_t count = has_answer ? (has_connection ? 2U : 1U) : 0U;
  if (divvy::SendWithDescriptors(ours.get(), bytes, std::span(fds).first(count), MSG_DONTWAIT) < 0) return;
  answer_to.Reset();
  divvy::RightChecker checker(world.issuer->public_key());
  divvy::RunningReads reads;
  const bool was_errand = divvy::DoErrand(theirs.get(), world.setup, *world.issuer, checker, reads);
  Require(!was_errand || (has_answer && bytes.size() >= kHead), "it takes what is no errand");
  std::array<char, 4096> said;
  if (!was_errand || ::recv(answer.get(), said.data(), said.size(), MSG_DONTWAIT) < 0) return;
  std::uint32_t kind = 0, refusal = 0;
  std::memcpy(&kind, bytes.data() + kKindAt, sizeof kind);
  std::memcpy(&refusal, said.data() + 4, sizeof refusal);
  Require(refusal == 1 || kind == 4 || (kind >= 9 && kind <= 12), "it acts without a right");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const auto how = static_cast<unsigned char>(bytes.front());
  bytes.erase(0, 1);
  // Half of the inputs get a valid header, so that the code behind it is reached.
  if ((how & 1) != 0 && bytes.size() >= kHead) {
    Put(bytes, 0, kForm);
    Put(bytes, kKindAt, how >> 4);
    Put(bytes, kTextSizeAt, static_cast<std::uint32_t>(bytes.size() - kHead));
  }
  std::uint32_t kind = 0;
  if (bytes.size() >= kHead) std::memcpy(&kind, bytes.data() + kKindAt, sizeof kind);
  for (const std::uint32_t forked : kForked) {
    if (kind == forked) return 0;
  }
  Ask(world, bytes, (how & 2) == 0, (how & 4) != 0);
  return 0;
}
