// Lets the program run on glibc 2.34 (Ubuntu 22.04, RHEL 9) although it is built with a newer one: functions of later
// versions that the bundled C++ library and libgcc call.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

namespace {

/// The address to search for, and where to put the answer.
struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

/// Fills in `found` if the loaded object contains the address, and returns 1 then. For dl_iterate_phdr.
int FillIfInside(dl_phdr_info* object, std::size_t, void* data) {
  const auto& search = *static_cast<const Search*>(data);
  std::uintptr_t from = UINTPTR_MAX;
  std::uintptr_t to = 0;
  std::uintptr_t unwind_table = 0;
  bool is_inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) unwind_table = begin;
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t end = begin + header.p_memsz;
    if (begin < from) from = begin;
    if (end > to) to = end;
    if (begin <= search.address && search.address < end) is_inside = true;
  }
  if (!is_inside || unwind_table == 0) return 0;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(from);
  search.found->dlfo_map_end = reinterpret_cast<void*>(to);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(unwind_table);
  return 1;
}

}  // namespace

/// Since glibc 2.36. divvy itself draws no random numbers through it.
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}

/// Since glibc 2.35. Finds the unwind table for an address of code when an exception is thrown. 0: found; -1: not.
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(FillIfInside, &search) == 1 ? 0 : -1;
}
