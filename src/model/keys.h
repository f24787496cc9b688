// Hyper-parameters of a model file: the keys below "<architecture>.".
#ifndef CHIMERE_MODEL_KEYS_H_
#define CHIMERE_MODEL_KEYS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/rope_options.h"

namespace chimere::model {

// Far above any model, and small enough that a product of three cannot overflow.
inline constexpr int kMaxWidth = 1 << 20;
inline constexpr int kMaxCount = 1 << 16;
inline constexpr int kMaxHeads = 1 << 12;
/// Kernel limits: heads are whole vectors of 16, and one fits on a thread's stack.
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kHeadDimUnit = 16;

/// Keys with ranges. Keys are given without the architecture's prefix. Errors name the whole key:
/// kInvalidData (absent, of another type, out of range), kUnsupported (a value that is not
/// implemented). The file must outlive it.
class Keys {
 public:
  /// `target`: the file of the model that a drafter's file is for; must outlive it.
  Keys(const gguf::Reader& file, std::string architecture, const RopeOptions& rope = {},
       const gguf::Reader* target = nullptr)
      : file_(file), target_(target), architecture_(std::move(architecture)), rope_(rope) {}

  const gguf::Reader& file() const { return file_; }
  const gguf::Reader* target() const { return target_; }  ///< nullptr: none
  const std::string& architecture() const { return architecture_; }
  /// What replaces the file's keys about rotary positions.
  const RopeOptions& rope() const { return rope_; }
  /// The whole key. Notes that the architecture reads it: see check_unread_keys().
  std::string name(std::string_view key) const {
    read_.emplace(key);
    return architecture_ + "." + std::string(key);
  }
  /// Whether name() was called with this key.
  bool was_read(std::string_view key) const { return read_.contains(key); }
  bool has(std::string_view key) const { return file_.find(name(key)) != nullptr; }

  /// "block_count". Every block has tensors: the file has at least as many.
  Result<int> block_count() const;
  Result<int> integer(std::string_view key, int min, int max) const;
  Result<int> integer_or(std::string_view key, int otherwise, int min, int max) const;
  /// The value for block `block`, of a key that holds one integer for all blocks, or an array with
  /// one for each of "block_count".
  Result<int> integer_of_block(std::string_view key, int block, int min, int max) const;
  /// One boolean for each block; none if the key is absent.
  Result<std::optional<std::vector<bool>>> flags(std::string_view key) const;
  /// Elements of an attention or state head.
  Result<int> head_dim(std::string_view key) const;
  /// The same, or `otherwise` if the key is absent.
  Result<int> head_dim_or(std::string_view key, int otherwise) const;
  Result<float> positive(std::string_view key) const;
  /// The same, or `otherwise` if the key is absent.
  Result<float> positive_or(std::string_view key, float otherwise) const;
  /// The same for a multiplier: converters write 0 if the model has none, which is `otherwise`,
  /// too.
  Result<float> multiplier_or(std::string_view key, float otherwise) const;

 private:
  Result<int> checked(const std::string& what, int64_t value, int min, int max) const;
  Result<int> checked_head_dim(std::string_view key, int value) const;

  const gguf::Reader& file_;
  const gguf::Reader* target_;
  std::string architecture_;
  RopeOptions rope_;
  /// By name, arrays that integer_of_block() has read.
  mutable std::map<std::string, std::vector<int64_t>> arrays_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_KEYS_H_
