// A tenant whose process has memory, with a driver that can move it. For tests of moves and of recovery after a
// keeper's end.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {

inline std::string UuidOf(int gpu) { return "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(gpu); }

struct Moved : KeeperWorld {
  explicit Moved(int gpus = 2) : KeeperWorld(gpus, true) {
    folder = Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
    process = std::make_unique<FakeProcess>(folder);
    EXPECT_TRUE(Eventually([&] { return process->is_up(); }));
    EXPECT_TRUE(process->Allocate(2 * kGiB));
    EXPECT_TRUE(Eventually([&] { return node->StateOf(1).is_movable; }));
    at = node->StateOf(1).shares.at(0).gpu;
  }
  std::string folder;
  std::unique_ptr<FakeProcess> process;
  int at = 0;
};

}  // namespace divvy::keeper
