// A program that would live without the library lives with it, whatever it does: threads that end while they wait,
// signals, other preloads, static initialisers, closed libraries, missing rights.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_robust_test {

constexpr std::uint64_t kCeiling = 256 * kMiB;

class ShareRobust : public ::testing::Test {
 protected:
  Program::Options InShare() {
    Program::Options options;
    options.share = keeper_.Folder();
    return options;
  }

  /// Expects that the program computes, is counted and is limited.
  void ExpectSharing(Program& program) {
    const std::uint64_t before = keeper_.Used();
    EXPECT_EQ(program.Do("alloc probe plain 64M"), "0");
    EXPECT_EQ(keeper_.Used(), before + 64 * kMiB);
    EXPECT_EQ(program.Do("fill probe 6"), "0");
    EXPECT_EQ(program.Do("launch 3"), "0");
    EXPECT_EQ(program.Do("check probe 6"), "0");
    EXPECT_EQ(program.Do("alloc more plain 300M"), "2");
    EXPECT_EQ(program.Do("free probe"), "0");
    EXPECT_EQ(keeper_.Used(), before);
  }

  World world_;
  FakeKeeper keeper_{world_, kCeiling};
};

TEST_F(ShareRobust, AThreadCancelledAtTheGateLeavesTheOthersAlone) {
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  keeper_.SetGate(share::kShut);
  ASSERT_EQ(program.Do("waiter"), "0");
  keeper_.Await(share::Word::kAsk);
  ASSERT_EQ(program.Do("cancel"), "0");
  keeper_.Await(share::Word::kAsk);  // It asks again, with the cancellation pending.
  keeper_.SetGate(share::kOpen);
  EXPECT_EQ(program.Do("join"), "cancelled");
  EXPECT_EQ(__atomic_load_n(&keeper_.page().processes[0].waiting, __ATOMIC_ACQUIRE), 0U);
  EXPECT_EQ(__atomic_load_n(&keeper_.page().processes[0].entered, __ATOMIC_ACQUIRE), 0U);
  ExpectSharing(program);
}

TEST_F(ShareRobust, AProcessEndsWhileItsThreadWaitsAtTheGate) {
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  keeper_.SetGate(share::kShut);
  ASSERT_EQ(program.Do("waiter"), "0");
  keeper_.Await(share::Word::kAsk);
  program.Tell("leave 7");
  const int status = program.End();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(Eventually([&] { return keeper_.page().processes[0].is_taken == 0; }));
}

TEST_F(ShareRobust, SignalsInterruptNoCall) {
  keeper_.SetCeiling(32 * kMiB, kCeiling);
  keeper_.on_want = [&](const share::Message& want) {
    keeper_.SetCeiling(keeper_.Used() + want.bytes, kCeiling);
    return true;
  };
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("timer 500"), "0");
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("threads 4"), "0");
  for (int i = 0; i < 100; ++i) {
    keeper_.SetGate(share::kShut);
    ASSERT_TRUE(
        Eventually([&] { return __atomic_load_n(&keeper_.page().processes[0].waiting, __ATOMIC_ACQUIRE) > 0; }));
    keeper_.SetGate(share::kOpen);
  }
  EXPECT_EQ(program.Do("alloc a plain 100M"), "0");
  const auto numbers = Numbers(program.Do("stop"));
  ASSERT_EQ(numbers.size(), 2U);
  EXPECT_EQ(numbers[0], 0U) << "faults";
  EXPECT_GT(numbers[1], 0U) << "rounds";
  EXPECT_GT(Numbers(program.Do("ticks")).at(0), 0U);
  EXPECT_EQ(program.Do("timer 0"), "0");
}

TEST_F(ShareRobust, AMessageToAClosedPipeEndsNoProgram) {
  Program::Options options;
  options.share = world_.folder() + "/none";  // The library reports this.
  options.before_exec = [] {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    close(ends[0]);
    dup2(ends[1], 2);
    signal(SIGPIPE, SIG_DFL);
  };
  Program program(world_, options);
  EXPECT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("launch 1"), "0");
}

class ShareBeside : public ShareRobust, public ::testing::WithParamInterface<const char*> {};

TEST_P(ShareBeside, AnotherPreloadWorksInFrontAndBehind) {
  const std::string own = DIVVY_SHARE_LIBRARY;
  const std::string other = GetParam();
  for (const std::string& preload : {other + ":" + own, own + ":" + other}) {
    Program::Options options = InShare();
    options.preload = preload;
    const std::string names = world_.folder() + "/names";
    options.environment = {"DIVVY_NAMES_FILE=" + names};
    Program program(world_, options);
    ASSERT_EQ(program.Do("init"), "0") << preload;
    ExpectSharing(program);
    program.Tell("leave 0");
    EXPECT_EQ(program.End(), 0);
    if (preload.starts_with(DIVVY_NAMES_LIBRARY)) {
      std::ifstream file(names);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      EXPECT_NE(text.find("dlsym cuMemAlloc_v2 - -"), std::string::npos) << "the other preload sees the requests";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Preloads, ShareBeside, ::testing::Values(DIVVY_NAMES_LIBRARY, DIVVY_MALLOC_LIBRARY),
                         [](const auto& other) {
                           return std::string(other.param == std::string(DIVVY_NAMES_LIBRARY) ? "dlsym" : "malloc");
                         });

TEST_F(ShareRobust, StaticInitialisersAndDestructorsMayUseCuda) {
  Program::Options options = InShare();
  options.environment = {"SHARE_TENANT_EARLY=1"};
  Program program(world_, options);
  EXPECT_EQ(program.Do("check early 8"), "0");
  EXPECT_EQ(keeper_.Used(), 32 * kMiB);
  ExpectSharing(program);
  program.Tell("leave 5");
  const int status = program.End();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST_F(ShareRobust, ADriverThatIsClosedAndOpenedAgainKeepsItsMemory) {
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 16M"), "0");
  ASSERT_EQ(program.Do("fill a 9"), "0");
  EXPECT_EQ(program.Do("close"), "0");
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("check a 9"), "0");
  ExpectSharing(program);
}

TEST_F(ShareRobust, TheLibraryStaysWhenAProgramClosesIt) {
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do(std::string("close-library ") + DIVVY_SHARE_LIBRARY), "0");
  ExpectSharing(program);
}

TEST_F(ShareRobust, AProgramThatClosesItsDescriptorsIsConnectedAgain) {
  keeper_.SetCeiling(32 * kMiB, kCeiling);
  keeper_.on_want = [&](const share::Message& want) {
    keeper_.SetCeiling(keeper_.Used() + want.bytes, kCeiling);
    return true;
  };
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 16M"), "0");
  EXPECT_GE(Numbers(program.Do("close-sockets")).at(0), 1U);
  EXPECT_EQ(program.Do("alloc b plain 64M"), "0") << "it asks for more over a new connection";
  EXPECT_GE(keeper_.CountOf(share::Word::kHello), 2U);
}

TEST_F(ShareRobust, ProgramsStartWhileOtherThreadsUseCuda) {
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("threads 3"), "0");
  EXPECT_EQ(program.Do("programs 30"), "0");
  EXPECT_EQ(Numbers(program.Do("stop")).at(0), 0U);
  ExpectSharing(program);
}

TEST_F(ShareRobust, AUserWithoutRightsToTheSocketRunsWithoutSharing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs a second user";
  for (const std::string& folder : {world_.folder(), keeper_.Folder()}) {
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  }
  ASSERT_EQ(chmod((keeper_.Folder() + "/" + share::kPageFile).c_str(), 0666), 0);
  ASSERT_EQ(chmod((keeper_.Folder() + "/" + share::kLinkSocket).c_str(), 0600), 0);
  Program::Options options = InShare();
  options.before_exec = [] {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(126);
  };
  Program program(world_, options);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 300M"), "0");
  EXPECT_EQ(program.Do("launch 1"), "0");
  const std::string errors = program.Errors();
  EXPECT_NE(errors.find("no keeper answers at DIVVY_SHARE: this program runs without sharing its GPU"),
            std::string::npos)
      << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
}

/// Writes a 32-bit program that prints "alive" and exits with 7. No 32-bit compiler is needed for it. With a `loader`
/// the program is linked dynamically, to nothing.
void Write32BitProgram(const std::string& path, const std::string& loader) {
  constexpr std::uint32_t kBase = 0x8048000, kHeader = 52, kPart = 32, kDynamic = 40, kSymbol = 16, kCode = 34;
  const std::string text = "alive\n";
  const std::uint32_t parts = loader.empty() ? 1 : 3;
  const std::uint32_t loader_at = kHeader + kPart * parts;
  const std::uint32_t dynamic_at = (loader_at + static_cast<std::uint32_t>(loader.size()) + 16) / 16 * 16;
  const std::uint32_t code_at = dynamic_at + kDynamic + kSymbol;
  const std::uint32_t size = code_at + kCode + static_cast<std::uint32_t>(text.size());
  std::string file = "\177ELF\001\001\001";  // 32 bits, little-endian.
  file.resize(16);
  const auto half = [&](std::uint32_t value) {
    file.append({static_cast<char>(value), static_cast<char>(value >> 8)});
  };
  const auto word = [&](std::uint32_t value) {
    half(value & 0xffff);
    half(value >> 16);
  };
  const auto words = [&](std::initializer_list<std::uint32_t> values) {
    for (const std::uint32_t value : values) word(value);
  };
  half(2);  // An executable,
  half(3);  // for the 386.
  words({1, kBase + code_at, kHeader, 0, 0});
  for (const std::uint32_t value : {kHeader, kPart, parts, 0U, 0U, 0U}) half(value);
  const std::uint32_t name = static_cast<std::uint32_t>(loader.size()) + 1;
  if (!loader.empty()) words({3, loader_at, kBase + loader_at, kBase + loader_at, name, name, 4, 1});
  words({1, 0, kBase, kBase, size, size, 7, 0x1000});
  if (!loader.empty()) words({2, dynamic_at, kBase + dynamic_at, kBase + dynamic_at, kDynamic, kDynamic, 6, 4});
  file += loader;
  file.resize(dynamic_at);
  const std::uint32_t symbols = kBase + dynamic_at + kDynamic;
  words({5, symbols, 6, symbols, 10, 1, 11, kSymbol, 0, 0});  // Strings and symbols: none.
  file.resize(code_at);
  const auto load = [&](char into, std::uint32_t value) {
    file += into;
    word(value);
  };
  constexpr char kEax = '\xb8', kEbx = '\xbb', kEcx = '\xb9', kEdx = '\xba';
  load(kEax, 4);  // write(1, text, its size)
  load(kEbx, 1);
  load(kEcx, kBase + code_at + kCode);
  load(kEdx, static_cast<std::uint32_t>(text.size()));
  file += "\xcd\x80";
  load(kEax, 1);  // exit(7)
  load(kEbx, 7);
  file += "\xcd\x80" + text;
  std::ofstream(path, std::ios::binary) << file;
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
}

TEST_F(ShareRobust, A32BitChildRunsWithoutTheLibrary) {
  const std::string program = world_.folder() + "/32-bit";
  for (const std::string loader : {"", "/lib/ld-linux.so.2"}) {
    ASSERT_NO_FATAL_FAILURE(Write32BitProgram(program, loader));
    const int alone = system((program + " >/dev/null").c_str());
    if (WIFEXITED(alone) && (WEXITSTATUS(alone) == 126 || WEXITSTATUS(alone) == 127))
      GTEST_SKIP() << "this machine runs no 32-bit programs" << (loader.empty() ? "" : " with " + loader);
    ASSERT_EQ(WEXITSTATUS(alone), 7);
    int status = 0;
    const std::string said = RunPreloaded(world_, {"/bin/sh", "-c", program + "; echo $?"}, keeper_.Folder(), status);
    EXPECT_EQ(status, 0);
    EXPECT_NE(said.find("alive\n7\n"), std::string::npos) << said;
    // The loader names the library, and starts the program. A static program has no loader.
    EXPECT_EQ(said.find("wrong ELF class: ELFCLASS64") != std::string::npos, !loader.empty()) << said;
  }
}

// The calls that container runtimes forbid by default. clone3 does not exist there.
void ForbidLikeAContainer() {
  constexpr unsigned kForbidden[] = {SYS_add_key,
                                     SYS_keyctl,
                                     SYS_request_key,
                                     SYS_ptrace,
                                     SYS_process_vm_readv,
                                     SYS_process_vm_writev,
                                     SYS_kcmp,
                                     SYS_userfaultfd,
                                     SYS_mbind,
                                     SYS_set_mempolicy,
                                     SYS_get_mempolicy,
                                     SYS_move_pages,
                                     SYS_bpf,
                                     SYS_unshare,
                                     SYS_mount,
                                     SYS_umount2,
                                     SYS_setns,
                                     SYS_syslog,
                                     SYS_open_by_handle_at,
                                     SYS_perf_event_open,
                                     SYS_io_uring_setup,
                                     SYS_pidfd_getfd,
                                     SYS_personality,
                                     SYS_chroot};
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  const auto refuse = [&](unsigned number, unsigned error) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  };
  for (const unsigned number : kForbidden) refuse(number, EPERM);
  refuse(SYS_clone3, ENOSYS);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(126);
  }
}

TEST_F(ShareRobust, AContainersSeccompProfileAllowsSharing) {
  Program::Options options = InShare();
  options.before_exec = ForbidLikeAContainer;
  Program program(world_, options);
  ASSERT_EQ(program.Do("init"), "0");
  ExpectSharing(program);
  keeper_.SetGate(share::kMoving);
  EXPECT_EQ(keeper_.Command(0, share::Word::kEvacuate).result, 0);
  EXPECT_EQ(keeper_.Command(0, share::Word::kReturn).result, 0);
  keeper_.SetGate(share::kOpen);
  ExpectSharing(program);
  EXPECT_EQ(program.Errors(), "");
}

// Children of Python's three start methods are limited and counted, and the pool's end frees what they had.
TEST_F(ShareRobust, PythonsMultiprocessingIsSharedWithEachStartMethod) {
  const std::string script = world_.folder() + "/pool.py";
  std::ofstream(script) << R"(
import ctypes, multiprocessing, sys

def work(bytes):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(bytes)),
               cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))]
    return results, total.value >> 20

if __name__ == "__main__":
    if sys.argv[1] != "none":
        print("parent", work(16 << 20))
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(work, [32 << 20, 300 << 20], 1), flush=True)
)";
  const auto run = [&](const char* parent) {
    int status = -1;
    const std::string output =
        RunPreloaded(world_, {"/usr/bin/env", "python3", script, parent}, keeper_.Folder(), status);
    EXPECT_EQ(status, 0) << output;
    EXPECT_TRUE(Eventually([&] { return keeper_.Used() == 0; })) << keeper_.Used();
    return output;
  };
  const std::string shared = "[([0, 0, 0, 0, 0], 256), ([0, 0, 0, 2, 0], 256)]\n";
  EXPECT_EQ(run("none"), "fork " + shared + "spawn " + shared + "forkserver " + shared);
  // As without the library, CUDA does not work in a forked child of a process that has used it.
  EXPECT_EQ(run("used"), "parent ([0, 0, 0, 0, 0], 256)\nfork [([3, 3, 3, 3, 3], 0), ([3, 3, 3, 3, 3], 0)]\nspawn " +
                             shared + "forkserver " + shared);
}

// The contract in docs/sharing.md, "When the keeper does not answer".
TEST_F(ShareRobust, AKeeperThatNeverAnswersDelaysTheStartAndGrantsNothing) {
  keeper_.is_silent = true;
  Program program(world_, InShare());
  EXPECT_EQ(program.Do("init"), "0") << "after ten seconds";
  EXPECT_EQ(program.Do("launch 1"), "0");
  EXPECT_EQ(program.Do("alloc a plain 16M"), "2");
  EXPECT_EQ(program.Do("alloc a plain 16M"), "2");
  const std::string errors = program.Errors();
  EXPECT_NE(errors.find("the keeper of this node does not answer"), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  EXPECT_EQ(keeper_.Used(), 0U);
}

TEST_F(ShareRobust, AKeeperThatDiesLeavesMemoryAndLaunchesAndGrantsNoMore) {
  keeper_.SetCeiling(64 * kMiB, kCeiling);
  Program program(world_, InShare());
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 16M"), "0");
  ASSERT_EQ(program.Do("fill a 2"), "0");
  keeper_.Kill();
  EXPECT_EQ(program.Do("launch 3"), "0");
  EXPECT_EQ(program.Do("alloc b plain 16M"), "0") << "within what it may have";
  EXPECT_EQ(program.Do("check a 2"), "0");
  EXPECT_EQ(program.Do("alloc c plain 64M"), "2") << "beyond, after ten seconds without a keeper";
  EXPECT_NE(program.Errors().find("the keeper of this node does not answer"), std::string::npos) << program.Errors();
}

}  // namespace share_robust_test
}  // namespace divvy::interpose
