// Replaces libFuzzer when only g++ is available, so that each fuzzer is also an ordinary test. Runs every file in the
// given folders, and for each a few hundred modified copies that are the same in every run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

constexpr int kChanges = 300;

void Try(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

class Draws {
 public:
  std::size_t Below(std::size_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state_ >> 33) % std::max<std::size_t>(bound, 1);
  }

 private:
  std::uint64_t state_ = 1;
};

std::string Change(std::string text, Draws& draws) {
  static constexpr char kTelling[] = "\n\r\t \0\"'\\{}[]:,=%-#/@0919.\xff\x80";
  for (std::size_t i = draws.Below(4) + 1; i > 0 && !text.empty(); --i) {
    const std::size_t at = draws.Below(text.size());
    const std::size_t length = draws.Below(std::min<std::size_t>(text.size() - at, 40)) + 1;
    switch (draws.Below(5)) {
      case 0:
        text[at] = static_cast<char>(draws.Below(256));
        break;
      case 1:
        text.insert(at, 1, kTelling[draws.Below(sizeof kTelling - 1)]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(draws.Below(text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(words[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    // Printed first, so that the file is known if the run crashes.
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    Try(text);
    Draws draws;
    for (int i = 0; i < kChanges; ++i) Try(Change(text, draws));
  }
  std::printf("%zu files, %d changes of each\n", files.size(), kChanges);
  return files.empty() ? 1 : 0;
}
