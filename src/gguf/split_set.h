// Models split over several files, as llama.cpp's gguf-split makes them: NAME-00001-of-00003.gguf
// and so on, each a GGUF file with some of the tensors. The first one holds the metadata (and maybe
// nothing else); all of them say which part they are (split.no, from 0), of how many (split.count)
// and how many tensors there are in all (split.tensors.count).
#ifndef CHIMERE_GGUF_SPLIT_SET_H_
#define CHIMERE_GGUF_SPLIT_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/contents.h"

namespace chimere::gguf {

inline constexpr int64_t kMaxSplits = 65535;  // split.count is a u16

/// What a file says of its place in a set.
struct SplitPlace {
  int64_t number = 0;  ///< from 0
  int64_t count = 1;   ///< 1: the file is a whole model
  int64_t tensors = 0;

  /// "part 2 of 3"
  std::string text() const;
};

/// Errors: kInvalidData (keys that are missing or make no sense).
Result<SplitPlace> split_place(const Contents& contents);

/// "<prefix>-00002-of-00003.gguf" for number 1 of 3.
std::string split_path(const std::string& prefix, int64_t number, int64_t count);

/// The prefix of a path that ends as the place says. Errors: kInvalidData (it does not).
Result<std::string> split_prefix(const std::string& path, const SplitPlace& place);

/// All parts of a set, in order, in one. `paths` name them in messages. Errors: kInvalidData (parts
/// of different sets, a tensor in two of them, too few or too many tensors).
Result<Contents> join_parts(std::vector<Contents> parts, const std::vector<std::string>& paths);

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_SPLIT_SET_H_
