// NCCL communicators for share_tenant.
#include <dlfcn.h>

#include <vector>

#include "share_tenant.h"

namespace {
struct UniqueId {
  char internal[128];
};
}  // namespace

// A symbol of the program itself, as if it were linked with NCCL.
extern "C" __attribute__((weak)) int ncclCommInitRank(void** made, int ranks, UniqueId id, int rank);

namespace divvy::share_tenant {

namespace {
void* g_nccl = nullptr;

template <typename Function>
Function* InNccl(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(g_nccl, symbol));
}
}  // namespace

int LoadNccl() {
  g_nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return g_nccl == nullptr ? 1 : 0;
}

int MakeCommunicator(const std::string& how, int ranks, bool is_linked) {
  void* made = nullptr;
  int config = 0;
  UniqueId id{};
  id.internal[0] = 'a';
  id.internal[127] = 'z';
  if (is_linked) return &ncclCommInitRank == nullptr ? -1 : ncclCommInitRank(&made, ranks, id, 0);
  if (how == "rank") return InNccl<int(void**, int, UniqueId, int)>("ncclCommInitRank")(&made, ranks, id, 0);
  if (how == "config") {
    return InNccl<int(void**, int, UniqueId, int, void*)>("ncclCommInitRankConfig")(&made, ranks, id, 0, &config);
  }
  if (how == "scalable") {
    const auto make = InNccl<int(void**, int, int, int, UniqueId*, void*)>("ncclCommInitRankScalable");
    return make(&made, ranks, 0, 1, &id, &config);
  }
  std::vector<int> devices;
  while (static_cast<int>(devices.size()) < ranks) devices.push_back(static_cast<int>(devices.size()));
  return InNccl<int(void**, int, const int*)>("ncclCommInitAll")(&made, ranks, devices.data());
}

}  // namespace divvy::share_tenant
