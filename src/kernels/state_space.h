// Shapes and operands of short convolutions and state-space recurrences.
#ifndef CHIMERE_KERNELS_STATE_SPACE_H_
#define CHIMERE_KERNELS_STATE_SPACE_H_

#include <cstdint>

#include "tensor/view.h"

namespace chimere::kernels {

/// Channels of a recurrence are whole vectors of this length.
inline constexpr int kChannelUnit = 16;

/// Largest state_dim: a GPU holds columns of a state in shared memory.
inline constexpr int kMaxStateDim = 512;

/// Shape of Ops::causal_conv.
struct ConvShape {
  int channels = 0;  ///< a multiple of kChannelUnit
  int taps = 4;      ///< 2 to 8
  bool silu = true;

  int64_t state_floats() const { return int64_t{taps - 1} * channels; }
  int64_t row_floats() const { return channels; }
};

/// Shape of Ops::ssd_scan. Head h reads group h / (n_heads / n_groups).
struct SsdShape {
  int n_heads = 0;   ///< a multiple of n_groups
  int head_dim = 0;  ///< a multiple of kChannelUnit
  int n_groups = 0;
  int state_dim = 0;  ///< at most kMaxStateDim

  int inner() const { return n_heads * head_dim; }
  int bc_dim() const { return n_groups * state_dim; }
  int conv_dim() const { return inner() + 2 * bc_dim(); }
  int heads_of_group() const { return n_heads / n_groups; }
  int64_t state_floats() const { return int64_t{inner()} * state_dim; }
  /// A row keeps dt x [inner()], B [bc_dim()] and the decays g [n_heads].
  int64_t row_floats() const { return int64_t{inner()} + bc_dim() + n_heads; }
};

/// Each [n_heads].
struct SsdWeights {
  const float* a = nullptr;  ///< negative
  const float* d = nullptr;
  const float* dt_bias = nullptr;
};

/// Shape of Ops::selective_scan.
struct SelectiveShape {
  int channels = 0;   ///< a multiple of kChannelUnit
  int state_dim = 0;  ///< at most kMaxStateDim

  int64_t state_floats() const { return int64_t{channels} * state_dim; }
  /// A row keeps dt [channels], dt x [channels] and B [state_dim].
  int64_t row_floats() const { return 2 * int64_t{channels} + state_dim; }
};

struct SelectiveWeights {
  const float* a = nullptr;        ///< [channels / 16, state_dim, 16], negative
  const float* d = nullptr;        ///< [channels]
  const float* dt_bias = nullptr;  ///< [channels]
};

struct SelectiveInputs {
  ConstMatrixView x;   ///< [rows, channels]
  ConstMatrixView dt;  ///< [rows, channels] raw
  ConstMatrixView b;   ///< [rows, state_dim]
  ConstMatrixView c;   ///< [rows, state_dim]
};

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_STATE_SPACE_H_
