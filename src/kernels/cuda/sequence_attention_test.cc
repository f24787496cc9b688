// attend_sequences against ref, bit for bit.
#include "kernels/cuda/sequence_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/cuda/batch_test_data.h"
#include "kernels/ref/vector_ops.h"
#include "kernels/rope.h"
#include "kernels/sequence_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using kernels::test::SequenceCase;
using test::BatchOnDevice;
using test::DeviceMatrix;
using test::OnDevice;

TEST(CudaAttendSequences, HasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  for (int i = 0; i < 24; ++i) {
    SequenceCase c(rng, i % 6 == 0 ? 150 : 40);
    const kernels::test::Batch batch = kernels::test::whole_sequences(c.lengths);
    const AttentionShape& heads = c.shape.heads;
    RopeTable rope;
    std::vector<float> table(1);
    if (heads.rope_dims > 0) {
      rope.prepare(batch.view().row_position, heads.rope_dims, heads.rope_base);
      table.assign(rope.row(0), rope.row(c.rows));
    }
    Matrix expected(c.rows, c.q.cols, NAN);
    Matrix q = c.q;
    Matrix k = c.k;
    c.shape.alibi_slopes = c.slopes.empty() ? nullptr : c.slopes.data();
    ref::attend_sequences(batch.view(), c.shape, rope, q.view(), k.view(), c.v.view(),
                          expected.view());
    for (const auto& [name, device] : test::devices()) {
      const BatchOnDevice on_device(*device, batch.view(), i % 3);
      const OnDevice<float> angles(*device, table);
      const OnDevice<float> slopes(*device, c.slopes.empty() ? std::vector<float>(1) : c.slopes);
      const DeviceMatrix device_q(*device, c.q);
      const DeviceMatrix device_k(*device, c.k);
      const DeviceMatrix device_v(*device, c.v);
      const DeviceMatrix out(*device, Matrix(c.rows, c.q.cols, NAN));
      SequenceAttentionShape shape = c.shape;
      if (!c.slopes.empty()) shape.alibi_slopes = slopes.data();
      attend_sequences(device->stream(), on_device.view(), shape,
                       heads.rope_dims > 0 ? angles.data() : nullptr, device_q.view(),
                       device_k.view(), device_v.view(), out.view());
      EXPECT_TRUE(kernels::test::same_bits(out.read(), expected.data))
          << name << ", head_dim " << heads.head_dim << ", window " << c.shape.window;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
