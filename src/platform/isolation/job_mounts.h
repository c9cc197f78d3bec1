// A job's own view of the file system: device files that it cannot open, and a private /tmp and /dev/shm. Devices are
// denied this way if no cgroup can deny them. A root daemon uses only a mount namespace. Other daemons also use a user
// namespace, in which only the user exists, so set-uid programs do not work.
//
// A denied device keeps its path but cannot be opened (EACCES): its file is mounted over itself without the right to
// open devices. This works by path: another file with the same device number can be opened, but only root can create
// one. Denied opens are not counted. Root in the job can remove the mounts. Other users cannot, not even in their own
// user namespace, because inherited mounts are locked there.
//
// Guarantees that these mounts are not visible outside the job and disappear with its last process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/os/unique_fd.h"

namespace divvy {

struct MountWishes {
  std::vector<std::string> closed_devices;  // Device files; those that do not exist are skipped.
  std::string own_tmp;                      // An empty folder that is mounted at /tmp; empty: /tmp is not private.
  bool has_own_shm = false;                 // An empty file system in memory is mounted at /dev/shm.
  std::string kept;                         // A folder that stays visible even if it is under /tmp; empty: none.

  bool IsEmpty() const { return closed_devices.empty() && own_tmp.empty() && !has_own_shm; }
};

/// All that EnterMounts() needs, prepared beforehand because it may not allocate.
struct MountPlan {
  struct Step {
    std::string source;  // Empty: an empty file system in memory.
    std::string target;
    bool closes_device = false;  // `target` is a device file, which is mounted on itself so that it opens no device.
  };
  std::vector<Step> steps;  // Empty: the job has the same view as the system.
  bool needs_user_namespace = false;
  std::string user_map;
  std::string group_map;
};

/// Plans the mounts of a job, and creates in wishes.own_tmp the files that they need. On kInternal the error names the
/// folder.
Result<MountPlan> PlanMounts(const MountWishes& wishes);

/// Makes the planned mounts. Called in the job's first process while it still has the supervisor's rights. Returns -1
/// with errno on failure.
int EnterMounts(const MountPlan& plan);

/// The namespaces that EnterMounts() created, held open. They are entered only through these descriptors: a process of
/// the job may have moved to namespaces that its user created, in which the user chose the content of /etc.
struct JobNamespaces {
  Descriptor mounts;  // Closed: the job has the same view as the system.
  Descriptor user;    // Closed: the job has no user namespace of its own.
};
/// Sends the namespaces over `socket`. Called in the process that called EnterMounts(), before it executes anything.
/// Allocates nothing. Returns -1 with errno on failure.
int SendNamespaces(const MountPlan& plan, int socket);
/// Receives what SendNamespaces() sends at the other end of the socket. Returns when that process has sent its
/// namespaces or has ended. If it sent none, both descriptors in the result are closed.
JobNamespaces ReceiveNamespaces(int socket);
/// Enters the namespaces; requires a process with one thread. Returns -1 with errno on failure.
int JoinNamespaces(const JobNamespaces& namespaces);

/// Checks whether a child process can make a device inaccessible by mounting its file without access to devices.
/// Otherwise the error has the system's reason.
Status CanMount();

/// Creates a folder under /tmp that a job sees as its /tmp (MountWishes::own_tmp). Only the job's mount gives access to
/// it; outside the job only the user of this process can enter it.
Result<std::string> MakeOwnTmp(uid_t owner, gid_t group);
/// Makes the folder inaccessible to its owner and renames it for RemoveOldTmps(). Does nothing if that was done
/// already, or if MakeOwnTmp() did not make the path. Cost: a few system calls, regardless of its size.
void SetAsideOwnTmp(const std::string& folder);
/// Removes all folders that our user set aside on this machine, including those left by a killed process. Cost: time
/// for each file in them.
void RemoveOldTmps();

}  // namespace divvy
