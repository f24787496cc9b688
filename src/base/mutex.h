// A mutex whose acquisitions a test can count.
#ifndef CHIMERE_BASE_MUTEX_H_
#define CHIMERE_BASE_MUTEX_H_

#include <atomic>
#include <mutex>

namespace chimere {

/// std::mutex for locks on the path of a generated token; conditions need a
/// std::condition_variable_any.
class Mutex {
 public:
  void lock() {
    mutex_.lock();
    observe();
  }
  bool try_lock() {
    const bool locked = mutex_.try_lock();
    if (locked) observe();
    return locked;
  }
  void unlock() { mutex_.unlock(); }

  /// Test hook: `observer` is called after each acquisition of any Mutex, on the thread that locks;
  /// nullptr: none. It must not lock a Mutex.
  static void set_observer(void (*observer)()) { observer_ = observer; }

 private:
  static void observe() {
    if (void (*const observer)() = observer_.load(std::memory_order_relaxed)) observer();
  }

  static inline std::atomic<void (*)()> observer_ = nullptr;
  std::mutex mutex_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_MUTEX_H_
