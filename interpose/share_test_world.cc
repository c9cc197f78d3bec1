#include "share_test_world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/emulation/emulation.h"

namespace divvy::interpose {

namespace {

constexpr auto kTimeout = std::chrono::seconds(20);

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

std::vector<std::uint64_t> Numbers(const std::string& answer) {
  std::istringstream words(answer);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

World::World(const std::string& spec) {
  signal(SIGPIPE, SIG_IGN);  // A dead program is noticed by its missing answers.
  std::string name = testing::TempDir() + "divvy-share-test.XXXXXX";
  folder_ = mkdtemp(name.data());
  const auto gpus = ParseGpuDescription(spec);
  EXPECT_TRUE(gpus);
  EXPECT_TRUE(WriteEmulation(*gpus, folder_));
  for (const GpuFacts& gpu : *gpus) uuids_.push_back(gpu.uuid);
  memory_ = static_cast<std::uint64_t>(gpus->front().memory_total.count());
}

World::~World() { std::filesystem::remove_all(folder_); }

std::vector<std::string> World::Environment(const std::string& driver, const std::string& preload) const {
  std::vector<std::string> environment = {
      "PATH=/usr/bin:/bin", "DIVVY_EMULATE=" + folder_ + "/world", "DIVVY_EMULATE_CUDA_CONTEXT=1M",
      "LD_LIBRARY_PATH=" + (driver.empty() ? std::string(DIVVY_CUDA_STANDIN_FOLDER) : driver) + ":" + folder_ + ":" +
          DIVVY_IDLE_NCCL_FOLDER,
      "LD_PRELOAD=" + preload};
  // For programs built with ASan: the library is loaded before it. scripts/sanitize-cuda sets more.
  const char* const asan = std::getenv("ASAN_OPTIONS");
  environment.push_back("ASAN_OPTIONS=verify_asan_link_order=0" + (asan == nullptr ? "" : ":" + std::string(asan)));
  if (const char* const tsan = std::getenv("TSAN_OPTIONS")) environment.push_back("TSAN_OPTIONS=" + std::string(tsan));
  return environment;
}

FakeKeeper::FakeKeeper(const World& world, std::uint64_t ceiling) : folder_(world.folder() + "/share") {
  std::filesystem::create_directory(folder_);
  MapPage();
  page_->magic = share::kPageMagic;
  page_->layout = share::kPageLayout;
  page_->device_count = static_cast<std::uint32_t>(world.uuids().size());
  page_->is_enforced = 1;
  for (std::size_t i = 0; i < world.uuids().size(); ++i) {
    share::PageDevice& device = page_->devices[i];
    std::strncpy(device.uuid, world.uuids()[i].c_str(), sizeof device.uuid - 1);
    device.request = device.limit = device.ceiling = device.shown_total = ceiling;
  }
  Start();
}

void FakeKeeper::MapPage() {
  const std::string path = folder_ + "/" + share::kPageFile;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(ftruncate(fd, sizeof(share::Page)), 0);
  page_ = static_cast<share::Page*>(mmap(nullptr, sizeof(share::Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  struct stat about {};
  EXPECT_EQ(fstat(fd, &about), 0);
  inode_ = about.st_ino;
  close(fd);
}

void FakeKeeper::ReplacePage() {
  share::Page* const before = page_;
  const std::string path = folder_ + "/" + share::kPageFile;
  std::filesystem::rename(path, path + ".before");  // Keeps the old file, so that its inode is not reused.
  MapPage();
  std::memcpy(page_, before, sizeof *page_);
  for (share::PageProcess& process : page_->processes) process = {};
  munmap(before, sizeof *before);
}

FakeKeeper::~FakeKeeper() {
  Kill();
  munmap(page_, sizeof(share::Page));
}

std::uint64_t FakeKeeper::Used(unsigned device) { return share::UsedOf(*page_, device); }

void FakeKeeper::SetCeiling(std::uint64_t bytes, std::uint64_t limit) {
  share::LockPage(*page_, share::kLockedByKeeper);
  page_->devices[0].ceiling = bytes;
  page_->devices[0].limit = limit;
  share::UnlockPage(*page_, share::kLockedByKeeper);
}

void FakeKeeper::SetGate(share::Gate gate, unsigned device) {
  __atomic_store_n(&page_->devices[device].gate, gate, __ATOMIC_SEQ_CST);
  share::PageFutex(&page_->devices[device].gate, FUTEX_WAKE, 1 << 30, nullptr);
}

void FakeKeeper::Start() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ + "/" + share::kLinkSocket;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  unlink(path.c_str());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener_, 128), 0);
  ASSERT_EQ(pipe2(stop_, O_CLOEXEC), 0);
  thread_ = std::thread([this] { Run(); });
}

void FakeKeeper::Kill() {
  if (!thread_.joinable()) return;
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
  for (const auto& [fd, slot] : links_) close(fd);
  links_.clear();
  close(listener_);
}

void FakeKeeper::Run() {
  for (;;) {
    std::vector<pollfd> watched = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [fd, slot] : links_) watched.push_back({fd, POLLIN, 0});
    }
    poll(watched.data(), watched.size(), -1);
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (fd >= 0) links_[fd] = share::kNoSlot;
    }
    for (std::size_t i = 2; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      share::Message message{};
      const int fd = watched[i].fd;
      if (recv(fd, &message, sizeof message, 0) == static_cast<ssize_t>(sizeof message)) {
        OnMessage(fd, message);
        continue;
      }
      // Like the real keeper, frees a process's memory when its link closes.
      const std::lock_guard lock(mutex_);
      const std::uint32_t slot = links_[fd];
      if (slot != share::kNoSlot) {
        share::UnlockPage(*page_, share::LockedBySlot(slot));
        share::LockPage(*page_, share::kLockedByKeeper);
        const std::uint32_t generation = page_->processes[slot].generation;
        page_->processes[slot] = {};
        page_->processes[slot].generation = generation;
        share::UnlockPage(*page_, share::kLockedByKeeper);
      }
      links_.erase(fd);
      close(fd);
    }
  }
}

void FakeKeeper::OnMessage(int fd, share::Message message) {
  {
    // Recorded before the answer, so that a test that has the answer finds the message.
    const std::lock_guard lock(mutex_);
    all_.push_back(message);
  }
  if (is_silent) return;
  if (message.word == share::Word::kHello && refusal) {
    send(fd, &*refusal, sizeof *refusal, MSG_NOSIGNAL);
  } else if (message.word == share::Word::kHello) {
    const std::lock_guard lock(mutex_);
    std::uint32_t slot = 0;
    if (message.process < share::kMaxProcesses && page_->processes[message.process].is_taken != 0 &&
        page_->processes[message.process].generation == message.id) {
      slot = message.process;  // It had this slot under an earlier keeper.
    } else {
      while (page_->processes[slot].is_taken != 0) ++slot;
      ++page_->processes[slot].generation;
      page_->processes[slot].is_taken = 1;
    }
    links_[fd] = slot;
    share::Message welcome{};
    welcome.word = share::Word::kWelcome;
    welcome.process = slot;
    welcome.id = page_->processes[slot].generation;
    welcome.bytes = inode_;
    send(fd, &welcome, sizeof welcome, MSG_NOSIGNAL);
  }
  if (message.word == share::Word::kPin && !holds_pins) {
    share::Message answer = message;
    answer.word = share::Word::kGranted;
    send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  if (message.word == share::Word::kWant) {
    share::Message answer = message;
    answer.word = on_want && on_want(message) ? share::Word::kGranted : share::Word::kDenied;
    send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  const std::lock_guard lock(mutex_);
  messages_.push_back(message);
  came_.notify_all();
}

void FakeKeeper::Send(std::uint32_t process, share::Message message) {
  const std::lock_guard lock(mutex_);
  for (const auto& [fd, slot] : links_) {
    if (slot == process) send(fd, &message, sizeof message, MSG_NOSIGNAL);
  }
}

share::Message FakeKeeper::Await(share::Word word) {
  std::unique_lock lock(mutex_);
  const auto find = [&] {
    return std::find_if(messages_.begin(), messages_.end(), [&](const auto& message) { return message.word == word; });
  };
  if (!came_.wait_for(lock, kTimeout, [&] { return find() != messages_.end(); })) {
    ADD_FAILURE() << "no message " << static_cast<unsigned>(word);
    return {};
  }
  const auto found = find();
  const share::Message message = *found;
  messages_.erase(found);
  return message;
}

bool FakeKeeper::Has(share::Word word) {
  const std::lock_guard lock(mutex_);
  return std::any_of(messages_.begin(), messages_.end(), [&](const auto& message) { return message.word == word; });
}

std::size_t FakeKeeper::CountOf(share::Word word) {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const auto& message) { return message.word == word; }));
}

share::Message FakeKeeper::Command(std::uint32_t process, share::Word word, unsigned device) {
  share::Message order{};
  order.word = word;
  order.device = device;
  order.id = next_id_++;
  Send(process, order);
  const share::Message answer = Await(word == share::Word::kDrain ? share::Word::kDrained : share::Word::kDone);
  EXPECT_EQ(answer.id, order.id);
  return answer;
}

Program::Program(const World& world, const Options& options)
    : errors_(world.folder() + "/errors." + std::to_string(std::rand())) {
  int in[2];
  int out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC), 0);
  std::vector<std::string> environment = world.Environment(options.driver, options.preload);
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  if (!options.share.empty()) environment.push_back("DIVVY_SHARE=" + options.share);
  if (!options.memory.empty()) environment.push_back("DIVVY_SHARE_MEMORY=" + options.memory);
  std::vector<std::string> command = {DIVVY_SHARE_TENANT};
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  const int errors = open(errors_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(errors, 2);
    if (options.before_exec) options.before_exec();
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  close(errors);
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

Program::~Program() {
  Kill();
  close(in_);
  close(out_);
  const std::string errors = Errors();
  if (::testing::Test::HasFailure() && !errors.empty()) std::fprintf(stderr, "program %d: %s\n", pid_, errors.c_str());
}

void Program::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int Program::End() {
  int status = -1;
  if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) {
    ADD_FAILURE() << "the program does not end: " << Errors();
    return status;
  }
  pid_ = -1;
  return status;
}

void Program::Tell(const std::string& line) {
  const std::string whole = line + "\n";
  EXPECT_EQ(write(in_, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
}

bool Program::HasAnswer() {
  pollfd watched = {out_, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

std::string Program::Answer() {
  std::string answer;
  pollfd watched = {out_, POLLIN, 0};
  for (char one = 0; poll(&watched, 1, 30'000) == 1 && read(out_, &one, 1) == 1;) {
    if (one == '\n') return answer;
    answer += one;
  }
  ADD_FAILURE() << "the program does not answer: " << Errors();
  return answer;
}

std::string Program::Do(const std::string& line) {
  Tell(line);
  return Answer();
}

std::string Program::Errors() {
  std::ifstream file(errors_);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string RunPreloaded(const World& world, const std::vector<std::string>& command, const std::string& share,
                         int& status) {
  int out[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  std::vector<std::string> environment = world.Environment();
  if (!share.empty()) environment.push_back("DIVVY_SHARE=" + share);
  std::vector<std::string> words = command;
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> variables = Pointers(environment);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 1);
    dup2(out[1], 2);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  close(out[1]);
  std::string text;
  char piece[4096];
  for (ssize_t size = 0; (size = read(out[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(size));
  close(out[0]);
  waitpid(child, &status, 0);
  return text;
}

}  // namespace divvy::interpose
