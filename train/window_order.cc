#include "window_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace chimere::train {

WindowOrder::WindowOrder(const TokenFile& documents, const TokenFile& chats, const Recipe& recipe)
    : recipe_(recipe), documents_{&documents, 1, -1, {}}, chats_{&chats, 2, -1, {}} {
  int64_t total = 0;
  for (int64_t step = 0; step <= recipe.steps; ++step) {
    chats_before_.push_back(total);
    total += chat_rows(step);
  }
}

int64_t WindowOrder::chat_rows(int64_t step) const {
  const double late = std::max(0.0, 2.0 * double(step) / double(recipe_.steps) - 1.0);
  const double share = recipe_.chat_share + late * (recipe_.chat_share_final - recipe_.chat_share);
  return std::llround(share * double(recipe_.batch));
}

void WindowOrder::copy_window(Source& source, int64_t index, int64_t* out) {
  const TokenFile& file = *source.file;
  const int64_t length = recipe_.window + 2, n = static_cast<int64_t>(file.ids.size());
  const int64_t blocks = std::max<int64_t>(1, (n - length) / recipe_.window);
  const int64_t epoch = index / blocks;
  std::seed_seq seed{recipe_.seed, source.salt, static_cast<uint64_t>(epoch)};
  std::mt19937_64 random(seed);
  const int64_t shift = static_cast<int64_t>(random() % static_cast<uint64_t>(recipe_.window));
  if (epoch != source.epoch) {
    source.epoch = epoch;
    source.order.resize(static_cast<size_t>(blocks));
    std::iota(source.order.begin(), source.order.end(), 0);
    for (size_t i = source.order.size() - 1; i > 0; --i) {
      std::swap(source.order[i], source.order[random() % (i + 1)]);
    }
  }
  int64_t begin = source.order[static_cast<size_t>(index % blocks)] * recipe_.window + shift;
  begin = std::clamp<int64_t>(begin, 0, std::max<int64_t>(0, n - length));
  const int64_t start = *(std::upper_bound(file.starts.begin(), file.starts.end(), begin) - 1);
  if (begin - start <= recipe_.window / 8) begin = start;
  for (int64_t i = 0; i < length; ++i) {
    out[i] = file.ids[static_cast<size_t>(std::min(begin + i, n - 1))];
  }
}

torch::Tensor WindowOrder::windows(int64_t step) {
  const int64_t length = recipe_.window + 2, chats = chat_rows(step);
  const int64_t chats_before = chats_before_[static_cast<size_t>(step)];
  const int64_t documents_before = step * recipe_.batch - chats_before;
  torch::Tensor out = torch::empty({recipe_.batch, length}, torch::kInt64);
  auto* data = out.data_ptr<int64_t>();
  for (int64_t row = 0; row < recipe_.batch; ++row, data += length) {
    if (row < chats) {
      copy_window(chats_, chats_before + row, data);
    } else {
      copy_window(documents_, documents_before + row - chats, data);
    }
  }
  return out;
}

}  // namespace chimere::train
