// This process as part of a tenant: the page, its slot in it, its devices and its bytes. All memory counts in the page
// are changed through these functions only.
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/gpu/cuda_types.h"
#include "platform/gpu/tenant_shm.h"

namespace divvy::interpose {

/// A device that does not belong to the tenant: neither counted nor gated.
inline constexpr unsigned kNotOurs = ~0U;

/// Returns the memory page that the tenant's processes share with the keeper, from the folder that DIVVY_SHARE names.
/// The first call maps it. Null if this process shares nothing. If it should share but cannot, the reason is printed
/// once on standard error.
share::Page* SharedPage();
/// Returns the folder that DIVVY_SHARE named when SharedPage was first called; a program may change its environment
/// later.
const char* ShareFolder();

/// Returns true if this process belongs to a tenant, so that its driver calls must be controlled. The first call
/// connects to the keeper and waits until the process has an entry (slot) in the shared page; later calls are cheap.
/// Requires: no lock of this library held.
bool IsShared();

/// Prints one line with program name and pid on standard error. Only for problems that make sharing impossible, never
/// for errors of the program.
void Say(const char* what, const char* repair);
/// Prints such a line, and lets this process no longer take part in the sharing.
void StopSharing(const char* what, const char* repair);

/// Returns the tenant's number of a device by its number in the driver; kNotOurs if it is not one of the tenant's
/// devices. They were matched by UUID when the process started.
unsigned DeviceOf(cuda::Device ordinal);
/// Returns the tenant's number of the current context's device, or kNotOurs, also if there is no current context. (With
/// HasOneDevice, no context is needed.) `ordinal`: output, the driver's number of that device; unchanged if unknown.
unsigned CurrentDevice(cuda::Device* ordinal = nullptr);
cuda::Device OrdinalOf(unsigned device);
/// Returns true if CurrentDevice does not need to query the driver.
bool HasOneDevice();

/// Counts `bytes` as used by this process, before the driver allocates them. Returns kOutOfMemory if the tenant would
/// use more than it may now (its ceiling) and the keeper does not allow it more. May wait for the keeper. Requires: no
/// lock held, and not inside the gate (gate.h).
cuda::Return Take(unsigned device, std::uint64_t bytes);
/// Like Take, but does not ask the keeper for more and never waits. Returns false if the tenant may not use `bytes`
/// more now.
bool TakeAtOnce(unsigned device, std::uint64_t bytes);
/// Counts memory that the driver has already allocated, even if the tenant then uses more than it may.
void TakeRegardless(unsigned device, std::uint64_t bytes);
void GiveBack(unsigned device, std::uint64_t bytes);
/// Returns the bytes that are counted for this process on the device.
std::uint64_t Mine(unsigned device);

/// Returns the memory to show to the tenant's programs: its limit as the total, and the use of all its processes.
/// `total`: in, the driver's value; out, the value to show. Returns false if the programs must see the driver's
/// figures, because their job has the whole GPU.
bool ShownMemory(unsigned device, std::uint64_t& total, std::uint64_t& used);

/// Adds reasons why this process cannot be moved to another GPU (share::Flag) to its entry in the shared page.
void SetFlags(std::uint32_t flags);
std::uint32_t FlagsNow();

/// Returns this process's entry in the shared page; while the keeper has assigned none, an entry in its own memory.
/// Never null.
share::PageProcess* ProcessWords();
std::uint32_t SlotNow();
std::uint64_t GenerationNow();
/// Uses the entry number `slot` of the shared page, which the keeper has assigned to this process. Writes this
/// process's memory use to the entry if it is a new one. `inode`: of the page's file; 0: not reported. Returns false if
/// the page cannot be mapped.
bool AdoptSlot(std::uint32_t slot, std::uint64_t generation, std::uint64_t inode);

/// Finds the driver devices that belong to the tenant. Returns false if the driver is not initialised in this process.
bool FindDevices();
/// Forgets that this process belongs to a tenant. Call this in the child of a fork: the entry in the shared page stays
/// with the parent.
void ForgetTenancy();

}  // namespace divvy::interpose
