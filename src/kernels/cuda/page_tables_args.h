// Arguments of the kernel of page_tables.cu.
#ifndef CHIMERE_KERNELS_CUDA_PAGE_TABLES_ARGS_H_
#define CHIMERE_KERNELS_CUDA_PAGE_TABLES_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kPageTablesThreads = 256;

/// An entry of the page tables and its new page.
struct PageUpdate {
  int32_t index;
  int32_t page;
};

/// One thread per update.
struct UpdatePagesArgs {
  int32_t* tables;
  const PageUpdate* updates;  ///< [count], of distinct entries
  int32_t count;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PAGE_TABLES_ARGS_H_
