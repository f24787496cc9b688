// The queue of work of a card.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_CARD_STREAM_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_CARD_STREAM_H_

#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/cuda/device/driver.h"
#include "kernels/cuda/device/stream.h"

namespace chimere::kernels::cuda {

/// Loads a module when its first kernel is launched.
class CardStream final : public Stream {
 public:
  /// Errors: kIo.
  static Result<std::unique_ptr<CardStream>> create(const driver::Api& api,
                                                    driver::Context* context);
  ~CardStream() override;

  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* to, size_t bytes) override;
  void call(void (*work)(void* data), void* data) override;
  void wait_for(Stream& other) override;
  void begin_recording() override;
  std::unique_ptr<Graph> end_recording() override;
  void replay(const Graph& graph) override;
  Status synchronize() override;

 private:
  CardStream(const driver::Api& api, driver::Context* context) : api_(api), context_(context) {}
  /// Whether calls to the driver make sense; they go to the card's context then.
  bool ready();
  void launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                    size_t bytes) override;
  driver::Function* function(const Kernel& kernel);
  driver::Module* module(const Kernel& kernel);
  /// Keeps the first failure; true if `result` is none.
  bool check(int result, const char* what, const char* name);

  const driver::Api& api_;
  driver::Context* context_;
  driver::StreamHandle* stream_ = nullptr;
  driver::Event* reached_ = nullptr;  ///< by this stream, when another waited for it last
  std::unordered_map<const char*, driver::Function*> functions_;  ///< by address of the name
  std::unordered_map<std::string, driver::Module*> modules_;
  Status status_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_CARD_STREAM_H_
