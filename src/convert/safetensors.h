// Reads safetensors files: an 8-byte header length, a JSON header, then the tensors' bytes
// (https://github.com/huggingface/safetensors, "Format"). Files are untrusted.
#ifndef CHIMERE_CONVERT_SAFETENSORS_H_
#define CHIMERE_CONVERT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace chimere::convert {

/// Bytes of a name in a hostile file that messages quote.
inline constexpr size_t kShownBytes = 80;

enum class SourceType : uint8_t { kF32, kF16, kBF16, kU8, kOther };

struct SourceTensor {
  std::string name;
  SourceType type = SourceType::kOther;
  std::string type_name;       ///< as in the header: "BF16"
  std::vector<int64_t> shape;  ///< outermost dimension first; empty for a scalar
  std::span<const uint8_t> bytes;

  int64_t elements() const;
};

/// Bytes of one element; 0 for kOther.
int64_t bytes_of(SourceType type);

/// The tensors of a file's bytes, in order of their offsets; the spans point into `file`. `path`
/// names the file in messages. Errors: kInvalidData for a header that is longer than the file or
/// than 100 MB, no JSON object, has a name twice, a tensor outside the file, tensors that overlap
/// or leave gaps, or a size that does not match shape and type.
Result<std::vector<SourceTensor>> parse_safetensors(std::span<const uint8_t> file,
                                                    const std::string& path);

/// A mapped file and its tensors.
struct SafetensorsFile {
  MappedFile file;
  std::vector<SourceTensor> tensors;
};
/// Errors: those of MappedFile::open() and parse_safetensors().
Result<SafetensorsFile> open_safetensors(const std::string& path);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_SAFETENSORS_H_
