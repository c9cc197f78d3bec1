// Interprets arbitrary bytes as actions of a tenant's processes against their keeper: valid and invalid messages on
// their connections, and writes to their shared page between the keeper's own steps. None of it may crash or block the
// keeper, and the memory that it counts for the tenant must stay within limits.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/tenants/gates.h"
#include "keeper/tenants/relocation.h"
#include "keeper/tenants/tenant.h"

namespace divvy::keeper {
namespace {

constexpr std::uint64_t kRequest = std::uint64_t{4} << 30;
constexpr std::uint64_t kLimit = std::uint64_t{8} << 30;
constexpr std::uint64_t kMostResidual = std::uint64_t{2} << 30;
constexpr unsigned kDevices = 2;
constexpr std::size_t kMostLinks = 8;
constexpr int kMostSteps = 64;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "tenant_fuzz: %s\n", what);
  std::abort();
}

/// The rest of the input. Reads past its end return zeros.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  bool is_over() const { return bytes_.empty(); }
  void Take(void* to, std::size_t size) {
    const std::size_t has = std::min(size, bytes_.size());
    std::memset(to, 0, size);
    std::memcpy(to, bytes_.data(), has);
    bytes_.remove_prefix(has);
  }
  template <typename T>
  T Take() {
    T value{};
    Take(&value, sizeof value);
    return value;
  }

 private:
  std::string_view bytes_;
};

/// Returns the parent directory of the folders of all inputs.
const std::string& Directory() {
  static const std::string directory = [] {
    static std::string made = std::filesystem::temp_directory_path() / "tenant-fuzz-XXXXXX";
    Require(::mkdtemp(made.data()) != nullptr, "no directory");
    std::atexit([] { std::filesystem::remove_all(made); });
    return made;
  }();
  return directory;
}

class World {
 public:
  World() : loop_(*EventLoop::Make()), gates_(*loop_), driver_(*loop_, {}) {
    std::vector<TenantDevice> devices(kDevices);
    for (unsigned i = 0; i < kDevices; ++i)
      devices[i] = {.uuid = "GPU-" + std::to_string(i), .gpu = i, .request = kRequest, .limit = kLimit};
    auto made = Tenant::Create(*loop_, remover_, Directory(), {1, 1}, ::getuid(), ::getgid(), devices);
    Require(static_cast<bool>(made), "no tenant");
    tenant_ = *std::move(made);
    Map();
    Listen();
    JoinGates();
  }
  ~World() {
    relocation_.reset();
    for (unsigned i = 0; i < kDevices; ++i) gates_.Leave(*tenant_, i);
    tenant_.reset();
    for (const int link : links_) ::close(link);
    ::munmap(static_cast<void*>(page_), sizeof *page_);
    std::filesystem::remove_all(Directory() + "/1.1");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void Step(Input& input) {
    const auto what = input.Take<std::uint8_t>();
    switch (what % 8) {
      case 0:
        Dial(input);
        break;
      case 1:
      case 2:
        Say(input, sizeof(share::Message));
        break;
      case 3:
        Say(input, input.Take<std::uint8_t>());
        break;
      case 4:
        Scribble(input);
        break;
      case 5:
        if (!links_.empty()) HangUp(input.Take<std::uint8_t>() % links_.size());
        break;
      case 6:
        Decide(input);
        break;
      default:
        Relocate(input.Take<std::uint8_t>());
    }
    // A new connection is accepted in one turn and read in the next, so it needs more turns.
    for (int turn = 0; turn < (what % 8 == 0 ? 3 : 1); ++turn) Turn();
    Check();
  }

 private:
  void Map() {
    const Descriptor file(::open((tenant_->folder() + "/page").c_str(), O_RDWR | O_CLOEXEC));
    void* at = ::mmap(nullptr, sizeof(share::Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    Require(at != MAP_FAILED, "no page");
    page_ = static_cast<share::Page*>(at);
  }
  void Listen() {
    tenant_->Listen({[this](Slot slot) {
                       if (relocation_ != nullptr) relocation_->OnCame(slot);
                     },
                     [this](Slot slot, const share::Message& message) { OnSaid(slot, message); },
                     [this](Slot slot) {
                       gates_.OnGone(*tenant_, slot);
                       if (relocation_ != nullptr) relocation_->OnGone(slot);
                     }});
  }
  /// The same handling as in Keeper::OnSaid().
  void OnSaid(Slot slot, const share::Message& message) {
    Require(slot < share::kMaxProcesses, "a slot that is none");
    switch (message.word) {
      case share::Word::kDrained:
        return gates_.OnDrained(*tenant_, message.device, slot, message.id);
      case share::Word::kYield:
        return gates_.OnYield(*tenant_, message.device, slot);
      case share::Word::kAsk:
        return gates_.OnAsk(*tenant_, message.device, slot);
      case share::Word::kDone:
        if (relocation_ != nullptr) relocation_->OnDone(slot, message);
        return;
      case share::Word::kWant:
        Require(message.device < kDevices, "a device that is none");
        return;
      case share::Word::kWake:
      case share::Word::kPin:
        return;
      default:
        return tenant_->Drop(slot);
    }
  }
  void JoinGates() {
    const sharing::Share share{.compute_request = GpuShare(GpuShare::kWhole / 2),
                               .compute_limit = GpuShare(GpuShare::kWhole)};
    for (unsigned i = 0; i < kDevices; ++i) gates_.Join(*tenant_, i, static_cast<GpuIndex>(i), share);
  }
  void Dial(Input& input) {
    if (links_.size() >= kMostLinks) HangUp(0);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/link", tenant_->folder().c_str());
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd);
      return;
    }
    links_.push_back(fd);
    auto hello = input.Take<share::Message>();
    if (hello.process % 2 == 0) hello.word = share::Word::kHello;  // So that most inputs pass the handshake.
    Send(fd, &hello, sizeof hello);
  }
  void HangUp(std::size_t link) {
    ::close(links_[link]);
    links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(link));
  }
  void Say(Input& input, std::size_t size) {
    char bytes[256] = {};
    const std::size_t link = input.Take<std::uint8_t>();
    input.Take(bytes, std::min(size, sizeof bytes));
    if (links_.empty()) return;
    Answer(bytes, size);
    Send(links_[link % links_.size()], bytes, size);
  }
  /// Sends the message. An id of 0 is replaced by the id of the keeper's last message, so that some messages match a
  /// request.
  void Answer(char* bytes, std::size_t size) {
    if (size != sizeof(share::Message)) return;
    auto& message = *reinterpret_cast<share::Message*>(bytes);
    for (const int link : links_) {
      share::Message told{};
      while (::recv(link, &told, sizeof told, MSG_DONTWAIT) == sizeof told) last_told_ = told;
    }
    if (message.id == 0) message.id = last_told_.id;
  }
  static void Send(int fd, const void* bytes, std::size_t size) {
    [[maybe_unused]] const auto sent = ::send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void Scribble(Input& input) {
    const std::size_t at = input.Take<std::uint16_t>() % sizeof(share::Page) / 8 * 8;
    const auto value = input.Take<std::uint64_t>();
    std::memcpy(reinterpret_cast<char*>(page_) + at, &value, sizeof value);
  }
  void Decide(Input& input) {
    const auto what = input.Take<std::uint8_t>();
    const auto bytes = input.Take<std::uint32_t>() % (kLimit >> 10) << 10;
    const unsigned device = what % kDevices;
    if (what % 3 == 0) tenant_->SetCeiling(device, bytes);
    if (what % 3 == 1 && !tenant_->processes().empty())
      tenant_->SeeMemory(tenant_->processes().begin()->first, device, bytes % kMostResidual);
    if (what % 3 == 2) tenant_->ExpectAway(::getpid(), device, bytes);
  }
  void Relocate(std::uint8_t what) {
    if (relocation_ != nullptr) return;
    for (unsigned i = 0; i < kDevices; ++i) gates_.Leave(*tenant_, i);
    tenant_->SetAllGates(share::kMoving);
    RelocationPlan plan;
    plan.leaves = what % 2 == 0;
    plan.returns = what % 3 != 0 || !plan.leaves;
    plan.from = {"GPU-0", "GPU-1"};
    plan.to = plan.from;
    ended_ = 0;
    RelocationHooks hooks;
    hooks.note = [refuses = what % 7 == 0](bool, const std::vector<std::string>&) -> Status {
      if (refuses) return Internal("no room");
      return {};
    };
    hooks.ended = [this](const sharing::Done&) {
      Require(++ended_ == 1, "a relocation ended twice");
      loop_->At(loop_->Now(), [this] {
        relocation_.reset();
        JoinGates();
      });
    };
    relocation_ = std::make_unique<Relocation>(*loop_, *tenant_, driver_, std::move(plan), std::move(hooks));
    relocation_->Start();
  }
  void Turn() {
    loop_->At(loop_->Now(), [this] { loop_->Stop(); });
    loop_->Run([this] {
      tenant_->BeginTurn();
      gates_.Settle();
    });
  }
  void Check() const {
    Require(tenant_->processes().size() + tenant_->missing() <= share::kMaxProcesses, "more processes than slots");
    for (unsigned i = 0; i < kDevices; ++i) {
      // The driver determines residuals; each is bounded here.
      const std::uint64_t residuals = (tenant_->processes().size() + tenant_->missing()) * kMostResidual;
      const std::uint64_t most = std::max(tenant_->devices()[i].ceiling, kLimit);
      Require(tenant_->Used(i) <= most + residuals, "more is counted than there can be");
    }
  }

  std::unique_ptr<EventLoop> loop_;
  FolderRemover remover_;
  Gates gates_;
  DriverHelpers driver_;
  std::unique_ptr<Tenant> tenant_;
  std::unique_ptr<Relocation> relocation_;
  share::Page* page_ = nullptr;
  std::vector<int> links_;
  share::Message last_told_{};
  int ended_ = 0;
};

}  // namespace
}  // namespace divvy::keeper

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  divvy::keeper::Input input(std::string_view(reinterpret_cast<const char*>(bytes), size));
  divvy::keeper::World world;
  for (int step = 0; step < divvy::keeper::kMostSteps && !input.is_over(); ++step) world.Step(input);
  return 0;
}
