// Changes entries of the page tables that lie on the device.
#include "kernels/cuda/language.h"
#include "kernels/cuda/page_tables_args.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(update_pages, kPageTablesThreads, UpdatePagesArgs, args) {
  const int i = static_cast<int>(blockIdx.x) * kPageTablesThreads + static_cast<int>(threadIdx.x);
  if (i >= args.count) return;
  const PageUpdate update = args.updates[i];
  args.tables[update.index] = update.page;
}

}  // namespace chimere::kernels::cuda
