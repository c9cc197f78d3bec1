// The fields of the messages between a node and its keeper; see messages_describe.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "wire/json/json.h"
#include "wire/messages/messages_describe.h"
#include "wire/messages/share_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_ENUM(ShareState, kRunning, kIdle, kParking, kParked, kWaking, kMoving)

BOOST_DESCRIBE_STRUCT(KeeperGpu, (), (index, uuid, memory, usable, is_withheld, kind, why, is_broken))
BOOST_DESCRIBE_STRUCT(KeeperHello, (), (version, gpus, whole_jobs, whole_gpus, may_switch_mig))
BOOST_DESCRIBE_STRUCT(ShareTerms, (), (memory_request, memory_limit, compute_request, compute_limit))
BOOST_DESCRIBE_STRUCT(KeeperAdd, (),
                      (job, attempt, uid, gid, owner, paper, share, idle_park, priority, is_interactive, may_requeue,
                       slice, uses_mps, is_whole))
BOOST_DESCRIBE_STRUCT(KeeperRemove, (), (job, attempt))
BOOST_DESCRIBE_STRUCT(KeeperAcquireExclusive, (), (job, gpus))
BOOST_DESCRIBE_STRUCT(KeeperReleaseExclusive, (), (job))
BOOST_DESCRIBE_STRUCT(KeeperResize, (), (job, share, paper))
BOOST_DESCRIBE_STRUCT(KeeperPark, (), (job))
BOOST_DESCRIBE_STRUCT(KeeperWake, (), (job))
BOOST_DESCRIBE_STRUCT(KeeperMove, (), (job, to))
BOOST_DESCRIBE_STRUCT(KeeperDisplace, (), (job, attempt))
BOOST_DESCRIBE_STRUCT(KeeperReturn, (), (job, attempt, to))
BOOST_DESCRIBE_STRUCT(KeeperGpusChanged, (), (gpus))
BOOST_DESCRIBE_STRUCT(KeeperProcess, (), (pid, start_ticks, job, attempt))
BOOST_DESCRIBE_STRUCT(KeeperProcesses, (), (processes))
BOOST_DESCRIBE_STRUCT(KeeperStateAsked, (), (is_wanted))
BOOST_DESCRIBE_STRUCT(KeeperLeave, (), (is_final))
BOOST_DESCRIBE_STRUCT(KeeperRequest, (),
                      (id, hello, add, remove, take_whole, give_whole, resize, park, wake, move, gpus, processes, state,
                       leave, displace, back))
BOOST_DESCRIBE_STRUCT(KeptShare, (),
                      (paper, gpu, request, limit, ceiling, used, borrowed, compute, compute_request, compute_limit,
                       is_compute_unknown))
BOOST_DESCRIBE_STRUCT(KeptPassage, (), (at, is_parked, gpus, words))
BOOST_DESCRIBE_STRUCT(KeptTenant, (),
                      (job, attempt, state, shares, processes, mechanism, is_movable, unmovable, escaped, trouble, idle,
                       words, passages, is_whole, is_displaced, unparkable, displacement_failure))
BOOST_DESCRIBE_STRUCT(KeptMechanism, (),
                      (name, is_there, reason, can_limit, can_soft_limit, can_share_compute, can_park, can_move,
                       can_resize))
BOOST_DESCRIBE_STRUCT(KeptGpu, (), (index, trouble, is_stuck))
BOOST_DESCRIBE_STRUCT(KeptWait, (), (job, why, since, bound))
BOOST_DESCRIBE_STRUCT(KeeperState, (), (tenants, mechanisms, moves, parks, gpus, waits, troubles))
BOOST_DESCRIBE_STRUCT(KeeperWelcome, (), (version, pid, mechanisms))
BOOST_DESCRIBE_STRUCT(KeeperAdded, (), (gpus, uuids, reachable, folder, environment, device_files))
BOOST_DESCRIBE_STRUCT(KeeperRoom, (), (took, bound))
BOOST_DESCRIBE_STRUCT(KeeperAnswer, (), (id, error, hello, added, room, state))
BOOST_DESCRIBE_STRUCT(KeeperRequeue, (), (job, attempt, owner, bytes))
BOOST_DESCRIBE_STRUCT(KeeperLine, (), (answer, state, requeue))

}  // namespace divvy::wire
