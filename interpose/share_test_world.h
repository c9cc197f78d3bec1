// Test support for the library: an emulated GPU with a stand-in driver, a scripted keeper, and programs
// (share_tenant.cc) that preload the library and execute commands line by line.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "platform/gpu/tenant_link.h"
#include "platform/gpu/tenant_shm.h"

namespace divvy::interpose {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// A temporary folder with an emulated GPU, and the environment that a program needs to see it.
class World {
 public:
  explicit World(const std::string& gpus = "1xA100-40GB");
  ~World();
  const std::string& folder() const { return folder_; }
  const std::vector<std::string>& uuids() const { return uuids_; }
  std::uint64_t memory() const { return memory_; }
  /// `preload`: the value of LD_PRELOAD.
  std::vector<std::string> Environment(const std::string& driver = "",
                                       const std::string& preload = DIVVY_SHARE_LIBRARY) const;

 private:
  std::string folder_;
  std::vector<std::string> uuids_;
  std::uint64_t memory_ = 0;
};

/// A keeper of one tenant with a share of each GPU. By default it grants nothing; it records all messages.
class FakeKeeper {
 public:
  /// Uses World's folder. `ceiling` is the initial request, limit and ceiling.
  FakeKeeper(const World& world, std::uint64_t ceiling);
  ~FakeKeeper();

  share::Page& page() { return *page_; }
  std::string Folder() const { return folder_; }
  /// Returns the bytes that the tenant's processes use.
  std::uint64_t Used(unsigned device = 0);
  void SetCeiling(std::uint64_t bytes, std::uint64_t limit);
  /// Sets the gate and wakes waiting threads.
  void SetGate(share::Gate gate, unsigned device = 0);

  /// Called for each kWant on the keeper's thread. Returns true to grant.
  std::function<bool(const share::Message&)> on_want;
  /// Accepts connections and answers nothing.
  bool is_silent = false;
  /// Leaves kPin unanswered.
  bool holds_pins = false;
  /// The answer to every hello, instead of a slot.
  std::optional<share::Message> refusal;

  void Start();
  /// Simulates kill -9: connections and socket disappear, the page stays.
  void Kill();
  /// Call this while killed. Replaces the page's file by a new one that holds only the tenant's rights.
  void ReplacePage();

  void Send(std::uint32_t process, share::Message message);
  /// Returns the oldest message of this kind not returned before; fails the test after 20 s.
  share::Message Await(share::Word word);
  /// Returns true if such a message has arrived.
  bool Has(share::Word word);
  std::size_t CountOf(share::Word word);
  /// Sends an order and waits for its kDone.
  share::Message Command(std::uint32_t process, share::Word word, unsigned device = 0);

 private:
  void MapPage();
  void Run();
  void OnMessage(int fd, share::Message message);

  std::string folder_;
  share::Page* page_ = nullptr;
  std::uint64_t inode_ = 0;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<share::Message> messages_;
  std::vector<share::Message> all_;
  std::map<int, std::uint32_t> links_;  // Slot of each connection.
  std::uint64_t next_id_ = 100;
};

/// A program with the library preloaded.
class Program {
 public:
  struct Options {
    std::string share;   // DIVVY_SHARE; empty: not set.
    std::string memory;  // DIVVY_SHARE_MEMORY
    std::string driver;  // Folder of a driver other than the stand-in.
    std::string preload = DIVVY_SHARE_LIBRARY;
    std::vector<std::string> environment;  // Further variables.
    std::function<void()> before_exec;     // Runs in the child.
  };
  Program(const World& world, const Options& options);
  Program(const World& world, FakeKeeper& keeper) : Program(world, Options{keeper.Folder(), ""}) {}
  ~Program();

  /// Sends a line and returns the answer.
  std::string Do(const std::string& line);
  void Tell(const std::string& line);
  std::string Answer();
  /// Returns true if an answer has already arrived.
  bool HasAnswer();
  void Kill();
  /// Waits until the program ends, and returns its wait status.
  int End();
  pid_t pid() const { return pid_; }
  std::string Errors();

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string errors_;
};

/// Waits for a condition; returns false after 20 s.
bool Eventually(const std::function<bool()>& condition);

std::vector<std::uint64_t> Numbers(const std::string& answer);

/// Runs a program to its end with the library preloaded. Returns its output; its exit status goes to `status`.
std::string RunPreloaded(const World& world, const std::vector<std::string>& command, const std::string& share,
                         int& status);

}  // namespace divvy::interpose
