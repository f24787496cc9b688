// Layers whose routed experts stay in host memory because the GPU's is too small. For decode rows
// (decode, verification) the host computes the routed experts while the GPU computes the shared
// one. For prefill rows a layer's experts are uploaded, overlapped with the computation of the
// layer before. Either way, results have the bits of experts in GPU memory.
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

/// GPU buffers for the experts of a layer. With two, the next layer's upload overlaps this layer's
/// computation; with few layers, a second buffer would cost the memory that host experts save.
constexpr int host_expert_buffers(int layers) { return layers == 0 ? 0 : layers < 8 ? 1 : 2; }

class HostExperts {
 public:
  /// With `buffers` GPU buffers, at least one: host_expert_buffers(). All references must outlive
  /// it. `tables`: memory for the address tables.
  HostExperts(Device& device, ThreadPool& pool, Memory& tables, int buffers)
      : device_(device),
        pool_(pool),
        tables_(tables),
        ops_(make_cpu_ops(pool)),
        buffers_(static_cast<size_t>(buffers)) {}

  /// Adds a layer's experts, whose host memory must remain valid; `shared` is already on the GPU.
  /// Layers run in the order in which they are added. Returns the layer's number. Errors: those of
  /// ExpertTable::create(), kOutOfMemory.
  Result<size_t> add(std::vector<ExpertWeights> experts, const ExpertWeights* shared);

  bool any() const { return !layers_.empty(); }
  const ExpertTable& table(size_t layer) const { return layers_[layer].table; }

  /// Operands of ffn(); pointers are the device's.
  struct Call {
    ConstMatrixView x;
    RoundedRows rounded;  ///< of x, tiled if there are several decode rows
    HalfRows halves;      ///< of the prefill rows
    RowSet decode;
    RowSet prefill;
    Routing routing;
    const float* shared_gate;
    MoeOptions options;
    const uint32_t* codebook;
    uint8_t* scratch;  ///< scratch_bytes()
    MatrixView y;
  };
  int64_t scratch_bytes(size_t index, const Call& call) const;

  /// Call at the start of a step with prefill rows: starts the upload of the first layer's experts.
  void begin_prefill();
  /// Ops::moe_ffn of a layer.
  void ffn(size_t layer, const Call& call);

 private:
  struct Layer {
    std::unique_ptr<PlacedExperts> experts;  ///< in host memory, as in the file, for ops_
    std::unique_ptr<Pinned> packed;          ///< the same, in the GPU's packed layout
    size_t bytes = 0;
    ExpertTable table;                    ///< their addresses on the GPU
    std::unique_ptr<MemoryRange> biases;  ///< on the GPU; nullptr: none
    ExpertWeights shared;                 ///< on the GPU
    bool has_shared = false;
  };
  /// Rows in transit between GPU and host, in pinned memory.
  struct Mailbox {
    std::unique_ptr<Pinned> memory;
    int64_t n_embd = 0;
    float* x = nullptr;
    float* weights = nullptr;
    int32_t* ids = nullptr;
    float* sums = nullptr;
  };
  /// Arguments of a host call: compute the experts of the first `rows` rows of the mailbox.
  struct HostWork {
    HostExperts* self;
    size_t layer;
    int32_t rows;
    int32_t n_used;
    Activation activation;
  };

  Status open_mailbox(int64_t n_embd);
  /// Copies the experts' biases to the GPU's memory and points the experts to them.
  Result<std::unique_ptr<MemoryRange>> upload_biases(std::vector<ExpertWeights>& experts);
  void upload(size_t layer);
  void decode_rows(size_t index, const Call& call, int32_t first, int32_t count);
  void shared_expert(const Layer& layer, const Call& call, bool in_place, int32_t count);
  void compute(const HostWork& work);

  Device& device_;
  ThreadPool& pool_;
  Memory& tables_;
  std::unique_ptr<Ops> ops_;  ///< the CPU's ops
  Stream* side_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<std::unique_ptr<MemoryRange>> buffers_;  ///< GPU buffers, used by layers in turn
  size_t uploaded_end_ = 0;                            ///< index of the layer uploaded last, + 1
  Mailbox mailbox_;
  std::map<std::pair<size_t, int32_t>, std::unique_ptr<HostWork>> works_;  ///< graphs refer to them
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HOST_EXPERTS_H_
