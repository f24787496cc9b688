// Handling of Ctrl-C (SIGINT).
#ifndef CHIMERE_APPS_CHIMERE_INTERRUPT_H_
#define CHIMERE_APPS_CHIMERE_INTERRUPT_H_

namespace chimere::app {

/// During its lifetime a first Ctrl-C only sets a flag; a second one restores the terminal and ends
/// the program at once with exit code 130. Objects may be nested; they share the flag, which the
/// outermost one clears at its beginning.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool interrupted() const;
  /// As the first Ctrl-C does.
  void interrupt();
  /// Forgets the Ctrl-C so far.
  void reset();

 private:
  void (*previous_)(int) = nullptr;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_INTERRUPT_H_
