// The synthetic architecture computed plainly in double precision, one token after the other: no
// ops, batches, pages or states in common with the models that it judges.
#ifndef CHIMERE_TESTS_SUPPORT_PLAIN_SYNTHETIC_H_
#define CHIMERE_TESTS_SUPPORT_PLAIN_SYNTHETIC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "support/tiny_model.h"

namespace chimere::test {

class PlainSynthetic {
 public:
  /// `file` has the shapes of `shape` and only f32 weights, and must outlive this.
  PlainSynthetic(const gguf::Reader& file, const TinyModel& shape) : file_(file), m_(shape) {}

  /// The logits after one more token.
  std::vector<double> step(int32_t token);

 private:
  using Vector = std::vector<double>;
  struct DeltaNetState {
    std::vector<Vector> inputs;  ///< of the convolution, oldest first
    std::vector<Vector> heads;   ///< [n_v_heads][state_dim * state_dim]
  };
  struct AttentionShape {
    int n_kv_heads = 0;
    bool gated = false;
    bool norms = false;
    int rope_dims = 0;
    double scale = 0;
  };

  const float* tensor(int block, const std::string& name) const;
  /// W x
  Vector multiply(const float* w, const Vector& x, int n_out) const;
  Vector multiply(int block, const std::string& name, const Vector& x, int n_out) const {
    return multiply(tensor(block, name), x, n_out);
  }
  Vector attention(int block, const AttentionShape& shape, const Vector& h);
  Vector delta_net(int block, const Vector& h);
  Vector experts(int block, bool gates, bool shared, const Vector& h) const;

  const gguf::Reader& file_;
  TinyModel m_;
  int position_ = 0;
  std::map<int, std::vector<Vector>> keys_;    ///< [block][position]
  std::map<int, std::vector<Vector>> values_;  ///< [block][position]
  std::map<int, DeltaNetState> states_;
};

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_PLAIN_SYNTHETIC_H_
