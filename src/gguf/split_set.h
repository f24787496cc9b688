// Models split over several files, as written by llama.cpp's gguf-split: NAME-00001-of-00003.gguf
// and so on, each a GGUF file with some of the tensors. The first holds the metadata (and may hold
// nothing else). Every file says which part it is (split.no, from 0), how many parts there are
// (split.count), and how many tensors in all (split.tensors.count).
#ifndef CHIMERE_GGUF_SPLIT_SET_H_
#define CHIMERE_GGUF_SPLIT_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/contents.h"

namespace chimere::gguf {

inline constexpr int64_t kMaxSplits = 65535;  // split.count is a u16

/// A file's place in a set, as its keys say.
struct SplitPlace {
  int64_t number = 0;  ///< from 0
  int64_t count = 1;   ///< 1: the file is a whole model
  int64_t tensors = 0;

  /// "part 2 of 3"
  std::string text() const;
};

/// Errors: kInvalidData (missing or inconsistent keys).
Result<SplitPlace> split_place(const Contents& contents);

/// "<prefix>-00002-of-00003.gguf" for number 1 of 3.
std::string split_path(const std::string& prefix, int64_t number, int64_t count);

/// The prefix of a path whose suffix matches the place. Errors: kInvalidData (it does not match).
Result<std::string> split_prefix(const std::string& path, const SplitPlace& place);

/// Merges all parts of a set, in order. `paths` name them in messages. Errors: kInvalidData (parts
/// of different sets, a tensor in two of them, too few or too many tensors).
Result<Contents> join_parts(std::vector<Contents> parts, const std::vector<std::string>& paths);

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_SPLIT_SET_H_
