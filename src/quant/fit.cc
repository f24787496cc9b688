#include "quant/fit.h"

#include "quant/quant.h"

namespace chimere::quant {

float storable(float scale) {
  constexpr float kMaxF16 = 65504.0F;
  return f16_to_f32(f32_to_f16(std::clamp(scale, -kMaxF16, kMaxF16)));
}

}  // namespace chimere::quant
