#include "gguf/writer.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/format.h"

namespace chimere::gguf {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename T>
void put(Bytes& out, T v) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &v, sizeof(T));
}

void put_string(Bytes& out, std::string_view s) {
  put<uint64_t>(out, s.size());
  out.insert(out.end(), s.begin(), s.end());
}

template <typename T>
Bytes encode_scalar(ValueType type, T v) {
  Bytes out;
  put(out, type);
  put(out, v);
  return out;
}

template <typename T>
Bytes encode_array(ValueType type, const std::vector<T>& v) {
  Bytes out;
  put(out, ValueType::kArray);
  put(out, type);
  put<uint64_t>(out, v.size());
  for (const T& x : v) put(out, x);
  return out;
}

uint64_t padding(uint64_t position, uint64_t alignment) {
  return align_up(position, alignment) - position;
}

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment) {
  if (alignment != kDefaultAlignment) set_u32(kAlignmentKey, alignment);
}

void Writer::set(std::string_view key, std::vector<uint8_t> value) {
  const auto [it, added] = key_index_.emplace(std::string(key), keys_.size());
  if (added) {
    keys_.push_back({std::string(key), std::move(value)});
  } else {
    keys_[it->second].value = std::move(value);
  }
}

void Writer::set_u32(std::string_view key, uint32_t v) {
  if (key == kAlignmentKey) alignment_ = v;  // the key and the layout must agree
  set(key, encode_scalar(ValueType::kU32, v));
}
void Writer::set_u64(std::string_view key, uint64_t v) {
  set(key, encode_scalar(ValueType::kU64, v));
}
void Writer::set_i32(std::string_view key, int32_t v) {
  set(key, encode_scalar(ValueType::kI32, v));
}
void Writer::set_f32(std::string_view key, float v) { set(key, encode_scalar(ValueType::kF32, v)); }
void Writer::set_bool(std::string_view key, bool v) {
  set(key, encode_scalar<uint8_t>(ValueType::kBool, v ? 1 : 0));
}
void Writer::set_string(std::string_view key, std::string_view v) {
  Bytes out;
  put(out, ValueType::kString);
  put_string(out, v);
  set(key, std::move(out));
}
void Writer::set_strings(std::string_view key, const std::vector<std::string>& v) {
  Bytes out;
  put(out, ValueType::kArray);
  put(out, ValueType::kString);
  put<uint64_t>(out, v.size());
  for (const std::string& s : v) put_string(out, s);
  set(key, std::move(out));
}
void Writer::set_i32s(std::string_view key, const std::vector<int32_t>& v) {
  set(key, encode_array(ValueType::kI32, v));
}
void Writer::set_f32s(std::string_view key, const std::vector<float>& v) {
  set(key, encode_array(ValueType::kF32, v));
}

Status Writer::add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                          const void* data, uint64_t bytes) {
  const std::string who = "tensor " + quoted(name);
  if (name.empty() || name.size() > kMaxTensorNameBytes) {
    return invalid_argument(who + " needs a name of 1 to " + std::to_string(kMaxTensorNameBytes) +
                            " bytes");
  }
  if (dims.empty() || dims.size() > kMaxDims) {
    return invalid_argument(who + " needs 1 to " + std::to_string(kMaxDims) + " dimensions");
  }
  const DTypeInfo& info = dtype_info(type);
  int64_t elements = 1;
  for (const int64_t d : dims) {
    if (d < 1 || d > std::numeric_limits<int64_t>::max() / elements) {
      return invalid_argument(who + " has an impossible dimension of " + std::to_string(d));
    }
    elements *= d;
  }
  if (dims[0] % info.block_elements != 0) {
    return invalid_argument(who + " has rows of " + std::to_string(dims[0]) +
                            " elements, which is no multiple of the block of " +
                            std::string(info.name));
  }
  const uint64_t blocks = static_cast<uint64_t>(elements / info.block_elements);
  const auto block_bytes = static_cast<uint64_t>(info.block_bytes);
  if (bytes % block_bytes != 0 || bytes / block_bytes != blocks) {
    return invalid_argument(who + " got " + std::to_string(bytes) + " bytes where its shape has " +
                            std::to_string(blocks) + " blocks of " + std::to_string(block_bytes));
  }
  if (!tensor_names_.emplace(name).second) return invalid_argument(who + " was added twice");
  const auto* p = static_cast<const uint8_t*>(data);
  tensors_.push_back({std::string(name), dims, type, Bytes(p, p + bytes)});
  return {};
}

Status Writer::check() const {
  if (!valid_alignment(alignment_)) {
    return invalid_argument("the alignment " + std::to_string(alignment_) +
                            " must be a power of two from 8 on");
  }
  for (const Key& k : keys_) {
    if (k.name.empty() || k.name.size() > kMaxKeyBytes) {
      return invalid_argument("a metadata key needs a name of 1 to " +
                              std::to_string(kMaxKeyBytes) + " bytes, not " +
                              std::to_string(k.name.size()));
    }
  }
  return {};
}

// Everything before the tensor data, padded to its start.
std::vector<uint8_t> Writer::header() const {
  Bytes out;
  put(out, kMagic);
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, keys_.size());
  for (const Key& k : keys_) {
    put_string(out, k.name);
    out.insert(out.end(), k.value.begin(), k.value.end());
  }
  uint64_t offset = 0;
  for (const Tensor& t : tensors_) {
    put_string(out, t.name);
    put<uint32_t>(out, static_cast<uint32_t>(t.dims.size()));
    for (const int64_t d : t.dims) put<uint64_t>(out, static_cast<uint64_t>(d));
    put(out, t.type);
    put(out, offset);
    offset = align_up(offset + t.data.size(), alignment_);
  }
  out.resize(align_up(out.size(), alignment_));
  return out;
}

std::vector<uint8_t> Writer::bytes() const {
  if (!check().ok()) return {};
  Bytes out = header();
  for (const Tensor& t : tensors_) {
    out.insert(out.end(), t.data.begin(), t.data.end());
    out.resize(align_up(out.size(), alignment_));
  }
  return out;
}

Status Writer::write(const std::string& path) const {
  CHIMERE_CHECK_OK(check());
  const std::string partial = path + ".partial";
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    const Bytes head = header();
    const auto put_bytes = [&](const Bytes& b) {
      out.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size()));
    };
    put_bytes(head);
    for (const Tensor& t : tensors_) {
      put_bytes(t.data);
      put_bytes(Bytes(padding(t.data.size(), alignment_)));
    }
    out.close();
    if (out.fail()) {
      std::error_code ignored;
      std::filesystem::remove(partial, ignored);
      return io_error("cannot write " + partial + ": no permission or no room there");
    }
  }
  std::error_code failure;
  std::filesystem::rename(partial, path, failure);
  if (failure) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    return io_error("cannot rename " + partial + " to " + path + ": " + failure.message());
  }
  return {};
}

}  // namespace chimere::gguf
