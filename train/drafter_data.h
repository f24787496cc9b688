// Training data of drafters: texts with the outputs of some layers of the target for each token.
#ifndef CHIMERE_TRAIN_DRAFTER_DATA_H_
#define CHIMERE_TRAIN_DRAFTER_DATA_H_

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model.h"

namespace chimere::train {

/// One text of a shard: a prompt, and what the target wrote after it.
struct HiddenSequence {
  size_t shard = 0;
  int64_t begin = 0;  ///< its first token in the shard
  int64_t size = 0;   ///< tokens
  int64_t prompt = 0;

  /// Whether there is a generated token and one after it.
  bool has_drafts() const { return prompt + 1 < size; }
};

/// Shards (GGUF files with general.type `hidden-states`; train/README.md has their format), mapped:
/// memory is taken for what is copied out of them only. Shards have rows, the outputs, or tokens
/// only: then the target computes rows.
class HiddenStates {
 public:
  /// All `*.gguf` of the folders, in the order of their names. Errors: kNotFound (no file),
  /// kInvalidData (damaged, or of another target than one with these sizes; shards that differ in
  /// their layers; shards with rows and shards without).
  static Result<HiddenStates> open(const std::vector<std::string>& folders, int64_t n_embd,
                                   int64_t n_vocab);

  bool has_rows() const { return has_rows_; }
  /// Rows of shards that have none are the outputs of these layers of `target`, the model with the
  /// sizes of open(). Errors: kInvalidArgument (no layers of it, or not rising).
  Status set_target(std::shared_ptr<const Model> target, std::vector<int64_t> layers);

  /// Layers of the rows; empty for shards without rows before set_target().
  const std::vector<int64_t>& layers() const { return layers_; }
  int64_t row_size() const { return row_size_; }  ///< elements: layers * n_embd
  const std::vector<HiddenSequence>& sequences() const { return sequences_; }
  /// The kind of text of a sequence's shard.
  const std::string& set(const HiddenSequence& s) const { return shards_[s.shard].set; }

  std::span<const int32_t> tokens(const HiddenSequence& s) const;
  /// Copies the f16 rows [from, from + n) of a sequence of shards with rows. Any thread.
  void copy_rows(const HiddenSequence& s, int64_t from, int64_t n, void* to) const;
  /// Rows [B, T, row_size] f32 that the target computes for texts [B, T] int64 from their begin,
  /// on its device, without gradient.
  torch::Tensor compute_rows(const torch::Tensor& tokens) const;
  /// An error if a shard changed or could not be read; call it before using what was copied.
  Status check_unchanged() const;

 private:
  struct Shard {
    std::unique_ptr<gguf::Reader> file;
    std::string set;
    const int32_t* tokens = nullptr;
    const uint8_t* rows = nullptr;
  };
  Status add(const std::string& path, int64_t n_embd, int64_t n_vocab);
  /// The rows of n tokens.
  Status add_rows(Shard& shard, int64_t n_embd, int64_t n);

  std::vector<Shard> shards_;
  std::vector<HiddenSequence> sequences_;
  bool has_rows_ = false;
  std::vector<int64_t> layers_;
  int64_t row_size_ = 0;
  std::shared_ptr<const Model> target_;
};

/// Blocks of a step, on the CPU. B sequences, A anchors in each, W rows of context at most.
struct DrafterBatch {
  torch::Tensor rows;     ///< [B, W, row_size] f16; undefined if the shards have none
  torch::Tensor tokens;   ///< [B, W] int64: what rows are computed of; undefined if they are there
  torch::Tensor first;    ///< [B] int64: positions of the first rows
  torch::Tensor anchors;  ///< [B, A] int64: tokens
  torch::Tensor positions;  ///< [B, A] int64
  torch::Tensor labels;     ///< [B, A, block - 1] int64; -1: none
};

struct AnchorChoice {
  int64_t batch = 16;    ///< sequences a step
  int64_t anchors = 24;  ///< of each
  int64_t window = 512;  ///< rows of context at most
  int64_t block = 16;
  uint64_t seed = 1;
};

/// Selects the blocks of each step, as a pure function of seed and step. An epoch visits a sequence
/// once per `window` generated tokens, in a shuffled order. Anchors are distinct positions from the
/// prompt's last token on. A window that begins within its text has anchors in its second half
/// only, so that they see context as in decoding. Without rows all windows begin at position 0,
/// since the target is recurrent: an epoch visits each sequence once, up to position `window`.
class AnchorOrder {
 public:
  /// `data` must outlive this. Errors: kInvalidData (no sequence with a generated token),
  /// kInvalidArgument (also: shards without rows before HiddenStates::set_target()).
  static Result<AnchorOrder> create(const HiddenStates& data, const AnchorChoice& choice);

  const HiddenStates& data() const { return data_; }

  /// In pinned memory if `pinned`. Errors: kIo, kInvalidData (a shard changed).
  Result<DrafterBatch> batch(int64_t step, bool pinned = false);

 private:
  struct Window {
    const HiddenSequence* sequence;
    int64_t first;                 ///< position of its first row
    std::vector<int64_t> anchors;  ///< positions; at most choice_.anchors

    int64_t rows() const { return *std::max_element(anchors.begin(), anchors.end()) - first; }
  };
  AnchorOrder(const HiddenStates& data, const AnchorChoice& choice);
  int64_t last_anchor(const HiddenSequence& s) const;
  const HiddenSequence& visit(int64_t index);
  Window window(const HiddenSequence& sequence, std::mt19937_64& random) const;

  const HiddenStates& data_;
  AnchorChoice choice_;
  std::vector<size_t> visits_;  ///< sequences of an epoch
  int64_t epoch_ = -1;
  std::vector<size_t> order_;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DRAFTER_DATA_H_
