// decode_weights IN.gguf OUT.gguf: the same model with every weight decoded to f32, so that any
// program computes with the exact values that the quantised weights stand for, and without rounding
// activations.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gguf/reader.h"
#include "gguf/writer.h"
#include "quant/quant.h"

namespace {

using chimere::DType;
using chimere::Status;
using chimere::gguf::Array;
using chimere::gguf::Reader;
using chimere::gguf::Writer;

void copy_array(Writer& out, const std::string& key, const Array& array) {
  if (const auto* strings = std::get_if<std::vector<std::string>>(&array.items)) {
    out.set_strings(key, *strings);
  } else if (const auto* floats = std::get_if<std::vector<double>>(&array.items)) {
    out.set_f32s(key, std::vector<float>(floats->begin(), floats->end()));
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&array.items)) {
    out.set_i32s(key, std::vector<int32_t>(integers->begin(), integers->end()));
  }
}

/// The reader widens numbers; model files hold 32-bit ones wherever that is enough.
void copy_value(Writer& out, const std::string& key, const chimere::gguf::Value& value) {
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

Status decode_file(const std::string& from, const std::string& to) {
  CHIMERE_TRY(const auto in, Reader::open(from));
  Writer out;
  for (const std::string& key : in->keys()) copy_value(out, key, *in->find(key));
  std::vector<float> values;
  for (const auto& tensor : in->tensors()) {
    int64_t n = 1;
    for (const int64_t dim : tensor.dims) n *= dim;
    values.resize(static_cast<size_t>(n));
    chimere::quant::decode(tensor.type, tensor.data, values.data(), n);
    CHIMERE_CHECK_OK(out.add_tensor(tensor.name, tensor.dims, DType::kF32, values.data(),
                                    values.size() * sizeof(float)));
  }
  return out.write(to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: decode_weights IN.gguf OUT.gguf\n", stderr);
    return 2;
  }
  const Status status = decode_file(argv[1], argv[2]);
  if (!status.ok()) {
    std::fprintf(stderr, "decode_weights: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
