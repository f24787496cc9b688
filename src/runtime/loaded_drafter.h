// The model of a block drafter that is ready to run.
#ifndef CHIMERE_RUNTIME_LOADED_DRAFTER_H_
#define CHIMERE_RUNTIME_LOADED_DRAFTER_H_

#include <memory>

#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"

namespace chimere::runtime {

/// A block drafter (model/block_draft.h) of a loaded model, which must outlive it. Members are
/// destroyed in reverse order.
struct LoadedDrafter {
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOADED_DRAFTER_H_
