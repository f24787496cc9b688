#include "gguf/writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/format.h"
#include "gguf/split_set.h"

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
void Writer::set_u8s(std::string_view key, std::string_view v) {
  set(key, encode_array(ValueType::kU8, std::vector<uint8_t>(v.begin(), v.end())));
}
void Writer::set_i32s(std::string_view key, const std::vector<int32_t>& v) {
  set(key, encode_array(ValueType::kI32, v));
}
void Writer::set_f32s(std::string_view key, const std::vector<float>& v) {
  set(key, encode_array(ValueType::kF32, v));
}
void Writer::set_bools(std::string_view key, const std::vector<bool>& v) {
  set(key, encode_array(ValueType::kBool, Bytes(v.begin(), v.end())));
}

void Writer::set_encoded(std::string_view key, std::span<const uint8_t> value) {
  set(key, Bytes(value.begin(), value.end()));
}

Status Writer::add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                          const void* data, uint64_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  return add_tensor(name, dims, type, bytes,
                    [copy = Bytes(p, p + bytes)](std::span<uint8_t> out) -> Status {
                      std::copy(copy.begin(), copy.end(), out.begin());
                      return {};
                    });
}

Status Writer::add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                          uint64_t bytes, Fill fill) {
  const std::string who = "tensor " + in_quotes(name);
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
                            " elements, which is not a multiple of the block of " +
                            std::string(info.name));
  }
  const uint64_t blocks = static_cast<uint64_t>(elements / info.block_elements);
  const auto block_bytes = static_cast<uint64_t>(info.block_bytes);
  if (bytes % block_bytes != 0 || bytes / block_bytes != blocks) {
    return invalid_argument(who + " got " + std::to_string(bytes) + " bytes where its shape has " +
                            std::to_string(blocks) + " blocks of " + std::to_string(block_bytes));
  }
  if (!tensor_names_.emplace(name).second) return invalid_argument(who + " was added twice");
  tensors_.push_back({std::string(name), dims, type, bytes, std::move(fill)});
  return {};
}

Status Writer::check() const {
  if (!valid_alignment(alignment_)) {
    return invalid_argument("the alignment " + std::to_string(alignment_) +
                            " must be a power of two of at least 8");
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

// Everything before the tensor data, padded to where it starts.
std::vector<uint8_t> Writer::header(std::span<const Key> keys,
                                    std::span<const Tensor> tensors) const {
  Bytes out;
  put(out, kMagic);
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, keys.size());
  for (const Key& k : keys) {
    put_string(out, k.name);
    out.insert(out.end(), k.value.begin(), k.value.end());
  }
  uint64_t offset = 0;
  for (const Tensor& t : tensors) {
    put_string(out, t.name);
    put<uint32_t>(out, static_cast<uint32_t>(t.dims.size()));
    for (const int64_t d : t.dims) put<uint64_t>(out, static_cast<uint64_t>(d));
    put(out, t.type);
    put(out, offset);
    offset = align_up(offset + t.bytes, alignment_);
  }
  out.resize(align_up(out.size(), alignment_));
  return out;
}

Result<std::vector<uint8_t>> Writer::head() const {
  CHIMERE_CHECK_OK(check());
  return header(keys_, tensors_);
}

std::vector<uint8_t> Writer::bytes() const {
  if (!check().ok()) return {};
  Bytes out = header(keys_, tensors_);
  for (const Tensor& t : tensors_) {
    const size_t at = out.size();
    out.resize(at + align_up(t.bytes, alignment_));
    if (!t.fill(std::span(out).subspan(at, t.bytes)).ok()) return {};
  }
  return out;
}

Status Writer::write_file(const std::string& path, std::span<const Key> keys,
                          std::span<const Tensor> tensors) const {
  const std::string partial = path + ".partial";
  Status status;
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    Bytes buffer = header(keys, tensors);
    const auto flush = [&] {
      out.write(reinterpret_cast<const char*>(buffer.data()),
                static_cast<std::streamsize>(buffer.size()));
    };
    flush();
    for (const Tensor& t : tensors) {
      buffer.assign(align_up(t.bytes, alignment_), 0);
      status = t.fill(std::span(buffer).first(t.bytes));
      if (!status.ok() || out.fail()) break;
      flush();
    }
    out.close();
    if (status.ok() && out.fail()) {
      status = io_error("cannot write " + partial + ": no permission, or the disk is full");
    }
  }
  std::error_code failure;
  if (status.ok()) {
    std::filesystem::rename(partial, path, failure);
    if (!failure) return {};
    status = io_error("cannot rename " + partial + " to " + path + ": " + failure.message());
  }
  std::filesystem::remove(partial, failure);
  return status;
}

Status Writer::write(const std::string& path) const {
  CHIMERE_CHECK_OK(check());
  return write_file(path, keys_, tensors_);
}

Result<std::vector<std::string>> Writer::write_split(const std::string& prefix, uint64_t max_bytes,
                                                     bool metadata_apart) const {
  CHIMERE_CHECK_OK(check());
  std::vector<std::span<const Tensor>> parts;
  if (metadata_apart) parts.emplace_back();
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool fits =
        !parts.empty() && !parts.back().empty() && bytes + tensors_[i].bytes <= max_bytes;
    if (!fits) {
      parts.push_back(std::span(tensors_).subspan(i, 0));
      bytes = 0;
    }
    bytes += tensors_[i].bytes;
    parts.back() = {parts.back().data(), parts.back().size() + 1};
  }
  if (parts.size() > kMaxSplits) {
    return invalid_argument("the model would have " + std::to_string(parts.size()) +
                            " parts, more than the format can count; allow larger parts");
  }
  std::vector<std::string> paths;
  for (size_t i = 0; i < parts.size(); ++i) {
    Writer part(alignment_);
    if (i == 0) {
      part.keys_ = keys_;
      part.key_index_ = key_index_;
    }
    part.set("split.no", encode_scalar(ValueType::kU16, static_cast<uint16_t>(i)));
    part.set("split.count", encode_scalar(ValueType::kU16, static_cast<uint16_t>(parts.size())));
    part.set_i32("split.tensors.count", static_cast<int32_t>(tensors_.size()));
    paths.push_back(
        split_path(prefix, static_cast<int64_t>(i), static_cast<int64_t>(parts.size())));
    CHIMERE_CHECK_OK(write_file(paths.back(), part.keys_, parts[i]));
  }
  return paths;
}

}  // namespace chimere::gguf
