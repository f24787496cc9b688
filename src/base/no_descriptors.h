// For tests of what happens when a process has no file descriptor left.
#ifndef CHIMERE_BASE_NO_DESCRIPTORS_H_
#define CHIMERE_BASE_NO_DESCRIPTORS_H_

namespace chimere {

/// While it lives, this process cannot open files (EMFILE). One at a time.
class NoDescriptors {
 public:
  NoDescriptors();
  ~NoDescriptors();
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  unsigned long limit_ = 0;  ///< to restore
};

}  // namespace chimere

#endif  // CHIMERE_BASE_NO_DESCRIPTORS_H_
