#include "bench_report.h"

#include <fmt/format.h>

#include <iostream>
#include <utility>

#include "base/byte_amount.h"
#include "command.h"
#include "kernels/cuda/device/profile.h"
#include "runtime/gpu.h"

namespace chimere::app {

BenchReport::BenchReport(bool json, const runtime::LoadedModel& loaded, const Bandwidth& bandwidth)
    : json_(json),
      context_(loaded.context),
      tokens_(loaded.options.max_tokens),
      bandwidth_(bandwidth),
      cpu_isa_(kernels::cpu_isa_name(loaded.cpu_isa)) {
  if (loaded.gpu != nullptr) {
    gpu_ = &loaded.gpu->facts();
    upload_ = loaded.upload;
  }
  if (json_) return;
  if (gpu_ != nullptr) {
    std::cout << fmt::format("GPU: {}; {}\n", runtime::gpu_name(*gpu_),
                             runtime::upload_text(upload_));
  }
  std::cout << fmt::format("CPU kernels: {}\n", cpu_isa_);
  std::cout << fmt::format("context: {} tokens for each sequence, {} for all\n", context_, tokens_);
  const std::string read =
      gpu_ != nullptr ? "of the GPU" : fmt::format("read {:.1f} GB/s,", bandwidth.read);
  std::cout << fmt::format("memory: {} copy {:.1f} GB/s (read and written)\n", read,
                           bandwidth.copy);
  std::cout << fmt::format("{:>8} {:>6} {:>12} {:>10} {:>10} {:>8}\n", "test", "batch", "tok/s",
                           "moved", "GB/s", gpu_ != nullptr ? "of copy" : "of read");
}

void BenchReport::add(const std::string& test, int32_t batch, double tokens, const Measured& m) {
  const double rate = tokens / m.seconds;
  const double gb_s = m.bytes / m.seconds * 1e-9;
  if (!json_) {
    std::cout << fmt::format("{:>8} {:>6} {:>12.2f} {:>10} {:>10.2f} {:>7.0f}%", test, batch, rate,
                             human_bytes(m.bytes), gb_s,
                             100 * gb_s / (gpu_ != nullptr ? bandwidth_.copy : bandwidth_.read));
    if (m.used.rows > 0)
      std::cout << fmt::format("  {:.3f} experts a token", runtime::mean_experts(m.used));
    if (m.drafted) {
      std::cout << fmt::format("  {} drafts a step, {:.2f} tokens, {:.2f} times without drafts",
                               m.drafted->drafts_per_step, m.drafted->tokens_per_step,
                               m.drafted->speedup);
    }
    std::cout << std::endl;
  }
  Json row = {{"test", test},
              {"batch", batch},
              {"tok_s", rate},
              {"seconds", m.seconds},
              {"bytes", m.bytes},
              {"gb_s", gb_s},
              {"of_copy", gb_s / bandwidth_.copy},
              {"cpu_isa", cpu_isa_},
              {"context", context_},
              {"kv_tokens", tokens_},
              {"copy_gb_s", bandwidth_.copy},
              {"read_gb_s", bandwidth_.read}};
  if (bandwidth_.read > 0) row["of_read"] = gb_s / bandwidth_.read;
  if (m.used.rows > 0) row["experts_per_token"] = runtime::mean_experts(m.used);
  if (m.drafted) {
    row["acceptance"] = m.drafted->acceptance;
    row["drafts_per_step"] = m.drafted->drafts_per_step;
    row["tokens_per_step"] = m.drafted->tokens_per_step;
    row["speedup"] = m.drafted->speedup;
  }
  if (gpu_ != nullptr) {
    row["gpu"] = gpu_->name;
    row["upload_bytes"] = upload_.bytes;
    row["upload_gb_s"] = static_cast<double>(upload_.bytes) / upload_.seconds * 1e-9;
    row["profile"] = kernels::cuda::profile_name(gpu_->profile);
    const auto per_step = [&](int64_t n) {
      return static_cast<double>(n) / static_cast<double>(m.steps);
    };
    // Kernels launched one by one, and kernels inside CUDA graphs.
    row["kernel_launches_per_step"] = per_step(m.asked.launches);
    row["graph_launches_per_step"] = per_step(m.asked.graph_launches);
    row["graph_kernels_per_step"] = per_step(m.asked.graph_kernels);
    row["synchronisations_per_step"] = per_step(m.asked.synchronisations);
  }
  rows_.push_back(std::move(row));
}

void BenchReport::finish() const {
  if (json_) print_json(rows_);
}

}  // namespace chimere::app
