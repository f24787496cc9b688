// Keeps the end of a growing list in view, until the reader scrolls up.
import {useEffect, useRef, type MutableRef} from 'preact/hooks';

const NEAR = 40;        // pixels from the end that count as the end
const TOUCH_MS = 500;   // how long after wheel, finger or key a scroll event is the reader's own

/// `list` scrolls; its first child grows. The handlers belong on `list`; `follow` goes to the end and stays there.
export function useFollowEnd(list: MutableRef<HTMLElement | null>) {
  const atEnd = useRef(true);
  const drawn = useRef({height: 0, view: 0});  // of the list and its visible part, in the frame that the reader saw last
  const sizes = useRef('');      // at the last scroll event
  const touched = useRef(-1e9);  // when the reader last used wheel, finger or key; infinite while a pointer is down
  const touch = () => { touched.current = Math.max(touched.current, performance.now()); };

  // Text comes, or a phone's keyboard shrinks the list.
  useEffect(() => {
    const element = list.current!;
    const observer = new ResizeObserver(() => {
      if (atEnd.current) element.scrollTop = element.scrollHeight;
      drawn.current = {height: element.scrollHeight, view: element.clientHeight};
    });
    observer.observe(element);
    observer.observe(element.firstElementChild!);
    const release = () => { touched.current = Math.min(touched.current, performance.now()); };
    addEventListener('pointerup', release);
    addEventListener('pointercancel', release);
    return () => {
      observer.disconnect();
      removeEventListener('pointerup', release);
      removeEventListener('pointercancel', release);
    };
  }, []);

  return {
    follow() {
      atEnd.current = true;
      list.current!.scrollTop = list.current!.scrollHeight;
    },
    onScroll() {
      const element = list.current!;
      // Text may have come, or a keyboard opened, between the reader's scrolling and this event: the end is the one that
      // was drawn.
      const end = Math.min(element.scrollHeight, drawn.current.height);
      const near = element.scrollTop + Math.max(element.clientHeight, drawn.current.view) > end - NEAR;
      const size = `${element.scrollHeight} ${element.clientHeight}`;
      // The browser scrolls, too, when sizes change; then only the reader's own scrolling leaves the end.
      if (near || size === sizes.current || performance.now() - touched.current < TOUCH_MS) atEnd.current = near;
      sizes.current = size;
    },
    onWheel: touch,
    onTouchMove: touch,
    onKeyDown: touch,
    onPointerDown() { touched.current = Infinity; },
  };
}
