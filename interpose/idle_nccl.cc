// An NCCL whose communicators do nothing, to test the hooks in front of it. Each entry point checks its arguments.
struct UniqueId {
  char internal[128];
};

namespace {
constexpr int kInvalidArgument = 4;
int Checked(const UniqueId& id) { return id.internal[0] == 'a' && id.internal[127] == 'z' ? 0 : kInvalidArgument; }
}  // namespace

extern "C" {
int ncclCommInitRank(void**, int ranks, UniqueId id, int rank) { return rank < ranks ? Checked(id) : kInvalidArgument; }
int ncclCommInitRankConfig(void**, int ranks, UniqueId id, int rank, void* config) {
  return rank < ranks && config != nullptr ? Checked(id) : kInvalidArgument;
}
int ncclCommInitRankScalable(void**, int ranks, int rank, int ids, UniqueId* id, void* config) {
  return rank < ranks && ids == 1 && config != nullptr ? Checked(*id) : kInvalidArgument;
}
int ncclCommInitAll(void**, int devices, const int* list) {
  return list[devices - 1] == devices - 1 ? 0 : kInvalidArgument;
}
}
