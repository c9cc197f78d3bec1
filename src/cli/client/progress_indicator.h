// Progress indicator for commands that may take a while: a terminal line says what is under way, and for how long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace divvy::cli {

/// While an object of this class exists, it prints "moving ... 3 s" to standard error after two seconds, updates this
/// line each second, and clears it at the end. Silent if standard error is not a terminal. If several indicators exist,
/// only the newest prints, because it describes the present step. They must be destroyed in reverse order of creation.
class ProgressIndicator {
 public:
  explicit ProgressIndicator(std::string what);
  /// For tests: prints to `to`, first after `after` and then every `after`.
  ProgressIndicator(std::string what, std::FILE* to, std::chrono::milliseconds after);
  ~ProgressIndicator();
  ProgressIndicator(const ProgressIndicator&) = delete;
  ProgressIndicator& operator=(const ProgressIndicator&) = delete;

  /// Call before writing anything else to standard error: clears the line until the next update.
  static void ClearLine();

 private:
  void Run();
  void Clear();

  std::string what_;
  std::FILE* to_ = nullptr;  // Null if it is silent.
  std::chrono::milliseconds after_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  bool is_shown_ = false;
  ProgressIndicator* outer_ = nullptr;  // The indicator that printed before this one.
  std::thread thread_;
};

}  // namespace divvy::cli
