// Kernel launches, and the queries that programs make before them.
#include "cuda_driver.h"

namespace divvy::cuda {

Command* MakeLaunch(Function function, void** parameters, void** extra) {
  if (function == nullptr) return nullptr;
  function->is_loaded = true;
  char* arguments = nullptr;
  if (function->bytes != 0) {
    const void* packed = nullptr;
    size_t packed_bytes = 0;
    for (void** at = extra; at != nullptr && reinterpret_cast<uintptr_t>(at[0]) != kLaunchEnd; at += 2) {
      if (reinterpret_cast<uintptr_t>(at[0]) == kLaunchBuffer) packed = at[1];
      if (reinterpret_cast<uintptr_t>(at[0]) == kLaunchBufferSize) packed_bytes = *static_cast<size_t*>(at[1]);
    }
    if (parameters == nullptr && (packed == nullptr || packed_bytes > function->bytes)) return nullptr;
    arguments = static_cast<char*>(calloc(1, function->bytes));
    if (arguments == nullptr) abort();
    if (parameters == nullptr) memcpy(arguments, packed, packed_bytes);
    for (size_t i = 0; parameters != nullptr && i < function->parameter_count; ++i) {
      memcpy(arguments + function->parameter_offset[i], parameters[i], function->parameter_bytes[i]);
    }
  }
  Command* command = NewCommand(kRunKernel);
  command->function = function;
  command->arguments = arguments;
  return command;
}

namespace {

struct Shape {
  unsigned grid[3];
  unsigned block[3];
};

bool IsValid(const Shape& shape) {
  for (const unsigned size : shape.grid) {
    if (size == 0) return false;
  }
  return shape.block[0] != 0 && shape.block[1] != 0 && shape.block[2] != 0 &&
         static_cast<uint64_t>(shape.block[0]) * shape.block[1] * shape.block[2] <= 1024;
}

bool HasFault(Device device) {
  return driver.faults.sticky_error != 0 || driver.file->gpus[driver.gpus[device]].faults.sticky_error != 0;
}

Return Launch(Function function, const Shape& shape, Stream handle, void** parameters, void** extra) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (function == nullptr) return kInvalidHandle;
  if (!IsValid(shape)) return kInvalidValue;
  Stream stream = call.Resolve(handle);
  // A kernel without duration completes at once if nothing precedes it. Only the cost of the call remains.
  if (function->duration_ns == 0 && stream->first == nullptr && stream->capture == nullptr &&
      call.context->legacy->first == nullptr && !HasFault(call.context->device)) {
    return kSuccess;
  }
  Command* command = MakeLaunch(function, parameters, extra);
  return command == nullptr ? kInvalidValue : Submit(stream, command);
}

}  // namespace

Return cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned, Stream stream, void** parameters, void** extra) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}}, stream, parameters, extra);
}

Return cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void** extra) {
  if (config == nullptr) return kInvalidValue;
  Shape shape;
  memcpy(shape.grid, config->grid, sizeof(shape.grid));
  memcpy(shape.block, config->block, sizeof(shape.block));
  return Launch(function, shape, config->stream, parameters, extra);
}

Return cuLaunchCooperativeKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, unsigned, Stream stream, void** parameters) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}}, stream, parameters, nullptr);
}

Return cuLaunchCooperativeKernelMultiDevice(CooperativeLaunch* launches, unsigned count, unsigned) {
  for (unsigned i = 0; i < count; ++i) {
    Shape shape;
    memcpy(shape.grid, launches[i].grid, sizeof(shape.grid));
    memcpy(shape.block, launches[i].block, sizeof(shape.block));
    const Return launched = Launch(launches[i].function, shape, launches[i].stream, launches[i].parameters, nullptr);
    if (launched != kSuccess) return launched;
  }
  return kSuccess;
}

Return cuLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (function == nullptr) return kInvalidValue;
  Command* command = NewCommand(kCallHost);
  command->host = function;
  command->user = argument;
  return Submit(call.Resolve(stream), command);
}

Return cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function function, int threads, size_t) {
  if (blocks == nullptr || function == nullptr || threads <= 0) return kInvalidValue;
  *blocks = threads > 2048 ? 0 : 2048 / threads > 32 ? 32 : 2048 / threads;
  return kSuccess;
}
Return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function function, int threads, size_t shared,
                                                            unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
Return cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function function, BlockToShared, size_t, int most) {
  if (grid == nullptr || block == nullptr || function == nullptr) return kInvalidValue;
  *block = most > 0 && most < 1024 ? most : 1024;
  *grid = 2 * 132;
  return kSuccess;
}
Return cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, Function function, BlockToShared shared,
                                                 size_t bytes, int most, unsigned) {
  return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared, bytes, most);
}
Return cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, Function function, int blocks, int) {
  if (bytes == nullptr || function == nullptr || blocks <= 0) return kInvalidValue;
  *bytes = (228UL << 10) / static_cast<size_t>(blocks);
  return kSuccess;
}

}  // namespace divvy::cuda
