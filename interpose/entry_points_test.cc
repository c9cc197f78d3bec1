// Every entry point of the driver has a treatment, and the table of hooks agrees with it. driver_functions.txt lists
// the exports of libcuda.so.1 and their treatments; platform/gpu/cuda_functions.inc lists those of the stand-in.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace divvy::interpose {
namespace entry_points_test {

using Names = std::set<std::string>;

/// The hooks that act on a call.
Names Intercepted() {
  return {
#define HOOK(symbol) #symbol,
#define HOOK_PTSZ(symbol) #symbol, #symbol "_ptsz",
#define TOUCH(symbol)
#define TOUCH_PTSZ(symbol)
#define TOUCH_PTDS(symbol)
#include "hooks.inc"
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS
  };
}

/// The hooks that only wait at the gate.
Names Gated() {
  return {
#define HOOK(symbol)
#define HOOK_PTSZ(symbol)
#define TOUCH(symbol) #symbol,
#define TOUCH_PTSZ(symbol) #symbol, #symbol "_ptsz",
#define TOUCH_PTDS(symbol) #symbol, #symbol "_ptds",
#include "hooks.inc"
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS
  };
}

Names OfStandIn() {
  return {
#define DIVVY_CUDA(name, symbol, since, parameters) #symbol,
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) #symbol, #symbol "_ptsz",
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) #symbol, #symbol "_ptds",
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
  };
}

/// The names below the headings of driver_functions.txt, by treatment.
std::map<std::string, Names> Treatments() {
  std::ifstream file(DIVVY_DRIVER_FUNCTIONS);
  std::map<std::string, Names> treatments;
  std::string treatment;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      treatment = line.substr(1, line.find(']') - 1);
      EXPECT_GT(line.size(), treatment.size() + 10) << line << " has no reason";
    } else {
      for (const auto& [other, names] : treatments) EXPECT_FALSE(names.contains(line)) << line << " is listed twice";
      treatments[treatment].insert(line);
    }
  }
  return treatments;
}

Names OfDriver() {
  Names all;
  for (const auto& [treatment, names] : Treatments()) all.insert(names.begin(), names.end());
  return all;
}

std::string Difference(const Names& wanted, const Names& there) {
  std::string missing;
  for (const std::string& name : wanted) {
    if (!there.contains(name)) missing += name + " ";
  }
  return missing;
}

TEST(EntryPoints, TheTableOfHooksAgreesWithTheListOfTreatments) {
  std::map<std::string, Names> treatments = Treatments();
  ASSERT_EQ(treatments.size(), 3U);
  ASSERT_GT(OfDriver().size(), 720U);
  Names intercepted = Intercepted();
  // The headers define this form inline. The library has a hook for drivers that export it.
  EXPECT_EQ(intercepted.erase("cuGetProcAddress_v2_ptsz"), 1U);
  EXPECT_EQ(treatments["intercepted"], intercepted);
  EXPECT_EQ(treatments["gated"], Gated());
  EXPECT_GT(treatments["direct"].size(), 60U);
}

/// The name without "_v2", "_ptsz" and so on, as passed to cuGetProcAddress together with a version.
std::string Plain(const std::string& name) { return name.substr(0, name.find('_')); }

TEST(EntryPoints, FunctionsThatProgramsRequestAreClassified) {
  const Names symbols = OfDriver();
  Names plain;
  for (const std::string& name : symbols) plain.insert(Plain(name));
  std::ifstream file(DIVVY_REQUESTED_NAMES);
  std::map<std::string, int> counts;
  std::string unknown;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string how, name;
    words >> how >> name;
    if (line.empty() || line[0] == '#' || !(how == "table" || name.starts_with("cu"))) continue;
    ++counts[how];
    // cuGetProcAddress selects a form by its version; dlsym names the form.
    const bool is_known = how == "table" || (how == "proc" ? plain.contains(Plain(name)) : symbols.contains(name));
    if (!is_known) unknown += how + " " + name + "\n";
  }
  EXPECT_GT(counts["dlsym"], 100);
  EXPECT_GT(counts["proc"], 600);
  EXPECT_EQ(unknown, "");
}

TEST(EntryPoints, EveryEmulatedFunctionIsClassified) {
  Names standin = OfStandIn();
  standin.erase("cuGetProcAddress_v2_ptsz");
  EXPECT_EQ(Difference(standin, OfDriver()), "");
}

/// Runs scripts/check-cuda-abi with a header of this content. Returns its output; its exit status goes to `status`.
std::string CheckHeader(const std::string& declarations, int& status) {
  std::string folder = testing::TempDir() + "divvy-header-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  const std::string header = folder + "/cuda.h";
  std::ofstream(header) << "typedef int CUresult;\n#define CUDAAPI\n" << declarations;
  FILE* const script = popen((std::string(DIVVY_CHECK_CUDA_ABI) + " --names " + header + " 2>&1").c_str(), "r");
  std::string output;
  for (int c = 0; (c = std::fgetc(script)) != EOF;) output += static_cast<char>(c);
  status = WEXITSTATUS(pclose(script));
  std::filesystem::remove_all(folder);
  return output;
}

TEST(EntryPoints, TheCheckOfAHeaderFailsForANewFunction) {
  int status = -1;
  const std::string known = "CUresult CUDAAPI cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes);\n";
  EXPECT_NE(CheckHeader(known, status).find("1 functions"), std::string::npos);
  EXPECT_EQ(status, 0);
  const std::string output =
      CheckHeader(known + "CUresult CUDAAPI cuMemAllocFromTheMoon(unsigned long long *pointer);\n", status);
  EXPECT_EQ(status, 1);
  EXPECT_NE(output.find("cuMemAllocFromTheMoon"), std::string::npos) << output;
  EXPECT_EQ(output.find("cuMemAlloc_v2"), std::string::npos) << output;
}

TEST(EntryPoints, TheCheckOfAHeaderFailsForANewVersionOfAKnownFunction) {
  int status = -1;
  const std::string output = CheckHeader("CUresult CUDAAPI cuMemAlloc_v9(unsigned long long *pointer);\n", status);
  EXPECT_EQ(status, 1);
  EXPECT_NE(output.find("cuMemAlloc_v9"), std::string::npos) << output;
}

}  // namespace entry_points_test
}  // namespace divvy::interpose
