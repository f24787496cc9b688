// qk_norm_rope_append and attend on every instruction set against the oracle, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"
#include "kernels/cpu/ops_test_data.h"

namespace chimere::kernels::test {
namespace {

AttentionShape random_shape(Rng& rng) {
  constexpr int kDims[] = {16, 48, 64, 96, 128, 256};
  constexpr int kGroups[] = {1, 2, 3, 4, 6, 8, 12};
  AttentionShape s;
  s.head_dim = kDims[uniform_int(rng, 0, 5)];
  s.n_kv_heads = uniform_int(rng, 1, 3);
  s.n_heads = s.n_kv_heads * kGroups[uniform_int(rng, 0, s.head_dim > 64 ? 4 : 6)];
  const int rope_dims[] = {s.head_dim, s.head_dim / 4, 0};
  s.rope_dims = rope_dims[uniform_int(rng, 0, 2)];
  s.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  s.gated = uniform_int(rng, 0, 2) > 0;
  return s;
}

/// One page more, which is in the place of all pages that no row of the batch sees.
void hide_pages(Scenario& scenario, int window) {
  const int32_t hidden = scenario.n_pages++;
  for (SequenceSpec& s : scenario.sequences) {
    const int first = std::max(0, s.start + 1 - window);
    for (int page = 0; page < first / kKvPageTokens; ++page) {
      s.pages[static_cast<size_t>(page)] = hidden;
    }
  }
}

/// Rows whose keys and values are appended and whose queries attend. KV memory starts as NaN, so
/// that reading unwritten positions shows.
struct Layer {
  AttentionShape shape;
  DType k_type;
  DType v_type;
  std::vector<float> q_norm;  ///< empty: no norm
  std::vector<float> k_norm;
  std::vector<uint8_t> memory;
  int64_t page_bytes;

  Layer(Rng& rng, const Ops& ops, const AttentionShape& s, DType k, DType v, int n_pages)
      : shape(s),
        k_type(k),
        v_type(v),
        q_norm(normal_floats(rng, uniform_int(rng, 0, 2) > 0 ? s.head_dim : 0)),
        k_norm(normal_floats(rng, uniform_int(rng, 0, 2) > 0 ? s.head_dim : 0)),
        page_bytes(ops.kv_page_bytes(s, k, v)) {
    memory.assign(static_cast<size_t>(n_pages * page_bytes), 0xFF);
  }

  struct Rows {
    Matrix qg;
    Matrix k;
    Matrix v;
    Matrix out;
    Rows(Rng& rng, const AttentionShape& s, int n)
        : qg(rng, n, int64_t{s.n_heads} * s.query_stride()),
          k(rng, n, static_cast<int64_t>(s.n_kv_heads) * s.head_dim),
          v(rng, n, static_cast<int64_t>(s.n_kv_heads) * s.head_dim),
          out(n, static_cast<int64_t>(s.n_heads) * s.head_dim, NAN) {}
  };

  KvView append(Ops& ops, const BatchView& batch, Rows& rows) {
    const KvView kv = {memory.data(), page_bytes, k_type, v_type};
    ops.qk_norm_rope_append(batch, shape, q_norm.empty() ? nullptr : q_norm.data(),
                            k_norm.empty() ? nullptr : k_norm.data(), 1e-6F, rows.qg.view(),
                            rows.k.view(), rows.v.view(), kv);
    return kv;
  }

  void run(Ops& ops, const BatchView& batch, Rows& rows) {
    const KvView kv = append(ops, batch, rows);
    ops.attend(batch, shape, rows.qg.view(), kv, rows.out.view());
  }
};

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};

/// Any KV type that supports this head size.
DType random_type(Rng& rng, int head_dim) {
  return kTypes[uniform_int(rng, 0, head_dim % 32 == 0 ? 4 : 2)];
}

/// The positions before the scenario's rows, as a batch of its own.
std::vector<SequenceSpec> history(const Scenario& scenario) {
  std::vector<SequenceSpec> before;
  for (SequenceSpec s : scenario.sequences) {
    if (s.start == 0) continue;
    s.slices = {{RowClass::kDecode, s.start}};
    s.write_slots.assign(s.start, -1);
    s.start = 0;
    s.visible.clear();
    before.push_back(s);
  }
  return before;
}

void check(Rng& rng, const AttentionShape& shape, Scenario scenario, DType k_type, DType v_type) {
  const auto ref = make_ref_ops();
  const Rng layer_seed = rng;
  Rng ref_rng = layer_seed;
  const int n_pages = scenario.n_pages + 1;  // the last one stays NaN
  Layer want(ref_rng, *ref, shape, k_type, v_type, n_pages);
  const Batch before(history(scenario));
  if (shape.window > 0) hide_pages(scenario, shape.window);
  const Batch batch(scenario.sequences);
  const Layer::Rows past(rng, shape, before.view().n_rows);
  const Layer::Rows start(rng, shape, batch.view().n_rows);
  // Only the past's appended keys and values matter: plain appends keep the oracle fast.
  auto append_past = [&](Ops& ops, Layer& layer) {
    Layer::Rows rows = past;
    layer.append(ops, before.view(), rows);
  };
  append_past(*ref, want);
  Layer::Rows want_rows = start;
  want.run(*ref, batch.view(), want_rows);
  for (int64_t r = 0; r < start.out.rows; ++r) {
    for (int64_t c = 0; c < start.out.cols; ++c) {
      ASSERT_TRUE(std::isfinite(want_rows.out.row(r)[c]));
    }
  }
  for (const CpuVariant& variant : cpu_variants()) {
    Rng same = layer_seed;
    Layer got(same, *variant.ops, shape, k_type, v_type, n_pages);
    append_past(*variant.ops, got);
    Layer::Rows rows = start;
    got.run(*variant.ops, batch.view(), rows);
    EXPECT_TRUE(same_bits(rows.qg.data, want_rows.qg.data)) << variant.name;
    for (int64_t r = 0; r < rows.out.rows; ++r) {
      EXPECT_TRUE(same_bits(rows.out.row(r), want_rows.out.row(r), rows.out.cols))
          << variant.name << " row " << r << " head_dim " << shape.head_dim << " keys "
          << dtype_name(k_type) << " values " << dtype_name(v_type);
    }
    // A row alone: its KV is already in the cache, so only its query is new.
    const int64_t r = uniform_int(rng, 0, static_cast<int>(rows.out.rows) - 1);
    const int32_t sequence = batch.view().row_sequence[r];
    SequenceSpec alone = scenario.sequences[sequence];
    alone.start = batch.view().row_position[r];
    alone.slices = {{RowClass::kDecode, 1}};
    alone.write_slots = {-1};
    alone.visible = {batch.view().visible(r)};
    Matrix out(1, rows.out.cols, NAN);
    ConstMatrixView query = rows.qg.view();
    query.data += r * query.stride;
    query.rows = 1;
    variant.ops->attend(Batch({alone}).view(), shape, query,
                        {got.memory.data(), got.page_bytes, k_type, v_type}, out.view());
    EXPECT_TRUE(same_bits(out.row(0), rows.out.row(r), out.cols)) << variant.name;
  }
}

void check(Rng& rng, const AttentionShape& shape, const Scenario& scenario) {
  const DType k_type = random_type(rng, shape.head_dim);
  check(rng, shape, scenario, k_type, random_type(rng, shape.head_dim));
}

TEST(Attention, EveryPairOfTypes) {
  Rng rng(fresh_seed());
  constexpr int kDims[] = {32, 64, 96};
  for (const DType k : kTypes) {
    for (const DType v : kTypes) {
      AttentionShape shape = random_shape(rng);
      shape.head_dim = kDims[uniform_int(rng, 0, 2)];
      shape.rope_dims = shape.head_dim;
      check(rng, shape, Scenario(rng, 20, 100), k, v);
    }
  }
}

TEST(Attention, EveryInstructionSetGivesTheOraclesBits) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    check(rng, random_shape(rng), Scenario(rng, kMaxChunkRows, 300));
  }
}

/// Rows that see later rows of their slice, in one and in several splits.
TEST(Attention, BlocksOfRowsThatSeeEachOther) {
  Rng rng(fresh_seed());
  for (int round = 0; round < 6; ++round) {
    Scenario scenario(rng, kMaxChunkRows, round < 3 ? 100 : 600);
    scenario.add_blocks(rng);
    check(rng, random_shape(rng), scenario);
  }
}

TEST(Attention, EveryCombinationOfNormsAndRope) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  SequenceSpec sequence;
  sequence.slices = {{RowClass::kDecode, 5}};
  sequence.write_slots.assign(5, -1);
  sequence.pages = {0};
  const Batch batch({sequence});
  AttentionShape shape;
  shape.n_heads = 3;
  shape.n_kv_heads = 1;
  shape.scale = 0.125F;
  for (const int head_dim : {48, 64}) {
    for (int combination = 0; combination < 8; ++combination) {
      shape.head_dim = head_dim;
      shape.rope_dims = (combination & 1) != 0 ? head_dim / 2 : 0;
      const DType k_type = random_type(rng, head_dim);
      const DType v_type = random_type(rng, head_dim);
      const std::vector<float> norms = normal_floats(rng, 2 * head_dim);
      const Layer::Rows start(rng, shape, 5);
      const auto run = [&](Ops& ops) {
        Rng unused(0);
        Layer layer(unused, ops, shape, k_type, v_type, 1);
        layer.q_norm.assign(norms.begin(), norms.begin() + ((combination & 2) != 0 ? head_dim : 0));
        layer.k_norm.assign(norms.end() - ((combination & 4) != 0 ? head_dim : 0), norms.end());
        Layer::Rows rows = start;
        layer.run(ops, batch.view(), rows);
        return rows;
      };
      const Layer::Rows want = run(*ref);
      // Without norm, rotation and H, queries are as they were.
      const bool plain = (combination & 3) == 0 && !dtype_info(k_type).quantised;
      EXPECT_EQ(same_bits(want.qg.data, start.qg.data), plain);
      for (const CpuVariant& variant : cpu_variants()) {
        const Layer::Rows got = run(*variant.ops);
        EXPECT_TRUE(same_bits(got.qg.data, want.qg.data)) << variant.name << ' ' << combination;
        for (int r = 0; r < 5; ++r) {
          EXPECT_TRUE(same_bits(got.out.row(r), want.out.row(r), want.out.cols))
              << variant.name << ' ' << combination;
        }
      }
    }
  }
}

/// Windows of every size, with and without sinks, in prompts, decode rows and blocks of rows; pages
/// before the windows hold NaN.
TEST(Attention, WindowsAndSinks) {
  Rng rng(fresh_seed());
  constexpr int kWindows[] = {1, 2, 17, 64, 128, 200, 256, 257, 300, 700};
  for (const int window : kWindows) {
    AttentionShape shape = random_shape(rng);
    shape.window = window;
    const std::vector<float> sinks = normal_floats(rng, shape.n_heads);
    if (uniform_int(rng, 0, 2) > 0) shape.sinks = sinks.data();
    Scenario scenario(rng, uniform_int(rng, 1, kMaxChunkRows), uniform_int(rng, 0, 900));
    if (uniform_int(rng, 0, 2) == 0) scenario.add_blocks(rng);
    check(rng, shape, scenario);
  }
}

TEST(Attention, SinksOfEverySize) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.head_dim = 32;
  shape.scale = 0.25F;
  const std::vector<float> sinks = {-1e30F, -2, 3, 80};
  shape.sinks = sinks.data();
  check(rng, shape, Scenario(rng, 20, 600));
  // All of the weight is the sink's.
  const auto ref = make_ref_ops();
  SequenceSpec one;
  one.slices = {{RowClass::kDecode, 1}};
  one.write_slots = {-1};
  one.pages = {0};
  const Batch batch({one});
  shape.gated = false;
  const std::vector<float> huge(4, 1e4F);
  shape.sinks = huge.data();
  Layer layer(rng, *ref, shape, DType::kF32, DType::kF32, 1);
  Layer::Rows rows(rng, shape, 1);
  layer.run(*ref, batch.view(), rows);
  for (int64_t c = 0; c < rows.out.cols; ++c) EXPECT_EQ(rows.out.row(0)[c], 0);
}

TEST(Attention, LongContextsInManySplits) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_heads = 4;
  shape.n_kv_heads = 1;
  shape.head_dim = 64;
  shape.rope_dims = 16;
  shape.scale = 0.125F;
  for (int round = 0; round < 2; ++round) check(rng, shape, Scenario(rng, 6, 2500));
  shape.window = 128;
  check(rng, shape, Scenario(rng, 6, 2500));
}

/// Every number of queries in a block, with rows on both sides of a split boundary: the first
/// queries of a block then see nothing of the second split.
TEST(Attention, BlocksAcrossASplitBoundary) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_kv_heads = 1;
  shape.head_dim = 32;
  shape.rope_dims = 32;
  shape.scale = 0.25F;
  for (int n_heads = 1; n_heads <= 3; ++n_heads) {
    shape.n_heads = n_heads;
    for (int rows = 1; rows <= 18; ++rows) {
      Scenario scenario(rng, 1, 0);
      scenario.sequences.resize(1);
      SequenceSpec& s = scenario.sequences[0];
      s.slices = {{RowClass::kPrefill, rows}};
      s.write_slots.assign(static_cast<size_t>(rows), -1);
      s.start = 256 - uniform_int(rng, rows / 2, rows);
      shape.window = rows % 2 == 0 ? uniform_int(rng, 1, 2 * rows) : 0;
      if (rows % 3 == 0) s.visible.assign(static_cast<size_t>(rows), s.start + rows);
      s.pages = {3, 1, 4, 0, 2};
      scenario.n_pages = 5;
      check(rng, shape, scenario);
    }
  }
}

TEST(Attention, ContextsOf128KPositions) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_heads = 1;
  shape.n_kv_heads = 1;
  shape.head_dim = 32;
  shape.rope_dims = 32;
  shape.scale = 0.25F;
  Scenario scenario(rng, 1, 0);
  scenario.n_pages = 0;
  scenario.sequences.resize(1);
  SequenceSpec& s = scenario.sequences[0];
  s.slices = {{RowClass::kPrefill, 3}};
  s.write_slots.assign(3, -1);
  s.start = (128 << 10) - 3;
  s.pages.clear();
  while (scenario.n_pages * kKvPageTokens < s.start + 3) s.pages.push_back(scenario.n_pages++);
  std::shuffle(s.pages.begin(), s.pages.end(), rng);
  check(rng, shape, scenario, DType::kQ8_0, DType::kQ4_0);
}

/// Values that no scale can represent appear in the output.
TEST(Attention, NonFiniteValuesPropagateAndZerosAreExact) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_heads = 2;
  shape.n_kv_heads = 1;
  shape.head_dim = 64;
  shape.rope_dims = 16;
  shape.scale = 0.125F;
  const std::vector<float> norm(64, 1.0F);
  for (const DType type : {DType::kQ8_0, DType::kQ4_0}) {
    for (const float odd : {INFINITY, NAN, 1e30F, 1e-30F, 0.0F, -0.0F}) {
      std::vector<std::vector<float>> outs;
      const auto ref = make_ref_ops();
      std::vector<Ops*> all = {ref.get()};
      for (const CpuVariant& variant : cpu_variants()) all.push_back(variant.ops.get());
      const Rng rows_seed = rng;
      for (Ops* ops : all) {
        Rng rows_rng = rows_seed;
        const Batch batch(
            {{.slices = {{RowClass::kDecode, 3}}, .write_slots = {-1, -1, -1}, .pages = {0}}});
        Layer::Rows rows(rows_rng, shape, 3);
        std::fill_n(rows.v.data.begin(), rows.v.stride, odd);  // all of the first row's value
        std::vector<uint8_t> memory(static_cast<size_t>(ops->kv_page_bytes(shape, type, type)));
        const KvView kv = {memory.data(), static_cast<int64_t>(memory.size()), type, type};
        ops->qk_norm_rope_append(batch.view(), shape, norm.data(), norm.data(), 1e-6F,
                                 rows.qg.view(), rows.k.view(), rows.v.view(), kv);
        ops->attend(batch.view(), shape, rows.qg.view(), kv, rows.out.view());
        outs.push_back(rows.out.data);
        const bool tiny = std::fabs(odd) <= 1e-30F;
        for (int d = 0; d < 2 * 64; ++d) {
          if (tiny) {
            EXPECT_EQ(rows.out.row(0)[d], 0) << odd;
          } else {
            EXPECT_FALSE(std::isfinite(rows.out.row(0)[d])) << odd;
          }
        }
      }
      for (const auto& out : outs) {
        for (size_t i = 0; i < out.size(); ++i) {
          EXPECT_TRUE(same_bits(&out[i], &outs[0][i], 1) ||
                      (std::isnan(out[i]) && std::isnan(outs[0][i])))
              << odd;
        }
      }
    }
  }
}

TEST(Attention, MoreQueriesForAKvHeadThanABlockHolds) {
  Rng rng(fresh_seed());
  AttentionShape shape;
  shape.n_heads = 70;
  shape.n_kv_heads = 1;
  shape.head_dim = 16;
  shape.rope_dims = 8;
  shape.scale = 0.25F;
  check(rng, shape, Scenario(rng, 5, 300));
}

}  // namespace
}  // namespace chimere::kernels::test
