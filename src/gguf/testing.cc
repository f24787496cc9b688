#include "gguf/testing.h"

#include <algorithm>
#include <string>

#include "gguf/writer.h"
#include "quant/quant.h"

namespace chimere::gguf::testing {
namespace {

// Every typed look-up must either succeed or give a message.
template <typename T>
bool answers(const Result<T>& r) {
  return r.ok() || !r.error().message.empty();
}

bool look_ups_answer(const Reader& r, const std::string& key) {
  const bool typed = answers(r.get_int(key)) && answers(r.get_float(key)) &&
                     answers(r.get_bool(key)) && answers(r.get_string(key)) &&
                     answers(r.get_int_array(key)) && answers(r.get_float_array(key));
  size_t characters = 0;
  if (const auto* strings = r.find_strings(key)) {
    for (const std::string& s : *strings) characters += s.size();
  }
  return typed && r.find(key) != nullptr && characters <= r.file_bytes();
}

}  // namespace

std::vector<uint8_t> example_file() {
  Writer w;
  w.set_string("general.architecture", "test");
  w.set_u32("general.alignment", 32);
  w.set_u32("n", 7);
  w.set_u64("large", UINT64_MAX);
  w.set_i32("negative", -3);
  w.set_f32("epsilon", 1e-6F);
  w.set_bool("flag", true);
  w.set_strings("tokens", {"a", "bc", ""});
  w.set_i32s("types", {1, -1});
  w.set_f32s("scores", {0.5F, -2.0F});
  const std::vector<uint8_t> data(256, 0x35);
  const bool added = w.add_tensor("f", {3, 2}, DType::kF32, data.data(), 24).ok() &&
                     w.add_tensor("h", {2, 1, 2}, DType::kF16, data.data(), 8).ok() &&
                     w.add_tensor("q", {32, 2}, DType::kQ8_0, data.data(), 68).ok() &&
                     w.add_tensor("k", {256}, DType::kIQ3_S, data.data(), 110).ok();
  return added ? w.bytes() : std::vector<uint8_t>{};
}

std::string walk(const Reader& r, const void* file, size_t size) {
  const auto* begin = static_cast<const uint8_t*>(file);
  for (const std::string& key : r.keys()) {
    if (!look_ups_answer(r, key)) return "a look-up of key " + key + " is wrong";
  }
  uint64_t total = 0;
  std::vector<float> row;
  for (const TensorInfo& t : r.tensors()) {
    if (r.find_tensor(t.name) != &t) return "tensor " + t.name + " is not found by its name";
    const auto* data = static_cast<const uint8_t*>(t.data);
    if (data < begin || t.offset > size || t.bytes > size - t.offset || data != begin + t.offset) {
      return "tensor " + t.name + " lies outside the file";
    }
    total += t.bytes;
    const auto row_length = static_cast<uint64_t>(row_bytes(t.type, t.dims[0]));
    if (row_length == 0 || t.bytes % row_length != 0)
      return "tensor " + t.name + " has broken rows";
    row.resize(static_cast<size_t>(t.dims[0]));
    for (uint64_t at = 0; at < t.bytes; at += row_length) {
      quant::decode(t.type, data + at, row.data(), t.dims[0]);
    }
  }
  return total <= size ? "" : "the tensors overlap";
}

}  // namespace chimere::gguf::testing
