// Arrays: memory with a shape. The stand-in stores it row by row.
#include "cuda_driver.h"

namespace divvy::cuda {
namespace {

size_t ElementBytes(int format) {
  switch (format) {
    case kFormatUnsigned8:
    case kFormatSigned8:
      return 1;
    case kFormatUnsigned16:
    case kFormatSigned16:
    case kFormatHalf:
      return 2;
    case kFormatUnsigned32:
    case kFormatSigned32:
    case kFormatFloat:
      return 4;
    default:
      return 0;
  }
}

size_t AtLeastOne(size_t n) { return n == 0 ? 1 : n; }

size_t BytesOf(const OpaqueArray& array) {
  return array.shape.width * AtLeastOne(array.shape.height) * AtLeastOne(array.shape.depth) * array.element;
}

Array NewArray(Context context, const Array3DShape& shape, Return* error) {
  const size_t element = ElementBytes(shape.format) * shape.channels;
  if (shape.width == 0 || element == 0 || (shape.channels != 1 && shape.channels != 2 && shape.channels != 4)) {
    return *error = kInvalidValue, nullptr;
  }
  if ((shape.flags & kArraySparse) != 0) return *error = kNotSupported, nullptr;
  auto* array = New<OpaqueArray>();
  array->shape = shape;
  array->element = element;
  *error = kSuccess;
  if ((shape.flags & kArrayDeferredMapping) == 0) {
    array->range = AllocateRange(kOfArray, context, BytesOf(*array), error);
    if (array->range == nullptr) {
      free(array);
      return nullptr;
    }
  }
  return array;
}

void FreeArray(Array array) {
  if (array->range != nullptr) RemoveRange(array->range);
  free(array);
}

Return Requirements(ArrayMemory* out, size_t bytes, unsigned flags) {
  if (out == nullptr || (flags & kArrayDeferredMapping) == 0) return kInvalidValue;
  *out = {RoundUp(bytes, kChunk), kChunk, {}};
  return kSuccess;
}

}  // namespace

Return cuArray3DCreate_v2(Array* array, const Array3DShape* shape) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (array == nullptr || shape == nullptr) return kInvalidValue;
  Return error = kSuccess;
  *array = NewArray(call.context, *shape, &error);
  return error;
}

Return cuArrayCreate_v2(Array* array, const ArrayShape* shape) {
  if (shape == nullptr) return kInvalidValue;
  const Array3DShape whole = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
  return cuArray3DCreate_v2(array, &whole);
}

Return cuArrayDestroy(Array array) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (array == nullptr || array->parent != nullptr) return kInvalidHandle;
  WaitForContext(call.context);
  FreeArray(array);
  return kSuccess;
}

Return cuArray3DGetDescriptor_v2(Array3DShape* shape, Array array) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (shape == nullptr || array == nullptr) return kInvalidHandle;
  *shape = array->shape;
  return kSuccess;
}

Return cuArrayGetDescriptor_v2(ArrayShape* shape, Array array) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (shape == nullptr || array == nullptr) return kInvalidHandle;
  *shape = {array->shape.width, array->shape.height, array->shape.format, array->shape.channels};
  return kSuccess;
}

Return cuArrayGetMemoryRequirements(ArrayMemory* out, Array array, Device) {
  return array == nullptr ? kInvalidHandle : Requirements(out, BytesOf(*array), array->shape.flags);
}

Return cuMipmappedArrayCreate(MipmappedArray* mipmap, const Array3DShape* shape, unsigned levels) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (mipmap == nullptr || shape == nullptr || levels == 0) return kInvalidValue;
  auto* made = New<OpaqueMipmappedArray>();
  made->shape = *shape;
  Array3DShape level = *shape;
  for (unsigned i = 0; i < levels; ++i) {
    Return error = kSuccess;
    Array array = NewArray(call.context, level, &error);
    if (array == nullptr) {
      for (Array other : made->levels) FreeArray(other);
      made->levels.Free();
      free(made);
      return error;
    }
    array->parent = made;
    made->levels.Add(array);
    if (level.width <= 1 && level.height <= 1 && level.depth <= 1) break;
    level.width = AtLeastOne(level.width / 2);
    if (level.height != 0) level.height = AtLeastOne(level.height / 2);
    if (level.depth != 0) level.depth = AtLeastOne(level.depth / 2);
  }
  *mipmap = made;
  return kSuccess;
}

Return cuMipmappedArrayGetLevel(Array* array, MipmappedArray mipmap, unsigned level) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (array == nullptr || mipmap == nullptr || level >= mipmap->levels.count) return kInvalidValue;
  *array = mipmap->levels[level];
  return kSuccess;
}

Return cuMipmappedArrayDestroy(MipmappedArray mipmap) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (mipmap == nullptr) return kInvalidHandle;
  WaitForContext(call.context);
  for (Array array : mipmap->levels) FreeArray(array);
  mipmap->levels.Free();
  free(mipmap);
  return kSuccess;
}

Return cuMipmappedArrayGetMemoryRequirements(ArrayMemory* out, MipmappedArray mipmap, Device) {
  if (mipmap == nullptr) return kInvalidHandle;
  size_t bytes = 0;
  for (const OpaqueArray* array : mipmap->levels) bytes += BytesOf(*array);
  return Requirements(out, bytes, mipmap->shape.flags);
}

}  // namespace divvy::cuda
