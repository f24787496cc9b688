#include "gguf/split_set.h"

#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include "gguf/cursor.h"
#include "gguf/format.h"

namespace chimere::gguf {
namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

Result<int64_t> integer(const Contents& contents, std::string_view key, int64_t min, int64_t max) {
  const Value* v = contents.find(key);
  int64_t n = -1;
  if (v != nullptr) {
    if (const auto* i = std::get_if<int64_t>(v)) n = *i;
    const auto* u = std::get_if<uint64_t>(v);
    if (u != nullptr && *u <= static_cast<uint64_t>(max)) n = static_cast<int64_t>(*u);
  }
  if (n < min || n > max) {
    return invalid_data("the file is part of a split model, but its key " + in_quotes(key) +
                        " is missing or not a number from " + std::to_string(min) + " to " +
                        std::to_string(max));
  }
  return n;
}

std::string split_suffix(int64_t number, int64_t count) {
  auto digits = [](int64_t n) {
    const std::string text = std::to_string(n);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return "-" + digits(number + 1) + "-of-" + digits(count) + ".gguf";
}

/// Keys that apply only to the file that contains them.
bool own_key(std::string_view key) { return key == kNumberKey || key == kAlignmentKey; }

}  // namespace

std::string SplitPlace::text() const {
  return "part " + std::to_string(number + 1) + " of " + std::to_string(count);
}

Result<SplitPlace> split_place(const Contents& contents) {
  SplitPlace place;
  if (contents.find(kCountKey) == nullptr) return place;
  CHIMERE_TRY(place.count, integer(contents, kCountKey, 0, kMaxSplits));
  if (place.count <= 1) return SplitPlace{};
  CHIMERE_TRY(place.number, integer(contents, kNumberKey, 0, place.count - 1));
  CHIMERE_TRY(place.tensors,
              integer(contents, kTensorsKey, 0, std::numeric_limits<int32_t>::max()));
  return place;
}

std::string split_path(const std::string& prefix, int64_t number, int64_t count) {
  return prefix + split_suffix(number, count);
}

Result<std::string> split_prefix(const std::string& path, const SplitPlace& place) {
  const std::string suffix = split_suffix(place.number, place.count);
  if (!path.ends_with(suffix)) {
    return invalid_data(
        "this is " + place.text() + " of a split model, so its name must end in \"" + suffix +
        "\" for the other parts to be found; restore the original names of all parts");
  }
  return path.substr(0, path.size() - suffix.size());
}

Result<Contents> join_parts(std::vector<Contents> parts, const std::vector<std::string>& paths) {
  Contents all;
  CHIMERE_TRY(const SplitPlace first, split_place(parts.at(0)));
  for (size_t i = 0; i < parts.size(); ++i) {
    CHIMERE_TRY(const SplitPlace place, split_place(parts[i]));
    if (place.number != static_cast<int64_t>(i) || place.count != first.count ||
        place.tensors != first.tensors) {
      return invalid_data(paths[i] + " says that it is " + place.text() + " with " +
                          std::to_string(place.tensors) + " tensors in all, where " +
                          SplitPlace{static_cast<int64_t>(i), first.count}.text() + " with " +
                          std::to_string(first.tensors) +
                          " was expected: the parts belong to different models");
    }
    for (const std::string& key : parts[i].keys()) {
      const Value* known = all.find(key);
      if (known == nullptr) {
        all.add_key(key, *parts[i].find(key), parts[i].find_encoded(key));
      } else if (!own_key(key) && *known != *parts[i].find(key)) {
        return invalid_data(
            "the key " + in_quotes(key) + " of " + paths[i] +
            " differs from that of the previous parts: they belong to different models");
      }
    }
    for (TensorInfo& tensor : parts[i].tensors()) {
      const std::string name = tensor.name;
      if (!all.add_tensor(std::move(tensor))) {
        return invalid_data("tensor " + in_quotes(name) + " of " + paths[i] +
                            " is also in one of the previous parts");
      }
    }
  }
  if (static_cast<int64_t>(all.tensors().size()) != first.tensors) {
    return invalid_data("the parts hold " + std::to_string(all.tensors().size()) +
                        " tensors, but their keys say " + std::to_string(first.tensors) +
                        ": one of them belongs to another model or is truncated");
  }
  return all;
}

}  // namespace chimere::gguf
