// Float weight types as lanes.
#ifndef CHIMERE_KERNELS_CPU_VECTOR_FLOAT_ELEMENTS_H_
#define CHIMERE_KERNELS_CPU_VECTOR_FLOAT_ELEMENTS_H_

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

struct F32 {
  using Element = float;
  CHIMERE_INLINE static F32x16 load(const float* p) { return F32x16::load(p); }
};

struct F16 {
  using Element = uint16_t;
  CHIMERE_INLINE static F32x16 load(const uint16_t* p) { return F32x16::load_f16(p); }
};

struct Bf16 {
  using Element = uint16_t;
  CHIMERE_INLINE static F32x16 load(const uint16_t* p) { return F32x16::load_bf16(p); }
};

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_VECTOR_FLOAT_ELEMENTS_H_
