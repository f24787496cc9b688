#include "group.h"

#include <string>

#ifdef CHIMERE_TRAIN_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>
#endif

namespace chimere::train {

#ifndef CHIMERE_TRAIN_CUDA

Result<std::unique_ptr<Group>> fork_group(int64_t /*size*/) {
  return unsupported("Several devices require a trainer built with CUDA.");
}

#else

namespace {

// The part of NCCL's interface used here, as nccl.h declares it. libtorch contains the
// library, but not always the header.
struct UniqueId {
  std::array<char, 128> bytes;
};
using Communicator = void*;
constexpr int kFloat = 7, kSum = 0;

struct Nccl {
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Communicator*, int, UniqueId, int);
  int (*all_reduce)(const void*, void*, size_t, int, int, Communicator, cudaStream_t);
  int (*broadcast)(const void*, void*, size_t, int, int, Communicator, cudaStream_t);
  const char* (*error)(int);
};

template <class T>
bool find(const char* name, T& function) {
  function = reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool find_nccl(Nccl& nccl) {
  return find("ncclGetUniqueId", nccl.get_unique_id) && find("ncclCommInitRank", nccl.init_rank) &&
         find("ncclAllReduce", nccl.all_reduce) && find("ncclBroadcast", nccl.broadcast) &&
         find("ncclGetErrorString", nccl.error);
}

class NcclGroup : public Group {
 public:
  NcclGroup(const Nccl& nccl, int rank, int size, const UniqueId& id)
      : nccl_(nccl), rank_(rank), size_(size) {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(rank));
    check(nccl_.init_rank(&communicator_, size, id, rank));
  }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  void sum(torch::Tensor& values) override {
    check(nccl_.all_reduce(values.data_ptr<float>(), values.data_ptr<float>(),
                           static_cast<size_t>(values.numel()), kFloat, kSum, communicator_,
                           at::cuda::getCurrentCUDAStream()));
  }
  void share(torch::Tensor& values) override {
    check(nccl_.broadcast(values.data_ptr<float>(), values.data_ptr<float>(),
                          static_cast<size_t>(values.numel()), kFloat, 0, communicator_,
                          at::cuda::getCurrentCUDAStream()));
  }

 private:
  void check(int result) const { TORCH_CHECK(result == 0, "NCCL: ", nccl_.error(result)); }

  Nccl nccl_;
  int rank_, size_;
  Communicator communicator_ = nullptr;  // freed at process exit
};

void end_with_the_member(int /*signal*/) {
  int status = 0;
  if (waitpid(-1, &status, WNOHANG) <= 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  constexpr char kMessage[] = "A member of the group failed.\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(1);
}

}  // namespace

Result<std::unique_ptr<Group>> fork_group(int64_t size) {
  Nccl nccl{};
  if (!find_nccl(nccl)) return unsupported("This libtorch has no NCCL: train on one device.");
  std::vector<int> ends;
  struct sigaction action {};
  action.sa_handler = end_with_the_member;
  sigaction(SIGCHLD, &action, nullptr);
  UniqueId id{};
  for (int rank = 1; rank < size; ++rank) {
    int ends_of_pipe[2];
    if (pipe(ends_of_pipe) != 0) return io_error("Cannot create a pipe.");
    const pid_t child = fork();
    if (child < 0) return io_error("Cannot create a process.");
    if (child > 0) {
      close(ends_of_pipe[0]);
      ends.push_back(ends_of_pipe[1]);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int end : ends) close(end);
    close(ends_of_pipe[1]);
    const bool whole = read(ends_of_pipe[0], &id, sizeof id) == sizeof id;
    close(ends_of_pipe[0]);
    if (!whole) return io_error("The group's first member ended.");
    return std::unique_ptr<Group>(
        std::make_unique<NcclGroup>(nccl, rank, static_cast<int>(size), id));
  }
  if (const int result = nccl.get_unique_id(&id); result != 0) {
    return unsupported(std::string("NCCL: ") + nccl.error(result));
  }
  for (const int end : ends) {
    if (write(end, &id, sizeof id) != sizeof id) return io_error("A member of the group ended.");
    close(end);
  }
  return std::unique_ptr<Group>(std::make_unique<NcclGroup>(nccl, 0, static_cast<int>(size), id));
}

#endif

}  // namespace chimere::train
