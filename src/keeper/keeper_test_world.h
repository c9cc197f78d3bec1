// A keeper in a thread, a client in the role of the node, and fake tenant processes that speak the library's protocol
// without a GPU.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "keeper/keeper.h"
#include "wire/messages/share_codec.h"

namespace divvy::keeper {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Long enough for a busy machine.
inline constexpr Duration kTimeout = 20s;

inline bool Eventually(const std::function<bool()>& is_so, Duration timeout = kTimeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
    ::poll(nullptr, 0, 1);
  }
  return true;
}

/// Runs `what` in a child process and returns its exit code; -1 if it did not exit normally.
inline int InChild(const std::function<int()>& what) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(what());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline int Dial(const std::string& path, int type) {
  const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

/// The node's end of the keeper's socket.
class NodeClient {
 public:
  explicit NodeClient(const std::string& directory) {
    EXPECT_TRUE(Eventually([&] {
      link_.Reset(Dial(directory + "/" + std::string(wire::kKeeperSocket), SOCK_STREAM));
      return link_.is_open();
    }));
  }

  std::uint64_t Send(wire::KeeperRequest request) {
    request.id = next_++;
    const std::string line = wire::EncodeShare(request) + "\n";
    EXPECT_EQ(::send(link_.get(), line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
    return request.id;
  }
  /// Sends a line that is not a valid request of this version.
  void SendText(const std::string& line) {
    EXPECT_EQ(::send(link_.get(), line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
  }
  /// Returns the answer, or std::nullopt after the timeout.
  std::optional<wire::KeeperAnswer> AnswerTo(std::uint64_t id, Duration timeout = kTimeout) {
    std::optional<wire::KeeperAnswer> answer;
    Eventually(
        [&] {
          Read();
          const auto found = answers_.find(id);
          if (found == answers_.end()) return false;
          answer = found->second;
          return true;
        },
        timeout);
    return answer;
  }
  /// Sends the request and returns the error text, or "" for success.
  std::string Ask(const wire::KeeperRequest& request) {
    const auto answer = AnswerTo(Send(request));
    return answer ? answer->error : "no answer";
  }
  wire::KeeperState State() {
    wire::KeeperRequest request;
    request.state.emplace();
    const auto answer = AnswerTo(Send(request));
    return answer && answer->state ? *answer->state : wire::KeeperState{};
  }
  wire::KeptTenant StateOf(std::uint64_t job) {
    for (wire::KeptTenant& tenant : State().tenants) {
      if (tenant.job == JobId(job)) return tenant;
    }
    return {};
  }
  void Read() {
    char bytes[65536];
    ssize_t size = 0;
    while ((size = ::recv(link_.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
      read_.append(bytes, static_cast<std::size_t>(size));
    for (std::size_t end = read_.find('\n'); end != std::string::npos; end = read_.find('\n')) {
      const auto line = wire::DecodeShare<wire::KeeperLine>(read_.substr(0, end));
      read_.erase(0, end + 1);
      if (line && line->answer) answers_[line->answer->id] = *line->answer;
      if (line && line->requeue) requeues.push_back(*line->requeue);
    }
  }
  std::vector<wire::KeeperRequeue> requeues;

 private:
  Descriptor link_;
  std::string read_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, wire::KeeperAnswer> answers_;
};

/// A fake tenant process. Its allocations are counted in the page; its GPU work is elapsed time.
class FakeProcess {
 public:
  explicit FakeProcess(std::string folder) : folder_(std::move(folder)) {
    const Descriptor file(::open((folder_ + "/" + share::kPageFile).c_str(), O_RDWR | O_CLOEXEC));
    void* at = ::mmap(nullptr, sizeof(share::Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    EXPECT_NE(at, MAP_FAILED);
    page = static_cast<share::Page*>(at);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeProcess() {
    is_ending_ = true;
    thread_.join();
    ::munmap(page, sizeof(share::Page));
  }
  bool is_up() const { return slot != share::kNoSlot; }
  /// Returns false if the request was denied.
  bool Allocate(std::int64_t bytes, unsigned device = 0) {
    for (;;) {
      share::LockPage(*page, share::LockedBySlot(slot));
      const bool has = share::Reserve(*page, slot, device, static_cast<std::uint64_t>(bytes));
      share::UnlockPage(*page, share::LockedBySlot(slot));
      if (has) return true;
      answer_ = 0;
      Say(share::Word::kWant, device, static_cast<std::uint64_t>(bytes), 7);
      if (!Eventually([&] { return answer_ != 0; }) || answer_ < 0) return false;
    }
  }
  /// Returns true if granted.
  bool Ask(share::Word word, std::uint64_t bytes) {
    answer_ = 0;
    Say(word, 0, bytes, 8);
    return Eventually([&] { return answer_ != 0; }) && answer_ > 0;
  }
  void Free(std::int64_t bytes, unsigned device = 0) {
    __atomic_fetch_sub(&page->processes[slot].used[device], static_cast<std::uint64_t>(bytes), __ATOMIC_ACQ_REL);
  }
  share::Gate Gate(unsigned device = 0) const {
    return static_cast<share::Gate>(__atomic_load_n(&page->devices[device].gate, __ATOMIC_ACQUIRE));
  }
  void Say(share::Word word, unsigned device = 0, std::uint64_t bytes = 0, std::uint64_t id = 0) {
    share::Message message{};
    message.word = word;
    message.device = device;
    message.process = slot;
    message.bytes = bytes;
    message.id = id;
    ::send(link_.get(), &message, sizeof message, MSG_NOSIGNAL);
  }
  /// Launches work of length `piece` until `is_over`, and sums up the time it was allowed to run in `worked`.
  void Work(Duration piece, std::atomic<bool>& is_over) {
    while (!is_over) {
      const std::uint32_t gate = Gate();
      if (gate != share::kOpen && gate != share::kTurn) {
        __atomic_fetch_add(&page->processes[slot].waiting, 1, __ATOMIC_ACQ_REL);
        Say(gate == share::kParked ? share::Word::kWake : share::Word::kAsk);
        const timespec while_ = {0, 20'000'000};
        share::PageFutex(&page->devices[0].gate, FUTEX_WAIT, gate, &while_);
        __atomic_fetch_sub(&page->processes[slot].waiting, 1, __ATOMIC_ACQ_REL);
        continue;
      }
      is_busy_ = true;
      __atomic_fetch_add(&page->processes[slot].launches, 1, __ATOMIC_ACQ_REL);
      // Count the elapsed time: it models GPU use, and on a busy machine it exceeds `piece`.
      const auto began = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() < began + piece) ::usleep(100);
      worked += (std::chrono::steady_clock::now() - began).count();
      is_busy_ = false;
    }
  }

  share::Page* page = nullptr;
  std::atomic<std::uint32_t> slot = share::kNoSlot;
  std::atomic<std::int64_t> worked{0};
  std::atomic<bool> is_emptied{false};
  std::atomic<int> evacuations{0};
  std::atomic<int> returns{0};
  std::atomic<int> fails_evacuations{0};
  std::atomic<int> fails_returns{0};
  std::atomic<bool> breaks{false};          // After a failed return, the next evacuation fails too.
  std::atomic<std::int64_t> first_part{0};  // Bytes that leave first; the rest follows once this is 0 again.
  std::atomic<bool> has_begun_to_leave{false};
  std::atomic<bool> fails_half_way{false};  // Fails once after the first part has left; the rest stays.
  std::atomic<bool> is_mute{false};
  std::atomic<bool> mutes_when_emptied{false};
  std::atomic<bool> stays_away{false};
  std::array<std::atomic<std::uint64_t>, share::kMaxDevices> away{};
  share::Message welcome{};
  share::Message refusal{};  // Valid once is_refused is set.
  std::atomic<bool> is_refused{false};

 private:
  void Serve() {
    while (!is_ending_) {
      if (!link_.is_open()) {
        if (!stays_away) link_.Reset(Dial(folder_ + "/" + share::kLinkSocket, SOCK_SEQPACKET));
        if (!link_.is_open()) {
          ::poll(nullptr, 0, 5);
          continue;
        }
        share::Message hello{};
        hello.word = share::Word::kHello;
        hello.process = slot;
        hello.id = generation_;
        ::send(link_.get(), &hello, sizeof hello, MSG_NOSIGNAL);
      }
      pollfd watched{link_.get(), POLLIN, 0};
      if (::poll(&watched, 1, 10) <= 0) continue;
      share::Message message{};
      if (::recv(link_.get(), &message, sizeof message, MSG_DONTWAIT) != sizeof message) {
        link_.Reset();
        continue;
      }
      Obey(message);
    }
  }
  void Obey(const share::Message& message) {
    if (is_mute) return;
    switch (message.word) {
      case share::Word::kWelcome:
        welcome = message;
        generation_ = message.id;
        slot = message.process;
        return;
      case share::Word::kGranted:
        answer_ = 1;
        return;
      case share::Word::kDenied:
        if (message.process == share::kNoSlot && !is_refused) {
          refusal = message;
          is_refused = true;
        }
        answer_ = -1;
        return;
      case share::Word::kDrain:
        while (is_busy_) ::usleep(50);
        return Say(share::Word::kDrained, message.device, 0, message.id);
      case share::Word::kEvacuate:
      case share::Word::kReturn: {
        const bool is_return = message.word == share::Word::kReturn;
        std::atomic<int>& fails = is_return ? fails_returns : fails_evacuations;
        share::Message done{};
        done.word = share::Word::kDone;
        done.id = message.id;
        done.device = message.device;
        if (fails > 0) {
          --fails;
          done.result = 2;
          if (is_return && breaks) fails_evacuations = 1;
          std::snprintf(done.text, sizeof done.text, "told to fail");
        } else {
          if (is_return) {
            TakeBack(done);
          } else {
            GiveUp(done);
          }
          if (done.result == 0) {
            ++(is_return ? returns : evacuations);
            is_emptied = !is_return;
          }
          is_mute = is_emptied && mutes_when_emptied;
        }
        ::send(link_.get(), &done, sizeof done, MSG_NOSIGNAL);
        return;
      }
      case share::Word::kShrink:
        return Say(share::Word::kDone, message.device, 0, message.id);
      default:
        return;
    }
  }

  /// Evacuates: moves the memory to the host and out of the GPU's count. With `first_part` set, that part leaves first.
  void GiveUp(share::Message& done) {
    if (first_part > 0) {
      Free(first_part, done.device);
      away[done.device] += static_cast<std::uint64_t>(first_part);
      has_begun_to_leave = true;
      while (first_part > 0 && !is_ending_) ::usleep(50);
      if (fails_half_way.exchange(false)) {
        done.result = 2;
        std::snprintf(done.text, sizeof done.text, "told to fail");
        return;
      }
    }
    share::LockPage(*page, share::LockedBySlot(slot));
    away[done.device] += __atomic_exchange_n(&page->processes[slot].used[done.device], 0, __ATOMIC_ACQ_REL);
    share::UnlockPage(*page, share::LockedBySlot(slot));
    done.bytes = away[done.device];
  }
  /// Returns from the host if the ceiling allows it.
  void TakeBack(share::Message& done) {
    done.bytes = away[done.device];
    share::LockPage(*page, share::LockedBySlot(slot));
    const bool has = share::Reserve(*page, slot, done.device, done.bytes);
    share::UnlockPage(*page, share::LockedBySlot(slot));
    if (has) {
      away[done.device] = 0;
    } else {
      done.result = 2;
      std::snprintf(done.text, sizeof done.text, "the ceiling is lower");
    }
  }

  std::string folder_;
  Descriptor link_;
  std::uint64_t generation_ = 0;
  std::atomic<int> answer_{0};
  std::atomic<bool> is_busy_{false};
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

class KeeperWorld {
 public:
  explicit KeeperWorld(int gpus = 2, bool has_driver = false, Duration lingering = 30s, std::int64_t residual = 0,
                       std::string nvml = "")
      : gpus_(gpus), has_driver_(has_driver), lingers_(lingering), residual_(residual), nvml_(std::move(nvml)) {
    std::string name = testing::TempDir() + "keeper-XXXXXX";
    directory = ::mkdtemp(name.data());
    Start();
  }
  ~KeeperWorld() {
    Kill();
    std::filesystem::remove_all(directory);
  }
  void Start() {
    KeeperOptions options;
    options.directory = directory;
    options.first_residual = static_cast<std::uint64_t>(residual_);
    options.host = HostMemory(directory + "/host", directory + "/cgroups");
    options.interposer = "/nowhere/libdivvy_cuda.so";
    options.helper = {"/bin/sh", "-c", has_driver_ ? Script() : "while read -r a; do echo error none >&0; done"};
    options.rules = rules;
    options.mps_program = mps_program;
    options.lingers = lingers_;
    options.nvml = nvml_;
    auto made = Keeper::Make(std::move(options));
    ASSERT_TRUE(made) << made.error().message;
    keeper_ = *std::move(made);
    has_ended = false;
    thread_ = std::thread([this] {
      keeper_->Run();
      has_ended = true;
    });
    node = std::make_unique<NodeClient>(directory);
    ASSERT_EQ(Hello(), "");
  }
  /// Ends the keeper without any clean-up, like SIGKILL.
  void Kill() {
    if (keeper_ == nullptr) return;
    node.reset();
    keeper_->Stop();
    thread_.join();
    keeper_.reset();
  }
  /// Path of a stand-in NVML for the next keeper.
  void SetNvml(std::string path) { nvml_ = std::move(path); }
  /// Number of GPUs in the next hello.
  void SetGpus(int gpus) { gpus_ = gpus; }
  std::string Hello(std::vector<JobId> whole_jobs = {}) {
    wire::KeeperRequest request;
    request.hello.emplace().whole_jobs = std::move(whole_jobs);
    request.hello->version = wire::kKeeperVersion;
    for (int i = 0; i < gpus_; ++i) {
      wire::KeeperGpu& gpu = request.hello->gpus.emplace_back();
      gpu.index = static_cast<GpuIndex>(i);
      gpu.uuid = "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(i);
      gpu.memory = Bytes(16 * kGiB);
    }
    return node->Ask(request);
  }
  static wire::KeeperAdd Terms(std::uint64_t job, int gpu, double compute, std::int64_t request, std::int64_t limit) {
    wire::KeeperAdd add;
    add.job = JobId(job);
    add.attempt = 1;
    add.uid = ::getuid();
    add.gid = ::getgid();
    add.paper = {gpu};
    add.share.memory_request = Bytes(request);
    add.share.memory_limit = Bytes(limit);
    add.share.compute_request = GpuShare(static_cast<std::int32_t>(compute * GpuShare::kWhole));
    add.share.compute_limit = GpuShare(GpuShare::kWhole);
    return add;
  }
  wire::KeeperAdded Add(const wire::KeeperAdd& add) {
    wire::KeeperRequest request;
    request.add = add;
    const auto answer = node->AnswerTo(node->Send(request));
    EXPECT_TRUE(answer);
    if (!answer) return {};
    EXPECT_EQ(answer->error, "");
    return answer->added.value_or(wire::KeeperAdded{});
  }
  std::string Command(std::uint64_t job, const std::string& what, std::vector<int> to = {}) {
    wire::KeeperRequest request;
    if (what == "park") request.park.emplace().job = JobId(job);
    if (what == "wake") request.wake.emplace().job = JobId(job);
    if (what == "move") request.move = wire::KeeperMove{JobId(job), std::move(to)};
    if (what == "remove") request.remove = wire::KeeperRemove{JobId(job), 1};
    return node->Ask(request);
  }
  std::string FileText(const std::string& name) const {
    std::ifstream file(directory + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The state of this process in the fake driver: 0 is at work, 2 is checkpointed.
  int driver_state() const {
    const std::string text = FileText("driver." + std::to_string(::getpid()));
    return text.empty() ? 0 : std::stoi(text);
  }
  /// Fakes a host with 64 GiB, one tenth of which is reserved.
  void SetHostMemory(int available_gib) const {
    std::filesystem::create_directories(directory + "/host");
    std::ofstream(directory + "/host/meminfo.new")
        << "MemTotal: 67108864 kB\nMemAvailable: " << std::int64_t{available_gib} * 1'048'576 << " kB\n";
    std::filesystem::rename(directory + "/host/meminfo.new", directory + "/host/meminfo");
  }
  void FailDriver(const std::string& call, int times) {
    std::ofstream(directory + "/fail." + call) << std::string(static_cast<std::size_t>(times), 'x');
  }

  std::string directory;
  sharing::Settings rules;
  std::string mps_program;
  std::unique_ptr<NodeClient> node;
  std::atomic<bool> has_ended{false};

 private:
  // A fake driver. It keeps the state of each process in a file driver.PID.
  std::string Script() const {
    return "cd " + directory +
           R"sh( && while read -r c p rest; do
                 if [ -s fail.$c ]; then truncate -s -1 fail.$c; echo "error told to fail" >&0; continue; fi
                 case $c in
                   probe) echo "ok map";;
                   state) if [ -e driver.$p ]; then echo "ok $(cat driver.$p)"; else echo "ok 0"; fi;;
                   lock) echo 1 > driver.$p; echo ok;;
                   checkpoint) echo 2 > driver.$p; echo ok;;
                   restore) echo 1 > driver.$p; echo "$rest" >> maps; echo ok;;
                   unlock) echo 0 > driver.$p; echo ok;;
                 esac >&0
               done)sh";
  }

  int gpus_;
  bool has_driver_;
  Duration lingers_;
  std::int64_t residual_;
  std::string nvml_;  // Path of a stand-in.
  std::unique_ptr<Keeper> keeper_;
  std::thread thread_;
};

}  // namespace divvy::keeper
