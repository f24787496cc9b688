// The order in which a run reads its token files.
#ifndef CHIMERE_TRAIN_WINDOW_ORDER_H_
#define CHIMERE_TRAIN_WINDOW_ORDER_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "config.h"
#include "token_file.h"

namespace chimere::train {

/// The windows of every step as a pure function of (recipe, step): each epoch visits the
/// blocks of a file once, at a shifted grid and in a shuffled order. A block that begins shortly
/// after a document's start moves back to it, so that conversations are seen whole and from an
/// empty state.
class WindowOrder {
 public:
  WindowOrder(const TokenFile& documents, const TokenFile& chats, const Recipe& recipe);

  /// [batch, window + 2] int64 on the CPU: inputs, and the one and two tokens after each.
  torch::Tensor windows(int64_t step);
  int64_t chat_rows(int64_t step) const;

 private:
  struct Source {
    const TokenFile* file = nullptr;
    uint64_t salt = 0;
    int64_t epoch = -1;
    std::vector<int64_t> order;
  };
  void copy_window(Source& source, int64_t index, int64_t* out);

  Recipe recipe_;
  Source documents_, chats_;
  std::vector<int64_t> chats_before_;  ///< chat windows used before each step
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_WINDOW_ORDER_H_
