#include "gguf/file_parser.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/format.h"

namespace chimere::gguf {
namespace {

std::string str(uint64_t n) { return std::to_string(n); }

// The smallest encodings: a one-byte key with a one-byte value; a one-byte name with one dimension.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

template <typename Stored, typename Wide>
Result<Array> read_numbers(Cursor& in, uint64_t count, std::string_view what) {
  if (count > in.remaining() / sizeof(Stored)) {
    return invalid_data("byte " + str(in.position()) + ": " + std::string(what) + " claims " +
                        str(count) + " elements of " + str(sizeof(Stored)) + " bytes, but only " +
                        str(in.remaining()) + " bytes are left in the file");
  }
  CHIMERE_TRY(const uint8_t* p, in.take(count * sizeof(Stored), what));
  std::vector<Wide> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored v;
    std::memcpy(&v, p + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Wide>(v);  // NOLINT(bugprone-signed-char-misuse): i8 is a number here
  }
  return Array{std::move(out)};
}

Result<Array> read_bools(Cursor& in, uint64_t count, std::string_view what) {
  CHIMERE_TRY(const uint8_t* p, in.take(count, what));
  std::vector<bool> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (p[i] > 1) {
      return invalid_data(std::string(what) + " holds the byte " + str(p[i]) +
                          " where a boolean (0 or 1) belongs");
    }
    out[i] = p[i] == 1;
  }
  return Array{std::move(out)};
}

Result<Array> read_strings(Cursor& in, uint64_t count, std::string_view what) {
  if (count > in.remaining() / sizeof(uint64_t)) {
    return invalid_data("byte " + str(in.position()) + ": " + std::string(what) + " claims " +
                        str(count) + " strings, more than fit into the " + str(in.remaining()) +
                        " bytes that are left in the file");
  }
  std::vector<std::string> out;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    CHIMERE_TRY(const std::string_view s, in.read_string(what));
    out.emplace_back(s);
  }
  return Array{std::move(out)};
}

Error unknown_type(std::string_view what, uint32_t type) {
  return invalid_data(std::string(what) + " has the unknown value type " + str(type) +
                      "; the file is damaged or of a newer version of the format");
}

Result<Array> read_array(Cursor& in, std::string_view what) {
  CHIMERE_TRY(const uint32_t type, in.read<uint32_t>(what));
  CHIMERE_TRY(const uint64_t count, in.read<uint64_t>(what));
  switch (static_cast<ValueType>(type)) {
    case ValueType::kU8:
      return read_numbers<uint8_t, uint64_t>(in, count, what);
    case ValueType::kI8:
      return read_numbers<int8_t, int64_t>(in, count, what);
    case ValueType::kU16:
      return read_numbers<uint16_t, uint64_t>(in, count, what);
    case ValueType::kI16:
      return read_numbers<int16_t, int64_t>(in, count, what);
    case ValueType::kU32:
      return read_numbers<uint32_t, uint64_t>(in, count, what);
    case ValueType::kI32:
      return read_numbers<int32_t, int64_t>(in, count, what);
    case ValueType::kF32:
      return read_numbers<float, double>(in, count, what);
    case ValueType::kU64:
      return read_numbers<uint64_t, uint64_t>(in, count, what);
    case ValueType::kI64:
      return read_numbers<int64_t, int64_t>(in, count, what);
    case ValueType::kF64:
      return read_numbers<double, double>(in, count, what);
    case ValueType::kBool:
      return read_bools(in, count, what);
    case ValueType::kString:
      return read_strings(in, count, what);
    case ValueType::kArray:
      return invalid_data(
          std::string(what) +
          " is an array of arrays, which is not supported; no known model uses one");
  }
  return unknown_type(what, type);
}

template <typename Stored, typename Wide>
Result<Value> read_number(Cursor& in, std::string_view what) {
  CHIMERE_TRY(const Stored v, in.read<Stored>(what));
  return Value{static_cast<Wide>(v)};
}

Result<Value> read_value(Cursor& in, uint32_t type, std::string_view what) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kU8:
      return read_number<uint8_t, uint64_t>(in, what);
    case ValueType::kI8:
      return read_number<int8_t, int64_t>(in, what);
    case ValueType::kU16:
      return read_number<uint16_t, uint64_t>(in, what);
    case ValueType::kI16:
      return read_number<int16_t, int64_t>(in, what);
    case ValueType::kU32:
      return read_number<uint32_t, uint64_t>(in, what);
    case ValueType::kI32:
      return read_number<int32_t, int64_t>(in, what);
    case ValueType::kF32:
      return read_number<float, double>(in, what);
    case ValueType::kU64:
      return read_number<uint64_t, uint64_t>(in, what);
    case ValueType::kI64:
      return read_number<int64_t, int64_t>(in, what);
    case ValueType::kF64:
      return read_number<double, double>(in, what);
    case ValueType::kBool: {
      CHIMERE_TRY(const uint8_t b, in.read<uint8_t>(what));
      if (b > 1) {
        return invalid_data(std::string(what) + " holds the byte " + str(b) +
                            " where a boolean (0 or 1) belongs");
      }
      return Value{b == 1};
    }
    case ValueType::kString: {
      CHIMERE_TRY(const std::string_view s, in.read_string(what));
      return Value{std::string(s)};
    }
    case ValueType::kArray: {
      CHIMERE_TRY(Array a, read_array(in, what));
      return Value{std::move(a)};
    }
  }
  return unknown_type(what, type);
}

// Parses one tensor's entry. `offset` is still relative to the data section.
Result<TensorInfo> read_tensor_info(Cursor& in, uint64_t index) {
  const std::string label = "the entry of tensor " + str(index);
  TensorInfo t;
  CHIMERE_TRY(const std::string_view name, in.read_string(label));
  const std::string who = "tensor " + in_quotes(name);
  if (name.empty() || name.size() > kMaxTensorNameBytes) {
    return invalid_data(who + " has a name of " + str(name.size()) + " bytes; 1 to " +
                        str(kMaxTensorNameBytes) + " are allowed");
  }
  t.name = name;
  CHIMERE_TRY(const uint32_t n_dims, in.read<uint32_t>(label));
  if (n_dims < 1 || n_dims > kMaxDims) {
    return invalid_data(who + " has " + str(n_dims) + " dimensions; 1 to " + str(kMaxDims) +
                        " are allowed");
  }
  uint64_t elements = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    CHIMERE_TRY(const uint64_t extent, in.read<uint64_t>(label));
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    if (extent == 0 || extent > kMax / elements) {
      return invalid_data(who + " has an impossible dimension " + str(d) + " of " + str(extent));
    }
    elements *= extent;
    t.dims.push_back(static_cast<int64_t>(extent));
  }
  CHIMERE_TRY(const uint32_t type, in.read<uint32_t>(label));
  const DTypeInfo* info = find_dtype(type);
  if (info == nullptr) {
    return invalid_data(who + " has the unknown element type " + str(type) +
                        "; the file is damaged or uses a type that is not supported");
  }
  t.type = info->type;
  const auto block = static_cast<uint64_t>(info->block_elements);
  const auto block_bytes = static_cast<uint64_t>(info->block_bytes);
  if (static_cast<uint64_t>(t.dims[0]) % block != 0) {
    return invalid_data(who + " has rows of " + str(static_cast<uint64_t>(t.dims[0])) +
                        " elements, which is not a multiple of the " + str(block) +
                        " of a block of " + std::string(info->name));
  }
  if (elements / block > std::numeric_limits<uint64_t>::max() / block_bytes) {
    return invalid_data(who + " would take more than 2^64 bytes");
  }
  t.bytes = elements / block * block_bytes;
  CHIMERE_TRY(t.offset, in.read<uint64_t>(label));
  return t;
}

class Parser {
 public:
  Parser(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}
  Status parse();
  ParsedFile take() { return std::move(out_); }

 private:
  Status read_keys(Cursor& in, uint64_t count);
  Status read_tensors(Cursor& in, uint64_t count);
  Result<uint64_t> alignment() const;
  Status place_tensors(uint64_t after_entries);
  Status check_overlaps() const;

  const uint8_t* data_;
  uint64_t size_;
  ParsedFile out_;
};

Status Parser::parse() {
  Cursor in(data_, size_);
  CHIMERE_TRY(const uint32_t magic, in.read<uint32_t>("the magic number"));
  if (magic != kMagic) {
    return invalid_data("this is not a GGUF file: it does not begin with the letters GGUF");
  }
  CHIMERE_TRY(out_.version, in.read<uint32_t>("the version number"));
  const uint32_t version = out_.version;
  if (version != 2 && version != 3) {
    const bool swapped = version == 2U << 24 || version == 3U << 24;
    return invalid_data(swapped ? "this is a big-endian GGUF file; convert it to little endian"
                                : "GGUF version " + str(version) +
                                      " is not supported (2 and 3 are); convert the model again");
  }
  CHIMERE_TRY(const uint64_t n_tensors, in.read<uint64_t>("the number of tensors"));
  CHIMERE_TRY(const uint64_t n_keys, in.read<uint64_t>("the number of metadata keys"));
  if (n_keys > in.remaining() / kMinKeyBytes) {
    return invalid_data("the header claims " + str(n_keys) + " metadata keys, more than fit into " +
                        str(size_) + " bytes");
  }
  if (n_tensors > in.remaining() / kMinTensorBytes) {
    return invalid_data("the header claims " + str(n_tensors) + " tensors, more than fit into " +
                        str(size_) + " bytes");
  }
  out_.contents.reserve(n_keys, n_tensors);
  CHIMERE_CHECK_OK(read_keys(in, n_keys));
  CHIMERE_CHECK_OK(read_tensors(in, n_tensors));
  CHIMERE_CHECK_OK(place_tensors(in.position()));
  return check_overlaps();
}

Status Parser::read_keys(Cursor& in, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    CHIMERE_TRY(const std::string_view key, in.read_string("metadata key " + str(i)));
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return invalid_data("metadata key " + str(i) + " has a name of " + str(key.size()) +
                          " bytes; 1 to " + str(kMaxKeyBytes) + " are allowed");
    }
    const std::string what = "the metadata key " + in_quotes(key);
    const uint64_t begin = in.position();
    CHIMERE_TRY(const uint32_t type, in.read<uint32_t>(what));
    CHIMERE_TRY(Value value, read_value(in, type, what));
    const std::span<const uint8_t> encoded(data_ + begin, in.position() - begin);
    if (!out_.contents.add_key(key, std::move(value), encoded)) {
      return invalid_data(what + " appears twice");
    }
  }
  return {};
}

Status Parser::read_tensors(Cursor& in, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    CHIMERE_TRY(TensorInfo t, read_tensor_info(in, i));
    const std::string name = t.name;
    if (!out_.contents.add_tensor(std::move(t))) {
      return invalid_data("tensor " + in_quotes(name) + " appears twice");
    }
  }
  return {};
}

Result<uint64_t> Parser::alignment() const {
  const Value* v = out_.contents.find(kAlignmentKey);
  if (v == nullptr) return uint64_t{kDefaultAlignment};
  uint64_t alignment = 0;
  if (const auto* u = std::get_if<uint64_t>(v)) alignment = *u;
  if (const auto* i = std::get_if<int64_t>(v); i != nullptr && *i > 0) {
    alignment = static_cast<uint64_t>(*i);
  }
  if (!valid_alignment(alignment)) {
    return invalid_data("the metadata key " + in_quotes(kAlignmentKey) +
                        " must be a power of two from 8 to 2^31");
  }
  return alignment;
}

Status Parser::place_tensors(uint64_t after_entries) {
  CHIMERE_TRY(const uint64_t align, alignment());
  std::vector<TensorInfo>& tensors = out_.contents.tensors();
  if (tensors.empty()) return {};
  const uint64_t start = align_up(after_entries, align);
  if (start > size_) {
    return invalid_data("the file ends at byte " + str(size_) +
                        ", before its tensor data at byte " + str(start) +
                        "; it may be an incomplete download");
  }
  const uint64_t available = size_ - start;
  for (TensorInfo& t : tensors) {
    if (t.offset % align != 0) {
      return invalid_data("tensor " + in_quotes(t.name) + " lies at offset " + str(t.offset) +
                          ", which is not a multiple of the alignment " + str(align));
    }
    if (t.offset > available || t.bytes > available - t.offset) {
      return invalid_data("tensor " + in_quotes(t.name) + " (" + str(t.bytes) +
                          " bytes at offset " + str(t.offset) + ") reaches beyond the " +
                          str(available) +
                          " bytes of tensor data; the file may be an incomplete download");
    }
    t.offset += start;
    t.data = data_ + t.offset;
  }
  return {};
}

Status Parser::check_overlaps() const {
  std::vector<const TensorInfo*> sorted;
  sorted.reserve(out_.contents.tensors().size());
  for (const TensorInfo& t : out_.contents.tensors()) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset) {
      return invalid_data("the data of tensors " + in_quotes(sorted[i - 1]->name) + " and " +
                          in_quotes(sorted[i]->name) + " overlap");
    }
  }
  return {};
}

}  // namespace

Result<ParsedFile> parse_file(const uint8_t* data, uint64_t size) {
  Parser parser(data, size);
  CHIMERE_CHECK_OK(parser.parse());
  return parser.take();
}

}  // namespace chimere::gguf
