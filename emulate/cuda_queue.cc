// Streams: the ordered commands of each, and the context's thread that executes them.
//
// Each context has one thread, which executes one command at a time. Among the streams whose first command may run, it
// takes the command that was submitted first. As in CUDA, the legacy stream 0 and the other streams wait for each
// other, based on the submission numbers of their commands. Non-blocking streams do not take part in that.
#include <pthread.h>
#include <signal.h>

#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

// Returns true if an unfinished command with a smaller number is in a stream that this one must wait for. That is
// stream 0, or for stream 0 any blocking stream.
bool IsHeldBack(const OpaqueContext* context, const OpaqueStream* stream, uint64_t number) {
  if ((stream->flags & kStreamNonBlocking) != 0) return false;
  if (stream != context->legacy) return context->legacy->first != nullptr && context->legacy->first->number < number;
  for (const OpaqueStream* other : context->streams) {
    if (other == stream || (other->flags & kStreamNonBlocking) != 0) continue;
    if (other->first != nullptr && other->first->number < number) return true;
  }
  return false;
}

bool MayRun(const OpaqueContext* context, const OpaqueStream* stream) {
  const Command* command = stream->first;
  if (command == nullptr || IsHeldBack(context, stream, command->number)) return false;
  if (command->kind == kWait) return command->event->done >= command->version;
  return true;
}

Stream NextStream(Context context) {
  Stream next = nullptr;
  for (Stream stream : context->streams) {
    if (!MayRun(context, stream)) continue;
    if (next == nullptr || stream->first->number < next->first->number) next = stream;
  }
  return next;
}

Return RunKernel(Stream stream, const Command* command) {
  Context context = stream->context;
  const unsigned gpu = driver.gpus[context->device];
  if (IsLost(gpu)) return kUnknown;
  Return error = kSuccess;
  const unsigned fault = TakeStickyFault(context->device);
  const uint64_t duration = PlayKernel(command->function, command->arguments, &error);
  // A kernel begins after every event before it, even if this thread saw the event late.
  uint64_t ready = command->submitted_ns;
  if (ready < stream->ended_ns) ready = stream->ended_ns;
  if (ready < stream->reached_ns) ready = stream->reached_ns;
  if (duration != 0) stream->ended_ns = UseGpu(gpu, ready, duration);
  return fault != 0 ? static_cast<Return>(fault) : error;
}

// Executes a command. Called outside the monitor.
Return Run(Stream stream, Command* command) {
  switch (command->kind) {
    case kRunKernel:
      return RunKernel(stream, command);
    case kCopy:
      PayCopy(stream->context->device, command->bytes);
      CopyBytes(reinterpret_cast<void*>(command->target), reinterpret_cast<const void*>(command->source),
                command->bytes);
      return kSuccess;
    case kCopyShaped:
      PayCopy(stream->context->device, command->shaped->width_bytes * command->shaped->height * command->shaped->depth);
      CopyShape(*command->shaped);
      return kSuccess;
    case kFill:
      for (size_t row = 0; row < command->rows; ++row) {
        FillBytes(command->target + row * command->pitch, command->bytes, command->value, command->element);
      }
      return kSuccess;
    case kCallHost:
      command->host(command->user);
      return kSuccess;
    case kCallBack:
      command->callback(stream, stream->context->sticky, command->user);
      return kSuccess;
    case kWriteValue:
      memcpy(reinterpret_cast<void*>(command->target), &command->wide_value, command->element);
      return kSuccess;
    default:
      return kSuccess;
  }
}

void ReleaseEvent(Event event) {
  if (--event->uses == 0 && event->is_removed) free(event);
}

// Applies the effects of a finished command. Called inside the monitor.
void Finish(Stream stream, Command* command) {
  switch (command->kind) {
    case kRecord: {
      Event event = command->event;
      const uint64_t now = Now();
      event->reached_ns = command->submitted_ns > stream->ended_ns || stream->ended_ns == 0 ? now : stream->ended_ns;
      stream->reached_ns = event->reached_ns;
      if (event->done < command->version) event->done = command->version;
      // The thread of another context may wait for it.
      for (Context context : driver.contexts) pthread_cond_signal(&context->work);
      ReleaseEvent(event);
      break;
    }
    case kWait:
      ReleaseEvent(command->event);
      break;
    case kFreePooled: {
      Range* range = RangeFrom(command->target);
      if (range == nullptr) break;
      if (range->kind == kPlain) {
        RemoveRange(range);
      } else {
        ReturnToPool(range);
      }
      break;
    }
    default:
      break;
  }
  stream->done = command->number;
  stream->first = command->next;
  if (stream->first == nullptr) stream->last = nullptr;
  --stream->queued;
  FreeCommand(command);
  AnnounceChange();
}

bool IsOver(const OpaqueContext* context, const Stream stream) {
  return context->sticky != kSuccess && stream->first->kind != kRecord && stream->first->kind != kCallBack;
}

void* Work(void* argument) {
  auto* context = static_cast<Context>(argument);
  bool has_gpu = false;
  pthread_mutex_lock(&driver.monitor);
  for (;;) {
    Stream stream = NextStream(context);
    if (stream == nullptr) {
      if (context->is_ending) break;
      if (has_gpu) {
        const unsigned gpu = driver.gpus[context->device];
        context->is_busy = true;
        pthread_mutex_unlock(&driver.monitor);
        LeaveGpu(gpu);
        pthread_mutex_lock(&driver.monitor);
        context->is_busy = false;
        has_gpu = false;
        AnnounceChange();
        continue;
      }
      context->is_idle = true;
      pthread_cond_wait(&context->work, &driver.monitor);
      context->is_idle = false;
      continue;
    }
    Command* command = stream->first;
    Return error = kSuccess;
    if (!IsOver(context, stream)) {
      context->is_busy = true;
      has_gpu = has_gpu || command->kind == kRunKernel;
      pthread_mutex_unlock(&driver.monitor);
      error = Run(stream, command);
      pthread_mutex_lock(&driver.monitor);
      context->is_busy = false;
    }
    if (error != kSuccess && context->sticky == kSuccess) context->sticky = error;
    Finish(stream, command);
    if (stream->is_removed && stream->first == nullptr) {
      context->streams.Remove(stream);
      free(stream);
    }
  }
  pthread_mutex_unlock(&driver.monitor);
  if (has_gpu) LeaveGpu(driver.gpus[context->device]);
  return nullptr;
}

}  // namespace

Return StartContextThread(Context context) {
  pthread_cond_init(&context->work, nullptr);
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int failed = pthread_create(&context->thread, nullptr, Work, context);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return failed == 0 ? kSuccess : kOperatingSystem;
}

void StopContextThread(Context context) {
  context->is_ending = true;
  pthread_cond_signal(&context->work);
  pthread_mutex_unlock(&driver.monitor);
  pthread_join(context->thread, nullptr);
  pthread_mutex_lock(&driver.monitor);
  pthread_cond_destroy(&context->work);
}

Command* NewCommand(CommandKind kind) {
  auto* command = New<Command>();
  command->kind = kind;
  return command;
}

void FreeCommand(Command* command) {
  free(command->arguments);
  free(command->shaped);
  free(command);
}

Command* CloneCommand(const Command* command) {
  auto* clone = New<Command>();
  *clone = *command;
  clone->next = nullptr;
  if (command->arguments != nullptr) {
    clone->arguments = malloc(command->function->bytes);
    memcpy(clone->arguments, command->arguments, command->function->bytes);
  }
  if (command->shaped != nullptr) {
    clone->shaped = New<Copy3D>();
    *clone->shaped = *command->shaped;
  }
  return clone;
}

Return Submit(Stream stream, Command* command) {
  Context context = stream->context;
  if (stream->capture != nullptr) {
    const GraphNodeType types[] = {kNodeKernel, kNodeMemcpy, kNodeMemset, kNodeHost, kNodeHost};
    AddNode(stream->capture, command->kind <= kCallBack ? types[command->kind] : kNodeEmpty, command, nullptr, 0);
    return kSuccess;
  }
  while (stream->queued >= kMostQueued && context->sticky == kSuccess) WaitForChange();
  WaitWhileLocked();
  if (context->sticky != kSuccess) {
    FreeCommand(command);
    return context->sticky;
  }
  if (command->kind == kRecord || command->kind == kWait) ++command->event->uses;
  command->number = ++context->submitted;
  command->submitted_ns = Now();
  stream->submitted = command->number;
  if (stream->last != nullptr) {
    stream->last->next = command;
  } else {
    stream->first = command;
  }
  stream->last = command;
  ++stream->queued;
  if (context->is_idle) pthread_cond_signal(&context->work);
  return kSuccess;
}

bool IsStreamDone(const OpaqueStream* stream) { return stream->first == nullptr; }

namespace {

// Waits for everything submitted so far, in all streams or only in those that stream 0 waits for.
void WaitForStreams(const OpaqueContext* context, bool with_non_blocking) {
  const uint64_t last = context->submitted;
  for (;;) {
    bool is_done = true;
    for (const OpaqueStream* stream : context->streams) {
      if (!with_non_blocking && (stream->flags & kStreamNonBlocking) != 0) continue;
      if (stream->first != nullptr && stream->first->number <= last) is_done = false;
    }
    if (is_done) break;
    WaitForChange();
  }
  WaitWhileLocked();
}

}  // namespace

void WaitForContext(Context context) { WaitForStreams(context, true); }

void WaitForStream(Stream stream) {
  if (stream == stream->context->legacy) return WaitForStreams(stream->context, false);
  const uint64_t last = stream->submitted;
  while (stream->done < last && stream->first != nullptr) WaitForChange();
  WaitWhileLocked();
}

Stream NewStream(Context context, unsigned flags, int priority) {
  auto* stream = New<OpaqueStream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = ++driver.next_id;
  context->streams.Add(stream);
  return stream;
}

void RemoveStream(Stream stream) {
  if (stream->first != nullptr) {
    stream->is_removed = true;  // It is removed after its last command.
    return;
  }
  stream->context->streams.Remove(stream);
  free(stream);
}

Stream Call::Resolve(Stream stream) {
  auto number = reinterpret_cast<uintptr_t>(stream);
  if (number == 0 && is_per_thread) number = kStreamPerThread;
  if (number == 0 || number == kStreamLegacy) return context->legacy;
  if (number != kStreamPerThread) return stream;
  for (Stream own : context->streams) {
    if (own->is_per_thread && pthread_equal(own->owner, pthread_self()) != 0) return own;
  }
  Stream own = NewStream(context, 0, 0);
  own->is_per_thread = true;
  own->owner = pthread_self();
  return own;
}

}  // namespace divvy::cuda
