#include "platform/isolation/device_program.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr char kName[] = "divvy_devices";  // The name that bpftool shows; at most 15 characters.
static_assert(sizeof kName <= BPF_OBJ_NAME_LEN);

int Bpf(enum bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Error DeviceProgramError(std::string_view what, const std::string& cgroup) {
  return Internal("cannot " + std::string(what) + " for '" + cgroup + "': " + std::strerror(errno));
}

bpf_insn Instruction(int code, int to, int from, std::size_t jump, std::int32_t value) {
  bpf_insn instruction = {};
  instruction.code = static_cast<__u8>(code);
  instruction.dst_reg = static_cast<__u8>(to) & 0xf;
  instruction.src_reg = static_cast<__u8>(from) & 0xf;
  instruction.off = static_cast<__s16>(jump);
  instruction.imm = value;
  return instruction;
}

// Registers: 0 result, 1 context, 6 major, 7 minor, 8 device type, 10 stack frame.
std::vector<bpf_insn> Assemble(int counter, std::span<const DeviceNumber> closed) {
  constexpr int kLoad = BPF_LDX | BPF_MEM | BPF_W;
  constexpr int kJumpUnequal = BPF_JMP | BPF_JNE | BPF_K;
  constexpr int kMove = BPF_ALU64 | BPF_MOV | BPF_K;
  constexpr int kCopy = BPF_ALU64 | BPF_MOV | BPF_X;
  constexpr std::size_t kEach = 3;
  const auto number = [](std::uint32_t value) { return static_cast<std::int32_t>(value); };
  std::vector<bpf_insn> out;
  out.push_back(Instruction(kLoad, 6, 1, offsetof(bpf_cgroup_dev_ctx, major), 0));
  out.push_back(Instruction(kLoad, 7, 1, offsetof(bpf_cgroup_dev_ctx, minor), 0));
  out.push_back(Instruction(kLoad, 8, 1, offsetof(bpf_cgroup_dev_ctx, access_type), 0));
  // Keeps the device type. The upper 16 bits are the kind of access: read, write, mknod.
  out.push_back(Instruction(BPF_ALU64 | BPF_AND | BPF_K, 8, 0, 0, 0xffff));
  out.push_back(Instruction(kJumpUnequal, 8, 0, kEach * closed.size(), BPF_DEVCG_DEV_CHAR));
  for (std::size_t i = 0; i < closed.size(); ++i) {
    out.push_back(Instruction(kJumpUnequal, 6, 0, 2, number(closed[i].major)));
    out.push_back(Instruction(kJumpUnequal, 7, 0, 1, number(closed[i].minor)));
    // Jumps over the remaining comparisons and the two instructions that allow access.
    out.push_back(Instruction(BPF_JMP | BPF_JA, 0, 0, kEach * (closed.size() - i - 1) + 2, 0));
  }
  out.push_back(Instruction(kMove, 0, 0, 0, 1));
  out.push_back(Instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));

  // Stores the key of the counter (0) on the stack.
  out.push_back(Instruction(BPF_ST | BPF_MEM | BPF_W, 10, 0, static_cast<std::size_t>(-4), 0));
  out.push_back(Instruction(kCopy, 2, 10, 0, 0));
  out.push_back(Instruction(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4));
  out.push_back(Instruction(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, counter));
  out.push_back(Instruction(0, 0, 0, 0, 0));  // The second half of the 64-bit load.
  out.push_back(Instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem));
  out.push_back(Instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, 0));
  out.push_back(Instruction(kMove, 1, 0, 0, 1));
  out.push_back(Instruction(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD));
  out.push_back(Instruction(kMove, 0, 0, 0, 0));
  out.push_back(Instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
  return out;
}

Descriptor MakeCounter() {
  bpf_attr attributes = {};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = sizeof(std::uint32_t);
  attributes.value_size = sizeof(std::uint64_t);
  attributes.max_entries = 1;
  std::memcpy(attributes.map_name, kName, sizeof kName);
  return Descriptor(Bpf(BPF_MAP_CREATE, attributes));
}

Descriptor Load(const std::vector<bpf_insn>& program) {
  bpf_attr attributes = {};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = Address(program.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
  attributes.license = Address("Apache-2.0");  // It calls no GPL-only function.
  std::memcpy(attributes.prog_name, kName, sizeof kName);
  return Descriptor(Bpf(BPF_PROG_LOAD, attributes));
}

// Returns the counter of the program with this id, if it has one.
std::optional<std::int64_t> ReadCounter(std::uint32_t program_id) {
  bpf_attr attributes = {};
  attributes.prog_id = program_id;
  const Descriptor program(Bpf(BPF_PROG_GET_FD_BY_ID, attributes));
  if (!program.is_open()) return std::nullopt;
  std::uint32_t map_id = 0;
  bpf_prog_info about = {};
  about.nr_map_ids = 1;
  about.map_ids = Address(&map_id);
  attributes = {};
  attributes.info.bpf_fd = static_cast<std::uint32_t>(program.get());
  attributes.info.info_len = sizeof about;
  attributes.info.info = Address(&about);
  if (Bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0 || about.nr_map_ids != 1) return std::nullopt;
  if (std::strncmp(about.name, kName, sizeof about.name) != 0) return std::nullopt;
  attributes = {};
  attributes.map_id = map_id;
  const Descriptor counter(Bpf(BPF_MAP_GET_FD_BY_ID, attributes));
  if (!counter.is_open()) return std::nullopt;
  const std::uint32_t key = 0;
  std::uint64_t value = 0;
  attributes = {};
  attributes.map_fd = static_cast<std::uint32_t>(counter.get());
  attributes.key = Address(&key);
  attributes.value = Address(&value);
  if (Bpf(BPF_MAP_LOOKUP_ELEM, attributes) != 0) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::vector<DeviceNumber> DeviceNumbers(std::span<const std::string> files) {
  std::vector<DeviceNumber> numbers;
  for (const std::string& file : files) {
    struct stat about = {};
    if (::stat(file.c_str(), &about) != 0 || !S_ISCHR(about.st_mode)) continue;
    numbers.push_back({.major = major(about.st_rdev), .minor = minor(about.st_rdev)});
  }
  return numbers;
}

Status CloseDevices(const std::string& cgroup, std::span<const DeviceNumber> closed) {
  const Descriptor directory(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return DeviceProgramError("open the cgroup", cgroup);
  const Descriptor counter = MakeCounter();
  if (!counter.is_open()) return DeviceProgramError("make the counter of refused devices", cgroup);
  const Descriptor program = Load(Assemble(counter.get(), closed));
  if (!program.is_open()) return DeviceProgramError("load the program that refuses devices", cgroup);
  bpf_attr attributes = {};
  attributes.target_fd = static_cast<std::uint32_t>(directory.get());
  attributes.attach_bpf_fd = static_cast<std::uint32_t>(program.get());
  attributes.attach_type = BPF_CGROUP_DEVICE;
  attributes.attach_flags = BPF_F_ALLOW_MULTI;  // Keeps the programs of parent cgroups in effect.
  if (Bpf(BPF_PROG_ATTACH, attributes) != 0)
    return DeviceProgramError("attach the program that refuses devices", cgroup);
  return {};
}

std::optional<std::int64_t> RefusedOpens(const std::string& cgroup) {
  const Descriptor directory(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return std::nullopt;
  std::array<std::uint32_t, 8> programs = {};
  bpf_attr attributes = {};
  attributes.query.target_fd = static_cast<std::uint32_t>(directory.get());
  attributes.query.attach_type = BPF_CGROUP_DEVICE;
  attributes.query.prog_ids = Address(programs.data());
  attributes.query.prog_cnt = static_cast<std::uint32_t>(programs.size());
  if (Bpf(BPF_PROG_QUERY, attributes) != 0) return std::nullopt;
  for (std::size_t i = 0; i < std::min<std::size_t>(attributes.query.prog_cnt, programs.size()); ++i) {
    if (const auto count = ReadCounter(programs[i])) return count;
  }
  return std::nullopt;
}

}  // namespace divvy
