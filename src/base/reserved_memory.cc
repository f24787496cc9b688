#include "base/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace chimere {
namespace {

// Ranges start at and grow by the size of a huge page: every step reads whole recurrent states, and
// first use then costs one page fault instead of 512.
constexpr size_t kGranule = size_t{2} << 20;

size_t round_up(size_t n) { return (n + kGranule - 1) / kGranule * kGranule; }

/// Reserves `bytes` (a multiple of kGranule) at a multiple of kGranule; MAP_FAILED on failure.
void* reserve_aligned(size_t bytes) {
  void* p = mmap(nullptr, bytes + kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) return p;
  auto* begin = static_cast<uint8_t*>(p);
  const size_t skipped =
      round_up(reinterpret_cast<uintptr_t>(begin)) - reinterpret_cast<uintptr_t>(begin);
  if (skipped > 0) munmap(begin, skipped);
  if (skipped < kGranule) munmap(begin + skipped + bytes, kGranule - skipped);
  return begin + skipped;
}

}  // namespace

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) munmap(data_, reserved_);
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept { *this = std::move(other); }

ReservedMemory& ReservedMemory::operator=(ReservedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(reserved_, other.reserved_);
  std::swap(committed_, other.committed_);
  return *this;
}

Result<ReservedMemory> ReservedMemory::reserve(size_t bytes) {
  ReservedMemory memory;
  if (bytes == 0) return memory;
  void* p = MAP_FAILED;
  if (bytes <= std::numeric_limits<size_t>::max() - 2 * kGranule) {
    p = reserve_aligned(round_up(bytes));
  }
  if (p == MAP_FAILED) {
    return out_of_memory("cannot reserve " + std::to_string(bytes) +
                         " bytes of address space; ask for a smaller context or fewer states");
  }
  memory.data_ = static_cast<uint8_t*>(p);
  memory.reserved_ = round_up(bytes);
  return memory;
}

Status ReservedMemory::commit(size_t bytes) {
  if (bytes <= committed_) return {};
  if (bytes > reserved_) {
    return out_of_memory("cannot use " + std::to_string(bytes) + " bytes of a range of " +
                         std::to_string(reserved_));
  }
  const size_t wanted = std::min(round_up(bytes), reserved_);
  if (mprotect(data_ + committed_, wanted - committed_, PROT_READ | PROT_WRITE) != 0) {
    return out_of_memory("the system has no " + std::to_string(wanted - committed_) +
                         " more bytes of memory; use a smaller context or close other programs");
  }
  // Advice only: without huge pages access is slightly slower.
  madvise(data_ + committed_, wanted - committed_, MADV_HUGEPAGE);
  committed_ = wanted;
  return {};
}

void ReservedMemory::give_back(size_t offset, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = std::min(offset + bytes, committed_) / page * page;
  if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace chimere
