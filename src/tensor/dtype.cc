#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace chimere {
namespace {

constexpr std::array<DTypeInfo, 34> kTypes = {{
    {DType::kF32, "f32", 1, 4, false},
    {DType::kF16, "f16", 1, 2, false},
    {DType::kQ4_0, "q4_0", 32, 18, true},
    {DType::kQ4_1, "q4_1", 32, 20, true},
    {DType::kQ5_0, "q5_0", 32, 22, true},
    {DType::kQ5_1, "q5_1", 32, 24, true},
    {DType::kQ8_0, "q8_0", 32, 34, true},
    {DType::kQ2_K, "q2_K", 256, 84, true},
    {DType::kQ3_K, "q3_K", 256, 110, true},
    {DType::kQ4_K, "q4_K", 256, 144, true},
    {DType::kQ5_K, "q5_K", 256, 176, true},
    {DType::kQ6_K, "q6_K", 256, 210, true},
    {DType::kIQ2_XXS, "iq2_xxs", 256, 66, true},
    {DType::kIQ2_XS, "iq2_xs", 256, 74, true},
    {DType::kIQ3_XXS, "iq3_xxs", 256, 98, true},
    {DType::kIQ1_S, "iq1_s", 256, 50, true},
    {DType::kIQ4_NL, "iq4_nl", 32, 18, true},
    {DType::kIQ3_S, "iq3_s", 256, 110, true},
    {DType::kIQ2_S, "iq2_s", 256, 82, true},
    {DType::kIQ4_XS, "iq4_xs", 256, 136, true},
    {DType::kI8, "i8", 1, 1, false},
    {DType::kI16, "i16", 1, 2, false},
    {DType::kI32, "i32", 1, 4, false},
    {DType::kI64, "i64", 1, 8, false},
    {DType::kF64, "f64", 1, 8, false},
    {DType::kIQ1_M, "iq1_m", 256, 56, true},
    {DType::kBF16, "bf16", 1, 2, false},
    {DType::kTQ1_0, "tq1_0", 256, 54, true},
    {DType::kTQ2_0, "tq2_0", 256, 66, true},
    {DType::kMXFP4, "mxfp4", 32, 17, true},
    {DType::kIQ2_K, "iq2_k", 256, 76, true},
    {DType::kIQ3_K, "iq3_k", 256, 110, true},
    {DType::kIQ4_K, "iq4_k", 256, 144, true},
    {DType::kIQ5_K, "iq5_k", 256, 176, true},
}};

}  // namespace

const DTypeInfo* find_dtype(uint32_t ggml_type) {
  for (const DTypeInfo& i : kTypes) {
    if (static_cast<uint32_t>(i.type) == ggml_type) return &i;
  }
  return nullptr;
}

std::optional<DType> parse_dtype(std::string_view name) {
  auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (const DTypeInfo& i : kTypes) {
    if (std::equal(name.begin(), name.end(), i.name.begin(), i.name.end(), same)) {
      return i.type;
    }
  }
  return std::nullopt;
}

const DTypeInfo& dtype_info(DType t) { return *find_dtype(static_cast<uint32_t>(t)); }

}  // namespace chimere
