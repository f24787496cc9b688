// The random models that schedules run on.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_FLEET_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_FLEET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "model/model.h"

namespace chimere::fuzz {

/// One set of weights, loaded four times: for schedules with one and with two threads (or on two
/// devices), for solo runs, and with the scalar oracle. Beside it the models of block drafters.
struct FleetModel {
  std::string name;
  std::string architecture;
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  struct Instance {
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<kernels::Ops> ops;
    std::unique_ptr<model::Model> model;
  };
  /// [n - 1]; small pools that are exhausted at times. On the CPU those of the second
  /// also share a limit in bytes.
  Instance with_threads[2];
  Instance solo;
  Instance oracle;
  struct Drafter {
    std::vector<uint8_t> bytes;
    std::unique_ptr<gguf::Reader> file;
    Instance with_threads[2];  ///< [n - 1]: beside FleetModel::with_threads[n - 1]
  };
  Drafter plain;   ///< a transformer, for support/block_drafter.h
  Drafter dflash;  ///< made for this model
};

inline constexpr int kVocabulary = 64;
/// Random adapters that every instance of a model has, under the numbers from 0 on.
inline constexpr int kAdapters = 3;

/// The architectures of the models, each once.
std::vector<std::string> fleet_architectures();

/// Model `number` of a run: a tiny one whose architecture, formats, cache types, shape and weights
/// follow from `seed` and the number. On the CPU, or on one or two devices.
Result<FleetModel> load_fleet_model(
    uint64_t seed, uint64_t number,
    std::span<const std::unique_ptr<kernels::cuda::Device>> devices);

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_FLEET_H_
