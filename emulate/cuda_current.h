// The context stack of the calling thread.
#pragma once

#include "cuda_driver.h"

namespace divvy::cuda {

struct ContextStack {
  Context items[32];
  unsigned depth;
};
extern __thread ContextStack current_contexts;

inline Context CurrentContext() {
  const ContextStack& stack = current_contexts;
  return stack.depth == 0 ? nullptr : stack.items[stack.depth - 1];
}

}  // namespace divvy::cuda
