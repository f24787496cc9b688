// Handling of Ctrl-C (SIGINT).
#ifndef CHIMERE_APPS_CHIMERE_INTERRUPT_H_
#define CHIMERE_APPS_CHIMERE_INTERRUPT_H_

namespace chimere::app {

/// During its lifetime a first Ctrl-C only sets a flag; a second one ends the program at once with
/// exit code 130. At most one object may exist at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool interrupted() const;

 private:
  void (*previous_)(int);
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_INTERRUPT_H_
