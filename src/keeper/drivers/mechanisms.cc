#include "keeper/drivers/mechanisms.h"

#include "platform/gpu/tenant_shm.h"

namespace divvy::keeper {
namespace {

struct Taint {
  std::uint32_t flag;
  const char* text;
};
// Features that neither divvy's library nor the driver can restore after a move.
constexpr Taint kTaints[] = {
    {share::kCollectives, "uses NCCL"},
    {share::kIpc, "uses CUDA IPC"},
    {share::kManaged, "uses managed memory"},
    {share::kExternal, "uses external memory or semaphores"},
    {share::kPeers, "uses peer access between GPUs"},
    {share::kGraphicsShared, "shares memory with OpenGL, Vulkan or EGL"},
};
// Features that the driver can save and restore, but divvy's library cannot.
constexpr Taint kDriverOnly[] = {
    {share::kOwnMapping, "maps memory itself, which needs driver R570 or later to save"},
    {share::kPlainMemory, "has arrays, pools or graph memory, which need driver R570 or later to save"},
};

std::string TaintOf(std::uint32_t flags) {
  for (const Taint& taint : kTaints) {
    if ((flags & taint.flag) != 0) return taint.text;
  }
  return "";
}

}  // namespace

std::string Mechanisms::WhyCannotMove(std::uint32_t flags) const {
  if (std::string taint = TaintOf(flags); !taint.empty()) return taint;
  return driver.can_map ? "" : driver.reason;
}

std::string Mechanisms::WhyCannotPark(std::uint32_t flags) const {
  if (std::string taint = TaintOf(flags); !taint.empty()) return taint;
  if (uses_driver()) return "";
  for (const Taint& taint : kDriverOnly) {
    if ((flags & taint.flag) != 0) return taint.text;
  }
  return has_interposer ? "" : "GPU sharing is unavailable: libdivvy_cuda.so is missing";
}

std::vector<wire::KeptMechanism> Mechanisms::List() const {
  const std::string emulated = is_emulated ? " (emulated)" : "";
  std::vector<wire::KeptMechanism> list;
  wire::KeptMechanism library;
  library.name = "interposer" + emulated;
  library.is_there = has_interposer;
  if (!has_interposer) library.reason = "GPU sharing is unavailable: libdivvy_cuda.so is missing";
  library.can_limit = library.can_soft_limit = library.can_share_compute = library.can_resize = has_interposer;
  library.can_park = has_interposer;
  list.push_back(library);
  wire::KeptMechanism checkpoint;
  checkpoint.name = "checkpoint" + emulated;
  checkpoint.is_there = checkpoint.can_park = driver.can_checkpoint;
  checkpoint.can_move = driver.can_map;
  checkpoint.reason = driver.reason;
  list.push_back(checkpoint);
  wire::KeptMechanism hybrid = checkpoint;
  hybrid.name = "hybrid" + emulated;
  hybrid.is_there = hybrid.is_there && has_interposer;
  hybrid.can_limit = hybrid.can_soft_limit = hybrid.can_share_compute = hybrid.can_resize = hybrid.is_there;
  list.push_back(hybrid);
  wire::KeptMechanism mig;
  mig.name = "mig" + emulated;
  mig.is_there = mig.can_limit = mig.can_share_compute = has_slices;
  mig.reason = why_no_slices;
  list.push_back(mig);
  wire::KeptMechanism mps;
  mps.name = "mps";
  mps.is_there = mps.can_limit = mps.can_share_compute = !mps_program.empty();
  if (mps_program.empty()) mps.reason = "nvidia-cuda-mps-control is not installed";
  list.push_back(mps);
  return list;
}

}  // namespace divvy::keeper
