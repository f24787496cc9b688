// Block formats: byte layout, scalar decode and encode. This is the reference implementation of
// every format; fast kernels are tested against it. Layouts: docs/formats.md.
#ifndef CHIMERE_QUANT_QUANT_H_
#define CHIMERE_QUANT_QUANT_H_

#include <cstdint>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::quant {

/// IEEE binary16 <-> f32; to f16 rounds to nearest even.
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
inline float bf16_to_f32(uint16_t h) {
  union {
    uint32_t u;
    float f;
  } v = {static_cast<uint32_t>(h) << 16};
  return v.f;
}
uint16_t f32_to_bf16(float f);

/// Decodes n elements (a multiple of the block) of a row to f32, bit-identical to llama.cpp's
/// reference decoder. Supports every DType that DTypeInfo lists as float or quantised.
void decode(DType type, const void* src, float* dst, int64_t n);

bool can_encode(DType type);
/// Encodes n elements (a multiple of the block). `importance` (one weight per element of a row, or
/// nullptr) weights the squared error. Errors: kUnsupported if !can_encode(type).
Status encode(DType type, const float* src, void* dst, int64_t n,
              const float* importance = nullptr);

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_QUANT_H_
