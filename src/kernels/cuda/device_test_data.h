// Devices for tests, and data in their memory.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_TEST_DATA_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_TEST_DATA_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/batch_test_data.h"
#include "kernels/cuda/device/device.h"

namespace chimere::kernels::cuda::test {

struct TestDevice {
  std::string name;
  std::unique_ptr<Device> device;
};

/// The emulator in both thread orders; with `--device=gpu` on the command line (ctest label gpu)
/// the first GPU instead. Never empty: without a GPU the program exits before with ctest's status
/// for "skipped". `--cuda-profile=NAME` selects a profile.
const std::vector<TestDevice>& devices();

/// Device memory that a test fills and reads. Each read copies the bytes to the host, so that the
/// emulator and a GPU behave alike.
template <typename T>
class OnDevice {
 public:
  OnDevice(Device& device, std::span<const T> values)
      : device_(device), count_(values.size()), range_(take(device, values.size_bytes())) {
    if (count_ > 0) expect_ok(device.write(range_->data(), values.data(), values.size_bytes()));
  }
  OnDevice(Device& device, const std::vector<T>& values)
      : OnDevice(device, std::span<const T>(values)) {}
  OnDevice(OnDevice&&) noexcept = default;
  /// Waits for the stream: kernels may still use the memory.
  ~OnDevice() {
    if (range_ != nullptr) expect_ok(device_.stream().synchronize());
  }

  T* data() const { return reinterpret_cast<T*>(range_->data()); }
  /// Waits for the device's work.
  std::vector<T> read() const {
    std::vector<T> values(count_);
    expect_ok(device_.stream().synchronize());
    if (count_ > 0) expect_ok(device_.read(values.data(), data(), count_ * sizeof(T)));
    return values;
  }

 private:
  static std::unique_ptr<MemoryRange> take(Device& device, size_t bytes);
  static void expect_ok(const Status& status);

  Device& device_;
  size_t count_;
  std::unique_ptr<MemoryRange> range_;
};

/// Exits with a message on failure, for operations that can only fail because of the machine.
std::unique_ptr<MemoryRange> take_or_end(Device& device, size_t bytes);
void ok_or_end(const Status& status);

template <typename T>
std::unique_ptr<MemoryRange> OnDevice<T>::take(Device& device, size_t bytes) {
  return take_or_end(device, bytes);
}
template <typename T>
void OnDevice<T>::expect_ok(const Status& status) {
  ok_or_end(status);
}

/// A kernels::test::Matrix in device memory.
class DeviceMatrix {
 public:
  DeviceMatrix(Device& device, const kernels::test::Matrix& m)
      : rows_(m.rows), cols_(m.cols), stride_(m.stride), data_(device, m.data) {}
  MatrixView view() const { return {data_.data(), rows_, cols_, stride_}; }
  std::vector<float> read() const { return data_.read(); }

 private:
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  OnDevice<float> data_;
};

}  // namespace chimere::kernels::cuda::test

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_TEST_DATA_H_
