#include "support/decoded_model.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quant/quant.h"

namespace chimere::test {
namespace {

using gguf::Array;
using gguf::Writer;

void copy_array(Writer& out, const std::string& key, const Array& array) {
  if (const auto* strings = std::get_if<std::vector<std::string>>(&array.items)) {
    out.set_strings(key, *strings);
  } else if (const auto* floats = std::get_if<std::vector<double>>(&array.items)) {
    out.set_f32s(key, std::vector<float>(floats->begin(), floats->end()));
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&array.items)) {
    out.set_i32s(key, std::vector<int32_t>(integers->begin(), integers->end()));
  }
}

/// The reader widens integers to 64 bits; model files hold 32-bit ones where these suffice.
void copy_value(Writer& out, const std::string& key, const gguf::Value& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) {
    out.set_i32(key, static_cast<int32_t>(*i));
  } else if (const auto* u = std::get_if<uint64_t>(&value)) {
    if (*u <= std::numeric_limits<uint32_t>::max()) {
      out.set_u32(key, static_cast<uint32_t>(*u));
    } else {
      out.set_u64(key, *u);
    }
  } else if (const auto* d = std::get_if<double>(&value)) {
    out.set_f32(key, static_cast<float>(*d));
  } else if (const auto* b = std::get_if<bool>(&value)) {
    out.set_bool(key, *b);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    out.set_string(key, *s);
  } else {
    copy_array(out, key, std::get<Array>(value));
  }
}

}  // namespace

Result<Writer> decode_model(const gguf::Reader& in) {
  Writer out;
  for (const std::string& key : in.keys()) copy_value(out, key, *in.find(key));
  for (const auto& tensor : in.tensors()) {
    int64_t n = 1;
    for (const int64_t dim : tensor.dims) n *= dim;
    auto decode = [&tensor, n](std::span<uint8_t> values) -> Status {
      quant::decode(tensor.type, tensor.data, reinterpret_cast<float*>(values.data()), n);
      return {};
    };
    CHIMERE_CHECK_OK(out.add_tensor(tensor.name, tensor.dims, DType::kF32,
                                    static_cast<uint64_t>(n) * sizeof(float), std::move(decode)));
  }
  return out;
}

}  // namespace chimere::test
