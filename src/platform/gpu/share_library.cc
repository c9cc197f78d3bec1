#include "platform/gpu/share_library.h"

#include <filesystem>

#include "platform/gpu/tenant_shm.h"
#include "platform/os/image_file.h"

// The library libdivvy_cuda.so, which is embedded in this program (interpose/share_image.S).
extern "C" const char divvy_share_image_begin[];
extern "C" const char divvy_share_image_end[];

namespace divvy {

Result<std::string> WriteShareLibrary(const std::string& directory) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) {
    return FailedPrecondition("cannot make " + directory + " (" + failed.message() +
                              "): GPU sharing needs this folder");
  }
  std::string path = directory + "/libdivvy_cuda.so";
  DIVVY_CHECK(WriteImage(path, divvy_share_image_begin, divvy_share_image_end, "GPU fractions"));
  return path;
}

std::vector<std::string> ShareEnvironment(const std::string& library, const std::string& folder,
                                          const std::string& preloaded) {
  return {"LD_PRELOAD=" + library + (preloaded.empty() ? "" : ":" + preloaded),
          std::string(share::kFolderVariable) + "=" + folder};
}

}  // namespace divvy
