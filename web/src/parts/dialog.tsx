// A modal dialog: the browser keeps the focus inside, and Escape closes it.
import type {ComponentChildren} from 'preact';
import {useLayoutEffect, useRef} from 'preact/hooks';

export function Dialog({title, onClose, children, id}:
    {title: string; onClose: () => void; children: ComponentChildren; id?: string}) {
  const ref = useRef<HTMLDialogElement>(null);
  // Modal as soon as it exists: the next key, Escape perhaps, is for the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current!.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={ref} id={id} aria-label={title} onCancel={(e) => { e.preventDefault(); onClose(); }} onClose={onClose}
            onClick={(e) => { if (e.target === ref.current) onClose(); }}>
      <div class="dialog-body">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
