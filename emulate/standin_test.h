// Test support for the stand-in driver. Each process that uses it is a child, which loads the built library with dlopen
// and talks to the test through pipes.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "platform/emulation/emulation.h"
#include "platform/emulation/emulation_cuda_file.h"
#include "platform/gpu/cuda_api.h"

namespace divvy {

inline void* cuda_library = nullptr;  // Used in children.

/// Calls an entry point of the library in a child, e.g. CUDA(cuInit)(0).
#define CUDA(name) (reinterpret_cast<decltype(&cuda::name)>(dlsym(cuda_library, #name)))

/// Ends the child if a call does not return the expected value.
#define MUST(expected, ...)                                                           \
  do {                                                                                \
    if (const auto must_got = (__VA_ARGS__); must_got != (expected)) {                \
      std::fprintf(stderr, "%s:%d: %s gave %lld\n", __FILE__, __LINE__, #__VA_ARGS__, \
                   static_cast<long long>(must_got));                                 \
      _exit(9);                                                                       \
    }                                                                                 \
  } while (false)
#define OK(...) MUST(cuda::kSuccess, __VA_ARGS__)

/// One end of a two-way channel of numbers.
class Talk {
 public:
  Talk(int in, int out) : in_(in), out_(out) {}
  void Say(std::uint64_t number) const {
    if (write(out_, &number, sizeof(number)) != sizeof(number)) _exit(8);
  }
  /// Returns ~0 if the other side has closed the channel or sends nothing for a minute.
  std::uint64_t Hear() const {
    pollfd ready = {in_, POLLIN, 0};
    std::uint64_t number = 0;
    if (poll(&ready, 1, 60'000) != 1 || read(in_, &number, sizeof(number)) != sizeof(number)) return ~std::uint64_t{0};
    return number;
  }
  void Close() const {
    close(in_);
    close(out_);
  }

 private:
  int in_;
  int out_;
};

class EmulatedCuda : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/standin.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    unsetenv("DIVVY_EMULATE");
    unsetenv("CUDA_VISIBLE_DEVICES");
    Describe("2xH100-80GB");
  }

  void TearDown() override {
    for (Child& child : children_) {
      if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
      }
      child.talk.Close();
    }
    std::string remove = "rm -rf '" + directory_ + "'";
    ASSERT_EQ(std::system(remove.c_str()), 0);
  }

  void Describe(const std::string& description) {
    const auto facts = ParseGpuDescription(description);
    ASSERT_TRUE(facts.has_value());
    facts_ = *facts;
    ASSERT_TRUE(WriteEmulation(facts_, directory_).has_value());
  }

  /// Starts `body` in a child, after cuInit. Returns the child's number, in order of starts.
  std::size_t Start(const std::function<void(const Talk&)>& body, bool starts_cuda = true) {
    int down[2];
    int up[2];
    EXPECT_EQ(pipe(down), 0);
    EXPECT_EQ(pipe(up), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(down[1]);
      close(up[0]);
      cuda_library = dlopen((directory_ + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
      if (cuda_library == nullptr) _exit(7);
      if (starts_cuda) OK(CUDA(cuInit)(0));
      body(Talk(down[0], up[1]));
      _exit(0);
    }
    close(down[0]);
    close(up[1]);
    children_.push_back({pid, Talk(up[0], down[1])});
    return children_.size() - 1;
  }

  /// Waits for the child and returns its exit code; 0 means success.
  int End(std::size_t child) {
    int status = 0;
    waitpid(children_[child].pid, &status, 0);
    children_[child].pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  void Kill(std::size_t child) {
    kill(children_[child].pid, SIGKILL);
    waitpid(children_[child].pid, nullptr, 0);
    children_[child].pid = 0;
  }

  std::uint64_t Hear(std::size_t child) { return children_[child].talk.Hear(); }
  void Say(std::size_t child, std::uint64_t number) { children_[child].talk.Say(number); }
  pid_t PidOf(std::size_t child) { return children_[child].pid; }

  /// Returns the child's use of a GPU; all zero if there is none.
  EmulatedUse UseOf(std::size_t child, GpuIndex gpu) {
    const auto uses = ReadEmulatedUses(directory_);
    EXPECT_TRUE(uses.has_value());
    for (const EmulatedUse& use : *uses) {
      if (use.gpu == gpu && use.pid == PidOf(child)) return use;
    }
    return {};
  }

  struct Child {
    pid_t pid;
    Talk talk;
  };
  std::string directory_;
  std::vector<GpuFacts> facts_;
  std::vector<Child> children_;
};

inline constexpr std::size_t kMiB = 1 << 20;
inline constexpr std::size_t kGiB = 1 << 30;

/// Makes the primary context of `device` current.
inline cuda::Context MakeCurrent(cuda::Device device = 0) {
  cuda::Context context = nullptr;
  OK(CUDA(cuDevicePrimaryCtxRetain)(&context, device));
  OK(CUDA(cuCtxSetCurrent)(context));
  return context;
}

/// Loads a kernel whose duration is its argument.
inline cuda::Function LoadSpin() {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  OK(CUDA(cuModuleLoadData)(&module, ".version 6.0\n.target sm_50\n.entry divvy_spin(.param .u64 n) { ret; }\n"));
  OK(CUDA(cuModuleGetFunction)(&function, module, "divvy_spin"));
  return function;
}

inline cuda::Return Spin(cuda::Function function, std::uint64_t nanoseconds, cuda::Stream stream = nullptr) {
  void* arguments[] = {&nanoseconds};
  return CUDA(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace divvy
