// The keys and tensors of one file, or of all files of a split model, by name.
#ifndef CHIMERE_GGUF_CONTENTS_H_
#define CHIMERE_GGUF_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gguf/metadata.h"

namespace chimere::gguf {

class Contents {
 public:
  void reserve(size_t n_keys, size_t n_tensors) {
    keys_.reserve(n_keys);
    values_.reserve(n_keys);
    encoded_.reserve(n_keys);
    tensors_.reserve(n_tensors);
  }
  /// Returns false, and adds nothing, if the name exists. `encoded`: the value's type number and
  /// encoding in the file, not copied.
  bool add_key(std::string_view key, Value value, std::span<const uint8_t> encoded) {
    if (!key_index_.emplace(key, keys_.size()).second) return false;
    keys_.emplace_back(key);
    values_.push_back(std::move(value));
    encoded_.push_back(encoded);
    return true;
  }
  bool add_tensor(TensorInfo tensor) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) return false;
    tensors_.push_back(std::move(tensor));
    return true;
  }

  const Value* find(std::string_view key) const {
    const auto it = key_index_.find(key);
    return it == key_index_.end() ? nullptr : &values_[it->second];
  }
  /// Empty if the key is missing.
  std::span<const uint8_t> find_encoded(std::string_view key) const {
    const auto it = key_index_.find(key);
    return it == key_index_.end() ? std::span<const uint8_t>() : encoded_[it->second];
  }
  const TensorInfo* find_tensor(std::string_view name) const {
    const auto it = tensor_index_.find(name);
    return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
  }
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::vector<TensorInfo>& tensors() { return tensors_; }

 private:
  /// Lets maps look up string_views without making strings.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  using Index = std::unordered_map<std::string, size_t, Hash, std::equal_to<>>;

  std::vector<std::string> keys_;  ///< in file order
  std::vector<Value> values_;
  std::vector<std::span<const uint8_t>> encoded_;
  Index key_index_;
  std::vector<TensorInfo> tensors_;
  Index tensor_index_;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_CONTENTS_H_
