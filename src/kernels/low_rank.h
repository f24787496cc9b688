// Adapters: low-rank changes of weight matrices (LoRA, Hu et al. 2021, arXiv:2106.09685) that apply
// to some rows of a step. Where their numbers come from (a file, a seed) is not known here.
#ifndef CHIMERE_KERNELS_LOW_RANK_H_
#define CHIMERE_KERNELS_LOW_RANK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/view.h"

namespace chimere::kernels {

inline constexpr int32_t kMaxAdapters = 64;
/// Adapters of one row.
inline constexpr int32_t kMaxRowAdapters = 8;
inline constexpr int32_t kMaxAdapterRank = 1024;

/// W + scale · B A for one target (WeightView::target). Matrices are f32, f16 or bf16. A target of
/// several parts, which lie one after the other (the experts of a layer), has an A for each.
struct LowRankPair {
  WeightView a;  ///< [parts * rank, n_in]
  /// [rank, rows of the target]: transposed, so that kernels compute consecutive outputs at once.
  /// Empty: the target is unchanged.
  WeightView b;
  int64_t part_rows = 0;  ///< rows of b that belong to one part
  float scale = 1;

  bool empty() const { return b.n_out == 0; }
  int64_t rank() const { return b.n_out; }
  /// The A that applies to a view of the target.
  WeightView a_of(const WeightView& w) const {
    return a.rows_from(w.target_row / part_rows * rank(), rank());
  }
  /// The first of `rank` elements of B for row `row` of the target, b_stride() bytes apart.
  const uint8_t* b_at(int64_t row) const { return b.row(0) + row_bytes(b.type, row); }
  int64_t b_stride() const { return row_bytes(b.type, b.n_in); }
};

struct LowRankAdapter {
  std::vector<LowRankPair> targets;  ///< by WeightView::target
};

/// An adapter of a row: its number and a factor.
struct AdapterUse {
  int32_t adapter = 0;
  float scale = 1;

  bool operator==(const AdapterUse&) const = default;
};

/// The adapters of every row of a step.
struct RowAdapters {
  /// [n_rows + 1]: row r has uses[begin[r] .. begin[r + 1]), at most kMaxRowAdapters, in the order
  /// in which they are added. Empty: no row has any.
  std::span<const int32_t> begin = {};
  std::span<const AdapterUse> uses = {};

  bool empty() const { return uses.empty(); }
  std::span<const AdapterUse> of(int64_t row) const {
    const auto from = static_cast<size_t>(begin[static_cast<size_t>(row)]);
    return uses.subspan(from, static_cast<size_t>(begin[static_cast<size_t>(row) + 1]) - from);
  }
};

/// The adapters of an Ops object in host memory, and those of the rows of its current step.
class StepAdapters {
 public:
  /// Rows with the same uses.
  struct Segment {
    std::span<const AdapterUse> uses;
    std::vector<int64_t> rows;  ///< rising
  };
  struct Step {
    RowAdapters rows;
    std::span<const int32_t> wanted;  ///< StepInputs::wanted_rows
  };

  /// Errors: kInvalidArgument.
  Result<int32_t> add(LowRankAdapter adapter);
  void drop(int32_t number) { adapters_[static_cast<size_t>(number)].reset(); }

  /// Begins a step; returns the one before, for resume().
  Step begin(const RowAdapters& rows, std::span<const int32_t> wanted);
  void resume(const Step& step) { begin(step.rows, step.wanted); }

  /// Whether no row of the step has an adapter.
  bool none() const { return step_.rows.empty(); }
  /// The uses of row r of a matrix with all rows of the step, or with the wanted ones.
  std::span<const AdapterUse> of(int64_t r, bool wanted) const {
    return step_.rows.of(wanted ? step_.wanted[static_cast<size_t>(r)] : r);
  }
  /// The rows of such a matrix that have adapters.
  std::span<const Segment> segments(bool wanted) const {
    return wanted ? wanted_segments_ : all_segments_;
  }
  /// What an adapter changes in `w`; nullptr: nothing.
  const LowRankPair* find(const WeightView& w, const AdapterUse& use) const;

 private:
  std::vector<Segment> find_segments(int64_t n, bool wanted) const;

  std::vector<std::optional<LowRankAdapter>> adapters_;
  Step step_;
  std::vector<Segment> all_segments_;
  std::vector<Segment> wanted_segments_;
};

/// The factor of B (A x): docs/numerics.md, "Adapters".
inline float low_rank_scale(const AdapterUse& use, const LowRankPair& pair, float scale) {
  return use.scale * pair.scale * scale;
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_LOW_RANK_H_
