// Icons of lines, 24 units wide. They are decoration: the control has a name of its own.
const PATHS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  search: 'M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M20 20l-4-4',
  sliders: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 4.5v5M8 14.5v5',
  send: 'M12 19V5M6 11l6-6l6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  again: 'M19 12a7 7 0 1 1-2-5M19 3v5h-5',
  forward: 'M6 5l7 7l-7 7M13 5l7 7l-7 7',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  pin: 'M9 4h6l-1 6l3 3v2H7v-2l3-3zM12 15v6',
  folder: 'M4 6h6l2 2h8v11H4z',
  left: 'M14 6l-6 6l6 6',
  right: 'M10 6l6 6l-6 6',
  close: 'M6 6l12 12M18 6L6 18',
  chat: 'M4 5h16v11H9l-5 4z',
  compare: 'M4 5h7v14H4zM13 5h7v14h-7z',
  tokens: 'M4 6h5v5H4zM11 6h9v5h-9zM4 13h9v5H4zM15 13h5v5h-5z',
  memory: 'M12 4v16M6 8c0-2 3-4 6-4s6 2 6 4M6 8v8c0 2 3 4 6 4s6-2 6-4V8M6 12h12',
  server: 'M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01',
  lock: 'M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3',
  eye: 'M2 12c4-7 16-7 20 0c-4 7-16 7-20 0M12 9a3 3 0 1 0 0 6a3 3 0 0 0 0-6',
  clip: 'M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l7-7',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({name}: {name: IconName}) {
  return <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d={PATHS[name]} /></svg>;
}

export function IconButton({icon, label, onClick, ...rest}:
    {icon: IconName; label: string; onClick: (event: MouseEvent) => void} & Record<string, unknown>) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={onClick} {...rest}>
      <Icon name={icon} />
    </button>
  );
}
