// Arrays and mipmapped arrays. The driver reports the size only for arrays without memory (deferred mapping). For
// others, it is the sum of the elements, rounded up to the driver's smallest page.
#include "gate.h"
#include "hooks.h"
#include "link.h"
#include "records.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr std::uint64_t kPage = std::uint64_t{64} << 10;

/// Block-compressed formats are counted per element, too: half a byte or one byte.
std::uint64_t ElementBits(int format) {
  switch (format) {
    case cuda::kFormatUnsigned8:
    case cuda::kFormatSigned8:
      return 8;
    case cuda::kFormatUnsigned16:
    case cuda::kFormatSigned16:
    case cuda::kFormatHalf:
      return 16;
    case 0x91:  // BC1
    case 0x92:
    case 0x97:  // BC4
    case 0x98:
      return 4;
    case 0x93:  // BC2, BC3, BC5, BC6H, BC7
    case 0x94:
    case 0x95:
    case 0x96:
    case 0x99:
    case 0x9a:
    case 0x9b:
    case 0x9c:
    case 0x9d:
    case 0x9e:
      return 8;
    case 0xb0:  // NV12: one byte of luma and half a byte of chroma.
      return 12;
    default:
      return 32;  // Floats and 32-bit integers. Also the upper estimate for new formats.
  }
}

bool IsCompressed(int format) { return format >= 0x91 && format <= 0x9e; }

std::uint64_t BytesOf(const cuda::Array3DShape& shape, unsigned levels) {
  if ((shape.flags & (cuda::kArraySparse | cuda::kArrayDeferredMapping)) != 0) return 0;  // Its memory is mapped later.
  const bool is_layered = (shape.flags & cuda::kArrayLayered) != 0;
  const std::uint64_t channels = shape.channels == 0 || IsCompressed(shape.format) ? 1 : shape.channels;
  std::uint64_t width = shape.width;
  std::uint64_t height = shape.height == 0 ? 1 : shape.height;
  std::uint64_t depth = shape.depth == 0 ? 1 : shape.depth;
  std::uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    bytes += (width * height * depth * channels * ElementBits(shape.format) + 7) / 8;
    width = width > 1 ? width / 2 : 1;
    height = height > 1 ? height / 2 : 1;
    if (!is_layered) depth = depth > 1 ? depth / 2 : 1;
  }
  return (bytes + kPage - 1) / kPage * kPage;
}

template <typename Handle, typename Call>
cuda::Return Created(RecordKind kind, const Handle* handle, std::uint64_t bytes, Call call) {
  const unsigned device = handle == nullptr ? kNotOurs : GatedDevice();
  if (device == kNotOurs) {
    const Inside inside(Touch::kOther);
    return call();
  }
  SetFlags(share::kPlainMemory);
  cuda::Return result = Take(device, bytes);
  if (result != cuda::kSuccess) return result;
  const Inside inside(Touch::kOther, device);
  result = call();
  if (result == cuda::kSuccess) {
    Remember(kind, KeyOf(*handle), device, bytes);
  } else {
    GiveBack(device, bytes);
  }
  return result;
}

template <typename Call>
cuda::Return Gone(RecordKind kind, std::uint64_t key, Call call) {
  const Inside inside(Touch::kOther);
  Forgetting forgetting(kind, key);
  const cuda::Return result = call();
  if (result != cuda::kSuccess) forgetting.Undo();
  return result;
}

}  // namespace

cuda::Return cuArrayCreate_v2_hook(cuda::Array* array, const cuda::ArrayShape* shape) {
  const auto call = [&] { return DRIVER(cuArrayCreate_v2)(array, shape); };
  if (shape == nullptr) return call();
  return Created(kArrays, array, BytesOf({shape->width, shape->height, 0, shape->format, shape->channels, 0}, 1), call);
}

cuda::Return cuArray3DCreate_v2_hook(cuda::Array* array, const cuda::Array3DShape* shape) {
  const auto call = [&] { return DRIVER(cuArray3DCreate_v2)(array, shape); };
  if (shape == nullptr) return call();
  return Created(kArrays, array, BytesOf(*shape, 1), call);
}

cuda::Return cuMipmappedArrayCreate_hook(cuda::MipmappedArray* array, const cuda::Array3DShape* shape,
                                         unsigned levels) {
  const auto call = [&] { return DRIVER(cuMipmappedArrayCreate)(array, shape, levels); };
  if (shape == nullptr) return call();
  return Created(kMipmaps, array, BytesOf(*shape, levels < 32 ? levels : 32), call);
}

cuda::Return cuArrayDestroy_hook(cuda::Array array) {
  return Gone(kArrays, KeyOf(array), [&] { return DRIVER(cuArrayDestroy)(array); });
}

cuda::Return cuMipmappedArrayDestroy_hook(cuda::MipmappedArray array) {
  return Gone(kMipmaps, KeyOf(array), [&] { return DRIVER(cuMipmappedArrayDestroy)(array); });
}

}  // namespace divvy::interpose
