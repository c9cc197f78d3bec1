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

/// Returns the page in the folder DIVVY_SHARE, mapped by the first call; null if this process shares nothing. If it
/// should share but cannot, the reason is printed once on standard error.
share::Page* SharedPage();
/// Returns the folder that DIVVY_SHARE named at that time; a program may change its environment later.
const char* ShareFolder();

/// Joins the tenant on the first call: connects to the keeper and waits for a slot. Later calls are cheap. Returns
/// false if nothing is shared; then the call goes to the driver unchanged. Requires: no lock of this library held.
bool IsShared();

/// Prints one line with program name and pid on standard error. Only for problems that make sharing impossible, never
/// for errors of the program.
void Say(const char* what, const char* repair);
/// Ends sharing for this process and prints such a line.
void StopSharing(const char* what, const char* repair);

/// Returns the tenant's number of a driver device, matched by UUID at process start, or kNotOurs.
unsigned DeviceOf(cuda::Device ordinal);
/// Returns the tenant's number of the current context's device, or kNotOurs, also if there is no current context. (With
/// HasOneDevice, no context is needed.) `ordinal`: output, the driver's number of that device; unchanged if unknown.
unsigned CurrentDevice(cuda::Device* ordinal = nullptr);
cuda::Device OrdinalOf(unsigned device);
/// Returns true if CurrentDevice does not need to query the driver.
bool HasOneDevice();

/// Counts bytes before the driver allocates them. Returns kOutOfMemory if they exceed the ceiling and the keeper does
/// not raise it. May wait for the keeper. Requires: no lock held, and not inside the gate
/// (gate.h).
cuda::Return Take(unsigned device, std::uint64_t bytes);
/// Like Take, but never waits or asks the keeper.
bool TakeAtOnce(unsigned device, std::uint64_t bytes);
/// Counts memory that the driver has already allocated, whatever the ceiling is.
void TakeRegardless(unsigned device, std::uint64_t bytes);
void GiveBack(unsigned device, std::uint64_t bytes);
/// Returns the bytes counted for this process.
std::uint64_t Mine(unsigned device);

/// Returns the memory to show to the tenant's programs: its limit as the total, and the use of all its processes.
/// `total`: in, the driver's value; out, the value to show. Returns false if it is shown the driver's figures, because
/// its job has the whole GPU.
bool ShownMemory(unsigned device, std::uint64_t& total, std::uint64_t& used);

/// Sets reasons why this process cannot be moved (share::Flag).
void SetFlags(std::uint32_t flags);
std::uint32_t FlagsNow();

/// Returns this process's entry in the page, or a local one while it has no slot. Never null.
share::PageProcess* ProcessWords();
std::uint32_t SlotNow();
std::uint64_t GenerationNow();
/// Accepts a slot from the keeper, in the page with this inode (0: not reported), and writes this process's use into it
/// if it is a new one. Returns false if the page cannot be mapped.
bool AdoptSlot(std::uint32_t slot, std::uint64_t generation, std::uint64_t inode);

/// Finds the driver devices that belong to the tenant. Returns false if the driver is not initialised in this process.
bool FindDevices();
/// Call this in the child of a fork. The slot stays with the parent.
void ForgetTenancy();

}  // namespace divvy::interpose
