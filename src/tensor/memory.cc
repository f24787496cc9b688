#include "tensor/memory.h"

#include <cstring>
#include <utility>

#include "base/reserved_memory.h"

namespace chimere {
namespace {

class HostRange final : public MemoryRange {
 public:
  explicit HostRange(ReservedMemory memory) : memory_(std::move(memory)) {}
  Status commit(size_t bytes) override { return memory_.commit(bytes); }
  uint8_t* data() const override { return memory_.data(); }
  bool give_back(size_t offset, size_t bytes) override {
    memory_.give_back(offset, bytes);
    return true;
  }

 private:
  ReservedMemory memory_;
};

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }
  Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) override {
    CHIMERE_TRY(ReservedMemory memory, ReservedMemory::reserve(bytes));
    return std::unique_ptr<MemoryRange>(std::make_unique<HostRange>(std::move(memory)));
  }
  Status write(void* to, const void* from_host, size_t bytes) override {
    return copy(to, from_host, bytes);
  }
  Status read(void* to_host, const void* from, size_t bytes) override {
    return copy(to_host, from, bytes);
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  Status clear(void* to, size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
    return {};
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace chimere
