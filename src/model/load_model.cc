// Loading: from a file's hyper-parameters and tensors to a model that can run.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "model/arch/registry.h"
#include "model/layered_model.h"
#include "model/model.h"
#include "model/state_builder.h"
#include "model/unread_keys.h"
#include "model/weight_binder.h"

namespace chimere::model {
namespace {

Status check(const ModelOptions& options) {
  if (options.max_step_rows < 1 || options.max_step_rows > (1 << 20)) {
    return invalid_argument("max_step_rows must be from 1 to 1048576");
  }
  const bool possible = options.expert_top_p > 0 && options.expert_top_p <= 1;  // no NaN
  return possible ? Status() : invalid_argument("expert_top_p must be above 0 and at most 1");
}

/// Memory for the counters of the experts that decode rows use, if any may be skipped.
Result<std::unique_ptr<MemoryRange>> make_expert_use(const ModelOptions& options, Memory& memory) {
  std::unique_ptr<MemoryRange> range;
  if (options.expert_top_p >= 1) return range;
  CHIMERE_TRY(range, memory.reserve(sizeof(kernels::ExpertUse)));
  CHIMERE_CHECK_OK(range->commit(sizeof(kernels::ExpertUse)));
  CHIMERE_CHECK_OK(memory.clear(range->data(), sizeof(kernels::ExpertUse)));
  return range;
}

/// Tokens that block drafters choose from: all of a small vocabulary. A pass computes the logits of
/// a whole block, and one that has not the right token ends it.
int64_t drafted_tokens(int64_t n_vocab) {
  constexpr int64_t kFew = 32768;
  return std::max(kFew, n_vocab / 4);
}

/// What the file says of its model. Errors: those of `read`; kUnsupported (a target, and no block
/// drafter).
Result<ModelSpec> read_spec(ReadModelSpec read, const Keys& keys) {
  CHIMERE_TRY(ModelSpec spec, read(keys));
  if (keys.target() != nullptr && !spec.block_draft) {
    return unsupported(keys.file().path() +
                       " is a model of its own; a drafter is a file of architecture dflash");
  }
  return spec;
}

/// `target`: see load_block_drafter(); nullptr: none.
Result<std::unique_ptr<Model>> load(ReadModelSpec read, const gguf::Reader& file,
                                    const gguf::Reader* target, kernels::Ops& ops,
                                    const ModelOptions& options) {
  CHIMERE_CHECK_OK(file.check_unchanged());
  CHIMERE_CHECK_OK(check(options));
  CHIMERE_TRY(const std::string name, file.get_string("general.architecture"));
  const Keys keys(file, name, options.rope, target);
  CHIMERE_TRY(ModelSpec spec, read_spec(read, keys));
  if (spec.block_draft) {
    const int64_t wanted =
        options.draft_tokens > 0 ? options.draft_tokens : drafted_tokens(spec.n_vocab);
    spec.n_drafted = static_cast<int>(std::min<int64_t>(spec.n_vocab, wanted));
  }
  CHIMERE_CHECK_OK(check_unread_keys(keys));
  if (options.pooling) spec.pooling = *options.pooling;
  WeightBinder binder(file, target);
  CHIMERE_TRY(ModelWeights weights, ModelWeights::bind(spec, options, binder));
  CHIMERE_CHECK_OK(weights.place(spec, ops, options.host_expert_layers));

  CHIMERE_TRY(StateBuilder states, StateBuilder::create(ops, options));
  CHIMERE_CHECK_OK(weights.add_state(states));
  CHIMERE_TRY(auto store, states.build(model_key(file, name, binder.options())));
  std::array<Workspace, 2> workspaces;
  const int64_t most =
      step_buffer_bytes(spec, weights, options.max_step_rows, options.max_step_rows);
  for (Workspace& w : workspaces) {
    CHIMERE_TRY(w, Workspace::create(most, ops.memory()));
  }
  CHIMERE_TRY(auto expert_use, make_expert_use(options, ops.memory()));
  // Pages that were truncated read as zeros: check that nothing copied or validated so far is one.
  CHIMERE_CHECK_OK(file.check_unchanged());
  return std::unique_ptr<Model>(std::make_unique<LayeredModel>(
      file, ops, options.max_step_rows, std::move(spec), std::move(weights), std::move(store),
      std::move(workspaces), std::move(expert_use)));
}

}  // namespace

Status check_architecture(const gguf::Reader& file) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  // A drafter without its target is refused by its reader, which says how it is used.
  if (architecture->read == dflash) {
    CHIMERE_CHECK_OK(architecture->read(Keys(file, architecture->name)));
  }
  return {};
}

bool is_block_drafter(const gguf::Reader& file) {
  const auto architecture = find_architecture(file);
  return architecture.ok() && (*architecture)->read == dflash;
}

Status check_block_drafter(const gguf::Reader& file, const gguf::Reader& target) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  const Keys keys(file, architecture->name, {}, &target);
  CHIMERE_TRY([[maybe_unused]] const ModelSpec spec, read_spec(architecture->read, keys));
  return check_unread_keys(keys);
}

Result<bool> is_encoder(const gguf::Reader& file) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  CHIMERE_TRY(const ModelSpec spec, architecture->read(Keys(file, architecture->name)));
  return spec.encoder;
}

Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  return load_model_as(architecture->read, file, ops, options);
}

Result<std::unique_ptr<Model>> load_block_drafter(const gguf::Reader& file,
                                                  const gguf::Reader& target, kernels::Ops& ops,
                                                  const ModelOptions& options) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  return load(architecture->read, file, &target, ops, options);
}

Result<std::unique_ptr<Model>> load_model_as(ReadModelSpec read, const gguf::Reader& file,
                                             kernels::Ops& ops, const ModelOptions& options) {
  return load(read, file, nullptr, ops, options);
}

}  // namespace chimere::model
