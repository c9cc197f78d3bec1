// Scenario files for the scheduler, for clusters, for shared GPUs and for waste. A file starts with a sentence on what
// it shows, followed by commands, a line of "----", and the engine's answers. DIVVY_REWRITE=1 writes the actual answers
// into the files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace divvy {

/// Parses a duration such as "1h30m" or "20s".
inline Duration ReadDuration(const std::string& text) {
  Duration total{0};
  std::int64_t number = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      number = number * 10 + (c - '0');
      continue;
    }
    const std::int64_t unit = c == 'd' ? 86'400 : c == 'h' ? 3600 : c == 'm' ? 60 : 1;
    total += std::chrono::seconds(number * unit);
    number = 0;
  }
  return total;
}

inline std::filesystem::path ScenarioFolder() {
  return std::filesystem::path(DIVVY_SOURCE_DIR) / "tests" / "scenarios";
}

/// The files in tests/scenarios for one kind of world, as sorted relative paths. "cluster" (many nodes), "sharing" (the
/// tenants of one node's GPUs) and "waste" (jobs that waste GPUs) have their own folders. "scheduler" has all others.
inline std::vector<std::string> ScenarioFiles(std::string_view world) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(ScenarioFolder())) {
    const std::string name = std::filesystem::relative(file.path(), ScenarioFolder()).string();
    const std::string folder = name.substr(0, name.find('/'));
    const bool has_own_world = folder == "cluster" || folder == "sharing" || folder == "waste";
    if (file.path().extension() == ".txt" && (has_own_world ? folder : "scheduler") == world) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Makes a valid test name from the file's path: "order_small_jobs_first".
inline std::string ScenarioName(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param.substr(0, test.param.rfind('.'));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

/// Runs the commands of the file with `run`, which returns the engine's answers, and compares these with the answers in
/// the file.
template <typename Run>
void ShowScenario(const std::string& name, Run run) {
  const std::string path = (ScenarioFolder() / name).string();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string file = text.str();
  const std::size_t line = file.find("----\n");
  ASSERT_NE(line, std::string::npos) << path << " has no line of ----";
  ASSERT_EQ(file.front(), '#') << path << " does not open with a sentence on what it shows";
  const std::string answer = run(file.substr(0, line));
  ASSERT_FALSE(::testing::Test::HasFailure()) << path << ", which said:\n" << answer;
  if (std::getenv("DIVVY_REWRITE") != nullptr) std::ofstream(path) << file.substr(0, line) << "----\n" << answer;
  else EXPECT_EQ(answer, file.substr(line + 5)) << path;
}

}  // namespace divvy
