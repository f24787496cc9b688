// Layers whose routed experts stay in the host's memory, because the GPU's is too small. Decode
// rows (decode, verification) go to the host, which computes their experts while the GPU computes
// the shared one; for prefill rows (prompts) a layer's experts come to the GPU, the next layer's
// while this one's are at work. Either way a row's bits are those of experts on the card.
#ifndef CHIMERE_KERNELS_CUDA_HOST_EXPERTS_H_
#define CHIMERE_KERNELS_CUDA_HOST_EXPERTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/moe_decode.h"

namespace chimere::kernels::cuda {

/// Modules on the GPU for the experts of a layer, while prefill rows want them: with two the next
/// layer's come while these are at work; of few layers, a second one would take what they save.
constexpr int host_expert_places(int layers) { return layers == 0 ? 0 : layers < 8 ? 1 : 2; }

class HostExperts {
 public:
  /// For so many layers. All must outlive it. `tables` takes the tables of addresses.
  HostExperts(Device& device, ThreadPool& pool, Memory& tables, int layers)
      : device_(device),
        pool_(pool),
        tables_(tables),
        ops_(make_cpu_ops(pool)),
        places_(static_cast<size_t>(host_expert_places(layers))) {}

  /// A layer's experts, in host memory, which must stay; `shared` is placed already. Their data is
  /// set to where it lies while a chunk is computed. Errors: those of ExpertTable::create(),
  /// kOutOfMemory.
  Status add(std::span<ExpertWeights> experts, const ExpertWeights* shared);

  bool any() const { return !layers_.empty(); }
  /// Whether the experts are a layer's here.
  bool has(std::span<const ExpertWeights> experts) const {
    return layer_of_.contains(experts.data());
  }

  const ExpertTable& table(std::span<const ExpertWeights> experts) const {
    return layers_[layer_of_.at(experts.data())].table;
  }

  /// What one call of ffn() works on; pointers are the device's.
  struct Call {
    ConstMatrixView x;
    RoundedRows rounded;  ///< of x; in tiles where there are several decode rows
    HalfRows halves;      ///< of the prefill rows
    RowSet step;
    RowSet chunk;
    Routing routing;
    const float* shared_gate;
    const uint32_t* codebook;
    uint8_t* scratch;  ///< scratch_bytes()
    MatrixView y;
  };
  int64_t scratch_bytes(std::span<const ExpertWeights> experts, const Call& call) const;

  /// A step with prefill rows begins: the first layer's experts set out for the card.
  void begin_chunks();
  /// Ops::moe_ffn of a layer.
  void ffn(std::span<const ExpertWeights> experts, const Call& call);

 private:
  struct Layer {
    std::vector<ExpertWeights> experts;  ///< on the host, as in the file
    std::unique_ptr<Pinned> packed;      ///< the same as the GPU wants them
    size_t bytes = 0;
    ExpertTable table;     ///< of where they lie on the GPU
    ExpertWeights shared;  ///< on the GPU
    bool has_shared = false;
  };
  /// Rows on their way to the host and back, in pinned memory.
  struct Mailbox {
    std::unique_ptr<Pinned> memory;
    int64_t n_embd = 0;
    float* x = nullptr;
    float* weights = nullptr;
    int32_t* ids = nullptr;
    float* sums = nullptr;
  };
  /// Experts of the first rows in the mailbox.
  struct HostWork {
    HostExperts* self;
    size_t layer;
    int32_t rows;
    int32_t n_used;
  };

  Status open_mailbox(int64_t n_embd);
  void upload(size_t layer);
  void decode_rows(size_t index, const Call& call, int32_t first, int32_t count);
  void shared_expert(const Layer& layer, const Call& call, bool in_place, int32_t count);
  void compute(const HostWork& work);

  Device& device_;
  ThreadPool& pool_;
  Memory& tables_;
  std::unique_ptr<Ops> ops_;  ///< of the host
  Stream* side_ = nullptr;
  std::vector<Layer> layers_;
  std::map<const ExpertWeights*, size_t> layer_of_;
  std::vector<std::unique_ptr<MemoryRange>> places_;  ///< on the GPU, of layers in turn
  size_t on_its_way_ = 0;                             ///< layer whose experts were sent last, + 1
  Mailbox mailbox_;
  std::map<std::pair<size_t, int32_t>, std::unique_ptr<HostWork>> works_;  ///< recordings hold them
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HOST_EXPERTS_H_
