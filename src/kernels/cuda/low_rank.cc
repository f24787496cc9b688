#include "kernels/cuda/low_rank.h"

#include <algorithm>
#include <string>
#include <utility>

#include "quant/quant.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kLowRankInner = {"low_rank", "low_rank_inner"};
constexpr Kernel kLowRankOutputs = {"low_rank", "low_rank_outputs"};

static_assert(sizeof(AdapterUse) == sizeof(AdapterUseArgs));

}  // namespace

Result<const float*> LowRankProducts::place(const WeightView& w, int32_t number) {
  std::vector<float> values(static_cast<size_t>(w.n_out * w.n_in));
  for (int64_t o = 0; o < w.n_out; ++o) {
    quant::decode(w.type, w.row(o), values.data() + o * w.n_in, w.n_in);
  }
  const size_t bytes = values.size() * sizeof(float);
  CHIMERE_TRY(auto range, device_.reserve(bytes));
  CHIMERE_CHECK_OK(range->commit(bytes));
  CHIMERE_CHECK_OK(device_.write(range->data(), values.data(), bytes));
  const auto* const at = reinterpret_cast<const float*>(range->data());
  memory_[static_cast<size_t>(number)].push_back(std::move(range));
  return at;
}

Status LowRankProducts::upload(int32_t number, const LowRankAdapter& adapter) {
  for (size_t t = 0; t < adapter.targets.size(); ++t) {
    const LowRankPair& pair = adapter.targets[t];
    if (pair.empty()) continue;
    LowRankEntry entry = {};
    CHIMERE_TRY(entry.a, place(pair.a, number));
    CHIMERE_TRY(entry.b, place(pair.b, number));
    entry.rows = pair.b.n_in;
    entry.rank = static_cast<int32_t>(pair.rank());
    entry.scale = pair.scale;
    entries_[t][static_cast<size_t>(number)] = entry;
    max_rank_ = std::max(max_rank_, entry.rank);
  }
  return write_table();
}

Status LowRankProducts::write_table() {
  const size_t bytes = entries_.size() * sizeof(Entries);
  if (bytes == 0) return {};
  if (table_ == nullptr) {
    CHIMERE_TRY(table_, device_.reserve(bytes));
    CHIMERE_CHECK_OK(table_->commit(bytes));
  }
  return device_.write(table_->data(), entries_.data(), bytes);
}

Result<int32_t> LowRankProducts::add(const LowRankAdapter& adapter) {
  const auto free = std::ranges::find(used_, false);
  if (free == used_.end()) {
    return invalid_argument("a model can have at most " + std::to_string(kMaxAdapters) +
                            " adapters at a time");
  }
  const auto number = static_cast<int32_t>(free - used_.begin());
  CHIMERE_CHECK_OK(device_.stream().synchronize());
  // The adapters of a model all have its targets.
  if (entries_.empty()) entries_.resize(adapter.targets.size());
  *free = true;
  ++version_;
  if (Status placed = upload(number, adapter); !placed.ok()) {
    drop(number);
    return std::move(placed).error();
  }
  return number;
}

void LowRankProducts::drop(int32_t number) {
  const auto index = static_cast<size_t>(number);
  (void)device_.stream().synchronize();  // a step may still read it
  for (Entries& of_target : entries_) of_target[index] = {};
  memory_[index].clear();
  used_[index] = false;
  ++version_;
  (void)write_table();  // no step may use the adapter, so stale entries are never read
}

Status LowRankProducts::add_products(ConstMatrixView x, const int32_t* ids,
                                     const DeviceAdapters& adapters,
                                     std::span<const LinearJob> jobs) {
  for (; jobs.size() > kMaxLinearJobs; jobs = jobs.subspan(kMaxLinearJobs)) {
    CHIMERE_CHECK_OK(add_products(x, ids, adapters, jobs.first(kMaxLinearJobs)));
  }
  LowRankArgs args = {};
  uint32_t n_jobs = 0;
  int64_t most_out = 0;
  for (const LinearJob& job : jobs) {
    if (job.w.target < 0 || entries_.empty()) continue;
    const auto target = static_cast<size_t>(job.w.target);
    const auto changes = [](const LowRankEntry& e) { return e.rank > 0; };
    if (std::ranges::none_of(entries_[target], changes)) continue;
    args.jobs[n_jobs++] = {
        reinterpret_cast<const LowRankEntry*>(table_->data()) + target * kMaxAdapters,
        job.y.data,
        job.y.stride,
        static_cast<int32_t>(job.w.n_out),
        static_cast<int32_t>(job.w.target_row),
        job.scale};
    most_out = std::max(most_out, job.w.n_out);
  }
  if (n_jobs == 0 || x.rows == 0) return {};
  args.x = x.data;
  args.x_stride = x.stride;
  args.row_ids = ids;
  args.begin = adapters.begin;
  args.uses = reinterpret_cast<const AdapterUseArgs*>(adapters.uses);
  args.inner_stride = int64_t{max_rank_} * adapters.most;
  args.rows = static_cast<int32_t>(x.rows);
  args.n_in = static_cast<int32_t>(x.cols);
  const int64_t inner = args.inner_stride * x.rows * n_jobs;
  CHIMERE_CHECK_OK(inner_.resize(inner * static_cast<int64_t>(sizeof(float))));
  args.inner = reinterpret_cast<float*>(inner_.data());
  const auto rows = static_cast<uint32_t>(x.rows);
  Stream& stream = device_.stream();
  stream.launch(kLowRankInner,
                {.grid = {rows, n_jobs}, .block = {kLowRankThreads}, .overlaps_previous = true},
                args);
  const auto blocks = static_cast<uint32_t>((most_out + kLowRankThreads - 1) / kLowRankThreads);
  stream.launch(
      kLowRankOutputs,
      {.grid = {blocks, rows, n_jobs}, .block = {kLowRankThreads}, .overlaps_previous = true},
      args);
  return {};
}

}  // namespace chimere::kernels::cuda
