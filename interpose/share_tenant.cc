// A CUDA program for the tests of the library. It executes commands from standard input, one per line, and answers each
// with one line. It knows nothing about shares. The first word of a line is the command, the rest are arguments;
// numbers are bytes unless they are counts. See Commands() for the list.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "platform/gpu/nvml_api.h"
#include "share_tenant.h"

namespace {

using namespace divvy;                // NOLINT
using namespace divvy::share_tenant;  // NOLINT
using Arguments = std::vector<std::string>;

std::uint64_t Number(const std::string& text) {
  char* end = nullptr;
  std::uint64_t number = std::strtoull(text.c_str(), &end, 0);
  if (*end == 'K') number <<= 10;
  if (*end == 'M') number <<= 20;
  if (*end == 'G') number <<= 30;
  return number;
}

cuda::Context g_context = nullptr;
cuda::Function g_tick = nullptr;
std::vector<std::thread> g_threads;
std::atomic<bool> g_is_stopping{false};
std::atomic<bool> g_is_held{false};
std::atomic<std::uint64_t> g_rounds{0};
std::atomic<std::uint64_t> g_faults{0};

std::string Join(std::initializer_list<std::uint64_t> numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

/// Returns this thread's CPU time, which does not depend on the machine's load.
std::uint64_t CpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec * 1'000'000 + now.tv_nsec / 1000);
}

std::string Code(cuda::Return result) { return std::to_string(static_cast<int>(result)); }

std::string Init(const Arguments& arguments) {
  if (!arguments.empty()) g_lookup = arguments[0];
  g_cuda = dlopen("libcuda.so.1", RTLD_NOW | (g_lookup == "default" || g_lookup == "next" ? RTLD_GLOBAL : RTLD_LOCAL));
  if (g_cuda == nullptr) return "no driver";
  cuda::Return result = CU(cuInit)(0);
  if (result == cuda::kSuccess) result = CU(cuDevicePrimaryCtxRetain)(&g_context, 0);
  if (result == cuda::kSuccess) result = CU(cuCtxSetCurrent)(g_context);
  const std::string took = arguments.size() > 1 ? arguments[1] : "1000";
  const std::string ptx = ".version 7.0\n.target sm_50\n.address_size 64\n// divvy takes tick " + took +
                          "\n.visible .entry tick()\n{\n\tret;\n}\n";
  cuda::Module module = nullptr;
  if (result == cuda::kSuccess) result = CU(cuModuleLoadData)(&module, ptx.c_str());
  if (result == cuda::kSuccess) result = CU(cuModuleGetFunction)(&g_tick, module, "tick");
  return Code(result);
}

cuda::Return Launch(cuda::Stream stream = nullptr) {
  static const auto launch = CU(cuLaunchKernel);
  return launch(g_tick, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

std::string Alloc(const Arguments& arguments) {
  Thing thing{arguments.at(1), 0, 0, Number(arguments.at(2))};
  const cuda::Return result = Make(thing);
  if (result == cuda::kSuccess) g_things[arguments[0]] = thing;
  return Code(result);
}

std::string Free(const Arguments& arguments) {
  const cuda::Return result = Unmake(g_things.at(arguments.at(0)));
  g_things.erase(arguments[0]);
  return Code(result);
}

/// Seed 0 gives zeros.
std::uint64_t Word(std::uint64_t seed, std::uint64_t at) {
  return seed == 0 ? 0 : (seed + at) * 0x9E3779B97F4A7C15U ^ at >> 3;
}

cuda::Return Fill(const Thing& thing, std::uint64_t seed) {
  std::vector<std::uint64_t> words(thing.bytes / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = Word(seed, i);
  return CU(cuMemcpyHtoD_v2)(thing.value, words.data(), words.size() * 8);
}

std::uint64_t Mismatches(const Thing& thing, std::uint64_t seed) {
  std::vector<std::uint64_t> words(thing.bytes / 8);
  if (CU(cuMemcpyDtoH_v2)(words.data(), thing.value, words.size() * 8) != cuda::kSuccess) return ~std::uint64_t{0};
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != Word(seed, i) ? 1 : 0;
  return wrong;
}

/// Repeatedly launches, copies and checks; each thread has its own stream and memory.
void Work(std::uint64_t seed) {
  CU(cuCtxSetCurrent)(g_context);
  cuda::Stream stream = nullptr;
  Thing thing{"plain", 0, 0, 1 << 16};
  if (CU(cuStreamCreate)(&stream, 1) != cuda::kSuccess || Make(thing) != cuda::kSuccess) ++g_faults;
  std::vector<std::uint64_t> words(thing.bytes / 8);
  std::vector<std::uint64_t> seen(words.size());
  while (!g_is_stopping) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = Word(seed, i);
    ++seed;
    if (CU(cuMemcpyHtoDAsync_v2)(thing.value, words.data(), thing.bytes, stream) != cuda::kSuccess) ++g_faults;
    if (Launch(stream) != cuda::kSuccess) ++g_faults;
    if (CU(cuMemcpyDtoHAsync_v2)(seen.data(), thing.value, thing.bytes, stream) != cuda::kSuccess) ++g_faults;
    if (CU(cuStreamSynchronize)(stream) != cuda::kSuccess) ++g_faults;
    if (words != seen) ++g_faults;
    ++g_rounds;
  }
  if (Unmake(thing) != cuda::kSuccess) ++g_faults;
}

std::string Threads(const Arguments& arguments) {
  g_is_stopping = false;
  for (std::uint64_t i = 0; i < Number(arguments.at(0)); ++i) g_threads.emplace_back(Work, i * 1000);
  return "0";
}

std::string Stop(const Arguments&) {
  g_is_stopping = true;
  for (std::thread& thread : g_threads) thread.join();
  g_threads.clear();
  return Join({g_faults, g_rounds});
}

std::string Nvml(const Arguments&) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return "no nvml";
  nvml::Device device = nullptr;
  nvml::Memory memory{};
  nvml::MemoryV2 memory_v2{};
  memory_v2.version = nvml::kMemoryV2;
  reinterpret_cast<decltype(&nvmlInit_v2)>(dlsym(library, "nvmlInit_v2"))();
  reinterpret_cast<decltype(&nvmlDeviceGetHandleByIndex_v2)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(0,
                                                                                                              &device);
  reinterpret_cast<decltype(&nvmlDeviceGetMemoryInfo)>(dlsym(library, "nvmlDeviceGetMemoryInfo"))(device, &memory);
  reinterpret_cast<decltype(&nvmlDeviceGetMemoryInfo_v2)>(dlsym(library, "nvmlDeviceGetMemoryInfo_v2"))(device,
                                                                                                        &memory_v2);
  return Join({memory.used, memory.total, memory_v2.used, memory_v2.total});
}

/// Returns the nanoseconds per launch for `count` launches without waiting.
std::string Time(const Arguments& arguments) {
  const std::uint64_t count = Number(arguments.at(0));
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) Launch();
  const auto took = std::chrono::steady_clock::now() - start;
  CU(cuCtxSynchronize)();
  return Join({static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()) / count});
}

std::string InChild(const Arguments& arguments);

/// Allocates as much as possible in a racing pattern: allocate, check, free some.
std::string Race(const Arguments& arguments) {
  const std::uint64_t rounds = Number(arguments.at(0));
  const std::uint64_t bytes = Number(arguments.at(1));
  std::vector<cuda::Pointer> mine;
  std::uint64_t refused = 0;
  std::uint64_t strange = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    cuda::Pointer pointer = 0;
    const cuda::Return result = CU(cuMemAlloc_v2)(&pointer, bytes + i % 5 * 300'000);
    if (result == cuda::kSuccess) mine.push_back(pointer);
    refused += result == cuda::kOutOfMemory ? 1 : 0;
    strange += result != cuda::kSuccess && result != cuda::kOutOfMemory ? 1 : 0;
    if (mine.size() > 6 || (result != cuda::kSuccess && !mine.empty())) {
      CU(cuMemFree_v2)(mine.back());
      mine.pop_back();
    }
  }
  for (const cuda::Pointer pointer : mine) CU(cuMemFree_v2)(pointer);
  return Join({strange, refused});
}

pthread_t g_waiter;
std::atomic<int> g_ticks = 0;  // Written by a signal handler on any thread.

/// Starts programs while other threads use CUDA.
std::string StartPrograms(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/true", "true", static_cast<char*>(nullptr));
      std::_Exit(9);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) return "failed";
  }
  return "0";
}

/// Interrupts this process's calls with a signal every so many microseconds; 0 stops it.
std::string SetTimer(suseconds_t microseconds) {
  struct sigaction action {};
  action.sa_handler = [](int) { ++g_ticks; };
  sigaction(SIGALRM, &action, nullptr);  // Without SA_RESTART: calls return EINTR.
  const itimerval timer = {{0, microseconds}, {0, microseconds}};
  return std::to_string(setitimer(ITIMER_REAL, &timer, nullptr));
}

/// Closes all sockets, as programs do that become daemons. Returns their number.
std::string CloseSockets() {
  std::uint64_t count = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    struct stat about {};
    if (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && close(fd) == 0) ++count;
  }
  return std::to_string(count);
}

const std::map<std::string, std::function<std::string(const Arguments&)>>& Commands() {
  static const std::map<std::string, std::function<std::string(const Arguments&)>> commands = {
      {"init", Init},    // DOOR [NANOSECONDS of a kernel]
      {"alloc", Alloc},  // NAME KIND BYTES
      {"free", Free},    // NAME
      {"threads", Threads},
      {"nccl", [](const Arguments&) { return Join({static_cast<std::uint64_t>(LoadNccl())}); }},
      {"communicator",  // HOW RANKS [linked]
       [](const Arguments& a) {
         return std::to_string(MakeCommunicator(a.at(0), static_cast<int>(Number(a.at(1))), a.size() > 2));
       }},
      {"stop", Stop},      // Answers: faults, rounds
      {"nvml", Nvml},      // Answers: used and total, from both versions of the call.
      {"time", Time},      // COUNT
      {"race", Race},      // ROUNDS BYTES; answers: wrong codes, refused
      {"child", InChild},  // COMMAND...: runs in a forked child
      {"address", [](const Arguments& a) { return Join({g_things.at(a.at(0)).value}); }},
      {"fill", [](const Arguments& a) { return Code(Fill(g_things.at(a.at(0)), Number(a.at(1)))); }},
      {"check", [](const Arguments& a) { return Join({Mismatches(g_things.at(a.at(0)), Number(a.at(1)))}); }},
      {"free-unknown", [](const Arguments&) { return Code(CU(cuMemFree_v2)(0x1234500)); }},
      {"many",  // COUNT BYTES: allocates plain memory; answers: microseconds of CPU time
       [](const Arguments& a) {
         const std::uint64_t start = CpuMicroseconds();
         for (std::uint64_t i = 0; i < Number(a.at(0)); ++i) {
           cuda::Pointer pointer = 0;
           if (CU(cuMemAlloc_v2)(&pointer, Number(a.at(1))) != cuda::kSuccess) return std::string("0");
         }
         return Join({CpuMicroseconds() - start});
       }},
      {"time-reset",  // Answers: microseconds of CPU time
       [](const Arguments&) {
         const std::uint64_t start = CpuMicroseconds();
         CU(cuDevicePrimaryCtxReset_v2)(0);
         return Join({CpuMicroseconds() - start});
       }},
      {"waiter",  // A thread that launches, and may be cancelled then
       [](const Arguments&) {
         const auto run = [](void*) -> void* {
           CU(cuCtxSetCurrent)(g_context);
           Launch();
           pthread_testcancel();
           return nullptr;
         };
         return std::to_string(pthread_create(&g_waiter, nullptr, run, nullptr));
       }},
      {"cancel", [](const Arguments&) { return std::to_string(pthread_cancel(g_waiter)); }},
      {"join",
       [](const Arguments&) {
         void* result = nullptr;
         pthread_join(g_waiter, &result);
         return std::string(result == PTHREAD_CANCELED ? "cancelled" : "ended");
       }},
      {"leave", [](const Arguments& a) -> std::string { std::exit(static_cast<int>(Number(a.at(0)))); }},
      {"timer", [](const Arguments& a) { return SetTimer(static_cast<suseconds_t>(Number(a.at(0)))); }},
      {"ticks", [](const Arguments&) { return std::to_string(g_ticks.load()); }},
      {"programs", [](const Arguments& a) { return StartPrograms(Number(a.at(0))); }},
      {"close-sockets", [](const Arguments&) { return CloseSockets(); }},
      {"close", [](const Arguments&) { return std::to_string(dlclose(g_cuda)); }},
      {"close-library",  // PATH: opens a library and closes it more often than it was opened
       [](const Arguments& a) {
         void* const library = dlopen(a.at(0).c_str(), RTLD_NOW);
         return std::to_string(library == nullptr ? -1 : dlclose(library) + dlclose(library));
       }},
      {"feature", [](const Arguments& a) { return RunFeature(a.at(0)); }},  // NAME
      {"hog",  // KIND BYTES MOST; answers: the result of the last allocation, the number of successful ones
       [](const Arguments& a) { return Hog(a.at(0), Number(a.at(1)), Number(a.at(2))); }},
      {"request", [](const Arguments& a) { return RequestNames(a.at(0)); }},  // FILE
      {"green", [](const Arguments&) { return EnterGreenContext(); }},
      {"context",  // Makes a context of its own current
       [](const Arguments&) {
         cuda::Context context = nullptr;
         return Code(CU(cuCtxCreate_v2)(&context, 0, 0));
       }},
      {"multicast", [](const Arguments&) { return BindToMulticast(); }},
      {"rounds", [](const Arguments&) { return Join({g_rounds}); }},
      {"launch",
       [](const Arguments& a) {
         cuda::Return result = cuda::kSuccess;
         for (std::uint64_t i = 0; i < Number(a.at(0)) && result == cuda::kSuccess; ++i) result = Launch();
         return Code(result);
       }},
      {"held",  // Makes a stream wait for the program itself, and launches after it
       [](const Arguments&) {
         g_is_held = true;
         const auto wait = [](void*) {
           while (g_is_held) std::this_thread::yield();
         };
         const cuda::Return result = CU(cuLaunchHostFunc)(nullptr, wait, nullptr);
         return Code(result == cuda::kSuccess ? Launch() : result);
       }},
      {"let-go", [](const Arguments&) { return Code((g_is_held = false, CU(cuCtxSynchronize)())); }},
      {"new-thread",  // Makes the context current on another thread
       [](const Arguments&) {
         cuda::Return result = cuda::kUnknown;
         std::thread([&] { result = CU(cuCtxSetCurrent)(g_context); }).join();
         return Code(result);
       }},
      {"start",  // Only initialises CUDA
       [](const Arguments&) {
         g_cuda = dlopen("libcuda.so.1", RTLD_NOW);
         return Code(CU(cuInit)(0));
       }},
      {"sync", [](const Arguments&) { return Code(CU(cuCtxSynchronize)()); }},
      {"device",  // ORDINAL: makes its primary context current
       [](const Arguments& a) {
         cuda::Context context = nullptr;
         const auto ordinal = static_cast<cuda::Device>(Number(a.at(0)));
         const cuda::Return result = CU(cuDevicePrimaryCtxRetain)(&context, ordinal);
         return Code(result == cuda::kSuccess ? CU(cuCtxSetCurrent)(context) : result);
       }},
      {"peer",  // ORDINAL: gives the current device access to its memory
       [](const Arguments& a) {
         cuda::Context context = nullptr;
         CU(cuDevicePrimaryCtxRetain)(&context, static_cast<cuda::Device>(Number(a.at(0))));
         return Code(CU(cuCtxEnablePeerAccess)(context, 0));
       }},
      {"ipc-get",  // NAME; answers: result, handle in hexadecimal
       [](const Arguments& a) {
         cuda::IpcMemory handle{};
         std::string text = Code(CU(cuIpcGetMemHandle)(&handle, g_things.at(a.at(0)).value)) + " ";
         for (const char byte : handle.reserved) {
           char digits[3];
           std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
           text += digits;
         }
         return text;
       }},
      {"ipc-open",  // NAME BYTES HANDLE
       [](const Arguments& a) {
         cuda::IpcMemory handle{};
         for (std::size_t i = 0; i < sizeof handle.reserved; ++i) {
           handle.reserved[i] = static_cast<char>(std::stoi(a.at(2).substr(2 * i, 2), nullptr, 16));
         }
         Thing thing{"ipc", 0, 0, Number(a.at(1))};
         const cuda::Return result =
             CU(cuIpcOpenMemHandle_v2)(reinterpret_cast<cuda::Pointer*>(&thing.value), handle, 1);
         if (result == cuda::kSuccess) g_things[a[0]] = thing;
         return Code(result);
       }},
      {"checkpoint",  // PID STEP: checkpoints another process through the driver
       [](const Arguments& a) {
         const int pid = static_cast<int>(Number(a.at(0)));
         if (a.at(1) == "lock") return Code(CU(cuCheckpointProcessLock)(pid, nullptr));
         if (a.at(1) == "save") return Code(CU(cuCheckpointProcessCheckpoint)(pid, nullptr));
         if (a.at(1) == "restore") return Code(CU(cuCheckpointProcessRestore)(pid, nullptr));
         return Code(CU(cuCheckpointProcessUnlock)(pid, nullptr));
       }},
      {"capture",  // FLAGS of the stream: starts a capture
       [](const Arguments& a) {
         auto& stream = reinterpret_cast<cuda::Stream&>(g_things["stream"].value);
         const cuda::Return result = CU(cuStreamCreate)(&stream, static_cast<unsigned>(Number(a.at(0))));
         return Code(result == cuda::kSuccess ? CU(cuStreamBeginCapture_v2)(stream, 0) : result);
       }},
      {"captured",  // Ends the capture, launches, waits; answers: three results
       [](const Arguments&) {
         auto& stream = reinterpret_cast<cuda::Stream&>(g_things["stream"].value);
         cuda::Graph graph = nullptr;
         cuda::GraphExec exec = nullptr;
         std::string text = Code(Launch(stream));
         text += " " + Code(CU(cuStreamEndCapture)(stream, &graph));
         CU(cuGraphInstantiateWithFlags)(&exec, graph, 0);
         text += " " + Code(CU(cuGraphLaunch)(exec, stream));
         CU(cuStreamSynchronize)(stream);
         return text;
       }},
      {"rights",  // NAME ORDINAL: access rights of that device
       [](const Arguments& a) {
         unsigned long long rights = 0;
         const cuda::Location location = {cuda::kLocationDevice, static_cast<int>(Number(a.at(1)))};
         CU(cuMemGetAccess)(&rights, &location, g_things.at(a.at(0)).value);
         return Join({rights});
       }},
      {"retain",  // NAME: retains a handle of its memory
       [](const Arguments& a) {
         cuda::Allocation handle = 0;
         const auto address = reinterpret_cast<void*>(g_things.at(a.at(0)).value);  // NOLINT
         return Code(CU(cuMemRetainAllocationHandle)(&handle, address));
       }},
      {"export",  // NAME of mapped memory: exports it to a descriptor
       [](const Arguments& a) {
         cuda::Allocation handle = 0;
         const auto address = reinterpret_cast<void*>(g_things.at(a.at(0)).value);  // NOLINT
         cuda::Return result = CU(cuMemRetainAllocationHandle)(&handle, address);
         if (result != cuda::kSuccess) return Code(result);
         int fd = -1;
         result = CU(cuMemExportToShareableHandle)(&fd, handle, cuda::kHandlePosixFileDescriptor, 0);
         if (result == cuda::kSuccess) close(fd);
         CU(cuMemRelease)(handle);
         return Code(result);
       }},
      {"current",
       [](const Arguments&) {
         cuda::Context context = nullptr;
         return Code(CU(cuCtxGetCurrent)(&context));
       }},
      {"reset", [](const Arguments&) { return Code(CU(cuDevicePrimaryCtxReset_v2)(0)); }},
      {"info",  // Answers: free, total, total of the device
       [](const Arguments&) {
         std::size_t free = 0;
         std::size_t total = 0;
         std::size_t device = 0;
         CU(cuMemGetInfo_v2)(&free, &total);
         CU(cuDeviceTotalMem_v2)(&device, 0);
         return Join({free, total, device});
       }},
      {"range",  // NAME OFFSET; answers: offset of the base, bytes
       [](const Arguments& a) {
         const Thing& thing = g_things.at(a.at(0));
         cuda::Pointer base = 0;
         std::size_t bytes = 0;
         CU(cuMemGetAddressRange_v2)(&base, &bytes, thing.value + Number(a.at(1)));
         return Join({base - thing.value, bytes});
       }},
      {"exec",
       [](const Arguments&) {
         execl("/proc/self/exe", "share_tenant", static_cast<char*>(nullptr));
         return std::string("exec failed");
       }},
  };
  return commands;
}

std::string Do(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  Arguments arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  const auto found = Commands().find(command);
  return found == Commands().end() ? "what?" : found->second(arguments);
}

std::string InChild(const Arguments& arguments) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string line;
    for (const std::string& word : arguments) line += word + " ";
    const std::string answer = Do(line);
    [[maybe_unused]] const auto written = write(ends[1], answer.c_str(), answer.size());
    std::_Exit(0);
  }
  close(ends[1]);
  char answer[256] = {};
  std::size_t size = 0;
  for (ssize_t got = 1; got > 0 && size<sizeof answer - 1; size += got> 0 ? static_cast<std::size_t>(got) : 0) {
    got = read(ends[0], answer + size, sizeof answer - 1 - size);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? answer : "child failed";
}

/// CUDA used by a static initialiser and a static destructor, as some libraries do.
class Early {
 public:
  Early() {
    if (std::getenv("SHARE_TENANT_EARLY") == nullptr) return;
    is_used_ =
        Init({}) == "0" && Alloc({"early", "plain", "32M"}) == "0" && Fill(g_things.at("early"), 8) == cuda::kSuccess;
    if (!is_used_) std::_Exit(11);
  }
  ~Early() {
    if (is_used_ && Free({"early"}) != "0") std::_Exit(12);
  }

 private:
  bool is_used_ = false;
};
Early g_early;  // NOLINT

}  // namespace

int main() {
  // Reading the next command must not be interrupted by the signals of the `timer` command.
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  for (std::string line; std::getline(std::cin, line);) {
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    const std::string answer = Do(line);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
    std::cout << answer << std::endl;
  }
  return 0;
}
