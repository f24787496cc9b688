// Random ragged batches and activations for the tests of ops.
#ifndef CHIMERE_KERNELS_BATCH_TEST_DATA_H_
#define CHIMERE_KERNELS_BATCH_TEST_DATA_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/api.h"

namespace chimere::kernels::test {

using Rng = std::mt19937_64;

inline int uniform_int(Rng& rng, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(rng);
}

inline std::vector<float> normal_floats(Rng& rng, int64_t n, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = normal(rng);
  return v;
}

/// [rows, cols] with a stride that is larger than cols.
struct Matrix {
  int64_t rows;
  int64_t cols;
  int64_t stride;
  std::vector<float> data;

  Matrix(int64_t r, int64_t c, float fill)
      : rows(r), cols(c), stride(c + 3), data(r * stride, fill) {}
  Matrix(Rng& rng, int64_t r, int64_t c, float scale = 1) : Matrix(r, c, 0) {
    data = normal_floats(rng, r * stride, scale);
  }
  MatrixView view() { return {data.data(), rows, cols, stride}; }
  ConstMatrixView view() const { return {data.data(), rows, cols, stride}; }
  const float* row(int64_t r) const { return data.data() + r * stride; }
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

struct SequenceSpec {
  int32_t start = 0;  ///< position of the first row
  int32_t read_slot = 0;
  std::vector<std::pair<RowClass, int32_t>> slices;  ///< class and number of rows
  std::vector<int32_t> write_slots;                  ///< one per row
  int32_t fold_from = -1;                            ///< slot that `unfolded` continues
  std::vector<int32_t> unfolded = {};                ///< row blocks
  std::vector<int32_t> keep_rows = {};               ///< one per row; empty: none is kept
  std::vector<int32_t> pages;
  std::vector<int32_t> visible = {};  ///< one per row; empty: causal

  int32_t rows() const {
    int32_t n = 0;
    for (const auto& [row_class, count] : slices) n += count;
    return n;
  }
};

/// Owns the arrays that a BatchView points to.
class Batch {
 public:
  explicit Batch(const std::vector<SequenceSpec>& sequences) {
    sequence_slices_.push_back(0);
    for (const SequenceSpec& s : sequences) {
      const auto index = static_cast<int32_t>(read_slot_.size());
      int32_t position = s.start;
      for (const auto& [row_class, count] : s.slices) {
        slices_.push_back({index, static_cast<int32_t>(row_sequence_.size()), count, row_class});
        for (int32_t i = 0; i < count; ++i) {
          row_sequence_.push_back(index);
          row_position_.push_back(position++);
          row_visible_.push_back(position);
        }
      }
      std::ranges::copy(s.visible, row_visible_.end() - s.rows());
      causal_ = causal_ && s.visible.empty();
      sequence_slices_.push_back(static_cast<int32_t>(slices_.size()));
      read_slot_.push_back(s.read_slot);
      write_slot_.insert(write_slot_.end(), s.write_slots.begin(), s.write_slots.end());
      fold_from_.push_back(s.fold_from);
      fold_rows_.insert(fold_rows_.end(), s.unfolded.begin(), s.unfolded.end());
      fold_begin_.push_back(static_cast<int32_t>(fold_rows_.size()));
      keep_row_.insert(keep_row_.end(), s.keep_rows.begin(), s.keep_rows.end());
      keep_row_.resize(row_sequence_.size(), -1);
      page_begin_.push_back(static_cast<int32_t>(page_table_.size()));
      page_table_.insert(page_table_.end(), s.pages.begin(), s.pages.end());
    }
  }

  BatchView view() const {
    BatchView b;
    b.n_rows = static_cast<int32_t>(row_sequence_.size());
    b.n_sequences = static_cast<int32_t>(read_slot_.size());
    b.slices = slices_;
    b.sequence_slices = sequence_slices_;
    b.row_sequence = row_sequence_;
    b.row_position = row_position_;
    if (!causal_) b.row_visible = row_visible_;
    b.read_slot = read_slot_;
    b.write_slot = write_slot_;
    b.fold_rows = fold_rows_;
    b.fold_begin = fold_begin_;
    b.fold_from = fold_from_;
    b.keep_row = keep_row_;
    b.page_table = page_table_;
    b.page_begin = page_begin_;
    return b;
  }

 private:
  std::vector<Slice> slices_;
  std::vector<int32_t> sequence_slices_;
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> row_position_;
  std::vector<int32_t> row_visible_;
  bool causal_ = true;
  std::vector<int32_t> read_slot_;
  std::vector<int32_t> write_slot_;
  std::vector<int32_t> fold_rows_;
  std::vector<int32_t> fold_begin_ = {0};
  std::vector<int32_t> fold_from_;
  std::vector<int32_t> keep_row_;
  std::vector<int32_t> page_table_;
  std::vector<int32_t> page_begin_;
};

/// Sequences of one to three slices, chunks and decode rows mixed. Some sequences start from the
/// same slot; states are written in place, to fresh slots, or nowhere. With `max_unfolded` above 0,
/// some sequences fold up to that many rows first, in place or into a fresh slot, some of them the
/// same rows as another, and some decode rows are kept.
struct Scenario {
  std::vector<SequenceSpec> sequences;
  int n_slots = 0;
  int n_pages = 0;
  int n_row_blocks = 0;

  Scenario(Rng& rng, int max_chunk, int max_start, int max_unfolded = 0) {
    const int count = uniform_int(rng, 1, 4);
    const bool forks = uniform_int(rng, 0, 1) == 0;
    for (int i = 0; i < count; ++i) {
      SequenceSpec s;
      const bool forked = forks && i > 0 && uniform_int(rng, 0, 2) == 0;
      s.read_slot = n_slots;
      if (forked) {
        const SequenceSpec& origin = sequences[0];
        s.read_slot = origin.unfolded.empty() ? origin.read_slot : origin.fold_from;
      } else {
        ++n_slots;
      }
      s.start = uniform_int(rng, 0, max_start);
      const int n_slices = uniform_int(rng, 1, 3);
      for (int j = 0; j < n_slices; ++j) {
        const bool chunk = uniform_int(rng, 0, 1) == 0;
        const int rows = chunk ? uniform_int(rng, 1, max_chunk) : uniform_int(rng, 1, 5);
        s.slices.emplace_back(chunk ? RowClass::kPrefill : RowClass::kDecode, rows);
        for (int r = 0; r < rows; ++r) {
          const bool may_write = !chunk || r == rows - 1;
          s.write_slots.push_back(may_write && uniform_int(rng, 0, 1) == 0 ? n_slots++ : -1);
        }
      }
      // In place, unless another sequence reads the slot.
      const bool shared = forked || (forks && i == 0);
      if (max_unfolded > 0) add_kept_rows(rng, max_unfolded, shared, s);
      if ((!shared || !s.unfolded.empty()) && uniform_int(rng, 0, 1) == 0) {
        s.write_slots.back() = s.read_slot;
      }
      for (int p = 0; p * kKvPageTokens < s.start + s.rows(); ++p) s.pages.push_back(n_pages++);
      sequences.push_back(s);
    }
    std::vector<int32_t> order(static_cast<size_t>(n_pages));
    for (int p = 0; p < n_pages; ++p) order[p] = p;
    std::shuffle(order.begin(), order.end(), rng);
    for (SequenceSpec& s : sequences) {
      for (int32_t& p : s.pages) p = order[p];
    }
  }

  /// Makes the rows of each slice of some sequences see the whole slice.
  void add_blocks(Rng& rng) {
    for (SequenceSpec& s : sequences) {
      if (uniform_int(rng, 0, 1) == 0) continue;
      s.visible.clear();
      int32_t end = s.start;
      for (const auto& [row_class, rows] : s.slices) {
        end += rows;
        s.visible.insert(s.visible.end(), static_cast<size_t>(rows), end);
      }
    }
  }

 private:
  void add_kept_rows(Rng& rng, int max_unfolded, bool shared, SequenceSpec& s) {
    if (uniform_int(rng, 0, 2) > 0) {
      const bool same = !sequences.empty() && uniform_int(rng, 0, 3) == 0;
      if (same) s.unfolded = sequences[0].unfolded;
      if (!same) {
        for (int n = uniform_int(rng, 1, max_unfolded); n > 0; --n) {
          s.unfolded.push_back(n_row_blocks++);
        }
        std::shuffle(s.unfolded.begin(), s.unfolded.end(), rng);
      }
    }
    if (!s.unfolded.empty()) {
      s.fold_from = s.read_slot;
      if (shared || uniform_int(rng, 0, 1) == 0) s.read_slot = n_slots++;
    }
    for (const auto& [row_class, count] : s.slices) {
      for (int r = 0; r < count; ++r) {
        const bool keep = row_class == RowClass::kDecode && uniform_int(rng, 0, 1) == 0;
        s.keep_rows.push_back(keep ? n_row_blocks++ : -1);
      }
    }
  }
};

}  // namespace chimere::kernels::test

#endif  // CHIMERE_KERNELS_BATCH_TEST_DATA_H_
